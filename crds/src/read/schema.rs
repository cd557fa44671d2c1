//! The generated JSON Schemas, as the shape check reads them.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde_json::Value as Json;

use crate::resources::{
    ConfigurationPlanSpec, CustomToolsSpec, ExpositionSpec, GatewayGroupSpec, LATER, PromptsSpec, ResourcesSpec,
    ServiceManifestSpec, ToolsFiltersSpec,
};
use crate::yaml::{Node, Value};

/// The schema keyword for text with a unit, for which a number alone is not enough.
const UNIT: &str = "x-tamis-unit";

/// The schema of one `spec`.
pub(crate) struct SpecSchema(pub(super) Json);

pub(crate) static SERVICE_MANIFEST: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<ServiceManifestSpec>);
pub(crate) static TOOLS_FILTERS: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<ToolsFiltersSpec>);
pub(crate) static EXPOSITION: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<ExpositionSpec>);
pub(crate) static GATEWAY_GROUP: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<GatewayGroupSpec>);
pub(crate) static CUSTOM_TOOLS: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<CustomToolsSpec>);
pub(crate) static CONFIGURATION_PLAN: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<ConfigurationPlanSpec>);
pub(crate) static PROMPTS: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<PromptsSpec>);
pub(crate) static RESOURCES: LazyLock<SpecSchema> = LazyLock::new(SpecSchema::of::<ResourcesSpec>);

impl SpecSchema {
    fn of<T: JsonSchema>() -> Self {
        Self(schemars::schema_for!(T).to_value())
    }

    /// Returns the schema of the `spec` itself.
    pub(crate) fn view(&self) -> View<'_> {
        View { root: &self.0, at: &self.0, name: "" }
    }
}

/// A place in a schema, after following references.
#[derive(Clone, Copy)]
pub(crate) struct View<'s> {
    root: &'s Json,
    at: &'s Json,
    /// The Rust type that the place describes, if it has a name.
    pub(crate) name: &'s str,
}

/// The shape that a schema requires at one place.
pub(crate) enum Shape<'s> {
    Any,
    Later,
    Text,
    /// Text that begins with a number and ends with a unit, such as this one.
    Quantity(&'s str),
    Bool,
    Integer {
        min: i128,
        max: i128,
    },
    Number,
    TextOrInteger,
    OneOf(Vec<&'s str>),
    List(View<'s>),
    Map(View<'s>),
    Object(Object<'s>),
}

/// A mapping with known members.
#[derive(Clone, Copy)]
pub(crate) struct Object<'s> {
    view: View<'s>,
}

impl<'s> View<'s> {
    fn to(self, at: &'s Json) -> Self {
        Self { at, name: "", ..self }
    }

    /// Follows references, and chooses the alternative that fits the node's kind.
    fn resolve(mut self, node: &Node) -> Self {
        loop {
            if let Some(name) = self.at.get("$ref").and_then(Json::as_str).and_then(|r| r.strip_prefix("#/$defs/")) {
                let at = &self.root["$defs"][name];
                self = Self { at, name, ..self };
            } else if let Some(alternatives) = self.at.get("anyOf").and_then(Json::as_array) {
                let fitting = |a: &&Json| self.to(a).resolve(node).fits(node);
                let Some(at) = alternatives.iter().filter(|a| a["type"] != "null").max_by_key(|a| fitting(a)) else {
                    return self;
                };
                // If no alternative fits, the first one is used instead of the last: it is the simple form, whose
                // errors explain best.
                let first = alternatives.iter().find(|a| a["type"] != "null").unwrap_or(at);
                self = self.to(if fitting(&at) { at } else { first });
            } else {
                return self;
            }
        }
    }

    fn fits(self, node: &Node) -> bool {
        match (&node.value, self.shape_here()) {
            (_, Shape::Any) => true,
            (Value::Map(_), Shape::Map(_) | Shape::Object(_)) | (Value::List(_), Shape::List(_)) => true,
            (Value::Scalar(_), Shape::Map(_) | Shape::Object(_) | Shape::List(_)) => false,
            (Value::Scalar(_), _) => true,
            _ => false,
        }
    }

    /// Returns the shape that the schema requires of this node.
    pub(crate) fn shape(self, node: &Node) -> (Self, Shape<'s>) {
        let view = self.resolve(node);
        (view, view.shape_here())
    }

    fn shape_here(self) -> Shape<'s> {
        let at = self.at;
        if at.get(LATER).is_some() {
            return Shape::Later;
        }
        let names: Vec<&str> = match (at.get("enum"), at.get("oneOf")) {
            (Some(Json::Array(values)), _) => values.iter().filter_map(Json::as_str).collect(),
            (_, Some(Json::Array(values))) => values.iter().filter_map(|v| v["const"].as_str()).collect(),
            _ => Vec::new(),
        };
        if !names.is_empty() {
            return Shape::OneOf(names);
        }
        let has = |name: &str| match at.get("type") {
            Some(Json::String(one)) => one == name,
            Some(Json::Array(several)) => several.iter().any(|t| t == name),
            _ => false,
        };
        if has("object") {
            return match at.get("additionalProperties") {
                Some(values) if values.is_object() || *values == true => Shape::Map(self.to(values)),
                _ => Shape::Object(Object { view: self }),
            };
        }
        if has("array") {
            return at.get("items").map_or(Shape::Any, |items| Shape::List(self.to(items)));
        }
        if let Some(unit) = at.get(UNIT).and_then(Json::as_str) {
            return Shape::Quantity(unit);
        }
        match (has("string"), has("integer")) {
            (true, true) => Shape::TextOrInteger,
            (true, false) => Shape::Text,
            (false, true) => integer(at),
            (false, false) if has("boolean") => Shape::Bool,
            (false, false) if has("number") => Shape::Number,
            (false, false) => Shape::Any,
        }
    }
}

fn integer(at: &Json) -> Shape<'_> {
    let (min, max) = match at["format"].as_str() {
        Some("uint8") => (0, u8::MAX.into()),
        Some("uint16") => (0, u16::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint64") => (0, u64::MAX.into()),
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    Shape::Integer { min, max }
}

impl<'s> Object<'s> {
    /// Returns the schema of a member.
    pub(crate) fn member(self, key: &str) -> Option<View<'s>> {
        self.view.at.get("properties")?.get(key).map(|at| self.view.to(at))
    }

    /// Returns the members that this version implements.
    pub(crate) fn members(self) -> impl Iterator<Item = &'s str> {
        let properties = self.view.at.get("properties").and_then(Json::as_object);
        properties.into_iter().flatten().filter(|(_, at)| !mentions_later(at)).map(|(key, _)| key.as_str())
    }

    /// Returns the required members.
    pub(crate) fn required(self) -> impl Iterator<Item = &'s str> {
        let required = self.view.at.get("required").and_then(Json::as_array);
        required.into_iter().flatten().filter_map(Json::as_str)
    }
}

fn mentions_later(at: &Json) -> bool {
    let alternatives = at.get("anyOf").and_then(Json::as_array);
    at.get(LATER).is_some() || alternatives.into_iter().flatten().any(mentions_later)
}
