//! Converts kimbap's service manifest, a format of its own, to a ServiceManifest.

mod programs;

use std::sync::Arc;

use super::spelling::camel_case;
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;
use crate::resources::API_VERSION;
use crate::yaml::{Entry, Node, Position, Value};

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

/// The adapter of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adapter {
    Http,
    Command,
    AppleScript,
}

impl Adapter {
    /// Returns the top-level fields that say what is called. Those of the other adapters have no meaning for this one.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Http => HTTP,
            Self::Command => &["commandSpec", "auth", "actions"],
            Self::AppleScript => &["auth", "actions"],
        }
    }

    /// Returns the source that the adapter becomes.
    fn source(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Command => "command",
            Self::AppleScript => "appleScript",
        }
    }
}

/// Converts the document to a ServiceManifest; levels that the document does not have are marked as absent. Returns
/// `None` for an unknown adapter, whose actions have another form.
pub(super) fn convert(file: &Arc<str>, document: Node, diagnostics: &mut Vec<Diagnostic>) -> Option<Node> {
    let position = document.position;
    let Value::Map(entries) = document.value else { return None };
    let mut say = |entry: &Entry, diagnostic: Say, what: &str, remedy: String| {
        diagnostics.push(diagnostic(file, entry.position, entry.key.to_string(), what.to_owned(), remedy));
    };
    let named = entries.iter().find(|entry| &*entry.key == "adapter");
    let adapter = match named.map(|entry| entry.value.as_source()) {
        None | Some(Some("http")) => Adapter::Http,
        Some(Some("command")) => Adapter::Command,
        Some(Some("applescript")) => Adapter::AppleScript,
        Some(_) => {
            if let Some(entry) = named {
                say(entry, Diagnostic::error, "unknown adapter", "use http, command or applescript".to_owned());
            }
            return None;
        }
    };
    let (mut spec, mut source) = (Vec::new(), Vec::new());
    for mut entry in entries {
        let name = camel_case(&entry.key);
        match name.as_str() {
            key if SPEC.contains(&key) => spec.push(entry),
            key if adapter.fields().contains(&key) => {
                if *entry.key != *key {
                    entry.rename(key);
                }
                source.push(entry);
            }
            "adapter" => {}
            // The scripts name the application that they control.
            "targetApp" if adapter == Adapter::AppleScript => {}
            key if HTTP.contains(&key) || OTHER_ADAPTERS.contains(&key) => {
                let what = match adapter {
                    Adapter::Http => "has no meaning for an HTTP API",
                    Adapter::Command | Adapter::AppleScript => "has no meaning for a program",
                };
                say(&entry, Diagnostic::error, what, "remove it, or correct `adapter`".to_owned());
            }
            key if ADVICE.contains(&key) => {
                let remedy = "move information for the model to `description`".to_owned();
                say(&entry, Diagnostic::warning, "has no effect here", remedy);
            }
            _ => {
                let known =
                    ["name", "version", "description", "adapter", "base_url", "auth", "actions", "command_spec"];
                let remedy = match did_you_mean(&entry.key, known) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("remove it, or use one of: {}", known.join(", ")),
                };
                say(&entry, Diagnostic::error, "unknown field", remedy);
            }
        }
    }
    let mut said = Sayings { file, diagnostics };
    match adapter {
        Adapter::Http => {}
        Adapter::Command => source = programs::command(position, source, &mut said),
        Adapter::AppleScript => source = programs::scripts(source, &mut said),
    }
    spec.push(Entry::absent(adapter.source(), Node::map(position, source)));
    let text = |key: &str, value: &str| Entry::absent(key, Node::text(position, value));
    let entries = vec![
        text("apiVersion", API_VERSION),
        text("kind", "ServiceManifest"),
        Entry::absent("spec", Node::map(position, spec)),
    ];
    Some(Node::map(position, entries))
}

/// Makes an error or a warning.
type Say = fn(&Arc<str>, Position, String, String, String) -> Diagnostic;

/// What is said of a manifest while it is converted.
struct Sayings<'a> {
    file: &'a Arc<str>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Sayings<'_> {
    fn error(&mut self, position: Position, field: &str, message: &str, remedy: &str) {
        self.diagnostics.push(Diagnostic::error(self.file, position, field, message, remedy));
    }

    fn no_effect(&mut self, entry: &Entry, field: &str) {
        let remedy = "remove it to silence this warning";
        self.diagnostics.push(Diagnostic::warning(self.file, entry.position, field, "has no effect here", remedy));
    }
}
