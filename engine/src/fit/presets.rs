//! Common kinds of lists: presets by name, and strategies by the names of tools.

use std::sync::{Arc, LazyLock};

use super::details::{Level, Levels};
use super::fields::Field;
use super::values::{Newest, Strategy};
use super::weights::Weights;
use crate::Finding;
use crate::program::{Index, Name, Segment, Trie};
use crate::text::{PatternBudget, Patterns};

/// The expressions that `head_tail` boosts without `boost` (seed 002, "Head+Tail").
const BOOST: [&str; 4] = ["ERROR", "FATAL", "Exception", "panic"];

/// The kind of list that a tool returns, as far as its name tells (seed 002, "Strategy Resolution").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Issues, or pull or merge requests: `element_count`.
    Items,
    /// Comments in chronological order: `cascading`.
    Comments,
    /// The changed files of a merge request: `size_proportional`.
    Diffs,
    /// Threads of comments: `thread_level`.
    Discussions,
    /// Lines of a log: `head_tail`.
    Logs,
    /// Anything else: `default`.
    #[default]
    Other,
}

impl ToolKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 6] =
        [Self::Items, Self::Comments, Self::Diffs, Self::Discussions, Self::Logs, Self::Other];

    /// Returns the kind of the tool `name`, with or without a prefix that ends in `__`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let known = |name: &str| match name {
            "get_issues" | "get_merge_requests" => Some(Self::Items),
            "get_issue_comments" => Some(Self::Comments),
            "get_merge_request_diffs" => Some(Self::Diffs),
            "get_merge_request_discussions" => Some(Self::Discussions),
            "get_job_logs" => Some(Self::Logs),
            _ => None,
        };
        let bare = name.rsplit_once("__").map_or(name, |(_, bare)| bare);
        known(name).or_else(|| known(bare)).unwrap_or_default()
    }

    /// Returns the strategy for the kind, with its default fields.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Self::Items => Strategy::ElementCount,
            Self::Comments => Strategy::Cascading { newest: Newest::Last },
            Self::Diffs => Strategy::files(Field::any_of(&["path"])),
            Self::Discussions => Strategy::threads(Field::any_of(&["resolved"]), Field::any_of(&["comments"])),
            Self::Logs => Strategy::logs(),
            Self::Other => Strategy::Default,
        }
    }
}

impl Strategy {
    /// Returns `size_proportional` with the patterns of the documentation.
    pub(crate) fn files(path: Field) -> Self {
        static WEIGHTS: LazyLock<Arc<Weights>> = LazyLock::new(Arc::default);
        Self::SizeProportional { path, weights: Arc::clone(&WEIGHTS) }
    }

    /// Returns `thread_level`.
    pub(crate) fn threads(resolved: Field, comments: Field) -> Self {
        Self::ThreadLevel { resolved, comments }
    }

    /// Returns `head_tail` with the expressions of the documentation.
    pub(crate) fn logs() -> Self {
        static PATTERNS: LazyLock<Option<Arc<Patterns>>> = LazyLock::new(|| {
            let (patterns, mut findings) = (BOOST.map(str::to_owned), Vec::<Finding>::new());
            Patterns::compile("boost", &patterns, &mut PatternBudget::default(), &mut findings)
        });
        Self::HeadTail { boost: PATTERNS.clone() }
    }
}

/// Settings for a kind of list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    Issues,
    Pulls,
    MergeRequests,
    Diffs,
    Comments,
    Discussions,
    Logs,
}

impl Preset {
    /// All presets.
    pub(crate) const ALL: [Self; 7] =
        [Self::Issues, Self::Pulls, Self::MergeRequests, Self::Diffs, Self::Comments, Self::Discussions, Self::Logs];

