//! Identifies a document as far as possible without parsing all of it: a broken document is not an absent one.

use std::sync::Arc;

use super::kimbap;
use crate::resources::{COMMON_WORDS, DEFAULT_NAMESPACE, GROUPS, KINDS, ObjectName, ServiceRef, Unusable};
use crate::yaml::{Node, Resolved, Value};

/// Returns the kind, name and service of a document, or `None` for a list and for documents of other products.
pub(super) fn head(file: &Arc<str>, document: &Node) -> Option<Unusable> {
    let entries = document.entries();
    let version = document.get("apiVersion").and_then(Node::as_source);
    let kind = document.get("kind").and_then(Node::as_source);
    let ours = |kind: &str| {
        kind == OTHER_NAME || KINDS.iter().any(|(known, _)| *known == kind && !COMMON_WORDS.contains(known))
    };
    match (version, kind) {
        (Some("v1"), Some("List")) => return None,
        (Some(version), Some(kind)) if !ours(kind) && !GROUPS.iter().any(|group| version.starts_with(group)) => {
            return None;
        }
        _ => {}
    }
    let is_kimbap = version.is_none() && kind.is_none() && entries.is_some_and(kimbap::is_manifest);
    let kind = match kind {
        None if is_kimbap => Some("ServiceManifest"),
        Some(OTHER_NAME) => Some("ToolsFilters"),
        kind => kind,
    };
    // The seed documents' own formats have no `spec`.
    let spec = document.get("spec").unwrap_or(document);
    let name = name(document);
    let service = match kind {
        Some("ServiceManifest") => manifest(document, spec),
        Some("ToolsFilters" | "CustomTools" | "Prompts" | "Resources" | "Exposition") => {
            spec.get("service").and_then(service)
        }
        _ => None,
    };
    let set = if kind == Some("ToolsFilters") { spec.get("name").and_then(text) } else { None };
    Some(Unusable {
        kind: kind.map(str::to_owned),
        name,
        service,
        set: set.map(str::to_owned),
        file: Arc::clone(file),
        message: String::new(),
    })
}

/// reShapr's later name of ToolsFilters.
const OTHER_NAME: &str = "ToolsOutputFilters";

/// Returns the name. A document without `metadata` that names nothing may be any document of its namespace.
fn name(document: &Node) -> Option<ObjectName> {
    let metadata = document.get("metadata")?;
    let name = metadata.get("name").and_then(text)?.to_owned();
    let namespace = match metadata.get("namespace") {
        None => DEFAULT_NAMESPACE.to_owned(),
        Some(namespace) => text(namespace)?.to_owned(),
    };
    Some(ObjectName { namespace, name })
}

fn manifest(document: &Node, spec: &Node) -> Option<ServiceRef> {
    let name = spec.get("name").or_else(|| document.get("metadata")?.get("name"));
    Some(ServiceRef { name: text(name?)?.to_owned(), version: text(spec.get("version")?)?.to_owned() })
}

fn service(node: &Node) -> Option<ServiceRef> {
    Some(ServiceRef { name: text(node.get("name")?)?.to_owned(), version: text(node.get("version")?)?.to_owned() })
}

/// Returns a string, or a scalar that is accepted as one with a warning.
fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) if !matches!(scalar.resolved, Resolved::Null | Resolved::Bool(_)) => {
            Some(&scalar.source).filter(|source| !source.is_empty()).map(|source| &**source)
        }
        _ => None,
    }
}
