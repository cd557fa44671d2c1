//! Pieces that several kinds share.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The keyword in a schema that marks a field of later work.
pub(crate) const LATER: &str = "x-tamis-not-implemented";

/// The service that a resource binds to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceRef {
    /// `spec.name` of the ServiceManifest.
    pub name: String,
    /// `spec.version` of the ServiceManifest; a string, so quote `"1.0"`.
    pub version: String,
}

/// An object by name, in another namespace perhaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespacedName {
    /// Its `metadata.name`.
    pub name: String,
    /// Its `metadata.namespace`; the referring resource's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// An object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalName {
    /// Its `metadata.name`.
    pub name: String,
}

/// A value in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretKeyRef {
    /// The Secret's name. `tamis serve` reads `<name>/<key>` below `--secrets`, or `TAMIS_SECRET_<NAME>_<KEY>`.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// A number of bytes: a plain number, or one with `k`, `M`, `G`, `Ki`, `Mi` or `Gi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity(pub String);

impl Quantity {
    /// The number of bytes; none where the text is no such number.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let split = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, unit) = self.0.split_at(split);
        let factor: u64 = match unit {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(factor)
    }
}

/// Memory of a gateway, written as a [`Quantity`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(pub Quantity);

impl Memory {
    /// The least that a gateway can work with.
    pub const LEAST: u64 = 16 << 20;
    /// The most that can be named.
    pub const MOST: u64 = 1 << 40;

    /// The number of bytes; none where it is no number, or out of bounds.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.0.bytes().filter(|bytes| (Self::LEAST..=Self::MOST).contains(bytes))
    }
}

impl JsonSchema for Memory {
    fn schema_name() -> Cow<'static, str> {
        "Memory".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "x-kubernetes-int-or-string": true })
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Quantity;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of bytes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }
            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Quantity, E> {
                Ok(Quantity(n.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "x-kubernetes-int-or-string": true })
    }
}

/// A number of things, or a share of them: `1`, `25%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Share {
    /// So many.
    Number(u32),
    /// So many percent, with the sign.
    Percent(String),
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "x-kubernetes-int-or-string": true })
    }
}

/// A field that a later version will understand. It may be written nowhere yet: the shape check refuses it by name, and
/// so does this type, since a field that is ignored could be one that was meant to protect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Later {}

impl Serialize for Later {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl<'de> Deserialize<'de> for Later {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("this field is not implemented yet"))
    }
}

impl JsonSchema for Later {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Later".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "not": {}, "x-tamis-not-implemented": true })
    }
}