    /// Returns the name of the preset in documents.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Issues => "issues",
            Self::Pulls => "pulls",
            Self::MergeRequests => "merge_requests",
            Self::Diffs => "diffs",
            Self::Comments => "comments",
            Self::Discussions => "discussions",
            Self::Logs => "logs",
        }
    }

    /// Returns the preset of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == name)
    }

    /// Returns what the items are called in an index.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Issues => "issues",
            Self::Pulls => "pull requests",
            Self::MergeRequests => "merge requests",
            Self::Diffs => "diffs",
            Self::Comments => "comments",
            Self::Discussions => "discussions",
            Self::Logs => "lines",
        }
    }

    /// Returns the strategy with its fields, as GitHub and GitLab name them, and as items after `select` may.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Self::Issues | Self::Pulls | Self::MergeRequests => ToolKind::Items.strategy(),
            Self::Comments => ToolKind::Comments.strategy(),
            Self::Diffs => Strategy::files(Field::any_of(&["path", "filename", "new_path"])),
            Self::Discussions => Strategy::threads(
                Field::any_of(&["resolved", "isResolved", "notes/0/resolved"]),
                Field::any_of(&["comments", "notes", "comments/nodes"]),
            ),
            Self::Logs => ToolKind::Logs.strategy(),
        }
    }

    /// Returns the levels.
    pub(crate) fn levels(self) -> Levels {
        let (standard, minimal): (&[&[&str]], &[&[&str]]) = match self {
            Self::Issues => (&[IDENTITY, TEXT, PEOPLE, LABELS], &[IDENTITY]),
            Self::Pulls | Self::MergeRequests => (&[IDENTITY, TEXT, PEOPLE, LABELS, BRANCHES], &[IDENTITY]),
            Self::Diffs => (&[], &[FILE]),
            Self::Comments => (&[COMMENT, PEOPLE], &[]),
            Self::Discussions => (&[THREAD], &[]),
            Self::Logs => (&[], &[]),
        };
        let declared = [("standard", standard), ("minimal", minimal)].into_iter();
        Levels::new(declared.filter(|(_, sets)| !sets.is_empty()).map(|(name, sets)| level(name, sets)).collect())
    }
}

/// Names and paths of fields, as GitHub and GitLab have them and as `select` may name them.
const IDENTITY: &[&str] = &["number", "iid", "key", "id", "title", "name", "state", "status"];
const TEXT: &[&str] = &["body", "description", "type", "priority"];
const PEOPLE: &[&str] = &[
    "by",
    "user/login",
    "author/login",
    "author/username",
    "assignee/login",
    "assignee/username",
    "assignees/login",
    "assignees/username",
    "reviewers/login",
    "reviewers/username",
];
const LABELS: &[&str] = &["labels/name", "milestone/title"];
const BRANCHES: &[&str] =
    &["draft", "merged", "head/ref", "base/ref", "source_branch", "target_branch", "detailed_merge_status"];
const FILE: &[&str] = &[
    "path",
    "filename",
    "new_path",
    "old_path",
    "previous_filename",
    "status",
    "additions",
    "deletions",
    "new_file",
    "renamed_file",
    "deleted_file",
];
const COMMENT: &[&str] = &["id", "body", "text", "path", "line", "created_at", "created"];
const THREAD: &[&str] = &[
    "id",
    "resolved",
    "isResolved",
    "path",
    "line",
    "notes/body",
    "notes/resolved",
    "notes/author/username",
    "notes/position/new_path",
    "notes/position/new_line",
    "comments/body",
    "comments/path",
    "comments/user/login",
    "comments/author/login",
    "comments/nodes/body",
    "comments/nodes/author/login",
];

fn level(name: &str, sets: &[&[&str]]) -> Level {
    let mut paths = Trie::default();
    for (id, path) in sets.iter().copied().flatten().enumerate() {
        let segment = |text: &str| Segment::Name(Name { text: text.into(), index: Index::None });
        paths.insert(&path.split('/').map(segment).collect::<Vec<_>>(), id);
    }
    Level::new(name, paths, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_field() {
        let page = include_str!("../../../docs/filters/values.md");
        for field in [IDENTITY, TEXT, PEOPLE, LABELS, BRANCHES, FILE, COMMENT, THREAD].concat() {
            assert!(page.contains(&format!("`{field}`")), "{field}");
        }
        for preset in Preset::ALL {
            assert!(page.contains(&format!("`{}`", preset.as_str())), "{preset:?}");
        }
        for expression in BOOST {
            assert!(page.contains(&format!("`{expression}`")), "{expression}");
        }
    }
}
