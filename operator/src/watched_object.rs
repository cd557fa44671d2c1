//! Objects as watches deliver them, with large specs compressed.

use std::ops::Deref;
use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::Value;

/// From this length on, only the compressed `spec` of an object is kept: the parsed form takes six times the bytes, and
/// most large objects are not used most of the time.
const LARGE: usize = 64 << 10;
/// A fast level, whose result is within a few percent of the smallest.
const ZSTD_LEVEL: i32 = 3;

/// The `spec` of a large object, compressed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    zstd: Vec<u8>,
    bytes: usize,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({} bytes)", self.zstd.len())
    }
}

impl Packed {
    /// Compresses a large `spec`. Returns `None` for a small one.
    pub(crate) fn of(spec: &Value) -> Option<Arc<Self>> {
        let json = serde_json::to_vec(spec).ok().filter(|json| json.len() >= LARGE)?;
        let zstd = zstd::bulk::compress(&json, ZSTD_LEVEL).ok()?;
        Some(Arc::new(Self { zstd, bytes: json.len() }))
    }

    /// Decompresses the `spec`.
    pub(crate) fn spec(&self) -> Option<Value> {
        let json = zstd::bulk::decompress(&self.zstd, self.bytes).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// Returns the length of the `spec` as JSON, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An object as a watch delivers it. A large `spec` is taken out and compressed as soon as it has arrived: many of them
/// wait to be read, in a list and while the operator is busy.
#[derive(Debug, Clone)]
pub(crate) struct WatchedObject {
    object: DynamicObject,
    packed: Option<Arc<Packed>>,
}

impl WatchedObject {
    /// Wraps an object without changing it.
    pub(crate) fn whole(object: DynamicObject) -> Self {
        Self { object, packed: None }
    }

    /// Wraps an object, and compresses its `spec` if it is large. Other fields next to `spec` and `status` keep their
    /// names and lose their values: their presence makes the object unusable, whatever they contain.
    pub(crate) fn packed(mut object: DynamicObject) -> Self {
        let packed = object.data.get("spec").and_then(Packed::of);
        for (field, value) in object.data.as_object_mut().into_iter().flatten() {
            match field.as_str() {
                "status" => {}
                "spec" if packed.is_none() => {}
                _ => *value = Value::Null,
            }
        }
        Self { object, packed }
    }

    /// Returns the compressed `spec`, if it was taken out.
    pub(crate) fn spec(&self) -> Option<&Arc<Packed>> {
        self.packed.as_ref()
    }
}

impl Deref for WatchedObject {
    type Target = DynamicObject;

    fn deref(&self) -> &DynamicObject {
        &self.object
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ApiResource;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_spec_is_held_compressed_and_nothing_else_is_touched() {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
        };
        for (length, is_packed) in [(0, false), (LARGE - 20, false), (LARGE, true), (1_000_000, true)] {
            let data = json!({"spec": {"text": "x".repeat(length)}, "status": {"tools": 1}, "stray": [7]});
            let object = DynamicObject::new("a", &resource).data(data.clone());
            let watched = WatchedObject::packed(object.clone());
            assert_eq!(watched.spec().is_some(), is_packed, "{length}");
            assert_eq!((&watched.data["status"], watched.data.get("stray")), (&data["status"], Some(&Value::Null)));
            let spec = watched.spec().and_then(|packed| packed.spec());
            assert_eq!(spec.as_ref().or(watched.data.get("spec")), data.get("spec"), "{length}");
            if let Some(packed) = watched.spec() {
                assert_eq!(packed.bytes(), data["spec"].to_string().len());
                assert!(watched.data["spec"].is_null() && packed.zstd.len() < length / 10);
            }
            assert!(WatchedObject::whole(object).spec().is_none());
        }
    }
}
