//! A JSON value kept as its own text.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{DEPTH_CEILING, Node, parse, to_string};

/// The nesting that a constant may have.
const MAX_DEPTH: usize = 128;

/// A valid JSON text without insignificant whitespace; digits, escapes and member order stay as written.
///
/// Constants of filters (the `value` of a patch or a test) are kept in this form, since a parsed value would rewrite
/// `1.10` and `12345678901234567890`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(Box<str>);

/// The text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidJson(pub String);

impl JsonText {
    /// Checks `text`, and keeps it without insignificant whitespace.
    ///
    /// # Errors [`InvalidJson`] with the reason, if `text` is not a single RFC 8259 value nested at most 128 deep.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidJson> {
        // The whole crate has one validator: constants and outputs follow the same rules.
        let node = parse(text.as_ref().as_bytes(), MAX_DEPTH).map_err(|e| InvalidJson(e.to_string()))?;
        Ok(Self(to_string(&node).into()))
    }

    /// Returns the value as a tree of spans.
    #[must_use]
    pub fn node(&self) -> Node<'_> {
        // Values built in memory may nest deeper than texts that are parsed.
        parse(self.0.as_bytes(), DEPTH_CEILING).expect("a JsonText is JSON")
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&serde_json::Value> for JsonText {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // This works with serde_json only, the one format that documents travel in.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(|error| serde::de::Error::custom(error.0))
    }
}

impl JsonSchema for JsonText {
    fn schema_name() -> Cow<'static, str> {
        "JsonValue".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}
