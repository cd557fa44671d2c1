//! Converts kimbap's service manifest, a format of its own, to a ServiceManifest.

use std::sync::Arc;

use super::spelling::camel_case;
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;
use crate::resources::API_VERSION;
use crate::yaml::{Entry, Node, Value};

/// The top-level fields that move to `spec`.
const SPEC: &[&str] = &["name", "version", "description"];
const HTTP: &[&str] = &["baseUrl", "auth", "actions"];
/// The fields with advice for kimbap's own agents, which MCP cannot carry.
const ADVICE: &[&str] = &["aliases", "gotchas", "triggers", "recipes"];
const OTHER_ADAPTERS: &[&str] = &["commandSpec", "targetApp"];

/// Returns whether a document without `apiVersion` and `kind` is a kimbap manifest.
pub(super) fn is_manifest(entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|e| camel_case(&e.key) == key);
    has("actions") || ["adapter", "baseUrl", "commandSpec", "targetApp"].iter().any(|key| has(key))
}

/// Converts the document to a ServiceManifest; levels that the document does not have are marked as absent. Returns
/// `None` for an adapter that Tamis does not support, whose actions have another form.
pub(super) fn convert(file: &Arc<str>, document: Node, diagnostics: &mut Vec<Diagnostic>) -> Option<Node> {
    let position = document.position;
    let Value::Map(entries) = document.value else { return None };
    let (mut spec, mut http) = (Vec::new(), Vec::new());
    let mut refused = false;
    for mut entry in entries {
        let name = camel_case(&entry.key);
        let mut say =
            |diagnostic: fn(&Arc<str>, _, String, String, String) -> Diagnostic, what: &str, remedy: String| {
                diagnostics.push(diagnostic(file, entry.position, entry.key.to_string(), what.to_owned(), remedy));
            };
        match name.as_str() {
            key if SPEC.contains(&key) => spec.push(entry),
            key if HTTP.contains(&key) => {
                if *entry.key != *key {
                    entry.rename(key);
                }
                http.push(entry);
            }
            "adapter" => match entry.value.as_source() {
                Some("http") => {}
                Some("command" | "applescript") => {
                    refused = true;
                    say(Diagnostic::error, "this adapter is not implemented yet", "use `adapter: http`".to_owned());
                }
                _ => say(Diagnostic::error, "unknown adapter", "use http, the only one implemented yet".to_owned()),
            },
            key if OTHER_ADAPTERS.contains(&key) => {
                say(Diagnostic::error, "is not implemented yet", "use `adapter: http`".to_owned());
            }
            key if ADVICE.contains(&key) => {
                say(
                    Diagnostic::warning,
                    "has no effect here",
                    "move information for the model to `description`".to_owned(),
                );
            }
            _ => {
                let known = ["name", "version", "description", "adapter", "base_url", "auth", "actions"];
                let remedy = match did_you_mean(&entry.key, known) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("remove it, or use one of: {}", known.join(", ")),
                };
                say(Diagnostic::error, "unknown field", remedy);
            }
        }
    }
    if refused {
        return None;
    }
    spec.push(Entry::absent("http", Node::map(position, http)));
    let text = |key: &str, value: &str| Entry::absent(key, Node::text(position, value));
    let entries = vec![
        text("apiVersion", API_VERSION),
        text("kind", "ServiceManifest"),
        Entry::absent("spec", Node::map(position, spec)),
    ];
    Some(Node::map(position, entries))
}
