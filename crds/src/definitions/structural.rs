//! Converts the JSON Schema of a Rust type into a schema that the API server accepts: structural, and without defaults.
//!
//! The types stay as they are: the loader and editors use the same schemas, and rely on `$ref`, `additionalProperties: false`
//! and alternatives. This module converts all of that to what a CustomResourceDefinition may contain.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::resources::LATER;

/// The keyword that makes the API server keep unknown members.
pub(super) const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
/// The keyword that lists the members which identify an entry of a list.
const KEYS: &str = "x-kubernetes-list-map-keys";
/// The keyword for CEL rules.
pub(super) const RULES: &str = "x-kubernetes-validations";

/// The schema keyword that marks text with a unit; durations are the only kind.
const UNIT: &str = "x-tamis-unit";

/// Fields of later releases that will hold a list or text rather than an object. An author who writes one today should read
/// that it is not implemented, not that its type is wrong.
const LATER_LISTS: &[&str] = &["CommandsSpec.allow", "PlanHeadersSpec.forward"];

/// Sources that only `tamis serve` has. Their fields are for files, and an API server rejects the source by its name.
pub(super) const SERVE_ONLY: &[&str] = &["ServiceManifestSpec.command", "ServiceManifestSpec.appleScript"];

/// Keywords to add to a place: `Type`, `Type.field`, or `Type.field.*` for the entries of a list or map.
pub(super) type Additions = [(&'static str, Json)];

/// Keywords that mean the same to the API server. `default` is absent on purpose: the code that reads a field supplies its
/// default. A default that the API server wrote into an object would look like drift to the tool that applied it.
const KEPT: &[&str] =
    &["type", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"];

/// Returns the structural schema of a type, from the schema that `schemars` derives.
pub(super) fn structural(schema: &Json, additions: &Additions) -> Json {
    let none = Map::new();
    let definitions = schema.get("$defs").and_then(Json::as_object).unwrap_or(&none);
    let converter = Converter { definitions, additions };
    let name = schema.get("title").and_then(Json::as_str).unwrap_or_default();
    converter.convert(schema, name).finish(schema)
}

/// Keeps the members that the API server would otherwise drop silently: unknown members, and null. The policy
/// `tamis-fields` rejects both; where it is not installed, the operator finds them in the stored object.
///
/// `schema` itself stays without null: server-side apply turns a `spec` whose fields have all been removed into null.
pub(super) fn keep_unknown(schema: &mut Json) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.contains_key("properties") {
        members.insert(OPEN.to_owned(), true.into());
    }
    let properties = members.get_mut("properties").and_then(Json::as_object_mut);
    let mut children: Vec<&mut Json> = properties.into_iter().flat_map(Map::values_mut).collect();
    for child in &mut children {
        child["nullable"] = true.into();
        keep_unknown(child);
    }
    if let Some(values) = members.get_mut("additionalProperties").filter(|values| values.is_object()) {
        values["nullable"] = true.into();
        keep_unknown(values);
    }
    // A key of a list of type map must be present, so it is not nullable.
    let keys: Vec<Json> = members.get(KEYS).and_then(Json::as_array).cloned().unwrap_or_default();
    // Null in a list is kept as it is, and rejected for its type.
    if let Some(items) = members.get_mut("items") {
        keep_unknown(items);
        for key in keys.iter().filter_map(Json::as_str) {
            if let Some(key) = items["properties"].get_mut(key).and_then(Json::as_object_mut) {
                key.remove("nullable");
            }
        }
    }
}

/// A CEL rule and the message for its violation.
pub(super) fn rule(cel: &str, message: &str) -> Json {
    json!({ "rule": cel, "message": message })
}

struct Converter<'s> {
    definitions: &'s Map<String, Json>,
    additions: &'s Additions,
}

/// A converted schema. The descriptions of an enum's values are kept separately, because a field of the enum's type has its own
/// description and appends them to it.
struct Converted {
    schema: Map<String, Json>,
    values: String,
}

impl Converted {
    fn new(schema: Json) -> Self {
        let Json::Object(schema) = schema else { return Self::new(json!({})) };
        Self { schema, values: String::new() }
    }

    /// Takes over the description of the source schema, if there is one.
    fn describe(mut self, at: &Json) -> Self {
        if let Some(text) = at.get("description").and_then(Json::as_str) {
            self.schema.insert("description".to_owned(), prose(text).into());
        }
        self
    }

    fn finish(self, at: &Json) -> Json {
        let Self { mut schema, values } = self.describe(at);
        if let (Some(Json::String(text)), false) = (schema.get_mut("description"), values.is_empty()) {
            let _ = write!(text, "\n{values}");
        }
        schema.into()
    }
}

impl Converter<'_> {
    /// Converts a schema and adds its keywords. `place` is the name of the type, or the place in another type's schema.
    fn convert(&self, at: &Json, place: &str) -> Converted {
        let mut converted = self.bare(at, place);
        for (_, more) in self.additions.iter().filter(|(of, _)| *of == place) {
            add(&mut converted.schema, more);
        }
        converted
    }

    fn bare(&self, at: &Json, place: &str) -> Converted {
        let has = |key: &str| at.get(key).is_some();
        if has(LATER) {
            return later(place).describe(at);
        }
        if let Some(name) = at.get("$ref").and_then(Json::as_str).and_then(|r| r.strip_prefix("#/$defs/")) {
            return self.convert(&self.definitions[name], name).describe(at);
        }
        if let Some(alternatives) = at.get("anyOf").and_then(Json::as_array) {
            let mut values = alternatives.iter().filter(|a| a["type"] != "null");
            return match (values.next(), values.next()) {
                // An optional value. Null is not allowed: the field is then absent.
                (Some(one), None) => self.bare(one, place).describe(at),
                // An object, a list or text.
                _ => self.either(alternatives, place).describe(at),
            };
        }
        let Some(members) = at.as_object().filter(|members| members.contains_key("type") || has("oneOf")) else {
            // Any JSON.
            return Converted::new(json!({ OPEN: true })).describe(at);
        };
        let mut schema = Map::new();
        if let Some(text) = at.get("description").and_then(Json::as_str) {
            schema.insert("description".to_owned(), prose(text).into());
        }
        for (key, value) in members {
            if KEPT.contains(&key.as_str()) || key.starts_with("x-kubernetes-") {
                schema.insert(key.clone(), value.clone());
            }
        }
        one_type(&mut schema);
        number(&mut schema);
        if has(UNIT) {
            add(&mut schema, &duration());
        }
        let mut converted = Converted { schema, values: String::new() };
        enumeration(at, &mut converted);
        self.children(at, place, &mut converted.schema);
        converted
    }

    /// Converts a node that is an object or a list, or text in place of one of them. A structural schema allows one type per
    /// node or none, so the node has none: the API server then applies `properties` to an object and `items` to a list. A
    /// policy checks that the node has one of its types.
    fn either(&self, alternatives: &[Json], place: &str) -> Converted {
        let mut schema = Map::from_iter([(OPEN.to_owned(), true.into())]);
        for alternative in alternatives {
            let converted = self.bare(alternative, place).schema;
            for key in ["properties", "items"] {
                if let Some(held) = converted.get(key) {
                    schema.insert(key.to_owned(), held.clone());
                }
            }
        }
        Converted { schema, values: String::new() }
    }

    fn children(&self, at: &Json, place: &str, schema: &mut Map<String, Json>) {
        let held = |key: &str| at.get(key).filter(|value| value.is_object() || **value == true);
        for key in ["items", "additionalProperties"] {
            if let Some(value) = held(key) {
                schema.insert(key.to_owned(), self.convert(value, &format!("{place}.*")).finish(value));
            }
        }
        if let Some(properties) = at.get("properties").and_then(Json::as_object) {
            let properties: Map<_, _> = properties
                .iter()
                .map(|(name, value)| {
                    let place = format!("{place}.{name}");
                    let mut converted = match SERVE_ONLY.contains(&&*place) {
                        true => serve_only(name).describe(value),
                        false => self.bare(value, &place),
                    };
                    for (_, more) in self.additions.iter().filter(|(of, _)| *of == place) {
                        add(&mut converted.schema, more);
                    }
                    (name.clone(), converted.finish(&Json::Null))
                })
                .collect();
            schema.insert("properties".to_owned(), properties.into());
        }
        if let Some(required) = at.get("required") {
            schema.insert("required".to_owned(), required.clone());
        }
    }
}

