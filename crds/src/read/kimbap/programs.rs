//! Manifests with the adapters `command` and `applescript`.

use super::Sayings;
use super::camel_case;
use crate::yaml::{Entry, Node, Position, Resolved, Value};

/// Converts the fields of a manifest with the adapter `command` to those of `spec.command`.
pub(super) fn command(position: Position, fields: Vec<Entry>, said: &mut Sayings<'_>) -> Vec<Entry> {
    let mut command = Vec::new();
    for mut field in fields {
        match &*field.key {
            "commandSpec" => match std::mem::replace(&mut field.value.value, Value::Map(Vec::new())) {
                Value::Map(entries) => entries.into_iter().for_each(|entry| command_field(entry, &mut command, said)),
                _ => said.error(field.position, "command_spec", "expected a mapping", "write {executable: ..}"),
            },
            "auth" => command.extend(credential(&field, said)),
            _ => {
                each_action(&mut field, |name, entries| program_action(name, entries, said));
                command.push(field);
            }
        }
    }
    if !command.iter().any(|entry| &*entry.key == "executable") {
        said.error(position, "command_spec", "names no `executable`", "add it");
        command.push(Entry::absent("executable", Node::text(position, "unknown")));
    }
    command
}

fn command_field(mut entry: Entry, command: &mut Vec<Entry>, said: &mut Sayings<'_>) {
    match camel_case(&entry.key).as_str() {
        "timeout" => {
            let limits = Node::map(entry.position, vec![entry]);
            command.push(Entry::absent("limits", limits));
        }
        "mergeStderr" if is_false(&entry.value) => {}
        "mergeStderr" => {
            let message = "is not possible: standard error never becomes an output";
            said.error(entry.position, "command_spec.merge_stderr", message, "remove it");
        }
        "envPassthrough" => {
            // kimbap passes nothing for `*` alone and for empty names.
            if let Value::List(names) = &mut entry.value.value {
                names.retain(|name| !matches!(name.as_source().map(str::trim), Some("" | "*")));
            }
            command.push(entry);
        }
        _ => command.push(entry),
    }
}

/// Returns the variable by which a program gets its credential: `KIMBAP_CREDENTIAL_` and the name of the credential.
fn credential(auth: &Entry, said: &mut Sayings<'_>) -> Option<Entry> {
    let member = |name: &str| {
        let entries = auth.value.entries()?;
        entries.iter().find(|entry| camel_case(&entry.key) == name)?.value.as_source()
    };
    match (member("type"), member("credentialRef")) {
        (Some("none"), _) => None,
        (Some("bearer"), Some(reference)) if !reference.is_empty() => {
            let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            let variable: String = reference.chars().map(upper).collect();
            let (name, key) = reference.rsplit_once(['.', '/']).unwrap_or((reference, "token"));
            let position = auth.value.position;
            let part = |key: &str, text: &str| Entry::absent(key, Node::text(position, text));
            let secret = Node::map(position, vec![part("name", name), part("key", key)]);
            let variable = Entry::absent(&format!("KIMBAP_CREDENTIAL_{variable}"), secret);
            Some(Entry::absent("secretEnv", Node::map(position, vec![variable])))
        }
        _ => {
            let message = "has no place in a command line: a program gets its credential in a variable";
            said.error(auth.position, "auth", message, "write {type: bearer, credential_ref: ..}, or {type: none}");
            None
        }
    }
}

/// Calls `each` with the name and the fields of each action.
fn each_action(actions: &mut Entry, mut each: impl FnMut(&str, &mut Vec<Entry>)) {
    let Value::Map(actions) = &mut actions.value.value else { return };
    for action in actions {
        if let Value::Map(entries) = &mut action.value.value {
            each(&action.key, entries);
        }
    }
}

fn program_action(name: &str, entries: &mut Vec<Entry>, said: &mut Sayings<'_>) {
    common(name, entries, said);
    for entry in entries.iter_mut() {
        match camel_case(&entry.key).as_str() {
            "command" => divide(&mut entry.value),
            "args" => styles(&mut entry.value),
            "response" => text_response(&mut entry.value),
            _ => {}
        }
    }
}

/// kimbap writes the words of a command line as one text, and divides it at white space.
fn divide(command: &mut Node) {
    let Some(text) = command.as_source() else { return };
    let position = command.position;
    let words = text.split_whitespace().map(|word| Node::text(position, word)).collect();
    command.value = Value::List(words);
}

