//! JSON Schemas of messages in the canonical JSON of protobuf.

use std::collections::{HashMap, HashSet};

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::super::names::{bounded, definition_name, quoted};
use super::comments::Comments;

/// Bytes of the schema of a tool's arguments.
const MAX_INPUT: usize = 256 << 10;
/// Bytes of an output schema: every conversation pays for it.
const MAX_OUTPUT: usize = 32 << 10;
/// Bytes of the description of an argument.
const MAX_TEXT: usize = 1024;

/// Whether a schema describes what is sent, or what comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Input,
    Output,
}

/// Writes the schema of a message.
struct Writer<'c> {
    comments: &'c mut Comments,
    direction: Direction,
    most: usize,
    /// The names of definitions, by the full name of the message.
    names: HashMap<String, String>,
    taken: HashSet<String>,
    /// Messages whose definitions are to be written.
    open: Vec<MessageDescriptor>,
    bytes: usize,
}

/// Returns the schema of the arguments of a method, and the fields that are no arguments, with the reason.
///
/// # Errors
/// Why there is none, as the end of a sentence about the method.
pub(super) fn input(message: &MessageDescriptor, comments: &mut Comments) -> Result<(String, Vec<String>), String> {
    if is_special(message.full_name()) && message.full_name() != "google.protobuf.Empty" {
        return Err(format!("takes a `{}`, whose JSON has no members that could be arguments", message.full_name()));
    }
    let mut omitted = Vec::new();
    let text = Writer::new(comments, Direction::Input, MAX_INPUT).whole(message, &mut omitted);
    let text = text.ok_or_else(|| format!("has a schema of more than {} KiB", MAX_INPUT >> 10))?;
    Ok((text, omitted))
}

/// Returns the schema of an answer: none if the answer is no object, or if the schema would be too large.
pub(super) fn output(message: &MessageDescriptor, comments: &mut Comments) -> Option<String> {
    is_object(message).then_some(())?;
    Writer::new(comments, Direction::Output, MAX_OUTPUT).whole(message, &mut Vec::new())
}

/// Returns whether the JSON of a message is always an object.
pub(super) fn is_object(message: &MessageDescriptor) -> bool {
    let special = ["google.protobuf.Empty", "google.protobuf.Struct", "google.protobuf.Any"];
    !is_special(message.full_name()) || special.contains(&message.full_name())
}

/// Returns whether a message has a JSON form of its own.
fn is_special(name: &str) -> bool {
    special(name, Direction::Output).is_some()
}

