//! What a server lists, as definitions to pin: which tools can be pinned, and why others cannot.

use std::collections::BTreeMap;

use tamis_crds::{Diagnostic, Loaded, diagnose, parse_document};

use super::compare::changed_parts;
use super::manifest::definition;

use super::tree::Tree;

/// Maximum number of tools that one server can list.
pub(super) const MAX_TOOLS: usize = 1_000;
/// Maximum number of bytes of JSON of all tools of one server.
pub(super) const MAX_LIST_BYTES: usize = 4 << 20;

/// The members of a listed tool that are pinned, in the order in which they are written.
pub(super) const PARTS: [&str; 5] = ["title", "description", "inputSchema", "outputSchema", "annotations"];

/// A tool's pinned members, in the order of [`PARTS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition(Tree);

impl Definition {
    /// Takes the pinned members of an object. `null` says nothing.
    pub(super) fn of(tool: &Tree) -> Self {
        let stated = |name: &str| tool.get(name).filter(|value| **value != Tree::Literal("null".to_owned()));
        let part = |name: &str| Some((name.to_owned(), stated(name)?.clone()));
        Self(Tree::Map(PARTS.iter().filter_map(|name| part(name)).collect()))
    }

    /// Returns a pinned member.
    pub(super) fn part(&self, name: &str) -> Option<&Tree> {
        self.0.get(name)
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.0
    }
}

/// A listed tool that is not pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The name, if the tool has one.
    pub(super) tool: String,
    /// What is wrong.
    pub(super) reason: String,
}

/// The tools of a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// The tools that can be pinned, by name.
    pub(super) tools: BTreeMap<String, Definition>,
    /// The others, in the server's order.
    pub(super) left_out: Vec<LeftOut>,
}

/// Returns which of the listed tools can be pinned. Each element of `listed` is the JSON of one tool.
pub(super) fn listing<'a>(listed: impl IntoIterator<Item = &'a str>) -> Listing {
    let mut listing = Listing::default();
    let (mut bytes, mut count, mut beyond) = (0_usize, 0_usize, 0_usize);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for json in listed {
        count += 1;
        bytes += json.len();
        if count > MAX_TOOLS || bytes > MAX_LIST_BYTES {
            beyond += 1;
            continue;
        }
        match read(json) {
            Ok((name, definition)) => {
                let times = seen.entry(name.clone()).or_default();
                *times += 1;
                match *times {
                    1 => {
                        listing.tools.insert(name, definition);
                    }
                    // Which of them a call would reach is the server's secret.
                    2 => {
                        listing.tools.remove(&name);
                        listing.left_out.push(LeftOut { tool: name, reason: "is listed more than once".to_owned() });
                    }
                    _ => {}
                }
            }
            Err(left_out) => listing.left_out.push(left_out),
        }
    }
    if beyond > 0 {
        let reason = format!("{beyond} more than the limit of {MAX_TOOLS} tools and {} MiB", MAX_LIST_BYTES >> 20);
        listing.left_out.push(LeftOut { tool: String::new(), reason });
    }
    listing
}

/// Reads one tool and checks it as `tamis validate` will.
fn read(json: &str) -> Result<(String, Definition), LeftOut> {
    let left_out = |tool: &str, reason: String| LeftOut { tool: tool.to_owned(), reason };
    let tool = Tree::parse(json).map_err(|error| left_out("", format!("cannot be read: {error}")))?;
    let name = tool.get("name").and_then(Tree::as_text).ok_or_else(|| left_out("", "has no name".to_owned()))?;
    let definition = Definition::of(&tool);
    let one = Tree::Map(vec![(name.to_owned(), definition.tree().clone())]);
    match problem(&one, name, &definition) {
        None => Ok((name.to_owned(), definition)),
        Some(reason) => Err(left_out(name, reason)),
    }
}

/// Returns the first reason why `tamis validate` would not accept a manifest with this tool.
fn problem(tools: &Tree, name: &str, listed: &Definition) -> Option<String> {
    let text = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  mcp:\n    \
         url: https://example.com/mcp\n    tools:\n{}",
        tools.to_yaml(6)
    );
    let loaded = Loaded::of(vec![parse_document("tool", text.as_bytes())]);
    let findings = diagnose(&loaded);
    let Some(first) = findings.iter().find(|finding| finding.is_error()) else {
        // A title that is a number would be read as text, for example.
        let manifest = loaded.resources.manifests.first().and_then(|manifest| manifest.spec.mcp.as_ref());
        let read = manifest.and_then(|mcp| definition(mcp.tools.as_ref()?.get(name)?).ok());
        let differ = read.map(|read| changed_parts(&read, listed));
        return match differ.as_deref() {
            Some([]) => None,
            Some([part, ..]) => Some(format!("{part}: has a value that no document can hold")),
            None => Some("cannot be written as a document".to_owned()),
        };
    };
    let Diagnostic { field, message, remedy, .. } = first;
    // The field without the place of the tool, which the report names already.
    let field = field.strip_prefix("spec.mcp.tools").unwrap_or(field);
    let quoted = format!("[{}]", serde_json::Value::from(name));
    let field = field.strip_prefix(&quoted).or_else(|| field.strip_prefix('.')?.strip_prefix(name)).unwrap_or(field);
    let field = field.trim_start_matches('.');
    Some(if field.is_empty() { format!("{message}; {remedy}") } else { format!("{field}: {message}; {remedy}") })
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
