//! ConfigMaps in files: those with the label `tamis.dev/document`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tamis_config::names::DOCUMENT_LABEL;

use super::excerpt;
use crate::Diagnostic;
use crate::resources::{ConfigMap, ObjectName, Resources};
use crate::yaml::{Node, Resolved, Value};

/// The most bytes that a ConfigMap of a cluster holds.
pub const MAX_CONFIG_MAP_BYTES: usize = 1 << 20;

/// Returns whether a ConfigMap has the label.
pub(super) fn takes_part(document: &Node) -> bool {
    let labels = document.get("metadata").and_then(|metadata| metadata.get("labels"));
    labels.is_some_and(|labels| labels.get(DOCUMENT_LABEL).is_some())
}

/// Reads a ConfigMap. Reports what the API server would refuse.
pub(super) fn read(
    file: &Arc<str>,
    document: &Node,
    name: ObjectName,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<ConfigMap>> {
    let mut values: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let before = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    for field in ["data", "binaryData"] {
        let Some(data) = document.get(field) else { continue };
        if matches!(&data.value, Value::Scalar(scalar) if scalar.resolved == Resolved::Null) {
            continue;
        }
        let mut error = |node: &Node, field: String, message: String, remedy: &str| {
            diagnostics.push(Diagnostic::error(file, node.position, field, message, remedy));
        };
        let Some(entries) = data.entries() else {
            let message = format!("expected a mapping, found {}", data.describe());
            error(data, field.to_owned(), message, "write the documents by their keys");
            continue;
        };
        for entry in entries {
            let at = format!("{field}[{}]", serde_json::Value::from(&*entry.key));
            let text = match &entry.value.value {
                Value::Scalar(scalar) if scalar.resolved == Resolved::Text || !scalar.plain => &*scalar.source,
                _ => {
                    let message = format!("expected a text, found {}", entry.value.describe());
                    error(&entry.value, at, message, "write `|` and the text, or quote it");
                    continue;
                }
            };
            let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if entry.key.is_empty() || entry.key.len() > 253 || !entry.key.chars().all(is_key) {
                let message = format!("`{}` is not a key", excerpt(&entry.key));
                error(&entry.value, at, message, "use at most 253 of A-Z a-z 0-9 - _ .");
                continue;
            }
            let value = if field == "data" {
                text.as_bytes().to_vec()
            } else {
                let packed: String = text.split_ascii_whitespace().collect();
                match BASE64_STANDARD.decode(packed) {
                    Ok(value) => value,
                    Err(_) => {
                        let remedy = "encode it with `base64`, or use `kubectl create configmap --from-file`";
                        error(&entry.value, at, "is not base64".to_owned(), remedy);
                        continue;
                    }
                }
            };
            if values.insert(entry.key.to_string(), value).is_some() {
                error(&entry.value, at, "is in `data` too".to_owned(), "remove one of them");
            }
        }
    }
    let bytes: usize = values.values().map(Vec::len).sum();
    if bytes > MAX_CONFIG_MAP_BYTES {
        let message = format!("has {bytes} bytes, more than the {MAX_CONFIG_MAP_BYTES} that a cluster accepts");
        let remedy = "compress the document, or prune it with `tamis import`";
        diagnostics.push(Diagnostic::error(file, document.position, "data", message, remedy));
    }
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    (errors == before).then(|| Arc::new(ConfigMap::new(name, values).at(file, document.position)))
}

/// Returns a notice for each ConfigMap in files that no manifest names, and an error for each that is there twice.
pub(crate) fn notices(resources: &Resources) -> Vec<Diagnostic> {
    let mut seen: BTreeMap<&ObjectName, &Arc<ConfigMap>> = BTreeMap::new();
    let mut notices = Vec::new();
    for map in &resources.config_maps {
        let Some((file, position)) = &map.place else { continue };
        if seen.insert(&map.name, map).is_some() {
            let message = format!("ConfigMap {} is already defined, and the first one counts", map.name);
            notices.push(Diagnostic::warning(
                file,
                *position,
                "metadata.name",
                message,
                "rename or remove one of them",
            ));
            continue;
        }
        let mut named = resources.manifests.iter().filter(|manifest| manifest.name.namespace == map.name.namespace);
        if !named.any(|manifest| manifest.spec.config_maps().any(|named| named.name == map.name.name)) {
            let key = map.keys().next().unwrap_or("KEY");
            let remedy = format!(
                "write a ServiceManifest with `openapi: {{configMapRef: {{name: {}, key: {key}}}}}`, `graphql` or `grpc`; or remove \
                 the label",
                map.name.name
            );
            let message = format!("no ServiceManifest names the ConfigMap, which has the label {DOCUMENT_LABEL}");
            notices.push(Diagnostic::warning(file, *position, "", message, remedy));
        }
    }
    notices
}