fn special(name: &str, direction: Direction) -> Option<String> {
    let scalar = |kind: &Kind| Some(scalar(kind, direction));
    let fixed = |text: &str| Some(text.to_owned());
    match name.strip_prefix("google.protobuf.")? {
        "Timestamp" => fixed(r#""type":"string","format":"date-time","examples":["2025-01-02T03:04:05Z"]"#),
        "Duration" => fixed(r#""type":"string","pattern":"^-?[0-9]{1,12}([.][0-9]{1,9})?s$","examples":["1.5s"]"#),
        "FieldMask" => {
            fixed(r#""type":"string","description":"Paths of fields in lowerCamelCase, separated by commas""#)
        }
        "Struct" => fixed(r#""type":"object""#),
        "ListValue" => fixed(r#""type":"array""#),
        "Value" => fixed(""),
        "Empty" => fixed(r#""type":"object","additionalProperties":false"#),
        "Any" => fixed(r#""type":"object","properties":{"@type":{"type":"string"}},"required":["@type"]"#),
        "DoubleValue" => scalar(&Kind::Double),
        "FloatValue" => scalar(&Kind::Float),
        "Int64Value" => scalar(&Kind::Int64),
        "UInt64Value" => scalar(&Kind::Uint64),
        "Int32Value" => scalar(&Kind::Int32),
        "UInt32Value" => scalar(&Kind::Uint32),
        "BoolValue" => scalar(&Kind::Bool),
        "StringValue" => scalar(&Kind::String),
        "BytesValue" => scalar(&Kind::Bytes),
        _ => None,
    }
}

/// Returns the members of the schema of a scalar. Integers of 64 bits are strings, and are accepted as numbers too.
fn scalar(kind: &Kind, direction: Direction) -> String {
    let is_input = direction == Direction::Input;
    let text = match kind {
        Kind::Double | Kind::Float if is_input => r#""type":"number""#,
        // NaN and the infinities are strings.
        Kind::Double | Kind::Float => r#""type":["number","string"]"#,
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => r#""type":"integer","minimum":-2147483648,"maximum":2147483647"#,
        Kind::Uint32 | Kind::Fixed32 => r#""type":"integer","minimum":0,"maximum":4294967295"#,
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 if is_input => {
            r#""type":["integer","string"],"minimum":-9223372036854775808,"maximum":9223372036854775807,"pattern":"^-?[0-9]{1,19}$""#
        }
        Kind::Uint64 | Kind::Fixed64 if is_input => {
            r#""type":["integer","string"],"minimum":0,"maximum":18446744073709551615,"pattern":"^[0-9]{1,20}$""#
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => r#""type":"string""#,
        Kind::Bool => r#""type":"boolean""#,
        Kind::Bytes if is_input => r#""type":"string","contentEncoding":"base64","pattern":"^[A-Za-z0-9+/_-]*={0,2}$""#,
        Kind::Bytes => r#""type":"string","contentEncoding":"base64""#,
        Kind::String | Kind::Message(_) | Kind::Enum(_) => r#""type":"string""#,
    };
    text.to_owned()
}

fn enumeration(ty: &EnumDescriptor, direction: Direction) -> String {
    if ty.full_name() == "google.protobuf.NullValue" {
        return r#""type":"null""#.to_owned();
    }
    let names: Vec<String> = ty.values().map(|value| quoted(value.name())).collect();
    match direction {
        Direction::Input => format!(r#""type":"string","enum":[{}]"#, names.join(",")),
        // A server may know more values than its descriptors, and those are numbers.
        Direction::Output => r#""type":["string","integer"]"#.to_owned(),
    }
}

impl<'c> Writer<'c> {
    fn new(comments: &'c mut Comments, direction: Direction, most: usize) -> Self {
        let (names, taken, open) = (HashMap::new(), HashSet::new(), Vec::new());
        Self { comments, direction, most, names, taken, open, bytes: 0 }
    }

    /// Returns the schema of a message, with the definitions that it needs; none if it would be too large.
    fn whole(mut self, message: &MessageDescriptor, omitted: &mut Vec<String>) -> Option<String> {
        let mut text = match special(message.full_name(), self.direction) {
            Some(members) => format!("{{{members}"),
            None => format!("{{{}", self.object(message, Some(omitted))?),
        };
        let mut definitions = Vec::new();
        while let Some(message) = self.open.pop() {
            let body = self.object(&message, None)?;
            definitions.push(format!("{}:{{{body}}}", quoted(&self.names[message.full_name()])));
        }
        if !definitions.is_empty() {
            // The order depends on nothing but the descriptors, and a newer document changes few lines.
            definitions.sort_unstable();
            text.push_str(&format!(",\"$defs\":{{{}}}", definitions.join(",")));
        }
        text.push('}');
        (text.len() <= self.most).then_some(text)
    }

    /// Returns the members of the schema of a message. `omitted`: the message is that of a tool's arguments.
    fn object(&mut self, message: &MessageDescriptor, mut omitted: Option<&mut Vec<String>>) -> Option<String> {
        let (mut properties, mut required) = (Vec::new(), Vec::new());
        for field in message.fields() {
            let name = field.json_name();
            if let (Some(omitted), Some(reason)) = (&mut omitted, self.reserved(name)) {
                omitted.push(format!("field `{}`, since {reason}", field.name()));
                continue;
            }
            let property = format!("{}:{{{}}}", quoted(name), self.field(&field));
            self.bytes += property.len() + 1;
            if self.bytes > self.most {
                return None;
            }
            properties.push(property);
            if field.is_required() && self.direction == Direction::Input {
                required.push(quoted(name));
            }
        }
        let mut text = format!("\"type\":\"object\",\"properties\":{{{}}}", properties.join(","));
        if !required.is_empty() {
            text.push_str(&format!(",\"required\":[{}]", required.join(",")));
        }
        if self.direction == Direction::Input {
            text.push_str(",\"additionalProperties\":false");
        }
        Some(text)
    }

    /// Returns why an argument cannot have a name.
    fn reserved(&self, name: &str) -> Option<&'static str> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        match self.direction {
            Direction::Output => None,
            Direction::Input if name.starts_with('_') => Some("names that begin with `_` are reserved"),
            Direction::Input if name.is_empty() || name.len() > 64 || !name.chars().all(fits) => {
                Some("its JSON name is not one that every client accepts")
            }
            Direction::Input => None,
        }
    }

    fn field(&mut self, field: &FieldDescriptor) -> String {
        let mut text = if field.is_map() {
            let Kind::Message(entry) = field.kind() else { return String::new() };
            let value = self.kind(&entry.map_entry_value_field().kind());
            format!("\"type\":\"object\",\"additionalProperties\":{{{value}}}")
        } else {
            let one = self.kind(&field.kind());
            if field.is_list() { format!("\"type\":\"array\",\"items\":{{{one}}}") } else { one }
        };
        if let Some(description) = self.description(field) {
            text.push_str(if text.is_empty() { "" } else { "," });
            text.push_str(&format!("\"description\":{}", quoted(&bounded(&description, MAX_TEXT))));
        }
        text
    }

    fn description(&mut self, field: &FieldDescriptor) -> Option<String> {
        // The special ones have a description of their own.
        if matches!(field.kind(), Kind::Message(message) if message.full_name() == "google.protobuf.FieldMask") {
            return None;
        }
        let comment = self.comments.of(&field.parent_message().parent_file(), field.path()).map(str::to_owned);
        let oneof =
            field.containing_oneof().filter(|oneof| !oneof.is_synthetic() && self.direction == Direction::Input);
        let others = oneof.map(|oneof| {
            let names: Vec<String> = oneof.fields().map(|field| format!("`{}`", field.json_name())).collect();
            format!("At most one of {} may be set.", names.join(", "))
        });
        let parts: Vec<String> = comment.into_iter().chain(others).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    fn kind(&mut self, kind: &Kind) -> String {
        match kind {
            Kind::Message(message) => {
                special(message.full_name(), self.direction).unwrap_or_else(|| self.reference(message))
            }
            Kind::Enum(ty) => enumeration(ty, self.direction),
            other => scalar(other, self.direction),
        }
    }

    fn reference(&mut self, message: &MessageDescriptor) -> String {
        let full = message.full_name();
        if !self.names.contains_key(full) {
            let name = definition_name(&full.replace('.', "/"), &mut self.taken);
            self.names.insert(full.to_owned(), name);
            self.open.push(message.clone());
        }
        format!("\"$ref\":{}", quoted(&format!("#/$defs/{}", self.names[full])))
    }
}
