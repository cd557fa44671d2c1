//! `{name}` templates, and the text of JSON values in them.

use std::borrow::Cow;

use indexmap::IndexMap;
use tamis_config::ServiceTool;
use tamis_engine::JsonText;

use super::{Arguments, InvalidService, UpstreamError};

/// Bytes of one text that a template makes. A template may name an argument many times.
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
    /// Splits `text` at each `{name}` that `known` takes; every other brace is text. Names that look like a place but
    /// are not known come back too.
    pub(super) fn parse(text: &str, known: impl Fn(&str) -> bool) -> (Self, Vec<String>) {
        let (mut parts, mut unknown) = (Vec::new(), Vec::new());
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            literal.push_str(before);
            match placeholder(from) {
                Some(name) if known(name) => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal).into()));
                    }
                    parts.push(Part::Argument(name.into()));
                    rest = &from[name.len() + 2..];
                }
                other => {
                    unknown.extend(other.map(str::to_owned));
                    literal.push('{');
                    rest = &from[1..];
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        (Self { parts }, unknown)
    }

    /// The same for a field where a name that is not known can only be a mistake.
    ///
    /// # Errors
    /// Names `field` and the name.
    pub(super) fn strict(field: String, text: &str, known: impl Fn(&str) -> bool) -> Result<Self, InvalidService> {
        match Self::parse(text, known) {
            (template, unknown) if unknown.is_empty() => Ok(template),
            (_, unknown) => Err(InvalidService::new(field, format!("`{{{}}}` is no argument of the tool", unknown[0]))),
        }
    }

    /// The template `{name}`.
    pub(super) fn argument(name: &str) -> Self {
        Self { parts: vec![Part::Argument(name.into())] }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// The names of its arguments.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// The argument that the template consists of, if it is nothing but one.
    pub(super) fn sole(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// The text without any place, if there is none.
    pub(super) fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The same template with its literal text converted, so that a call need not do it.
    pub(super) fn map_text(self, convert: impl Fn(&str) -> String) -> Self {
        let parts = self.parts.into_iter().map(|part| match part {
            Part::Text(text) => Part::Text(convert(&text).into()),
            argument @ Part::Argument(_) => argument,
        });
        Self { parts: parts.collect() }
    }

    /// Writes the template to `out`: its own text as it is, each argument by `write`. Absent ones are left out, and
    /// lists are joined by commas.
    ///
    /// # Errors
    /// Where an argument has no text, or `write` refuses it.
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
                        check_length(out, name, MAX_TEXT)?;
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

/// The name in `{name}` at the beginning of `text`.
fn placeholder(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.split_once('}')?.0;
    let valid = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "{\"'".contains(c));
    valid.then_some(name)
}

/// The arguments of one call over the tool's defaults.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    arguments: &'a Arguments,
    defaults: &'a IndexMap<String, JsonText>,
}

impl<'a> Values<'a> {
    pub(super) fn new(arguments: &'a Arguments, defaults: &'a IndexMap<String, JsonText>) -> Self {
        Self { arguments, defaults }
    }

    /// The JSON text of an argument; `null` is a value.
    pub(super) fn json(&self, name: &str) -> Option<&'a str> {
        match self.arguments.get(name) {
            Some(value) => Some(value.get()),
            None => self.defaults.get(name).map(JsonText::as_str),
        }
    }

    /// Whether the caller gave the argument, rather than a default.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.arguments.get(name).is_some_and(|value| value.get() != "null")
    }

    /// The JSON text of an argument where it is present and not `null`.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.json(name).filter(|text| *text != "null")
    }
}

/// The text of one JSON value where only text fits. Numbers keep their digits.
pub(super) enum Text<'a> {
    /// A string, number or boolean.
    One(Cow<'a, str>),
    /// The elements of a list.
    Many(Vec<Cow<'a, str>>),
}

/// Reads the text of a JSON value that is not `null`.
///
/// # Errors
/// For an object, for a list of lists or objects, and for a string that is no Unicode text.
pub(super) fn text<'a>(name: &str, json: &'a str) -> Result<Text<'a>, UpstreamError> {
    if json.starts_with('[') {
        let elements: Vec<&serde_json::value::RawValue> =
            serde_json::from_str(json).map_err(|_| invalid_argument(name, "is not valid JSON"))?;
        return elements.into_iter().map(|e| scalar(name, e.get())).collect::<Result<_, _>>().map(Text::Many);
    }
    scalar(name, json).map(Text::One)
}

/// The text of one value, a list joined by commas.
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

/// Refuses an argument that has made a text longer than it may be.
pub(super) fn check_length(text: &str, argument: &str, limit: usize) -> Result<(), UpstreamError> {
    if text.len() <= limit {
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
