//! Arguments: their JSON Schema and their defaults.

use indexmap::IndexMap;
use tamis_config::ArgumentStyle;
use tamis_engine::JsonText;

use super::template::is_name;
use crate::origin::FieldPath;
use crate::resources::{ArgSpec, ArgStyle, ArgType};
use crate::sink::DiagnosticSink;

/// Checks the arguments of an action.
pub(super) fn check(args: &IndexMap<String, ArgSpec>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    for (name, arg) in args {
        let at = at.key(name);
        if name.starts_with('_') {
            sink.error(&at, "names that begin with `_` are reserved", "rename the argument");
        } else if !is_name(name) {
            sink.error(&at, "is not a valid argument name", "use 1 to 64 of A-Z a-z 0-9 _ - .");
        }
        let fits = |value: &JsonText| {
            kind_of(value) == arg.kind || (arg.kind == ArgType::Number && kind_of(value) == ArgType::Integer)
        };
        let values = arg.values.as_deref().unwrap_or(&[]);
        if arg.values.as_ref().is_some_and(Vec::is_empty) {
            sink.error(&at.key("enum"), "allows no value", "list the allowed values, or remove it");
        }
        for (index, value) in values.iter().enumerate().filter(|(_, value)| !fits(value)) {
            sink.error(&at.key("enum").index(index), mismatch(value, arg.kind), remedy(arg.kind));
        }
        if let Some(default) = &arg.default {
            if !fits(default) {
                sink.error(&at.key("default"), mismatch(default, arg.kind), remedy(arg.kind));
            } else if !values.is_empty() && !values.contains(default) {
                sink.error(&at.key("default"), "is not one of `enum`", "choose one of them");
            }
            if arg.required {
                sink.warning(
                    &at.key("default"),
                    "is never used because the argument is required",
                    "remove `default` or `required`",
                );
            }
        }
        if arg.kind != ArgType::Array {
            if arg.items.is_some() {
                sink.error(
                    &at.key("items"),
                    "applies to arguments of type array only",
                    "remove it, or set `type: array`",
                );
            }
            if arg.style.is_some() {
                sink.error(
                    &at.key("style"),
                    "applies to arguments of type array only",
                    "remove it, or set `type: array`",
                );
            }
        }
    }
}

/// Returns the JSON Schema (2020-12) of all arguments, with the digits of its constants as written.
pub(super) fn input_schema(args: &IndexMap<String, ArgSpec>) -> JsonText {
    let properties = object(args.iter().map(|(name, arg)| (name.as_str(), property(arg))));
    let mut members = vec![("type", quoted("object")), ("properties", properties)];
    let required: Vec<String> = args.iter().filter(|(_, a)| a.required).map(|(name, _)| quoted(name)).collect();
    if !required.is_empty() {
        members.push(("required", format!("[{}]", required.join(","))));
    }
    members.push(("additionalProperties", "false".to_owned()));
    JsonText::parse(object(members)).expect("made of JSON texts")
}

/// Returns the values that are sent if a call omits the arguments.
pub(super) fn defaults(args: &IndexMap<String, ArgSpec>) -> IndexMap<String, JsonText> {
    args.iter().filter_map(|(name, arg)| Some((name.clone(), arg.default.clone()?))).collect()
}

/// Returns the query style of a list, or `None` for the usual style.
pub(super) fn style(arg: &ArgSpec) -> Option<ArgumentStyle> {
    (arg.style == Some(ArgStyle::Comma)).then_some(ArgumentStyle::Comma)
}

fn property(arg: &ArgSpec) -> String {
    let mut members = vec![("type", quoted(type_name(arg.kind)))];
    if let Some(description) = &arg.description {
        members.push(("description", quoted(description)));
    }
    if let Some(items) = &arg.items {
        members.push(("items", object([("type", quoted(type_name(items.kind)))])));
    }
    if let Some(values) = &arg.values {
        let values: Vec<&str> = values.iter().map(JsonText::as_str).collect();
        members.push(("enum", format!("[{}]", values.join(","))));
    }
    if let Some(default) = &arg.default {
        members.push(("default", default.as_str().to_owned()));
    }
    object(members)
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> = members.into_iter().map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn type_name(kind: ArgType) -> &'static str {
    match kind {
        ArgType::String => "string",
        ArgType::Integer => "integer",
        ArgType::Number => "number",
        ArgType::Boolean => "boolean",
        ArgType::Array => "array",
        ArgType::Object => "object",
    }
}

fn mismatch(value: &JsonText, wanted: ArgType) -> String {
    format!("{} is not of type {}", crate::read::excerpt(value.as_str()), type_name(wanted))
}

fn remedy(wanted: ArgType) -> &'static str {
    if wanted == ArgType::String { "quote it, or change the type" } else { "change the value, or the type" }
}

/// Returns the type of a value. `null` has none of the types of arguments and counts as an object, which no check accepts for
/// another type.
fn kind_of(value: &JsonText) -> ArgType {
    let text = value.as_str();
    match text.as_bytes().first() {
        Some(b'"') => ArgType::String,
        Some(b'[') => ArgType::Array,
        Some(b't' | b'f') => ArgType::Boolean,
        Some(b'-' | b'0'..=b'9') if text.contains(['.', 'e', 'E']) => ArgType::Number,
        Some(b'-' | b'0'..=b'9') => ArgType::Integer,
        _ => ArgType::Object,
    }
}
