//! Names that are made of those in a document, and the length of texts.

use std::collections::HashSet;

use tamis_config::Digest;

/// Characters of a tool's name.
const MAX_NAME: usize = 64;
/// Characters of the digest that a shortened name ends with.
const DIGEST: usize = 8;

/// Returns the name of a tool, from an `operationId`, or else from method and path. It consists of characters that every client
/// accepts, and depends on nothing else in the document.
pub(super) fn tool_name(id: Option<&str>, method: &str, path: &str) -> String {
    let own = id.map(words).filter(|name| !name.is_empty());
    let name = own.unwrap_or_else(|| {
        let place = words(path);
        let method = method.to_ascii_lowercase();
        if place.is_empty() { method } else { format!("{method}_{place}") }
    });
    if name.len() <= MAX_NAME {
        return name;
    }
    let digest = Digest::of(id.map_or_else(|| format!("{method} {path}"), str::to_owned).as_bytes());
    let kept = name[..MAX_NAME - DIGEST - 1].trim_end_matches(['_', '-']);
    format!("{kept}_{}", &digest.0[..DIGEST])
}

/// Returns a text with `_` in place of everything but letters, digits, `_` and `-`.
fn words(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// Returns the name of an argument: characters that every client accepts in a property.
pub(super) fn argument_name(name: &str) -> String {
    let mut argument = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') {
            argument.push(c);
        } else if !argument.is_empty() && !argument.ends_with('_') {
            argument.push('_');
        }
    }
    if !name.ends_with('_') {
        argument.truncate(argument.trim_end_matches('_').len());
    }
    argument.truncate(MAX_NAME);
    if argument.is_empty() { "value".to_owned() } else { argument }
}

/// Returns a name for the definition that a reference leads to, different from all those that are taken.
pub(super) fn definition_name(reference: &str, taken: &mut HashSet<String>) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    let name = argument_name(last);
    let mut unique = name.clone();
    let mut number = 1;
    while !taken.insert(unique.clone()) {
        number += 1;
        unique = format!("{name}_{number}");
    }
    unique
}

/// Returns a text that is cut to a number of bytes, with a mark where it is.
pub(super) fn bounded(text: &str, bytes: usize) -> String {
    let text = text.trim();
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes.saturating_sub(3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ..", text[..end].trim_end())
}

/// Returns a text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools() {
        let long = "a".repeat(80);
        let table = [
            (Some("listPets"), "listPets"),
            (Some("repos/list-for-org"), "repos_list-for-org"),
            (Some("a b"), "a_b"),
            (Some(" {x} "), "x"),
            (Some(""), "get_pets_petId"),
            (Some("日本"), "get_pets_petId"),
            (None, "get_pets_petId"),
        ];
        for (id, name) in table {
            assert_eq!(tool_name(id, "GET", "/pets/{petId}"), name, "{id:?}");
        }
        assert_eq!(tool_name(None, "GET", "/"), "get");
        let name = tool_name(Some(&long), "GET", "/");
        assert_eq!(name.len(), MAX_NAME);
        assert_ne!(name, tool_name(Some(&format!("{long}b")), "GET", "/"), "what is cut makes a difference");
    }

    #[test]
    fn arguments() {
        let table = [
            ("id", "id"),
            ("user-id", "user-id"),
            ("$top", "top"),
            ("filter[name]", "filter_name"),
            ("ids[]", "ids"),
            ("_budget", "_budget"),
            ("a_", "a_"),
            ("é", "value"),
            (&*"x".repeat(100), &*"x".repeat(64)),
        ];
        for (name, argument) in table {
            assert_eq!(argument_name(name), argument, "{name}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bounded(" a ", 3), "a");
        assert_eq!(bounded("ééééé", 8), "éé ..");
        let mut taken = HashSet::new();
        let names = ["#/a/Pet", "#/b/Pet", "#/c/P~1t"].map(|reference| definition_name(reference, &mut taken));
        assert_eq!(names, ["Pet", "Pet_2", "P_1t"]);
    }
}
