//! Decides which files hold no documents of Tamis: `package.json`, `values.yaml` and the like may be in the same
//! folder.
//!
//! The content of a file decides, since a misspelt filter set must not count as an absent one. A file is foreign only
//! if every document in it can be parsed and none has a mark of a Tamis document. The marks are the envelope
//! (`apiVersion`, `kind`, `spec`, in any similar spelling), the API group, the name of a kind, the keys of a kimbap
//! manifest, and the fields that only filter sets, expositions and custom tools have.

use super::kimbap;
use super::spelling::camel_case;
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;
use crate::read::ParsedFile;
use crate::resources::{COMMON_WORDS, GROUPS, KINDS};
use crate::yaml::{Entry, Node, Position, Value};

/// Keys whose text is prose: a package may be called Exposition.
const PROSE: [&str; 4] = ["name", "title", "description", "displayName"];
/// Fields that are at the top of a document only if `spec`, or the whole envelope, is missing.
const OF_SPECS: [&str; 10] = [
    "enforcement",
    "filters",
    "toolsFilters",
    "customTools",
    "gatewayGroup",
    "configurationPlan",
    "allowedNamespaces",
    "service",
    "prompts",
    "resourceTemplates",
];
/// The number of file names in the notice.
const SHOWN: usize = 4;

/// Returns whether a file with these documents belongs to another program. A file without documents does not: it is
/// empty.
pub(super) fn is_foreign(documents: &[Node]) -> bool {
    !documents.is_empty() && documents.iter().all(is_foreign_document)
}

/// Returns the one notice about all files that are skipped.
pub(crate) fn notice<'a>(files: impl IntoIterator<Item = &'a ParsedFile>) -> Option<Diagnostic> {
    let skipped: Vec<_> = files.into_iter().filter(|file| file.foreign).map(|file| &file.file).collect();
    let first = *skipped.first()?;
    let message = match skipped.len() {
        1 => "the file holds no Tamis document and is skipped".to_owned(),
        count => {
            let names = skipped.iter().skip(1).take(SHOWN).map(|file| &***file).collect::<Vec<_>>().join(", ");
            let more = count.saturating_sub(1 + SHOWN);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let others = if count == 2 { "1 other".to_owned() } else { format!("{} others", count - 1) };
            format!("this file and {others} hold no Tamis document and are skipped: {names}{more}")
        }
    };
    let remedy = "a Tamis document begins with apiVersion, kind, metadata and spec";
    Some(Diagnostic::warning(first, Position::START, "", message, remedy))
}

fn is_foreign_document(document: &Node) -> bool {
    match &document.value {
        Value::Map(entries) => !bears_a_mark(document, entries),
        // A list is never a document of Tamis, but a list that contains documents is a mistake.
        Value::List(items) => items.iter().all(|item| match &item.value {
            Value::Scalar(_) => true,
            Value::List(_) | Value::Map(_) => is_foreign_document(item),
        }),
        // A file that is still being written may begin as text.
        Value::Scalar(_) => false,
    }
}

fn bears_a_mark(document: &Node, entries: &[Entry]) -> bool {
    let version = document.get("apiVersion").and_then(Node::as_source);
    let kind = document.get("kind").and_then(Node::as_source);
    match (version, kind) {
        // An object of another API is reported by its kind.
        (Some(_), Some(_)) => return true,
        (Some(version), None) if is_of_tamis(version) => return true,
        (None, Some(kind)) if resembles_a_kind(kind) => return true,
        // Both are missing, or belong to another program: Chart.yaml has `apiVersion: v2` and no kind.
        _ => {}
    }
    if kimbap::is_manifest(entries) || entries.iter().any(is_envelope) {
        return true;
    }
    let of_specs: Vec<_> = entries.iter().filter_map(|entry| of_specs(&entry.key)).collect();
    // `filters` or `service` alone are common words; Helm values have a `service` of another form.
    let is_binding = |node: &Node| node.get("name").is_some() && node.get("version").is_some();
    let binds = document.get("service").is_some_and(is_binding);
    of_specs.len() > 1 || (binds && !of_specs.is_empty()) || document.get("filters").is_some_and(are_filters)
}

/// Returns whether the key or the value of an entry shows that it is part of the envelope.
fn is_envelope(entry: &Entry) -> bool {
    let key = entry.key.to_ascii_lowercase().replace(['-', '_'], "");
    // `version` is three letters away from `apiVersion`, and is a common word.
    let misspelt = *entry.key != *"apiVersion" && strsim::damerau_levenshtein(&key, "apiversion") <= 2;
    // `bind` and `find` are one letter away from `kind`: for them the value decides.
    let capital = *entry.key != *"kind" && key == "kind";
    let value = entry.value.as_source().filter(|_| !PROSE.contains(&&*entry.key));
    let is_kind = |text: &str| KINDS.iter().any(|(kind, _)| *kind == text && !COMMON_WORDS.contains(kind));
    let says = value.is_some_and(|text| is_of_tamis(text) || is_kind(text));
    misspelt || capital || says || (key == "spec" && entry.value.entries().is_some())
}

fn is_of_tamis(version: &str) -> bool {
    let group = version.split('/').next().unwrap_or_default();
    did_you_mean(group, GROUPS).is_some()
}

fn resembles_a_kind(kind: &str) -> bool {
    did_you_mean(kind, KINDS.iter().map(|(kind, _)| *kind).chain(["ToolsOutputFilters"])).is_some()
}

/// Returns the field of a spec that a key stands for, even if it is misspelt.
fn of_specs(key: &str) -> Option<&'static str> {
    did_you_mean(&camel_case(key), OF_SPECS)
}

/// Returns whether a mapping holds filters by the names of tools: `filters: {list-issues: {select: ..}}`. An empty
/// mapping may.
fn are_filters(node: &Node) -> bool {
    let is_filter = |node: &Node| {
        let stages = ["select", "exclude", "retain", "patches", "maxItems", "dropNulls", "dropEmpty", "passthrough"];
        node.entries().is_some_and(|entries| entries.iter().any(|e| stages.contains(&&*camel_case(&e.key))))
    };
    let holds = |node: &Node| match &node.value {
        Value::List(branches) => branches.iter().any(is_filter),
        _ => is_filter(node),
    };
    node.entries().is_some_and(|tools| tools.is_empty() || tools.iter().any(|tool| holds(&tool.value)))
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
