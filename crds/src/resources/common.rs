//! Types that several kinds share.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The schema keyword that marks a field of a later release.
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

/// A reference to an object that may be in another namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespacedName {
    /// `metadata.name` of the object.
    pub name: String,
    /// `metadata.namespace` of the object. Defaults to the namespace of the referring resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A reference to an object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalName {
    /// `metadata.name` of the object.
    pub name: String,
}

/// A reference to one value of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretKeyRef {
    /// `metadata.name` of the Secret. `tamis serve` reads `<name>/<key>` below `--secrets`, or `TAMIS_SECRET_<NAME>_<KEY>`.
    pub name: String,
    /// The key in the Secret's data.
    pub key: String,
}

/// A reference to one key of a ConfigMap with the label `tamis.dev/document`, in the namespace of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigMapKeyRef {
    /// `metadata.name` of the ConfigMap.
    pub name: String,
    /// The key in `data` or `binaryData`. Its ending says how the document is written (`.json`, `.yaml`, `.graphql`), and whether it
    /// is compressed (`.zst` or `.gz` after that).
    pub key: String,
}

/// A number of bytes: a plain number, or one with `k`, `M`, `G`, `Ki`, `Mi` or `Gi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity(pub String);

impl Quantity {
    /// Returns the number of bytes, or `None` if the text is not a quantity or overflows.
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

/// The memory of a gateway, written as a [`Quantity`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(pub Quantity);

impl Memory {
    /// The smallest amount that a gateway can work with.
    pub const LEAST: u64 = 16 << 20;
    /// The largest amount that can be configured.
    pub const MOST: u64 = 1 << 40;

    /// Returns the number of bytes, or `None` if the text is not a quantity or out of bounds.
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

/// A count or a percentage: `1`, `25%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Share {
    /// A count.
    Number(u32),
    /// A percentage, with the sign.
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

/// A field that a later release will implement. No document can set it yet: the shape check rejects it by name, and so
/// does this type, because an ignored field could be one that was meant to protect data.
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
