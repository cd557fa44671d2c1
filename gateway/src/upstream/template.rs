//! Templates with `{name}` placeholders, and the text of the JSON values that fill them. [`tamis_config::placeholder`] has
//! the grammar.

use std::borrow::Cow;

use indexmap::IndexMap;
use tamis_config::ServiceTool;
use tamis_config::placeholder::{Piece, pieces};
use tamis_engine::JsonText;

use super::{Arguments, InvalidService, UpstreamError};

/// Bytes of one text that a template makes. A template may repeat an argument.
pub(super) const MAX_TEXT: usize = 8 << 20;

/// Parameters that the pagination of a tool sets.
const PAGING: [&str; 3] = ["limit", "cursor", "offset"];

/// Returns the arguments that the schema of a tool declares.
pub(super) fn properties(tool: &ServiceTool) -> serde_json::Map<String, serde_json::Value> {
    let schema: Option<serde_json::Value> = serde_json::from_str(tool.input_schema.as_str()).ok();
    match schema.as_ref().and_then(|s| s.get("properties")) {
        Some(serde_json::Value::Object(properties)) => properties.clone(),
        _ => serde_json::Map::new(),
    }
}

/// Returns whether the pagination of a tool sets the parameter of that name.
pub(super) fn is_paging(tool: &ServiceTool, name: &str) -> bool {
    tool.pagination.is_some() && PAGING.contains(&name)
}

/// A text with placeholders for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(Box<str>),
    Argument(Box<str>),
}

impl Template {
    /// Splits `text` at each `{name}` that `known` accepts; every other brace is text. Also returns the names in braces that
    /// are not known.
    pub(super) fn parse(text: &str, known: impl Fn(&str) -> bool) -> (Self, Vec<String>) {
        let (mut parts, mut unknown) = (Vec::new(), Vec::new());
        let mut literal = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Literal(text) => literal.push_str(text),
                Piece::Placeholder(name) if known(name) => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal).into()));
                    }
                    parts.push(Part::Argument(name.into()));
                }
                Piece::Placeholder(name) => {
                    unknown.push(name.to_owned());
                    literal.extend(["{", name, "}"]);
                }
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        (Self { parts }, unknown)
    }

    /// Parses the template of a field where an unknown name can only be a mistake.
    ///
    /// # Errors
    /// Names `field` and the unknown name.
    pub(super) fn strict(field: String, text: &str, known: impl Fn(&str) -> bool) -> Result<Self, InvalidService> {
        match Self::parse(text, known) {
            (template, unknown) if unknown.is_empty() => Ok(template),
            (_, unknown) => {
                Err(InvalidService::new(field, format!("`{{{}}}` is not an argument of the tool", unknown[0])))
            }
        }
    }

    /// Returns the template `{name}`.
    pub(super) fn argument(name: &str) -> Self {
        Self { parts: vec![Part::Argument(name.into())] }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Returns the names of the arguments.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// Returns the argument of a template that is exactly one placeholder.
    pub(super) fn sole(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns the text of a template without placeholders.
    pub(super) fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Converts the literal text once, so that calls need not.
    pub(super) fn map_text(self, convert: impl Fn(&str) -> String) -> Self {
        let parts = self.parts.into_iter().map(|part| match part {
            Part::Text(text) => Part::Text(convert(&text).into()),
            argument @ Part::Argument(_) => argument,
        });
        Self { parts: parts.collect() }
    }

    /// Writes the template to `out`: literal text as it is, and each argument by `write`. Absent arguments are left out, and
    /// lists are joined by commas.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that has no text, or that `write` rejects.
    pub(super) fn write(
        &self,
        values: &Values<'_>,
        out: &mut String,
        mut write: impl FnMut(&mut String, &str, &str) -> Result<(), UpstreamError>,
    ) -> Result<(), UpstreamError> {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Argument(name) => {
                    if let Some(json) = values.get(name) {
                        write(out, name, &joined(name, json)?)?;
                        check_length(out.len(), name, MAX_TEXT)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl From<Vec<Part>> for Template {
    fn from(parts: Vec<Part>) -> Self {
        Self { parts }
    }
}

/// The arguments of one call, and the defaults of the tool for absent ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    arguments: &'a Arguments,
    defaults: &'a IndexMap<String, JsonText>,
}

impl<'a> Values<'a> {
    pub(super) fn new(arguments: &'a Arguments, defaults: &'a IndexMap<String, JsonText>) -> Self {
        Self { arguments, defaults }
    }

    /// Returns the JSON text of an argument; `null` is a value.
    pub(super) fn json(&self, name: &str) -> Option<&'a str> {
        match self.arguments.get(name) {
            Some(value) => Some(value),
            None => self.defaults.get(name).map(JsonText::as_str),
        }
    }

    /// Returns whether the caller gave the argument.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.arguments.get(name).is_some_and(|value| value != "null")
    }

    /// Returns the JSON text of an argument that is present and not `null`.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.json(name).filter(|text| *text != "null")
    }
}

/// The text of a JSON value. Numbers keep their digits.
pub(super) enum Text<'a> {
    /// A string, number or boolean.
    One(Cow<'a, str>),
    /// The elements of a list.
    Many(Vec<Cow<'a, str>>),
}

/// Returns the text of a JSON value that is not `null`.
///
/// # Errors
/// For an object, a list of lists or objects, and a string that is not Unicode text.
pub(super) fn text<'a>(name: &str, json: &'a str) -> Result<Text<'a>, UpstreamError> {
    if json.starts_with('[') {
        let elements: Vec<&serde_json::value::RawValue> =
            serde_json::from_str(json).map_err(|_| invalid_argument(name, "is not valid JSON"))?;
        return elements.into_iter().map(|e| scalar(name, e.get())).collect::<Result<_, _>>().map(Text::Many);
    }
    scalar(name, json).map(Text::One)
}

