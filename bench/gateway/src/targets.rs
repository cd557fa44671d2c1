//! The payloads, resources and requests of the measurements.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use bytes::Bytes;

/// Returns a JSON list of about `kb` kB: items of 250 bytes, shaped like issues.
pub(crate) fn payload(kb: usize) -> Bytes {
    let mut out = String::from("[");
    let mut number = 1;
    while out.len() < kb * 1000 - 125 {
        if number > 1 {
            out.push(',');
        }
        let _ = write!(
            out,
            r#"{{"id":{},"number":{number},"title":"Crash when opening file {number}","state":"open","locked":false,"comments":{},"user":{{"login":"octocat","id":583231,"type":"User"}},"body":"It crashes on start, every time I open it.","assignee":null}}"#,
            1_000_000 + number,
            number % 7
        );
        number += 1;
    }
    out.push(']');
    Bytes::from(out)
}

/// Writes a folder with one service, which has one tool for each size, and two expositions of it: `plain` without a
/// filter, and `filtered`.
pub(crate) fn load_folder(folder: &Path, upstream: u16, sizes: &[usize]) -> Result<()> {
    let mut yaml = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: bench}}\nspec:\n  version: 1.0.0\n  http:\n    baseUrl: http://127.0.0.1:{upstream}\n    actions:\n"
    );
    for kb in sizes {
        let _ = write!(
            yaml,
            "      items-{kb}:\n        method: GET\n        path: /items/{kb}\n        response: {{type: array}}\n"
        );
    }
    yaml += "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {name: bench}\nspec:\n  name: fields\n  service: {name: bench, version: 1.0.0}\n  filters:\n";
    for kb in sizes {
        let _ = writeln!(
            yaml,
            "    items-{kb}: {{select: {{number: number, title: title, by: user.login, assignee: assignee}}, dropNulls: true}}"
        );
    }
    for (name, filters) in [("plain", "[]"), ("filtered", "[fields]")] {
        let _ = write!(
            yaml,
            "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec:\n  service: {{name: bench, version: 1.0.0}}\n  filters: {filters}\n"
        );
    }
    std::fs::write(folder.join("bench.yaml"), yaml)?;
    Ok(())
}

/// Writes `expositions` expositions of one service with `tools` tools, each tool with a filter in one shared set.
pub(crate) fn memory_folder(folder: &Path, expositions: usize, tools: usize) -> Result<()> {
    let mut yaml = String::from(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: bench}\nspec:\n  version: 1.0.0\n  http:\n    baseUrl: http://127.0.0.1:9\n    actions:\n",
    );
    for tool in 0..tools {
        let _ = write!(
            yaml,
            "      tool-{tool}:\n        description: Lists the items of one project, newest first\n        method: GET\n        path: /projects/{{project}}/items-{tool}\n        args:\n          project: {{type: string, required: true}}\n          state: {{type: string, enum: [open, closed, all], default: open}}\n        request: {{pathParams: {{project: \"{{project}}\"}}, query: {{state: \"{{state}}\"}}}}\n        response: {{type: array}}\n"
        );
    }
    yaml += "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {name: bench}\nspec:\n  name: fields\n  service: {name: bench, version: 1.0.0}\n  filters:\n";
    for tool in 0..tools {
        let _ = writeln!(
            yaml,
            "    tool-{tool}: {{select: {{number: number, title: title, by: user.login}}, maxItems: 25, dropNulls: true}}"
        );
    }
    for number in 0..expositions {
        let _ = write!(
            yaml,
            "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: expo-{number}}}\nspec:\n  service: {{name: bench, version: 1.0.0}}\n  filters: [fields]\n"
        );
    }
    std::fs::write(folder.join("bench.yaml"), yaml)?;
    Ok(())
}

/// A request: path and, for MCP, the JSON-RPC body.
#[derive(Clone)]
pub(crate) struct Call {
    /// Path on the target.
    pub(crate) path: String,
    /// Empty for a plain GET.
    pub(crate) body: Bytes,
}

impl Call {
    /// A plain `GET` to the sample upstream or to the proxy in front of it.
    pub(crate) fn get(kb: usize) -> Self {
        Self { path: format!("/items/{kb}"), body: Bytes::new() }
    }

    /// A `tools/call` of the legacy era, which most clients speak today.
    pub(crate) fn tool(exposition: &str, kb: usize) -> Self {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"items-{kb}","arguments":{{}}}}}}"#
        );
        Self { path: format!("/mcp/default/{exposition}"), body: Bytes::from(body) }
    }
}
