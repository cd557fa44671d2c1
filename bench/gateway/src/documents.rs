//! The folders that `tamis serve` reads in the measurements.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::payload::payload;

/// The key of the exposition `key`.
pub(crate) const KEY: &str = "bench-key";
/// The SHA-256 of [`KEY`].
const KEY_DIGEST: &str = "b0962662e937d44c699c8305d90cbf190b3150c59b13863d1380b5cc3c711bb7";

/// The start of a manifest of the service `bench`, up to its actions.
fn service(base_url: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: bench}}\nspec:\n  version: 1.0.0\n  \
         http:\n    baseUrl: {base_url}\n    actions:\n"
    )
}

/// The start of a filter set, up to its filters.
fn filter_set(service: &str, name: &str, enforcement: &str) -> String {
    format!(
        "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {service}-{name}}}\nspec:\n  \
         name: {name}\n  enforcement: {enforcement}\n  service: {{name: {service}, version: 1.0.0}}\n  filters:\n"
    )
}

fn exposition(service: &str, name: &str, filters: &str, access: &str) -> String {
    format!(
        "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec:\n  \
         service: {{name: {service}, version: 1.0.0}}\n  filters: [{filters}]\n  access: {{{access}}}\n"
    )
}

/// The filters `select`, for a tool of each size.
fn select(sizes: &[usize]) -> String {
    let filter = |kb| {
        format!(
            "    items-{kb}: {{select: {{number: number, title: title, by: user.login, assignee: assignee}}, \
             dropNulls: true}}\n"
        )
    };
    sizes.iter().map(filter).collect()
}

/// Writes the documents of one service with one tool for each size, and its expositions: `plain` without a filter,
/// `select`, `enforced` with `retain` and `patches`, and `key`, which is `select` with an API key. A service `server` is the
/// upstream as an MCP server, with the expositions `mcp-plain`, `mcp-select` and `mcp-held`, whose calls may take two minutes. The
/// services `openapi`, `graphql`, `grpc` and `command` have one exposition each.
pub(crate) fn calls(folder: &Path, secrets: &Path, upstream: u16, sizes: &[usize]) -> Result<()> {
    let mut yaml = service(&format!("http://127.0.0.1:{upstream}"));
    for kb in sizes {
        writeln!(yaml, "      items-{kb}: {{method: GET, path: /items/{kb}, response: {{type: array}}}}")?;
    }
    yaml += &filter_set("bench", "select", "Advisory");
    yaml += &select(sizes);
    yaml += &filter_set("bench", "enforced", "Enforced");
    for kb in sizes {
        writeln!(
            yaml,
            "    items-{kb}: {{retain: [/number, /title, /user/login, /assignee], patches: [\
             {{op: test, path: /0/number, value: 1}}, {{op: replace, path: /0/title, value: redacted}}, \
             {{op: remove, path: /0/user}}]}}"
        )?;
    }
    let anonymous = "anonymous: true";
    yaml += &exposition("bench", "plain", "", anonymous);
    yaml += &exposition("bench", "select", "select", anonymous);
    yaml += &exposition("bench", "enforced", "enforced", anonymous);
    yaml += &exposition("bench", "key", "select", "apiKeys: {secretRef: {name: callers}}");
    write!(
        yaml,
        "---\napiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: server}}\nspec:\n  \
         version: 1.0.0\n  mcp:\n    url: http://127.0.0.1:{upstream}/mcp\n    tools:\n"
    )?;
    for kb in sizes {
        writeln!(yaml, "      items-{kb}: {{inputSchema: {{type: object}}}}")?;
    }
    writeln!(yaml, "      held: {{inputSchema: {{type: object}}}}")?;
    yaml += &filter_set("server", "select", "Advisory");
    yaml += &select(sizes);
    yaml += &exposition("server", "mcp-plain", "", anonymous);
    yaml += &exposition("server", "mcp-select", "select", anonymous);
    yaml += &exposition("server", "mcp-held", "", "anonymous: true}\n  limits: {timeout: 2m");
    yaml += &sources(folder, upstream, sizes)?;
    std::fs::write(folder.join("bench.yaml"), yaml)?;
    std::fs::create_dir_all(secrets.join("callers"))?;
    std::fs::write(secrets.join("callers/bench"), format!("sha256:{KEY_DIGEST}"))?;
    Ok(())
}

