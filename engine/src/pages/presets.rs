//! The summaries of the presets (`filters.md`, "Presets"): over the fields that GitHub and GitLab have, and over the
//! names that `select` may give them.

use std::sync::LazyLock;

use crate::program::{Name, Segment, Trie};
use crate::stream::ItemPaths;
use crate::template::Template;

/// The summary of a preset.
#[derive(Debug)]
pub(super) struct PresetSummary {
    pub(super) template: Template,
    /// The members of an item that the template reads: it reads no item but with the functions over items.
    pub(super) reads: Option<ItemPaths>,
}

impl PresetSummary {
    fn new(source: &str) -> Option<Self> {
        let template = Template::parse_over_items(source).ok()?;
        let mut members = Trie::default();
        for (number, (name, _)) in template.fields().enumerate() {
            members.insert(&[Segment::Name(Name::new(name))], number);
        }
        members.shrink();
        Some(Self { reads: ItemPaths::new(&members, false), template })
    }
}

/// Returns the summary of a chunk under the preset of this name. `None`: the summary without a template, which shows
/// the ends of a chunk of lines.
pub(super) fn summary(preset: &str) -> Option<&'static PresetSummary> {
    static SUMMARIES: LazyLock<[Option<PresetSummary>; 4]> =
        LazyLock::new(|| [ITEMS, DIFFS, COMMENTS, DISCUSSIONS].map(PresetSummary::new));
    let [items, diffs, comments, discussions] = &*SUMMARIES;
    match preset {
        "issues" | "pulls" | "merge_requests" => items.as_ref(),
        "diffs" => diffs.as_ref(),
        "comments" => comments.as_ref(),
        "discussions" => discussions.as_ref(),
        _ => None,
    }
}

/// `#1347..1361, open 12, closed 3; bug 4, docs 1`
const ITEMS: &str = "\
    {{with or (range .number) (range .iid) (range .key) (range .id)}}#{{.}}{{end}}\
    {{with or (counts .state) (counts .status)}}, {{.}}{{end}}\
    {{with or (counts .labels.name) (counts .labels)}}; {{.}}{{end}}";

/// `src/app/* — 8 files, +120/-45`
const DIFFS: &str = "\
    {{or (paths .path) (paths .filename) (paths .new_path)}} — {{len .}} files\
    {{with or (sum .additions) (sum .added)}}, +{{.}}{{end}}\
    {{with or (sum .deletions) (sum .removed)}}/-{{.}}{{end}}";

/// `15 comments, 2026-10-30T08:00:00Z..2026-11-02T09:30:00Z; ada 12, bob 3`
const COMMENTS: &str = "\
    {{len .}} comments\
    {{with or (range .created_at) (range .createdAt) (range .at) (range .date)}}, {{.}}{{end}}\
    {{with or (counts .user.login) (counts .author.login) (counts .author.username) (counts .author) (counts .by)}}\
    ; {{.}}{{end}}";

/// `12 discussions, resolved: false 9, true 3; src/app/*`
const DISCUSSIONS: &str = "\
    {{len .}} discussions\
    {{with or (counts .resolved) (counts .isResolved)}}, resolved: {{.}}{{end}}\
    {{with or (paths .path) (paths .file)}}; {{.}}{{end}}";

#[cfg(test)]
mod tests {
    use super::super::divide;
    use crate::ChunksSpec;
    use crate::json;
    use crate::pages::ChunksProgram;
    use crate::work::Work;

    fn summary_of(preset: &str, list: &str) -> String {
        let node = json::parse(list.as_bytes(), 16).expect("valid");
        let items = node.as_array().expect("a list");
        let all: Vec<usize> = (0..items.len()).collect();
        let division = divide(items.len(), 0..items.len(), &all, |_| 1, 1, &Work::unlimited());
        let program = ChunksProgram::default().preset(preset);
        let summary = program.summary(division.shown(), |item| items[item].clone(), &Work::unlimited());
        let texts: Vec<String> = items.iter().map(json::to_string).collect();
        assert_eq!(program.summary_of(division.shown(), |item| &texts[item], &Work::unlimited()), summary, "{list}");
        summary
    }

    #[test]
    fn presets_summarize_what_the_providers_return() {
        for (preset, list, want) in [
            (
                "issues",
                r#"[{"number":1361,"state":"open","labels":[{"name":"bug"}]},{"number":1347,"state":"closed","labels":[]}]"#,
                "#1347..1361, open 1, closed 1; bug 1",
            ),
            (
                "merge_requests",
                r#"[{"id":9001,"iid":7,"state":"merged","labels":["p1","p2"]},{"id":9002,"iid":8,"state":"merged","labels":[]}]"#,
                "#7..8, merged 2; p1 1, p2 1",
            ),
            ("pulls", r#"[{"key":"A-7","status":"Done"}]"#, "#A-7, Done 1"),
            (
                "diffs",
                r#"[{"filename":"src/app/a.rs","additions":100,"deletions":45},{"filename":"src/app/b.rs","additions":20,"deletions":0}]"#,
                "src/app/* — 2 files, +120/-45",
            ),
            ("diffs", r#"[{"new_path":"a/b.rs"},{"new_path":"c/d.rs"}]"#, "a/b.rs, c/d.rs — 2 files"),
            (
                "comments",
                r#"[{"created_at":"2026-11-02","user":{"login":"ada"}},{"created_at":"2026-10-30","user":{"login":"bob"}},{"user":{"login":"ada"}}]"#,
                "3 comments, 2026-10-30..2026-11-02; ada 2, bob 1",
            ),
            (
                "discussions",
                r#"[{"resolved":false,"path":"src/a.rs"},{"resolved":true},{"resolved":false}]"#,
                "3 discussions, resolved: false 2, true 1; src/a.rs",
            ),
            ("logs", r#"["begin","middle","end"]"#, "3 items, begin..end"),
        ] {
            assert_eq!(summary_of(preset, list), want, "{preset}");
        }
    }

    #[test]
    fn the_filter_itself_wins() {
        let own = |summary: &str| {
            let spec = ChunksSpec { noun: None, summary: Some(summary.to_owned()) };
            ChunksProgram::compile(&spec).expect("valid").preset("issues")
        };
        assert_eq!(own("{{counts .own}}").item_fields(), ["own"]);
        let node = json::parse(br#"[{"number":1}]"#, 16).expect("valid");
        let division = divide(1, 0..1, &[0], |_| 1, 1, &Work::unlimited());
        let summary =
            own("").summary(division.shown(), |_| node.as_array().expect("a list")[0].clone(), &Work::unlimited());
        assert_eq!(summary, "");
        // What a preset reads need not be there.
        assert!(ChunksProgram::default().preset("issues").item_fields().is_empty());
    }
}