/// Writes out which words kimbap makes of an argument if its manifest does not say: two, whatever the type, and JSON for a value with
/// parts.
fn styles(args: &mut Node) {
    let each: Vec<&mut Vec<Entry>> = match &mut args.value {
        Value::List(items) => items.iter_mut().filter_map(|item| members(item)).collect(),
        Value::Map(entries) => entries.iter_mut().filter_map(|entry| members(&mut entry.value)).collect(),
        Value::Scalar(_) => return,
    };
    for entries in each {
        let find = |name: &str| entries.iter().find(|entry| &*entry.key == name);
        let position = find("type").map(|entry| entry.value.position);
        let kind = find("type").and_then(|entry| entry.value.as_source());
        let style = match kind {
            Some("boolean") => "flag",
            Some("array" | "object") => "json",
            _ => continue,
        };
        if let (None, Some(position)) = (find("style"), position) {
            entries.push(Entry::absent("style", Node::text(position, style)));
        }
    }
}

fn members(node: &mut Node) -> Option<&mut Vec<Entry>> {
    match &mut node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

/// An output that only `text_filter` is meant for is text; kimbap has no word for that type.
fn text_response(response: &mut Node) {
    let Some(entries) = members(response) else { return };
    let has = |name: &str| entries.iter().any(|entry| camel_case(&entry.key) == name);
    if has("textFilter") && !has("filter") && !has("compact") && !has("extract") {
        for entry in entries.iter_mut().filter(|entry| &*entry.key == "type") {
            entry.value = Node::text(entry.value.position, "text");
        }
    }
}

/// Converts the fields of a manifest with the adapter `applescript` to those of `spec.appleScript`.
pub(super) fn scripts(fields: Vec<Entry>, said: &mut Sayings<'_>) -> Vec<Entry> {
    let mut scripts = Vec::new();
    for mut field in fields {
        if &*field.key == "auth" {
            let kind = field.value.entries().and_then(|entries| entries.iter().find(|entry| &*entry.key == "type"));
            if kind.and_then(|kind| kind.value.as_source()) != Some("none") {
                said.error(field.position, "auth", "has no meaning for a script", "write {type: none}, or remove it");
            }
            continue;
        }
        each_action(&mut field, |name, entries| script_action(name, entries, said));
        scripts.push(field);
    }
    scripts
}

fn script_action(name: &str, entries: &mut Vec<Entry>, said: &mut Sayings<'_>) {
    common(name, entries, said);
    let has_script = entries.iter().any(|entry| camel_case(&entry.key) == "inlineScript");
    entries.retain(|entry| {
        let is_name = &*entry.key == "command";
        if is_name && !has_script {
            let message = "names a script that is a part of kimbap's program";
            let remedy = "write the script into `inline_script: {source: ..}`";
            said.error(entry.position, &format!("actions.{name}.command"), message, remedy);
        }
        !is_name
    });
    for script in entries.iter_mut().filter(|entry| camel_case(&entry.key) == "inlineScript") {
        let Some(members) = members(&mut script.value) else { continue };
        members.retain(|member| match camel_case(&member.key).as_str() {
            "id" => false,
            "approvalRef" | "auditRef" => {
                said.no_effect(member, &format!("actions.{name}.inline_script.{}", member.key));
                false
            }
            _ => true,
        });
    }
    for entry in entries.iter_mut().filter(|entry| &*entry.key == "response") {
        text_response(&mut entry.value);
    }
}

/// Reports the fields of an action that have no meaning for programs.
fn common(name: &str, entries: &mut Vec<Entry>, said: &mut Sayings<'_>) {
    entries.retain(|entry| {
        let field = format!("actions.{name}.{}", entry.key);
        match camel_case(&entry.key).as_str() {
            "method" | "path" | "request" | "pagination" => {
                said.error(entry.position, &field, "has no meaning for a program", "remove it, or correct `adapter`");
                false
            }
            "auth" => {
                let kind = entry.value.get("type").and_then(Node::as_source);
                if kind != Some("none") {
                    let remedy = "set `auth` of the service, whose programs all get it";
                    said.error(entry.position, &field, "has no meaning for one action of a program", remedy);
                }
                false
            }
            "aliases" => {
                said.no_effect(entry, &field);
                false
            }
            _ => true,
        }
    });
}

fn is_false(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.resolved == Resolved::Bool(false))
}