/// Returns the texts of a value that is not `null`: one, or those of the elements of a list.
///
/// # Errors
/// As [`text`].
pub(super) fn texts<'a>(name: &str, json: &'a str) -> Result<Vec<Cow<'a, str>>, UpstreamError> {
    Ok(match text(name, json)? {
        Text::One(text) => vec![text],
        Text::Many(texts) => texts,
    })
}

/// Returns the members of an object with their texts, without those that are `null`.
///
/// # Errors
/// For another value, and for a member that is no string, number or boolean.
pub(super) fn members<'a>(name: &str, json: &'a str) -> Result<Vec<(String, Cow<'a, str>)>, UpstreamError> {
    let members: IndexMap<String, &serde_json::value::RawValue> = serde_json::from_str(json)
        .map_err(|_| invalid_argument(name, "is not an object, which the parameter needs"))?;
    let present = members.into_iter().filter(|(_, value)| value.get() != "null");
    present.map(|(key, value)| Ok((key, scalar(name, value.get())?))).collect()
}

/// Returns the text of a value, a list joined by commas.
fn joined<'a>(name: &str, json: &'a str) -> Result<Cow<'a, str>, UpstreamError> {
    Ok(match text(name, json)? {
        Text::One(text) => text,
        Text::Many(texts) => texts.join(",").into(),
    })
}

fn scalar<'a>(name: &str, json: &'a str) -> Result<Cow<'a, str>, UpstreamError> {
    match json.as_bytes().first() {
        Some(b'"') => {
            let inner = &json[1..json.len() - 1];
            if inner.contains('\\') {
                serde_json::from_str(json)
                    .map(Cow::Owned)
                    .map_err(|_| invalid_argument(name, "is not valid Unicode text"))
            } else {
                Ok(Cow::Borrowed(inner))
            }
        }
        Some(b'{') => Err(invalid_argument(name, "is an object, which cannot be written as text")),
        Some(b'[') => Err(invalid_argument(name, "holds a list in a list, which cannot be written as text")),
        Some(b'n') | None => Err(invalid_argument(name, "holds null, which cannot be written as text")),
        Some(_) => Ok(Cow::Borrowed(json)),
    }
}

/// Rejects an argument that makes a text too long.
///
/// # Errors
/// Names the argument and the limit.
pub(super) fn check_length(length: usize, argument: &str, limit: usize) -> Result<(), UpstreamError> {
    if length <= limit {
        Ok(())
    } else {
        Err(invalid_argument(argument, &format!("makes the request longer than {limit} bytes")))
    }
}

pub(super) fn invalid_argument(argument: &str, reason: &str) -> UpstreamError {
    UpstreamError::Argument { argument: argument.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
#[path = "tests/template.rs"]
mod tests;
