//! The checks of templates: [`tamis_config::placeholder`] has their grammar.

use tamis_config::placeholder::{Piece, pieces};

use crate::origin::FieldPath;

/// Returns the names of a template's placeholders.
pub(super) fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).filter_map(|piece| match piece {
        Piece::Placeholder(name) => Some(name),
        Piece::Literal(_) => None,
    })
}

/// Returns a template without its placeholders.
pub(super) fn literal(template: &str) -> String {
    let texts = pieces(template).filter_map(|piece| match piece {
        Piece::Literal(text) => Some(text),
        Piece::Placeholder(_) => None,
    });
    texts.collect()
}

/// Returns a template with `{name}` in place of each `${name}` whose name is `known`: reShapr's spelling.
pub(super) fn without_dollars(template: &str, known: impl Fn(&str) -> bool) -> String {
    let mut text = String::with_capacity(template.len());
    for piece in pieces(template) {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Placeholder(name) => {
                if known(name) && text.ends_with('$') {
                    text.pop();
                }
                text.extend(["{", name, "}"]);
            }
        }
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
