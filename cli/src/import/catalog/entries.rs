//! The files of `catalog/`, as part of the program.

/// A service that is ready to use.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name of its folder, its manifest and its Secret.
    pub(super) name: &'static str,
    /// What its tools are about.
    pub(super) about: &'static str,
    /// The environment variable from which `tamis serve` takes its credential.
    pub(super) credential: &'static str,
    /// The names of its tools.
    pub(super) tools: &'static [&'static str],
    /// The names of its files, and what they hold. The manifest is the last one: it names the others.
    pub(super) files: &'static [(&'static str, &'static str)],
}

/// Embeds files of an entry.
macro_rules! files {
    ($entry:literal: $($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../catalog/", $entry, "/", $file)))),+]
    };
}

/// All entries, by name.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "github",
        about: "repositories, issues, pull requests and code, by GitHub's REST API",
        credential: "TAMIS_SECRET_GITHUB_TOKEN",
        tools: &[
            "create-comment",
            "create-issue",
            "get-content",
            "get-issue",
            "get-pull",
            "get-repo",
            "list-comments",
            "list-commits",
            "list-issues",
            "list-org-repos",
            "list-pull-files",
            "list-pull-reviews",
            "list-pulls",
            "list-releases",
            "list-repos",
            "list-workflow-runs",
            "search-code",
            "search-issues",
        ],
        files: files!("github": "README.md", "LICENSE.github-description", "internal.yaml", "partner.yaml", "github.openapi.json", "github.yaml"),
    },
    Entry {
        name: "linear",
        about: "issues, projects and teams, by Linear's GraphQL API",
        credential: "TAMIS_SECRET_LINEAR_KEY",
        tools: &[
            "create-comment",
            "create-issue",
            "get-issue",
            "list-issues",
            "list-my-issues",
            "list-projects",
            "list-teams",
            "search-issues",
        ],
        files: files!(
            "linear": "README.md", "LICENSE.linear-sdk", "internal.yaml", "partner.yaml", "linear.graphql", "linear.operations.graphql",
            "linear.yaml",
        ),
    },
    Entry {
        name: "notion",
        about: "pages and databases, by Notion's API",
        credential: "TAMIS_SECRET_NOTION_TOKEN",
        tools: &[
            "append-blocks",
            "create-page",
            "get-block-children",
            "get-database",
            "get-page",
            "query-database",
            "search",
        ],
        files: files!("notion": "README.md", "internal.yaml", "partner.yaml", "notion.yaml"),
    },
    Entry {
        name: "slack",
        about: "channels, messages and people, by Slack's Web API",
        credential: "TAMIS_SECRET_SLACK_TOKEN",
        tools: &[
            "get-channel-history",
            "get-thread-replies",
            "get-user",
            "list-channels",
            "list-users",
            "post-message",
            "search-messages",
        ],
        files: files!("slack": "README.md", "internal.yaml", "partner.yaml", "slack.yaml"),
    },
];
