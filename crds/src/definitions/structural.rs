//! From the JSON Schema of a Rust type to one that the API server takes: structural, and without defaults.
//!
//! The types stay as they are: the same schemas serve the loader and editors, which want `$ref`, `additionalProperties:
//! false` and alternatives. Here all of that becomes what a CustomResourceDefinition may say.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::resources::LATER;

/// What the API server leaves as it was sent.
pub(super) const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
/// Which members name an entry of a list.
const KEYS: &str = "x-kubernetes-list-map-keys";
/// CEL rules.
pub(super) const RULES: &str = "x-kubernetes-validations";

/// The keyword in a schema that marks text with a unit, of which durations are the only kind.
const UNIT: &str = "x-tamis-unit";

/// Fields of later work that will hold a list, or text, and not an object: who writes one today should read that it is
/// not implemented, not that its type is wrong.
const LATER_LISTS: &[&str] =
    &["ActionSpec.command", "ActionSpec.successCodes", "CommandsSpec.allow", "PlanHeadersSpec.forward"];
const LATER_TEXTS: &[&str] = &["ActionSpec.jsonFlag", "ActionSpec.inlineScript"];

/// What is said of a place beyond its type: a place is `Type`, `Type.field`, or `Type.field.*` for what a list or map
/// holds.
pub(super) type Additions = [(&'static str, Json)];

/// Keywords that mean the same to the API server. There is no `default` among them, on purpose: defaults live in the
/// code that reads a field. One that the API server wrote into an object would look like drift to whoever applied it.
const KEPT: &[&str] =
    &["type", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"];

/// The structural schema of a type, from what `schemars` says of it.
pub(super) fn structural(schema: &Json, additions: &Additions) -> Json {
    let none = Map::new();
    let definitions = schema.get("$defs").and_then(Json::as_object).unwrap_or(&none);
    let converter = Converter { definitions, additions };
    let name = schema.get("title").and_then(Json::as_str).unwrap_or_default();
    converter.convert(schema, name).finish(schema)
}

/// Keeps what the API server would otherwise drop without a word: members that an object does not know, and null. The
/// policy `tamis-fields` refuses both, and where it is not installed the operator finds them in the stored object.
///
/// `schema` itself stays without null: server-side apply makes null of a `spec` whose fields have all been removed.
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
    // The keys of a list that is a map: their absence is an error.
    let keys: Vec<Json> = members.get(KEYS).and_then(Json::as_array).cloned().unwrap_or_default();
    // Null in a list is kept as it is, and refused for its type.
    if let Some(items) = members.get_mut("items") {
        keep_unknown(items);
        for key in keys.iter().filter_map(Json::as_str) {
            if let Some(key) = items["properties"].get_mut(key).and_then(Json::as_object_mut) {
                key.remove("nullable");
            }
        }
    }
}

/// One CEL rule, and what is said where it does not hold.
pub(super) fn rule(cel: &str, message: &str) -> Json {
    json!({ "rule": cel, "message": message })
}

struct Converter<'s> {
    definitions: &'s Map<String, Json>,
    additions: &'s Additions,
}

/// A converted schema. What an enum's values mean is kept apart, since a field that has the enum's type has a
/// description of its own and still wants to list them.
struct Converted {
    schema: Map<String, Json>,
    values: String,
}

impl Converted {
    fn new(schema: Json) -> Self {
        let Json::Object(schema) = schema else { return Self::new(json!({})) };
        Self { schema, values: String::new() }
    }

    /// With the description that stands beside it, where there is one.
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
    /// `place` is the name of the type, or the place in another type's.
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
                // An optional value. Null is not one: an absent field is.
                (Some(one), None) => self.bare(one, place).describe(at),
                // An object or a list.
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
        integer(&mut schema);
        if has(UNIT) {
            add(&mut schema, &duration());
        }
        let mut converted = Converted { schema, values: String::new() };
        enumeration(at, &mut converted);
        self.children(at, place, &mut converted.schema);
        converted
    }

    /// A node that is an object or a list. A structural schema gives a node one type or none, so the node has none: the
    /// API server then applies `properties` to an object and `items` to a list. That it is one of the two is left to a
    /// policy.
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
                    let mut converted = self.bare(value, &place);
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

/// A field of later work is refused by its name: one that is ignored could be one that was meant to protect.
fn later(place: &str) -> Converted {
    let field = place.rsplit('.').next().unwrap_or(place);
    let message = format!("`{field}` is not implemented yet, remove it");
    let rules = json!([rule("false", &message)]);
    Converted::new(if LATER_LISTS.contains(&place) {
        json!({ "type": "array", "items": { "x-kubernetes-int-or-string": true }, RULES: rules })
    } else if LATER_TEXTS.contains(&place) {
        json!({ "type": "string", RULES: rules })
    } else {
        json!({ "type": "object", OPEN: true, RULES: rules })
    })
}

/// Text like `1m30s`, from a millisecond to an hour.
fn duration() -> Json {
    json!({
        "maxLength": 32,
        RULES: [rule(
            "self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('1h')",
            "is no duration from 1ms to 1h: write a number with ms, s, m or h, for example 30s",
        )],
    })
}

/// Merges keywords; rules are added to those that are there.
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

/// `["string", "null"]` is `string`; a number or text has no type of its own.
fn one_type(schema: &mut Map<String, Json>) {
    if let Some(Json::Array(types)) = schema.get("type") {
        let types: Vec<Json> = types.iter().filter(|t| **t != "null").cloned().collect();
        schema.remove("type");
        if let [one] = &types[..] {
            schema.insert("type".to_owned(), one.clone());
        }
    }
}

/// The API server knows `int32` and `int64` alone.
fn integer(schema: &mut Map<String, Json>) {
    let (format, maximum) = match schema.get("format").and_then(Json::as_str) {
        Some("uint8") => ("int32", Some(u32::from(u8::MAX))),
        Some("uint16") => ("int32", Some(u32::from(u16::MAX))),
        Some("uint32") => ("int64", Some(u32::MAX)),
        Some("uint64") => ("int64", None),
        _ => return,
    };
    schema.insert("format".to_owned(), format.into());
    schema.insert("minimum".to_owned(), 0.into());
    // Bounds are floating point there: the largest `uint64` has none.
    if let Some(maximum) = maximum {
        schema.insert("maximum".to_owned(), maximum.into());
    }
}

/// Named values: their names in `enum`, their meanings in prose.
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

/// A comment of the code as `kubectl explain` should print it: paragraphs without line ends, names without links.
pub(super) fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n").replace("[`", "`").replace("`]", "`")
}