/// Returns services with the upstream behind each other source, and the exposition `SOURCE-select` of each.
fn sources(folder: &Path, upstream: u16, sizes: &[usize]) -> Result<String> {
    let base_url = format!("http://127.0.0.1:{upstream}");
    let (mut paths, mut fields, mut methods, mut actions) =
        (String::new(), String::new(), String::new(), String::new());
    for kb in sizes {
        let file = folder.join(format!("items-{kb}"));
        std::fs::write(&file, payload(*kb))?;
        let answer = "responses: {'200': {description: items}}";
        writeln!(paths, "        /items/{kb}: {{get: {{operationId: items-{kb}, {answer}}}}}")?;
        write!(fields, "items{kb}: [Item] ")?;
        write!(methods, "rpc List{kb}(Empty) returns (Page); ")?;
        writeln!(actions, "      items-{kb}: {{command: ['{}'], response: {{type: array}}}}", file.display())?;
    }
    let kinds = [
        (
            "openapi",
            format!(
                "baseUrl: {base_url}\n    inline:\n      openapi: 3.1.0\n      info: {{title: bench, version: '1'}}\n      paths:\n{paths}"
            ),
            "items-",
            "",
        ),
        (
            "graphql",
            format!(
                "baseUrl: {base_url}/graphql\n    inline: |\n      type Query {{ {fields}}}\n      type Item {{ number: Int title: String user: User assignee: String }}\n      type User {{ login: String }}\n"
            ),
            "items",
            "",
        ),
        (
            "grpc",
            format!(
                "endpoint: {base_url}\n    inline:\n      bench.proto: |\n        {PROTO}\n        service Items {{ {methods}}}\n"
            ),
            "Items_List",
            "root: /items, ",
        ),
        ("command", format!("executable: cat\n    jsonFlag: none\n    actions:\n{actions}"), "items-", ""),
    ];
    let mut yaml = "---\napiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {name: default}\nspec: {commands: {enabled: true}}\n".to_owned();
    for (source, spec, tool, root) in kinds {
        write!(
            yaml,
            "---\napiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {source}}}\nspec:\n  version: 1.0.0\n  {source}:\n    {spec}"
        )?;
        yaml += &filter_set(source, "select", "Advisory");
        yaml += &select(sizes).replace("items-", tool).replace("{select:", &format!("{{{root}select:"));
        yaml += &exposition(source, &format!("{source}-select"), "select", "anonymous: true");
    }
    Ok(yaml)
}

/// The messages of the upstream as a gRPC server, with the fields of [`payload`] in their order.
const PROTO: &str = "syntax = \"proto3\"; package bench; message Empty {} message Page { repeated Item items = 1; } \
     message User { string login = 1; int32 id = 2; string type = 3; } \
     message Item { int32 id = 1; int32 number = 2; string title = 3; string state = 4; bool locked = 5; int32 comments = 6; \
     User user = 7; string body = 8; User assignee = 9; }";

/// How the filters of the expositions in [`expositions`] relate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sets {
    /// All expositions use one set.
    Shared,
    /// Each exposition has a set of its own, and no filter equals a filter of another set.
    Different,
}

impl Sets {
    /// Returns the name in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "one shared set",
            Self::Different => "all sets different",
        }
    }
}

/// Writes `count` expositions of one service with `tools` tools, each tool with a filter.
pub(crate) fn expositions(folder: &Path, count: usize, tools: usize, sets: Sets) -> Result<()> {
    let mut yaml = service("http://127.0.0.1:9");
    for tool in 0..tools {
        write!(
            yaml,
            "      tool-{tool}:\n        description: Lists the items of one project, newest first\n        \
             method: GET\n        path: /projects/{{project}}/items-{tool}\n        args:\n          \
             project: {{type: string, required: true}}\n          \
             state: {{type: string, enum: [open, closed, all], default: open}}\n        \
             request: {{pathParams: {{project: \"{{project}}\"}}, query: {{state: \"{{state}}\"}}}}\n        \
             response: {{type: array}}\n"
        )?;
    }
    let distinct = match sets {
        Sets::Shared => 1,
        Sets::Different => count,
    };
    for set in 0..distinct {
        yaml += &filter_set("bench", &format!("set-{set}"), "Advisory");
        for tool in 0..tools {
            // The names of the output's fields differ, so that no program equals another.
            writeln!(
                yaml,
                "    tool-{tool}: {{select: {{number{set}: number, title{tool}: title, by: user.login}}, maxItems: 25, \
                 dropNulls: true}}"
            )?;
        }
    }
    for number in 0..count {
        let set = number % distinct;
        yaml += &exposition("bench", &format!("expo-{number}"), &format!("set-{set}"), "anonymous: true");
    }
    std::fs::write(folder.join("bench.yaml"), yaml)?;
    Ok(())
}
