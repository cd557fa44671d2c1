//! Adds servers to the text of a client's file, and changes nothing else in it. Pure.

use anyhow::{Context as _, bail};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table};

use super::client::{Client, Server};

/// Returns the file with the servers added, or `None` if it has them already.
///
/// # Errors The text cannot be parsed, the place of the servers holds something else, or a different server has the
/// same name (unless `replace`).
pub(super) fn merge(client: Client, text: &str, servers: &[Server], replace: bool) -> anyhow::Result<Option<String>> {
    // Editors of one system write a byte order mark; those of others read it as part of the first name.
    let (mark, text) = text.strip_prefix('\u{feff}').map_or(("", text), |rest| ("\u{feff}", rest));
    let merged = match client {
        Client::Codex => toml(client, text, servers, replace)?,
        Client::ClaudeCode | Client::ClaudeDesktop | Client::Cursor | Client::Vscode | Client::GeminiCli => {
            json(client, text, servers, replace)?
        }
    };
    Ok(merged.map(|merged| format!("{mark}{merged}")))
}

fn taken(name: &str) -> anyhow::Error {
    anyhow::anyhow!("a different server is named {name}; choose another --name, or --replace it")
}

fn json(client: Client, text: &str, servers: &[Server], replace: bool) -> anyhow::Result<Option<String>> {
    // Comments and trailing commas, which several clients accept, and no other extension.
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    };
    let root = CstRootNode::parse(text, &options)
        .map_err(|error| anyhow::anyhow!("it is not JSON: {} in line {}", error.kind(), error.line_display()))?;
    let object = root.object_value_or_create().context("it is not a JSON object")?;
    let member = client.member();
    let table = object.object_value_or_create(member).with_context(|| format!("its `{member}` is not an object"))?;
    unique(&object, member)?;
    let mut changed = false;
    for server in servers {
        let fields = client.fields(server);
        unique(&table, &server.name)?;
        match table.get(&server.name) {
            None => drop(table.append(&server.name, input(&fields))),
            Some(present) if present.value().is_some_and(|value| equals(&value, &fields)) => continue,
            Some(present) if replace => present.set_value(input(&fields)),
            Some(_) => return Err(taken(&server.name)),
        }
        changed = true;
    }
    for ask in client.inputs(servers) {
        let list = object.array_value_or_create("inputs").context("its `inputs` is not a list")?;
        let same = |node: &CstNode| node.to_serde_value().is_some_and(|node| node["id"] == ask["id"]);
        if !list.elements().iter().any(same) {
            list.append(input(&ask));
            changed = true;
        }
    }
    Ok(changed.then(|| {
        let text = root.to_string();
        if text.ends_with('\n') { text } else { format!("{text}\n") }
    }))
}

/// Rejects a name that occurs twice: clients differ in what they make of it.
fn unique(object: &CstObject, name: &str) -> anyhow::Result<()> {
    let same = object.properties().iter().filter(|p| p.decoded_name().as_deref() == Some(name)).count();
    if same > 1 {
        bail!("`{name}` occurs twice; remove one of them");
    }
    Ok(())
}

fn equals(node: &CstNode, fields: &Value) -> bool {
    node.to_serde_value().is_some_and(|value| value == *fields)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

fn toml(client: Client, text: &str, servers: &[Server], replace: bool) -> anyhow::Result<Option<String>> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        anyhow::anyhow!("it is not TOML: {} in line {line}", error.message().lines().next().unwrap_or_default())
    })?;
    let member = client.member();
    let mut parent = Table::new();
    // An empty header of the parent table would be noise.
    parent.set_implicit(true);
    let table = document.entry(member).or_insert(Item::Table(parent));
    let table = table.as_table_like_mut().with_context(|| format!("its `{member}` is not a table"))?;
    let mut changed = false;
    for server in servers {
        let fields = client.fields(server);
        let mut wanted = Table::new();
        for (name, value) in fields.as_object().into_iter().flatten() {
            wanted.insert(name, item(value));
        }
        match table.get(&server.name) {
            None => {}
            Some(present) if read(present) == fields => continue,
            Some(_) if replace => {}
            Some(_) => return Err(taken(&server.name)),
        }
        table.insert(&server.name, Item::Table(wanted));
        changed = true;
    }
    Ok(changed.then(|| document.to_string()))
}

fn item(value: &Value) -> Item {
    match value {
        Value::Array(items) => toml_edit::value(items.iter().filter_map(Value::as_str).collect::<toml_edit::Array>()),
        other => toml_edit::value(other.as_str().unwrap_or_default()),
    }
}

/// Returns the strings and lists of strings in a table; other values as they are written.
fn read(item: &Item) -> Value {
    let scalar = |value: &toml_edit::Value| match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Array(items) => {
            items.iter().map(|item| item.as_str().map_or_else(|| Value::from(item.to_string()), Value::from)).collect()
        }
        other => Value::from(other.to_string()),
    };
    let Some(table) = item.as_table_like() else { return Value::Null };
    let members = table
        .iter()
        .map(|(name, item)| (name.to_owned(), item.as_value().map_or_else(|| Value::from(item.to_string()), scalar)));
    members.collect::<serde_json::Map<_, _>>().into()
}
