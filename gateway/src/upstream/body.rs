//! JSON bodies made from a template.

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::template::{MAX_TEXT, Template, Values, bounded};
use super::{InvalidService, UpstreamError};

/// A body template, parsed. What holds no place is one piece of text.
#[derive(Debug, Clone)]
pub(super) struct Body {
    root: Node,
    /// The member that authentication adds, as a JSON string.
    secret: Option<Box<str>>,
}

type Members = Vec<(Box<str>, Node)>;

#[derive(Debug, Clone)]
enum Node {
    /// JSON without places, as it was written.
    Constant(Box<str>),
    /// A string that is exactly one place: the argument's own JSON.
    Value(Box<str>),
    /// A string with places; its own text is escaped.
    Text(Template),
    /// Keys are JSON strings.
    Object(Members),
    List(Vec<Node>),
}

impl Body {
    /// Parses `json`. With `secret`, a top-level member of that name is added when the body is written.
    ///
    /// # Errors
    /// Where the template is no object although authentication adds a member to it.
    pub(super) fn parse(
        field: &str,
        json: Option<&str>,
        secret: Option<&str>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, InvalidService> {
        let invalid = |e: serde_json::Error| InvalidService::new(field, format!("is not valid JSON: {e}"));
        let Some(name) = secret else {
            let root = json.map(|json| node(json, known)).transpose().map_err(invalid)?;
            return Ok(root.map(|root| Self { root, secret: None }));
        };
        let json = json.unwrap_or("{}").trim();
        if !json.starts_with('{') {
            return Err(InvalidService::new(field, "must be an object, since authentication adds a member to it"));
        }
        let key = quoted(name);
        let mut members = members(json, known).map_err(invalid)?;
        members.retain(|(k, _)| *k != key);
        Ok(Some(Self { root: Node::Object(members), secret: Some(key) }))
    }

    /// Writes the body. None where it consists of one absent argument.
    pub(super) fn write(&self, values: &Values<'_>, secret: Option<&str>) -> Result<Option<Vec<u8>>, UpstreamError> {
        let mut out = String::new();
        if !self.root.write(values, &mut out)? {
            return Ok(None);
        }
        if let (Some(key), Some(secret)) = (&self.secret, secret) {
            // `parse` made sure of an object.
            out.pop();
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(key);
            out.push(':');
            out.push_str(&quoted(secret));
            out.push('}');
        }
        Ok(Some(out.into_bytes()))
    }
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
    /// Writes the node; false, and nothing written, where it is an absent argument.
    fn write(&self, values: &Values<'_>, out: &mut String) -> Result<bool, UpstreamError> {
        match self {
            Self::Constant(json) => out.push_str(json),
            Self::Value(name) => match values.json(name) {
                Some(json) => {
                    out.push_str(json);
                    bounded(out, name, MAX_TEXT)?;
                }
                None => return Ok(false),
            },
            Self::Text(template) => {
                out.push('"');
                // Escaped, so that none ends the string.
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

/// Writes what `write` keeps of `all`, with commas between.
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

fn quoted(text: &str) -> Box<str> {
    serde_json::Value::from(text).to_string().into()
}

fn inside(quoted: &str) -> &str {
    &quoted[1..quoted.len() - 1]
}

#[cfg(test)]
#[path = "tests/body.rs"]
mod tests;
