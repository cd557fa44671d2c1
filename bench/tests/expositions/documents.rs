//! Documents like those of `cargo xtask bench gateway --parts expositions`.

use std::fmt::Write as _;

/// The tools of each exposition.
const TOOLS: usize = 20;

/// How the filters of expositions relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sets {
    /// All expositions use one set.
    Shared,
    /// Each exposition has a set of its own, and no filter equals a filter of another set.
    Different,
}

/// Returns the documents of a service and `count` expositions.
pub(super) fn expositions(count: usize, sets: Sets) -> String {
    let mut yaml = String::from(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: bench}\nspec:\n  version: 1.0.0\n  http:\n    \
         baseUrl: http://127.0.0.1:9\n    actions:\n",
    );
    for tool in 0..TOOLS {
        let path = format!("/projects/{{project}}/items-{tool}");
        let args = "{project: {type: string, required: true}}";
        writeln!(yaml, "      tool-{tool}: {{method: GET, path: '{path}', args: {args}, response: {{type: array}}}}")
            .expect("memory");
    }
    let distinct = match sets {
        Sets::Shared => 1,
        Sets::Different => count,
    };
    let binding = "service: {name: bench, version: 1.0.0}";
    for set in 0..distinct {
        yaml += &document("ToolsFilters", &format!("set-{set}"));
        writeln!(yaml, "  name: set-{set}\n  enforcement: Advisory\n  {binding}\n  filters:").expect("memory");
        for tool in 0..TOOLS {
            // The names of the output's fields differ, so that no program equals another.
            let select = format!("{{number{set}: number, title{tool}: title, by: user.login}}");
            writeln!(yaml, "    tool-{tool}: {{select: {select}, maxItems: 25, dropNulls: true}}").expect("memory");
        }
    }
    for number in 0..count {
        yaml += &document("Exposition", &format!("expo-{number}"));
        let set = number % distinct;
        writeln!(yaml, "  {binding}\n  filters: [set-{set}]\n  access: {{anonymous: true}}").expect("memory");
    }
    yaml
}

/// Returns the start of a document, up to the fields of its spec.
fn document(kind: &str, name: &str) -> String {
    format!("---\napiVersion: tamis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n")
}
