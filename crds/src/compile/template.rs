//! Placeholders (`{name}`) in paths, queries, headers and bodies.

use crate::origin::FieldPath;

/// Returns the names of a template's placeholders. A brace that does not enclose a plain name is an ordinary character: a GraphQL
/// query in a body contains many.
pub(super) fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = template;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find('{')?..];
            if let Some(name) = place(rest) {
                rest = &rest[name.len() + 2..];
                return Some(name);
            }
            rest = &rest[1..];
        }
    })
}

/// Returns the name of the placeholder at the beginning of a text, by the same rule as the gateway.
fn place(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.split_once('}')?.0;
    let valid = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "{\"'".contains(c));
    valid.then_some(name)
}

/// Returns a template without its placeholders.
pub(super) fn literal(template: &str) -> String {
    let mut text = template.to_owned();
    for name in placeholders(template) {
        text = text.replacen(&format!("{{{name}}}"), "", 1);
    }
    text
}

/// Returns whether a name is valid in braces.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Calls `each` for every string value of a JSON value, with its place. Keys are not templates.
pub(super) fn strings(value: &serde_json::Value, at: &FieldPath, each: &mut impl FnMut(&FieldPath, &str)) {
    match value {
        serde_json::Value::String(text) => each(at, text),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| strings(item, &at.index(index), each));
        }
        serde_json::Value::Object(members) => {
            members.iter().for_each(|(key, value)| strings(value, &at.key(key), each));
        }
        _ => {}
    }
}