/// Rejects a field of a later release by its name: a field that is ignored could be one that was meant to protect
/// data.
fn later(place: &str) -> Converted {
    let field = place.rsplit('.').next().unwrap_or(place);
    let message = format!("`{field}` is not implemented yet; remove it");
    let rules = json!([rule("false", &message)]);
    Converted::new(if LATER_LISTS.contains(&place) {
        json!({ "type": "array", "items": { "x-kubernetes-int-or-string": true }, RULES: rules })
    } else {
        json!({ "type": "object", OPEN: true, RULES: rules })
    })
}

/// Rejects a source that only `tamis serve` has.
fn serve_only(field: &str) -> Converted {
    let message = format!(
        "`{field}` is for `tamis serve`: in a cluster a program would run next to the gateway's token; run it in a server of \
         its own, and describe that server with `http` or `mcp`"
    );
    Converted::new(json!({ "type": "object", OPEN: true, RULES: [rule("false", &message)] }))
}

/// A duration such as `1m30s`, from a millisecond to an hour.
fn duration() -> Json {
    json!({
        "maxLength": 32,
        RULES: [rule(
            "self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('1h')",
            "must be a duration from 1ms to 1h; write a number with ms, s, m or h, for example 30s",
        )],
    })
}

/// Merges keywords; rules are appended to existing ones.
fn add(schema: &mut Map<String, Json>, more: &Json) {
    for (key, value) in more.as_object().into_iter().flatten() {
        match (schema.get_mut(key), value) {
            (Some(Json::Array(rules)), Json::Array(more)) if key == RULES => rules.extend(more.iter().cloned()),
            _ => {
                schema.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Reduces `["string", "null"]` to `string`. A value that is a number or text has no type.
fn one_type(schema: &mut Map<String, Json>) {
    if let Some(Json::Array(types)) = schema.get("type") {
        let types: Vec<Json> = types.iter().filter(|t| **t != "null").cloned().collect();
        schema.remove("type");
        if let [one] = &types[..] {
            schema.insert("type".to_owned(), one.clone());
        }
    }
}

/// Converts the formats of numbers: the API server knows `int32` and `int64` only.
fn number(schema: &mut Map<String, Json>) {
    let (format, maximum) = match schema.get("format").and_then(Json::as_str) {
        Some("uint8") => ("int32", Some(u32::from(u8::MAX))),
        Some("uint16") => ("int32", Some(u32::from(u16::MAX))),
        Some("uint32") => ("int64", Some(u32::MAX)),
        Some("uint64") => ("int64", None),
        Some("float" | "double") => {
            schema.remove("format");
            return;
        }
        _ => return,
    };
    schema.insert("format".to_owned(), format.into());
    schema.insert("minimum".to_owned(), 0.into());
    // Bounds are floating-point numbers there, so `uint64` gets no maximum.
    if let Some(maximum) = maximum {
        schema.insert("maximum".to_owned(), maximum.into());
    }
}

/// Converts named values: their names go to `enum`, their descriptions to prose.
fn enumeration(at: &Json, converted: &mut Converted) {
    let Some(values) = at.get("oneOf").and_then(Json::as_array) else { return };
    let names: Vec<Json> = values.iter().filter_map(|value| value.get("const").cloned()).collect();
    let meaning = |value: &Json| {
        let text = value.get("description").and_then(Json::as_str).unwrap_or_default();
        format!("- `{}`: {}", value["const"].as_str().unwrap_or_default(), prose(text))
    };
    converted.values = values.iter().map(meaning).collect::<Vec<_>>().join("\n");
    converted.schema.insert("type".to_owned(), "string".into());
    converted.schema.insert("enum".to_owned(), names.into());
}

/// Formats a doc comment for `kubectl explain`: paragraphs without line breaks, names without links.
pub(super) fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n").replace("[`", "`").replace("`]", "`")
}
