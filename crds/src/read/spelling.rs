//! Converts the spellings of the seed documents to the names in the schema, before anything is checked. Positions and
//! the author's names stay for messages.

use std::sync::Arc;

use super::schema::{Shape, View};
use crate::Diagnostic;
use crate::origin::{push_index, push_key};
use crate::yaml::{Entry, Node, Resolved, Value};

/// The other names of fields, by type. Snake case is accepted everywhere and not listed.
pub(super) const ALIASES: &[(&str, &str, &str)] = &[
    // Later names of reShapr.
    ("FilterSpec", "jsonRetain", "retain"),
    ("FilterSpec", "jsonPatches", "patches"),
    // Names of kimbap.
    ("FilterSpec", "textFilter", "text"),
    ("TextSpec", "stripLinesMatching", "strip"),
    ("TextSpec", "keepLinesMatching", "keep"),
    ("CommandSpec", "envPassthrough", "env"),
    ("AuthSpec", "headerName", "name"),
    ("AuthSpec", "queryParam", "name"),
    ("AuthSpec", "bodyField", "name"),
];

/// Renames and moves the fields that the seed documents spell differently.
pub(super) fn normalise(
    file: &Arc<str>,
    node: &mut Node,
    view: View<'_>,
    field: &str,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let (view, shape) = view.shape(node);
    match (shape, &mut node.value) {
        (Shape::Object(object), Value::Map(entries)) => {
            for entry in entries.iter_mut().filter(|e| object.member(&e.key).is_none()) {
                let camel = camel_case(&entry.key);
                let alias =
                    ALIASES.iter().find(|(of, from, _)| *of == view.name && *from == camel).map(|(_, _, to)| *to);
                if let Some(name) = alias.or_else(|| object.member(&camel).map(|_| camel.as_str())) {
                    entry.rename(name);
                }
            }
            match view.name {
                "FilterSpec" => filter(entries),
                "ResponseSpec" => response(entries),
                "ActionSpec" | "CommandActionSpec" | "AppleScriptActionSpec" => {
                    action(file, entries, field, diagnostics);
                }
                "AuthSpec" => auth(entries),
                _ => {}
            }
            duplicates(file, entries, field, diagnostics);
            for entry in entries {
                if let Some(member) = object.member(&entry.key) {
                    let field = below(field, entry);
                    normalise(file, &mut entry.value, member, &field, diagnostics);
                }
            }
        }
        (Shape::Map(values), Value::Map(entries)) => {
            for entry in entries {
                let field = below(field, entry);
                normalise(file, &mut entry.value, values, &field, diagnostics);
            }
        }
        (Shape::List(values), Value::List(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                let mut field = field.to_owned();
                push_index(&mut field, index);
                normalise(file, item, values, &field, diagnostics);
            }
        }
        _ => {}
    }
}

/// Returns the path of a member as its author spelled it.
fn below(field: &str, entry: &Entry) -> String {
    let mut field = field.to_owned();
    if let Some(name) = entry.spelling() {
        push_key(&mut field, name);
    }
    field
}

/// Converts `max_items` to `maxItems`.
pub(super) fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or("").to_owned();
    for word in words {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    camel
}

/// Reports fields that occur in two spellings.
fn duplicates(file: &Arc<str>, entries: &mut Vec<Entry>, field: &str, diagnostics: &mut Vec<Diagnostic>) {
    let mut index = 0;
    while index < entries.len() {
        let (before, rest) = entries.split_at(index);
        if let Some(first) = before.iter().find(|e| e.key == rest[0].key) {
            let (one, two) = (first.spelling().unwrap_or(&first.key), rest[0].spelling().unwrap_or(&rest[0].key));
            let message = format!("`{one}` and `{two}` are the same field");
            let field = below(field, &rest[0]);
            diagnostics.push(Diagnostic::error(file, rest[0].position, field, message, "remove one of them"));
            entries.remove(index);
        } else {
            index += 1;
        }
    }
}

