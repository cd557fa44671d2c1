//! `--config-map`: writes documents into a ConfigMap, as a cluster takes them.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tamis_config::names::DOCUMENT_LABEL;
use tamis_crds::{MAX_CONFIG_MAP_BYTES, parse_document};

use super::api;
use super::tree::Tree;

/// The bytes of JSON from which on documents are compressed: `kubectl apply` stores the object once more, in an annotation of at
/// most 256 KiB.
const PLAIN: usize = 240 << 10;
/// The level with the smallest result that takes a document of 64 MiB a minute at most.
const ZSTD_LEVEL: i32 = 19;

/// A ConfigMap that holds the documents of an import.
pub(super) struct ConfigMap {
    name: String,
    /// The key of each document, in their order.
    keys: Vec<String>,
    /// The ConfigMap as YAML.
    pub(super) yaml: String,
    /// Whether `kubectl apply` takes it only with `--server-side`.
    pub(super) is_large: bool,
}

impl ConfigMap {
    /// Creates the ConfigMap of some documents, each with its key.
    ///
    /// # Errors
    /// The documents do not fit, even compressed.
    pub(super) fn of(name: &str, documents: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        let texts: Option<Vec<(&str, &str)>> = documents
            .iter()
            .map(|(key, bytes)| std::str::from_utf8(bytes).ok().map(|text| (*key, text.trim_end_matches('\n'))))
            .collect();
        let size = |text: &str| serde_json::Value::from(text).to_string().len();
        let plain = texts.filter(|texts| texts.iter().map(|(_, text)| size(text)).sum::<usize>() <= PLAIN);
        let (keys, field, values, is_large) = match plain {
            Some(texts) => {
                let values = texts.iter().map(|(key, text)| ((*key).to_owned(), Tree::text(*text))).collect();
                (texts.iter().map(|(key, _)| (*key).to_owned()).collect(), "data", values, false)
            }
            None => {
                let (mut keys, mut values, mut bytes, mut encoded) = (Vec::new(), Vec::new(), 0, 0);
                for (key, document) in documents {
                    let packed = zstd::bulk::compress(document, ZSTD_LEVEL)?;
                    let text = BASE64_STANDARD.encode(&packed);
                    (bytes, encoded) = (bytes + packed.len(), encoded + text.len());
                    keys.push(format!("{key}.zst"));
                    values.push((format!("{key}.zst"), Tree::text(text)));
                }
                if bytes > MAX_CONFIG_MAP_BYTES {
                    bail!(
                        "a ConfigMap holds {MAX_CONFIG_MAP_BYTES} bytes, and the documents have {bytes} compressed; choose fewer with \
                         --include, and write a manifest for each part"
                    );
                }
                (keys, "binaryData", values, encoded > PLAIN)
            }
        };
        let labels = Tree::map([(DOCUMENT_LABEL, Tree::text("true"))]);
        let yaml = Tree::map([
            ("apiVersion", Tree::text("v1")),
            ("kind", Tree::text("ConfigMap")),
            ("metadata", Tree::map([("name", Tree::text(name)), ("labels", labels)])),
            (field, Tree::Map(values)),
        ]);
        Ok(Self { name: name.to_owned(), keys, yaml: yaml.to_yaml(0), is_large })
    }

    /// Returns the reference to a document, by its number.
    pub(super) fn reference(&self, number: usize) -> Tree {
        let key = self.keys.get(number).map_or("", String::as_str);
        Tree::map([("name", Tree::text(&self.name)), ("key", Tree::text(key))])
    }
}

/// Returns the ConfigMap in a file.
fn written(file: &Path) -> Option<Arc<tamis_crds::resources::ConfigMap>> {
    let parsed = parse_document(&file.to_string_lossy(), &api::read(file).ok()?);
    parsed.resources.config_maps.first().cloned()
}

/// Returns all documents in a file that [`ConfigMap::of`] has made, by their names.
pub(super) fn documents(file: &Path) -> Option<Vec<(String, Vec<u8>)>> {
    let map = written(file)?;
    map.keys()
        .map(|key| {
            let name = key.strip_suffix(".zst").unwrap_or(key).to_owned();
            Some((name, map.document(key)?.ok()?.into_owned()))
        })
        .collect()
}

/// Returns the document of a key, compressed or not, in a file that [`ConfigMap::of`] has made.
pub(super) fn document(file: &Path, key: &str) -> Option<Vec<u8>> {
    let map = written(file)?;
    let packed = format!("{key}.zst");
    let found = map.document(key).or_else(|| map.document(&packed))?;
    Some(found.ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(yaml: &str) -> Option<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), yaml).expect("writes");
        document(file.path(), "a.json")
    }

    /// Text that no compression makes smaller than three quarters.
    fn noise(bytes: usize) -> String {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..bytes).map(|_| char::from(letters[usize::try_from(next() % 64).expect("is small")])).collect()
    }

    #[test]
    fn a_document_is_compressed_if_it_must_be_and_refused_if_it_does_not_fit() {
        let long = "x".repeat(PLAIN);
        for (text, key, is_large) in [
            ("{}".to_owned(), "a.json", false),
            ("{\n  \"a\": \"b\"\n}\n".to_owned(), "a.json", false),
            (long, "a.json.zst", false),
            (noise(600 << 10), "a.json.zst", true),
        ] {
            let map = ConfigMap::of("api", &[("a.json", text.as_bytes())]).expect("fits");
            assert_eq!(map.reference(0).get("key").and_then(Tree::as_text), Some(key));
            assert_eq!(map.is_large, is_large);
            let read = written(&map.yaml).expect("can be read again");
            assert_eq!(String::from_utf8(read).expect("text").trim_end(), text.trim_end());
        }
        let refused =
            ConfigMap::of("api", &[("a.json", noise(3 << 20).as_bytes())]).err().expect("too large").to_string();
        assert!(refused.starts_with("a ConfigMap holds 1048576 bytes, and the documents have "), "{refused}");
    }

    #[test]
    fn a_small_document_can_be_reviewed() {
        let map = ConfigMap::of("api", &[("a.json", b"{\n  \"a\": 1\n}\n"), ("b.graphql", b"type Query { a: Int }\n")]);
        let yaml = map.expect("fits").yaml;
        let expected = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: api\n  labels:\n    tamis.dev/document: \"true\"\ndata:\n  \
                        a.json: |-\n    {\n      \"a\": 1\n    }\n  b.graphql: \"type Query { a: Int }\"\n";
        assert_eq!(yaml, expected);
    }
}
