//! Checks a tree against a schema, reports all errors at once, and writes the tree as the JSON that serde reads, with exact
//! digits, and with strings where the schema expects strings.

use std::sync::Arc;

use tamis_config::Reason;

use super::schema::{Object, Shape, View};
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;
use crate::origin::{push_index, push_key};
use crate::yaml::{Entry, Node, Position, Resolved, Scalar, Value};

/// Returns the tree as JSON. If there was an error, use it only to find more errors.
pub(super) fn check(
    file: &Arc<str>,
    node: &Node,
    view: View<'_>,
    field: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> String {
    let mut checker = Checker { file, diagnostics, json: String::new() };
    checker.node(node, view, field);
    checker.json
}

/// The fields for the sources of a ServiceManifest that are not implemented.
const SOURCES: &[&str] = &["spec.llm"];

struct Checker<'a> {
    file: &'a Arc<str>,
    diagnostics: &'a mut Vec<Diagnostic>,
    json: String,
}

impl Checker<'_> {
    fn node(&mut self, node: &Node, view: View<'_>, field: &str) {
        let at = node.position;
        match (view.shape(node).1, &node.value) {
            (Shape::Later, _) => {
                let error = Diagnostic::error(self.file, at, field, "is not implemented yet", "remove it");
                let is_source = SOURCES.contains(&field);
                self.diagnostics.push(if is_source { error.because(Reason::UnsupportedSource) } else { error });
            }
            (Shape::Any, _) => self.any(node, field),
            (Shape::Object(object), Value::Map(entries)) => self.object(node, object, entries, field),
            (Shape::Map(values), Value::Map(entries)) => {
                self.members(entries, field, |checker, entry, field| {
                    checker.open_key(entry, field);
                    checker.node(&entry.value, values, field);
                    true
                });
            }
            (Shape::List(items), Value::List(list)) => {
                self.list(list, field, |c, item, field| c.node(item, items, field));
            }
            (Shape::Quantity(unit), Value::Scalar(scalar)) => match &scalar.resolved {
                Resolved::Number(number) => {
                    self.error(at, field, format!("{number} has no unit"), format!("write {number}{unit}"));
                    self.string(&scalar.source);
                }
                _ => self.text(at, scalar, field),
            },
            (Shape::Text, Value::Scalar(scalar)) => self.text(at, scalar, field),
            (Shape::TextOrInteger, Value::Scalar(scalar)) => match &scalar.resolved {
                Resolved::Number(n) if is_integer(n) => self.json.push_str(n),
                _ => self.text(at, scalar, field),
            },
            (Shape::OneOf(names), Value::Scalar(scalar)) => self.one_of(at, scalar, &names, field),
            (Shape::Bool, Value::Scalar(scalar)) => self.boolean(at, scalar, field),
            (Shape::Integer { min, max }, Value::Scalar(scalar)) => self.integer(at, scalar, min, max, field),
            (Shape::Number, Value::Scalar(scalar)) => match &scalar.resolved {
                Resolved::Number(_) => self.any(node, field),
                _ => self.wrong(node, "a number", field),
            },
            (Shape::Object(_) | Shape::Map(_), _) => {
                self.wrong_kind(node, "a mapping", "write its members below the field", field);
            }
            (Shape::List(_), _) => self.wrong_kind(node, "a list", "write it with `-` or in brackets", field),
            (Shape::OneOf(names), _) => self.wrong(node, &format!("one of {}", names.join(", ")), field),
            (Shape::Bool, _) => self.wrong(node, "true or false", field),
            (Shape::Integer { .. } | Shape::Number, _) => self.wrong(node, "a number", field),
            (Shape::Text | Shape::Quantity(_) | Shape::TextOrInteger, _) => self.wrong(node, "a string", field),
        }
    }

    fn object(&mut self, node: &Node, object: Object<'_>, entries: &[Entry], field: &str) {
        self.members(entries, field, |checker, entry, field| {
            let Some(member) = object.member(&entry.key) else {
                checker.unknown(entry, object, entries, field);
                return false;
            };
            checker.node(&entry.value, member, field);
            true
        });
        for key in object.required().filter(|key| node.get(key).is_none()) {
            let mut field = field.to_owned();
            push_key(&mut field, key);
            self.error(node.position, &field, "is missing", "add it");
        }
    }

    fn unknown(&mut self, entry: &Entry, object: Object<'_>, entries: &[Entry], field: &str) {
        let free: Vec<&str> = object.members().filter(|m| entries.iter().all(|e| *e.key != **m)).collect();
        let remedy = match did_you_mean(&entry.key, object.members()) {
            Some(name) => format!("did you mean `{name}`?"),
            None if free.is_empty() => "remove it".to_owned(),
            None => format!("remove it, or use one of: {}", free.join(", ")),
        };
        self.error(entry.position, field, "unknown field", remedy);
    }

    /// Writes the members that `each` accepts.
    fn members(&mut self, entries: &[Entry], field: &str, mut each: impl FnMut(&mut Self, &Entry, &str) -> bool) {
        self.json.push('{');
        for entry in entries {
            let mut path = field.to_owned();
            if let Some(name) = entry.spelling() {
                push_key(&mut path, name);
            }
            let before = self.json.len();
            if !self.json.ends_with('{') {
                self.json.push(',');
            }
            self.string(&entry.key);
            self.json.push(':');
            if !each(self, entry, &path) {
                self.json.truncate(before);
            }
        }
        self.json.push('}');
    }

    fn list(&mut self, items: &[Node], field: &str, mut each: impl FnMut(&mut Self, &Node, &str)) {
        self.json.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.json.push(',');
            }
            let mut path = field.to_owned();
            push_index(&mut path, index);
            each(self, item, &path);
        }
        self.json.push(']');
    }

    /// Checks a key that the author chose: kubectl would convert `on` to `true`.
    fn open_key(&mut self, entry: &Entry, field: &str) {
        if entry.boolean_for_kubectl {
            let message = format!("kubectl reads the name `{}` as a boolean", entry.key);
            self.warning(entry.position, field, message, "quote it");
        }
    }

    fn text(&mut self, at: Position, scalar: &Scalar, field: &str) {
        let source = &scalar.source;
        match &scalar.resolved {
            Resolved::Text => {
                if let Some(other) = scalar.kubectl_reads() {
                    let message = format!("kubectl reads {source} as {other}, not as a string");
                    self.warning(at, field, message, format!("quote it: \"{source}\""));
                }
            }
            Resolved::Number(_) | Resolved::NotJson => {
                let message = format!("kubectl reads {source} as a number, not as a string");
                self.warning(at, field, message, format!("quote it: \"{source}\""));
            }
            Resolved::Bool(_) => {
                self.error(
                    at,
                    field,
                    format!("expected a string, found the boolean {source}"),
                    format!("quote it: \"{source}\""),
                );
            }
            Resolved::Null => self.empty(at, field),
        }
        self.string(source);
    }

    fn one_of(&mut self, at: Position, scalar: &Scalar, names: &[&str], field: &str) {
        let source = &*scalar.source;
        if scalar.resolved == Resolved::Null {
            // `none` is a name, `null` is not.
            self.empty(at, field);
        } else if !names.contains(&source) {
            let all = names.join(", ");
            let remedy = match did_you_mean(source, names.iter().copied()) {
                Some(name) => format!("did you mean {name}? supported values: {all}"),
                None => format!("write one of {all}"),
            };
            self.error(at, field, format!("unsupported value `{}`", excerpt(source)), remedy);
        }
        self.string(source);
    }

    fn boolean(&mut self, at: Position, scalar: &Scalar, field: &str) {
        match (&scalar.resolved, scalar.kubectl_reads()) {
            (Resolved::Bool(value), _) => self.json.push_str(if *value { "true" } else { "false" }),
            (Resolved::Null, _) => self.empty(at, field),
            (Resolved::Text, Some(value)) => {
                self.error(at, field, format!("`{}` is a string in YAML 1.2", scalar.source), format!("write {value}"));
            }
            (Resolved::Text, _) if matches!(&*scalar.source, "true" | "false") => {
                self.error(at, field, "expected true or false, found a string", "remove the quotes");
            }
            _ => self.wrong_scalar(at, scalar, "true or false", field),
        }
    }

    fn integer(&mut self, at: Position, scalar: &Scalar, min: i128, max: i128, field: &str) {
        match &scalar.resolved {
            Resolved::Null => self.empty(at, field),
            Resolved::Number(n) if is_integer(n) => {
                if let Some(other) = scalar.kubectl_reads() {
                    let message = format!("{} is {n} here and {other} for kubectl", scalar.source);
                    self.error(at, field, message, "write it without leading zeros");
                } else if !n.parse::<i128>().is_ok_and(|n| (min..=max).contains(&n)) {
                    let remedy = if min == i128::from(i64::MIN) && !n.starts_with('-') {
                        // The field has a lower limit of its own, which a later check knows.
                        format!("write a number of at most {max}")
                    } else {
                        format!("write a number from {min} to {max}")
                    };
                    self.error(at, field, format!("{n} is out of range"), remedy);
                    // A placeholder, so that the rest can be parsed and checked.
                    return self.json.push('1');
                }
                self.json.push_str(n);
            }
            Resolved::Number(n) if n.contains(['e', 'E']) && !n.contains('-') && !n.contains('.') => {
                let message = format!("{} is written with an exponent", scalar.source);
                self.error(at, field, message, "write all digits of the number");
            }
            Resolved::Number(_) => {
                self.error(at, field, format!("{} is not a whole number", scalar.source), "write one");
            }
            Resolved::Text if !scalar.plain && is_integer(&scalar.source) => {
                self.error(at, field, "expected a number, found a string", "remove the quotes");
            }
            _ => self.wrong_scalar(at, scalar, "a number", field),
        }
    }

    /// Checks a value of any JSON type. It must mean the same to every reader.
    fn any(&mut self, node: &Node, field: &str) {
        let at = node.position;
        match &node.value {
            Value::Map(entries) => self.members(entries, field, |checker, entry, field| {
                checker.open_key(entry, field);
                checker.any(&entry.value, field);
                true
            }),
            Value::List(items) => self.list(items, field, Self::any),
            Value::Scalar(scalar) => {
                let source = &scalar.source;
                if let Some(other) = scalar.kubectl_reads() {
                    let message = format!("{source} is {} here and {other} for kubectl", self_reading(scalar));
                    self.error(at, field, message, format!("write \"{source}\" or {other}"));
                }
                match &scalar.resolved {
                    Resolved::Null if source.is_empty() => {
                        self.error(at, field, "has no value", "write null if that is meant");
                    }
                    Resolved::Null => self.json.push_str("null"),
                    Resolved::Bool(value) => self.json.push_str(if *value { "true" } else { "false" }),
                    Resolved::Number(n) => self.json.push_str(n),
                    Resolved::NotJson => {
                        self.error(at, field, format!("JSON cannot represent {source}"), "quote it, or write a number");
                    }
                    Resolved::Text => self.string(source),
                }
            }
        }
    }

    fn wrong(&mut self, node: &Node, wanted: &str, field: &str) {
        match &node.value {
            Value::Scalar(scalar) => self.wrong_scalar(node.position, scalar, wanted, field),
            _ => self.error(
                node.position,
                field,
                format!("expected {wanted}, found {}", node.describe()),
                format!("write {wanted}"),
            ),
        }
    }

    /// The value is not shown, because text in place of a reference to a Secret may be the secret itself.
    fn wrong_kind(&mut self, node: &Node, wanted: &str, remedy: &str, field: &str) {
        match &node.value {
            Value::Scalar(scalar) if scalar.resolved == Resolved::Null => self.empty(node.position, field),
            _ => {
                let message = format!("expected {wanted}, found {}", node.describe());
                self.error(node.position, field, message, remedy);
            }
        }
    }

    fn wrong_scalar(&mut self, at: Position, scalar: &Scalar, wanted: &str, field: &str) {
        if scalar.resolved == Resolved::Null {
            self.empty(at, field);
        } else {
            let message = format!("expected {wanted}, found `{}`", excerpt(&scalar.source));
            self.error(at, field, message, format!("write {wanted}"));
        }
    }

    fn empty(&mut self, at: Position, field: &str) {
        self.error(at, field, "has no value", "write one, or remove the field");
    }

    fn string(&mut self, text: &str) {
        self.json.push_str(&serde_json::Value::from(text).to_string());
    }

    fn error(&mut self, at: Position, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(self.file, at, field, message, remedy));
    }

    fn warning(&mut self, at: Position, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(self.file, at, field, message, remedy));
    }
}

fn self_reading(scalar: &Scalar) -> String {
    match &scalar.resolved {
        Resolved::Number(n) => n.to_string(),
        _ => "a string".to_owned(),
    }
}

fn is_integer(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the beginning of a text on one line, since a message is one line.
pub(crate) fn excerpt(text: &str) -> String {
    let mut line: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        line.push_str("..");
    }
    line
}
