//! The result of an introspection query as a schema in GraphQL's own language.

use crate::yaml::{Node, Position, Value};

use super::super::names::quoted;

/// Levels of lists and non-null types around a type.
const MAX_WRAPPERS: usize = 16;
/// What a schema does not define.
const BUILT_IN: [&str; 5] = ["Int", "Float", "String", "Boolean", "ID"];

/// What is wrong, and where.
type Problem = (Position, String);

/// Returns a schema, each definition on lines of its own, and the position that each line was made from.
///
/// # Errors
/// What is no result of an introspection query.
pub(super) fn sdl(root: &Node) -> Result<(String, Vec<Position>), Problem> {
    let schema = root.get("data").unwrap_or(root).get("__schema");
    let schema = schema.ok_or((root.position, "is JSON without `data.__schema`".to_owned()))?;
    let mut out = Output { text: String::new(), lines: Vec::new() };
    let mut roots = Vec::new();
    for (role, key) in [("query", "queryType"), ("mutation", "mutationType"), ("subscription", "subscriptionType")] {
        if let Some(of) = schema.get(key).filter(|of| of.entries().is_some()) {
            roots.push(format!("{role}: {}", name(of)?));
        }
    }
    if !roots.is_empty() {
        out.line(schema, &format!("schema {{ {} }}", roots.join(" ")));
    }
    out.line(schema, "directive @oneOf on INPUT_OBJECT");
    for definition in items(schema, "types") {
        let own = name(definition)?;
        if own.starts_with("__") || BUILT_IN.contains(&own) {
            continue;
        }
        out.definition(definition, own)?;
    }
    Ok((out.text, out.lines))
}

struct Output {
    text: String,
    lines: Vec<Position>,
}

impl Output {
    fn line(&mut self, at: &Node, text: &str) {
        // A default is written as it is, and must not move the lines that follow.
        self.text.extend(text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
        self.text.push('\n');
        self.lines.push(at.position);
    }

    fn definition(&mut self, of: &Node, own: &str) -> Result<(), Problem> {
        self.description(of);
        let kind = of.get("kind").and_then(Node::as_source).unwrap_or_default();
        match kind {
            "SCALAR" => {
                let url = of.get("specifiedByURL").or_else(|| of.get("specifiedByUrl")).and_then(text);
                let url = url.map(|url| format!(" @specifiedBy(url: {})", quoted(url))).unwrap_or_default();
                self.line(of, &format!("scalar {own}{url}"));
            }
            "UNION" => {
                let members = items(of, "possibleTypes").map(name).collect::<Result<Vec<_>, _>>()?;
                self.line(of, &format!("union {own} = {}", members.join(" | ")));
            }
            "ENUM" => {
                self.line(of, &format!("enum {own} {{"));
                for value in items(of, "enumValues") {
                    self.description(value);
                    self.line(value, &format!("{}{}", name(value)?, deprecated(value)));
                }
                self.line(of, "}");
            }
            "OBJECT" | "INTERFACE" => {
                let keyword = if kind == "OBJECT" { "type" } else { "interface" };
                let implemented = items(of, "interfaces").map(name).collect::<Result<Vec<_>, _>>()?;
                let implemented = if implemented.is_empty() {
                    String::new()
                } else {
                    format!(" implements {}", implemented.join(" & "))
                };
                self.line(of, &format!("{keyword} {own}{implemented} {{"));
                for field in items(of, "fields") {
                    self.description(field);
                    let arguments = items(field, "args").map(input).collect::<Result<Vec<_>, _>>()?;
                    let arguments =
                        if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) };
                    let ty = reference(field)?;
                    self.line(field, &format!("{}{arguments}: {ty}{}", name(field)?, deprecated(field)));
                }
                self.line(of, "}");
            }
            "INPUT_OBJECT" => {
                let is_one = matches!(of.get("isOneOf").and_then(Node::as_source), Some("true"));
                self.line(of, &format!("input {own}{} {{", if is_one { " @oneOf" } else { "" }));
                for field in items(of, "inputFields") {
                    self.line(field, &input(field)?);
                }
                self.line(of, "}");
            }
            _ => return Err((of.position, format!("type `{own}` has no `kind` of a type"))),
        }
        Ok(())
    }

    fn description(&mut self, of: &Node) {
        if let Some(text) = of.get("description").and_then(text).filter(|text| !text.is_empty()) {
            self.line(of, &quoted(text));
        }
    }
}

/// Returns an argument, or a field of an input object.
fn input(of: &Node) -> Result<String, Problem> {
    let description = of.get("description").and_then(text).filter(|text| !text.is_empty());
    let description = description.map(|text| format!("{} ", quoted(text))).unwrap_or_default();
    let default = of.get("defaultValue").and_then(text);
    let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
    Ok(format!("{description}{}: {}{default}", name(of)?, reference(of)?))
}

fn deprecated(of: &Node) -> &'static str {
    if matches!(of.get("isDeprecated").and_then(Node::as_source), Some("true")) { " @deprecated" } else { "" }
}

/// Returns the type of a field or an argument.
fn reference(of: &Node) -> Result<String, Problem> {
    let (mut before, mut after) = (String::new(), String::new());
    let mut at = of.get("type").ok_or((of.position, "has no `type`".to_owned()))?;
    for _ in 0..MAX_WRAPPERS {
        let inner = at.get("ofType").filter(|inner| inner.entries().is_some());
        match (at.get("kind").and_then(Node::as_source), inner) {
            (Some("NON_NULL"), Some(inner)) => {
                after.insert(0, '!');
                at = inner;
            }
            (Some("LIST"), Some(inner)) => {
                before.push('[');
                after.insert(0, ']');
                at = inner;
            }
            (Some("NON_NULL" | "LIST"), None) => {
                return Err((at.position, "is cut: a type has no `ofType`; ask for more levels of it".to_owned()));
            }
            _ => return Ok(format!("{before}{}{after}", name(at)?)),
        }
    }
    Err((of.position, format!("has a type of more than {MAX_WRAPPERS} levels")))
}

fn items<'n>(of: &'n Node, key: &str) -> impl Iterator<Item = &'n Node> {
    let items = match of.get(key).map(|node| &node.value) {
        Some(Value::List(items)) => &items[..],
        _ => &[],
    };
    items.iter()
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) if scalar.resolved != crate::yaml::Resolved::Null => Some(&scalar.source),
        _ => None,
    }
}

/// Returns the name of a definition. Whatever it holds becomes a part of the schema, so that it must be a name.
fn name(of: &Node) -> Result<&str, Problem> {
    let found = of.get("name").and_then(text).unwrap_or_default();
    let is_name = found.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && found.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { Ok(found) } else { Err((of.position, "has no `name` that is one of GraphQL".to_owned())) }
}
