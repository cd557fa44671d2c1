//! Converts documents of the seeds' formats into documents of Tamis. Files may use any of the formats; a cluster accepts only
//! the group `tamis.dev`.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::origin::Origin;
use crate::resources::{API_VERSION, DEFAULT_NAMESPACE, Resource, Resources};
use crate::yaml::Node;

/// Returns the resources as documents of Tamis that a cluster accepts, by kind and in the order of the files. Labels and
/// annotations are kept; comments and the spelling of fields are not.
///
/// `namespace` is set in documents that name none.
///
/// # Panics
/// Never: specs serialize to JSON without errors.
#[must_use]
pub fn import(resources: &Resources, namespace: Option<&str>) -> Vec<Value> {
    // Destructured, so that a new kind does not compile until it is converted here.
    let Resources {
        manifests,
        filters,
        expositions,
        groups,
        tools,
        plans,
        prompts,
        contents,
        unusable: _,
        apis: _,
        config_maps: _,
    } = resources;
    let mut documents = Vec::new();
    add(&mut documents, "GatewayGroup", groups, namespace);
    add(&mut documents, "ServiceManifest", manifests, namespace);
    add(&mut documents, "CustomTools", tools, namespace);
    add(&mut documents, "Prompts", prompts, namespace);
    add(&mut documents, "Resources", contents, namespace);
    add(&mut documents, "ToolsFilters", filters, namespace);
    add(&mut documents, "ConfigurationPlan", plans, namespace);
    add(&mut documents, "Exposition", expositions, namespace);
    documents
}

fn add<S: Serialize>(documents: &mut Vec<Value>, kind: &str, resources: &[Arc<Resource<S>>], namespace: Option<&str>) {
    for resource in resources {
        let Resource { name, unnamed: _, spec, origin } = &**resource;
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(name.name));
        let own = (name.namespace != DEFAULT_NAMESPACE).then_some(name.namespace.as_str());
        if let Some(namespace) = own.or(namespace) {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        for key in ["labels", "annotations"] {
            let texts = texts(origin, key);
            if !texts.is_empty() {
                metadata.insert(key.to_owned(), Value::Object(texts));
            }
        }
        let spec = serde_json::to_value(spec).expect("specs serialise");
        documents.push(json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec }));
    }
}

/// Returns the string members of a mapping in `metadata`.
fn texts(origin: &Origin, key: &str) -> Map<String, Value> {
    let entries = origin.tree.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Node::entries);
    let entries = entries.into_iter().flatten();
    entries.filter_map(|entry| Some((entry.key.to_string(), json!(entry.value.as_source()?)))).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Loaded, parse_document};

    use super::*;

    fn imported(text: &str, namespace: Option<&str>) -> Vec<Value> {
        let loaded = Loaded::of(vec![parse_document("github.yaml", text.as_bytes())]);
        assert!(loaded.diagnostics.iter().all(|d| !d.is_error()), "{:?}", loaded.diagnostics);
        import(&loaded.resources, namespace)
    }

    #[test]
    fn what_is_imported_says_the_same_and_can_be_read_again() {
        let flat = "apiVersion: reshapr.io/v1alpha1\nkind: ToolsOutputFilters\nservice: {name: g, version: '1'}\n\
                    filters: {get: {max_items: 2, drop_nulls: true}}\n";
        let wrapped = "apiVersion: reshapr.io/v1alpha1\nkind: Exposition\n\
                       metadata: {name: e, namespace: team-a, labels: {app: x}}\n\
                       spec: {service: {name: g, version: '1'}, filters: []}\n";
        let documents = imported(&format!("{flat}---\n{wrapped}"), Some("team-b"));
        let expected = [
            json!({"apiVersion": API_VERSION, "kind": "ToolsFilters",
                   "metadata": {"name": "github", "namespace": "team-b"},
                   "spec": {"service": {"name": "g", "version": "1"}, "enforcement": "Advisory",
                            "filters": {"get": {"maxItems": 2, "dropNulls": true}}}}),
            json!({"apiVersion": API_VERSION, "kind": "Exposition",
                   "metadata": {"name": "e", "namespace": "team-a", "labels": {"app": "x"}},
                   "spec": {"service": {"name": "g", "version": "1"}, "enforcement": "Advisory", "filters": []}}),
        ];
        assert_eq!(documents, expected);
        let again = crate::definitions::yaml(&documents);
        assert_eq!(imported(&again, None), documents, "{again}");
    }
}
