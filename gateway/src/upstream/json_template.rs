//! JSON made from a template.

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::template::{MAX_TEXT, Template, Values, check_length};
use super::{InvalidService, UpstreamError};

/// A JSON value whose strings are templates, parsed. Parts without a placeholder are kept as one piece of text.
#[derive(Debug, Clone)]
pub(super) struct JsonTemplate(Node);

type Members = Vec<(Box<str>, Node)>;

#[derive(Debug, Clone)]
enum Node {
    /// JSON without placeholders, as it was written.
    Constant(Box<str>),
    /// A string that is exactly one placeholder: the argument's own JSON.
    Value(Box<str>),
    /// A string with placeholders; its own text is escaped.
    Text(Template),
    /// An object, whose keys are JSON strings.
    Object(Members),
    /// A list.
    List(Vec<Node>),
}

impl JsonTemplate {
    /// Parses `json`.
    ///
    /// # Errors
    /// Names `field` if `json` is not JSON.
    pub(super) fn parse(field: &str, json: &str, known: &impl Fn(&str) -> bool) -> Result<Self, InvalidService> {
        node(json, known).map(Self).map_err(|error| invalid(field, &error))
    }

    /// Parses an object, and leaves out its member `omitted`.
    ///
    /// # Errors
    /// Names `field` if `json` is not an object.
    pub(super) fn parse_without(
        field: &str,
        json: &str,
        omitted: &str,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let mut members = members(json, known).map_err(|error| invalid(field, &error))?;
        let omitted = quoted(omitted);
        members.retain(|(key, _)| *key != omitted);
        Ok(Self(Node::Object(members)))
    }

    /// Returns whether it is an object with a member that is never left out.
    pub(super) fn has_fixed_member(&self) -> bool {
        match &self.0 {
            Node::Constant(json) => json.starts_with('{') && json[1..].trim_start() != "}",
            Node::Object(members) => members.iter().any(|(_, node)| !matches!(node, Node::Value(_))),
            Node::Value(_) | Node::Text(_) | Node::List(_) => false,
        }
    }

    /// Writes the value, or returns `None` if it consists of one absent argument.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that has no text where the template needs text.
    pub(super) fn write(&self, values: &Values<'_>) -> Result<Option<String>, UpstreamError> {
        let mut out = String::new();
        Ok(self.0.write(values, &mut out)?.then_some(out))
    }
}

fn invalid(field: &str, error: &serde_json::Error) -> InvalidService {
    InvalidService::new(field, format!("is not valid JSON: {error}"))
}
fn node(json: &str, known: &impl Fn(&str) -> bool) -> Result<Node, serde_json::Error> {
    let json = json.trim();
    let constant = |n: &Node| matches!(n, Node::Constant(_));
    Ok(match json.as_bytes().first() {
        Some(b'"') => {
            let (template, _) = Template::parse(&serde_json::from_str::<String>(json)?, known);
            match (template.sole(), template.constant()) {
                (Some(name), _) => Node::Value(name.into()),
                (_, Some(_)) => Node::Constant(json.into()),
                _ => Node::Text(template.map_text(|text| inside(&quoted(text)).to_owned())),
            }
        }
        Some(b'{') => {
            let members = members(json, known)?;
            if members.iter().all(|(_, n)| constant(n)) { Node::Constant(json.into()) } else { Node::Object(members) }
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json)?;
            let elements = elements.iter().map(|v| node(v.get(), known)).collect::<Result<Vec<_>, _>>()?;
            if elements.iter().all(constant) { Node::Constant(json.into()) } else { Node::List(elements) }
        }
        _ => Node::Constant(serde_json::from_str::<&RawValue>(json)?.get().into()),
    })
}

fn members(json: &str, known: &impl Fn(&str) -> bool) -> Result<Members, serde_json::Error> {
    let members: IndexMap<String, &RawValue> = serde_json::from_str(json)?;
    members.iter().map(|(key, value)| Ok((quoted(key), node(value.get(), known)?))).collect()
}

impl Node {
    /// Writes the node. Returns false, and writes nothing, if it is an absent argument.
    fn write(&self, values: &Values<'_>, out: &mut String) -> Result<bool, UpstreamError> {
        match self {
            Self::Constant(json) => out.push_str(json),
            Self::Value(name) => match values.json(name) {
                Some(json) => {
                    out.push_str(json);
                    check_length(out.len(), name, MAX_TEXT)?;
                }
                None => return Ok(false),
            },
            Self::Text(template) => {
                out.push('"');
                // Escaped, so that no argument ends the string.
                template.write(values, out, |out, _, text| {
                    out.push_str(inside(&quoted(text)));
                    Ok(())
                })?;
                out.push('"');
            }
            Self::Object(members) => {
                separated(out, ['{', '}'], members, |(key, node), out| {
                    out.push_str(key);
                    out.push(':');
                    node.write(values, out)
                })?;
            }
            Self::List(elements) => separated(out, ['[', ']'], elements, |node, out| node.write(values, out))?,
        }
        Ok(true)
    }
}

/// Writes the items that `write` keeps, with commas between them.
fn separated<T>(
    out: &mut String,
    [open, close]: [char; 2],
    all: &[T],
    mut write: impl FnMut(&T, &mut String) -> Result<bool, UpstreamError>,
) -> Result<(), UpstreamError> {
    out.push(open);
    let start = out.len();
    for one in all {
        let before = out.len();
        if before > start {
            out.push(',');
        }
        if !write(one, out)? {
            out.truncate(before);
        }
    }
    out.push(close);
    Ok(())
}

/// Returns a text as a JSON string.
pub(super) fn quoted(text: &str) -> Box<str> {
    serde_json::Value::from(text).to_string().into()
}

fn inside(quoted: &str) -> &str {
    &quoted[1..quoted.len() - 1]
}
