//! JSON as a tree that keeps the digits of numbers and the order of members, and its forms in text.

use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Maximum depth of a definition, like that of arguments.
const MAX_DEPTH: usize = 64;

/// One JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    /// `null`, `true`, `false` or a number, as JSON writes it.
    Literal(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// An object, in the order of its text and with distinct names.
    Map(Vec<(String, Self)>),
}

/// The members of an object in order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("member `{name}` occurs twice")));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl Tree {
    /// Parses a JSON text.
    ///
    /// # Errors
    /// It is not JSON, has an object with a name twice, or is nested more than 64 levels deep.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        parse(json, MAX_DEPTH)
    }

    /// Returns a string.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns an object.
    pub(super) fn map<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns the member of an object.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(of, _)| of == name).map(|(_, value)| value)
    }

    /// Returns the string.
    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Appends a member to an object.
    pub(super) fn push(&mut self, name: &str, value: Self) {
        if let Self::Map(members) = self {
            members.push((name.to_owned(), value));
        }
    }

    /// Returns the value as JSON, indented by two spaces a level.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::new();
        json(self, 0, &mut out);
        out
    }

    /// Returns the value as YAML in block style, each line indented by `indent` spaces and ended.
    pub(super) fn to_yaml(&self, indent: usize) -> String {
        let mut out = String::new();
        block(self, indent, &mut out);
        out
    }
}

fn parse(text: &str, depth: usize) -> Result<Tree, String> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let said = |error: serde_json::Error| error.to_string();
    let deeper = || depth.checked_sub(1).ok_or_else(|| format!("is nested more than {MAX_DEPTH} levels deep"));
    match text.as_bytes().first() {
        Some(b'{') => {
            let (Members(members), depth) = (serde_json::from_str(text).map_err(said)?, deeper()?);
            let each = members.into_iter().map(|(name, value)| Ok((name, parse(value.get(), depth)?)));
            Ok(Tree::Map(each.collect::<Result<_, String>>()?))
        }
        Some(b'[') => {
            let (items, depth): (Vec<Box<RawValue>>, _) = (serde_json::from_str(text).map_err(said)?, deeper()?);
            Ok(Tree::List(items.iter().map(|item| parse(item.get(), depth)).collect::<Result<_, _>>()?))
        }
        Some(b'"') => serde_json::from_str(text).map(Tree::Text).map_err(said),
        _ => serde_json::from_str::<Box<RawValue>>(text).map(|raw| Tree::Literal(raw.get().to_owned())).map_err(said),
    }
}

fn json(tree: &Tree, level: usize, out: &mut String) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', 2 * level));
    };
    match tree {
        Tree::Literal(text) => out.push_str(text),
        Tree::Text(text) => out.push_str(&quoted(text, Language::Json)),
        Tree::List(items) if items.is_empty() => out.push_str("[]"),
        Tree::Map(members) if members.is_empty() => out.push_str("{}"),
        Tree::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, level + 1);
                json(item, level + 1, out);
            }
            line(out, level);
            out.push(']');
        }
        Tree::Map(members) => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, level + 1);
                let _ = write!(out, "{}: ", quoted(name, Language::Json));
                json(value, level + 1, out);
            }
            line(out, level);
            out.push('}');
        }
    }
}

/// Writes a value whose first line begins at the current place, which is a new line.
fn block(tree: &Tree, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match tree {
        Tree::Map(members) if !members.is_empty() => {
            for (name, value) in members {
                let _ = write!(out, "{pad}{}:", scalar(name));
                below(value, indent, out);
            }
        }
        Tree::List(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(out, "{pad}-");
                // An object begins behind its dash, with its other members below the first.
                if matches!(item, Tree::Map(members) if !members.is_empty()) {
                    let start = out.len();
                    block(item, indent + 2, out);
                    out.replace_range(start..start + indent + 2, " ");
                } else {
                    below(item, indent, out);
                }
            }
        }
        _ => {
            let _ = writeln!(out, "{pad}{}", inline(tree));
        }
    }
}

/// Writes a value behind `name:` or `-`.
fn below(value: &Tree, indent: usize, out: &mut String) {
    match value {
        Tree::Map(members) if !members.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Tree::List(items) if !items.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Tree::Text(text) if is_literal_block(text) => {
            out.push_str(" |-\n");
            for line in text.split('\n') {
                if !line.is_empty() {
                    let _ = write!(out, "{}{line}", " ".repeat(indent + 2));
                }
                out.push('\n');
            }
        }
        _ => {
            let _ = writeln!(out, " {}", inline(value));
        }
    }
}

fn inline(value: &Tree) -> String {
    match value {
        Tree::Literal(text) => text.clone(),
        Tree::Text(text) => scalar(text),
        Tree::List(_) => "[]".to_owned(),
        Tree::Map(_) => "{}".to_owned(),
    }
}

/// Returns whether a text can be written as a literal block: several lines of printable characters, none of which could be
/// mistaken for indentation or be lost.
fn is_literal_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n'])
        && !text.ends_with(['\n', ' '])
        && text.chars().all(|c| c == '\n' || is_printable(c))
        && text.split('\n').all(|line| !line.ends_with(' ') && !line.starts_with('\t'))
}

/// Returns whether YAML allows a character as it is (YAML 1.2.2, 5.1 "Character Set"), and an editor shows it where it is.
///
/// Characters that show nothing, or change the order of what is shown, could hide from a reviewer what a model reads: those of
/// the category Cf, variation selectors, and fillers (Unicode 17, `Default_Ignorable_Code_Point` and `Bidi_Control`).
fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    !(hidden || c.is_control())
}

/// Writes a string on one line: as it is if every reader of YAML 1.1 and 1.2 takes it for the same string, else in quotes.
fn scalar(text: &str) -> String {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$');
    let inner = |c: char| c.is_ascii_alphanumeric() || "_-./ ,()'+;$".contains(c);
    // A colon is text unless a space follows.
    let colons = !text.contains(": ") && !text.ends_with(':');
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
    );
    if begins && !word && !text.ends_with(' ') && colons && text.chars().all(|c| c == ':' || inner(c)) {
        text.to_owned()
    } else {
        quoted(text, Language::Yaml)
    }
}

/// Whose escapes a string has.
#[derive(Clone, Copy)]
enum Language {
    Json,
    Yaml,
}

/// Writes a string in double quotes.
fn quoted(text: &str, language: Language) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // JSON leaves these as they are.
            c if !is_printable(c) => match (language, u32::from(c)) {
                (Language::Yaml, code @ 0x1_0000..) => {
                    let _ = write!(out, "\\U{code:08x}");
                }
                _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                    let _ = write!(out, "\\u{unit:04x}");
                }),
            },
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