fn boolean(entry: &Entry) -> Option<bool> {
    match &entry.value.value {
        Value::Scalar(scalar) => match scalar.resolved {
            Resolved::Bool(value) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// reShapr: `compact: true` drops empty values, and `convertToToon` chooses the format.
fn filter(entries: &mut Vec<Entry>) {
    entries.retain_mut(|entry| match (&*entry.key, boolean(entry)) {
        ("compact" | "convertToToon" | "convert_to_toon", Some(false)) => false,
        ("compact", Some(true)) => {
            entry.rename("dropEmpty");
            true
        }
        _ => true,
    });
    let toon = |e: &Entry| matches!(&*e.key, "convertToToon" | "convert_to_toon") && boolean(e) == Some(true);
    if let Some(at) = entries.iter().position(toon) {
        let format = {
            let toon = &mut entries[at];
            toon.rename("format");
            toon.value = Node::text(toon.value.position, "toon");
            entries.remove(at)
        };
        place_below(entries, "output", format);
    }
}

/// kimbap: `compact` and `text_filter` are siblings of `filter`.
fn response(entries: &mut Vec<Entry>) {
    for (from, to) in [("compact", "compact"), ("textFilter", "text"), ("text_filter", "text"), ("text", "text")] {
        if let Some(at) = entries.iter().position(|e| &*e.key == from) {
            let mut entry = entries.remove(at);
            entry.rename(to);
            place_below(entries, "filter", entry);
        }
    }
}

/// Moves an entry into the mapping `parent`, which is created if it is absent. If `parent` is not a mapping the entry
/// stays, and the shape check reports it.
fn place_below(entries: &mut Vec<Entry>, parent: &str, entry: Entry) {
    match entries.iter_mut().find(|e| &*e.key == parent).map(|e| &mut e.value.value) {
        Some(Value::Map(members)) => members.push(entry),
        Some(_) => entries.push(entry),
        None => {
            let node = Node::map(entry.position, vec![entry]);
            entries.push(Entry::absent(parent, node));
        }
    }
}

/// kimbap has `args` as a list of `{name, ..}`.
fn action(file: &Arc<str>, entries: &mut [Entry], field: &str, diagnostics: &mut Vec<Diagnostic>) {
    let Some(args) = entries.iter_mut().find(|e| &*e.key == "args") else { return };
    let field = below(field, args);
    let Value::List(items) = &mut args.value.value else { return };
    let mut map: Vec<Entry> = Vec::new();
    for (index, item) in std::mem::take(items).into_iter().enumerate() {
        let mut field = field.clone();
        push_index(&mut field, index);
        let Value::Map(mut members) = item.value else {
            let message = format!("expected an argument with a `name`, found {}", item.describe());
            diagnostics.push(Diagnostic::error(file, item.position, field, message, "write {name: .., type: ..}"));
            continue;
        };
        let name = members.iter().position(|e| &*e.key == "name").map(|at| members.remove(at));
        let Some((position, name)) = name.and_then(|e| Some((e.value.position, e.value.as_source()?.to_owned())))
        else {
            diagnostics.push(Diagnostic::error(file, item.position, field, "an argument has no `name`", "add one"));
            continue;
        };
        if map.iter().any(|e| *e.key == *name) {
            let message = format!("argument `{name}` occurs twice");
            diagnostics.push(Diagnostic::error(file, position, field, message, "remove one of them"));
            continue;
        }
        let value = Node::map(item.position, members);
        let mut entry = Entry::absent(&name, value);
        entry.position = position;
        entry.written = crate::yaml::Written::Same;
        map.push(entry);
    }
    args.value.value = Value::Map(map);
}

/// kimbap: `credential_ref: github.token` is the key `token` of the Secret `github`.
fn auth(entries: &mut [Entry]) {
    let is_ref = |e: &&mut Entry| matches!(&*e.key, "credentialRef" | "credential_ref");
    let Some(entry) = entries.iter_mut().find(is_ref) else { return };
    let position = entry.value.position;
    let Some(source) = entry.value.as_source().filter(|s| !s.is_empty()).map(str::to_owned) else { return };
    let (name, key) = source.rsplit_once(['.', '/']).unwrap_or((&source, "token"));
    entry.rename("secretRef");
    let part = |key: &str, text: &str| Entry::absent(key, Node::text(position, text));
    entry.value = Node::map(position, vec![part("name", name), part("key", key)]);
}
