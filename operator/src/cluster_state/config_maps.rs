//! ConfigMaps with the label `tamis.dev/document`, whose keys manifests name as documents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap as Object;
use tamis_config::names;
use tamis_crds::ObjectName;
use tamis_crds::cluster::ConfigMapState;
use tamis_crds::resources::ConfigMap;

/// What is kept of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    Held(Arc<ConfigMap>),
    /// A quota refuses it: which one.
    Refused(String),
}

/// The known ConfigMaps of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct ConfigMapStore {
    known: HashMap<ObjectName, Known>,
    /// Namespaces whose ConfigMaps are known.
    listed: BTreeSet<String>,
    /// Namespaces whose ConfigMaps the operator may not read.
    forbidden: BTreeSet<String>,
}

/// Reads a ConfigMap. Returns `None` for one without the label, which takes no part whatever the watch delivers.
pub(super) fn read(name: &ObjectName, object: Object) -> Option<ConfigMap> {
    object.metadata.labels.as_ref()?.get(names::DOCUMENT_LABEL)?;
    let texts = object.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
    let bytes = object.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0));
    Some(ConfigMap::new(name.clone(), texts.chain(bytes)))
}

impl ConfigMapStore {
    /// Stores a ConfigMap. Returns whether its content has changed.
    pub(super) fn put(&mut self, map: ConfigMap) -> bool {
        let name = map.name.clone();
        let held = Known::Held(Arc::new(map));
        self.known.insert(name, held.clone()) != Some(held)
    }

    /// Stores that a quota refuses a ConfigMap. Returns whether that is new.
    pub(super) fn refuse(&mut self, name: ObjectName, message: String) -> bool {
        let refused = Known::Refused(message);
        self.known.insert(name, refused.clone()) != Some(refused)
    }

    /// Removes a ConfigMap. Returns whether it was known.
    pub(super) fn remove(&mut self, name: &ObjectName) -> bool {
        self.known.remove(name).is_some()
    }

    /// Returns the bytes that are kept of a ConfigMap.
    pub(super) fn bytes(&self, name: &ObjectName) -> usize {
        match self.known.get(name) {
            Some(Known::Held(map)) => map.bytes(),
            Some(Known::Refused(_)) | None => 0,
        }
    }

    /// Returns the names of all known ConfigMaps of a namespace.
    pub(super) fn names(&self, namespace: &str) -> Vec<ObjectName> {
        self.known.keys().filter(|name| name.namespace == namespace).cloned().collect()
    }

    /// Records that the ConfigMaps of a namespace are known. Returns whether the operator could not read them before.
    pub(super) fn permit(&mut self, namespace: &str) -> bool {
        self.listed.insert(namespace.to_owned());
        self.forbidden.remove(namespace)
    }

    /// Records that the operator may not read the ConfigMaps of a namespace. Returns whether that is new.
    pub(super) fn forbid(&mut self, namespace: &str) -> bool {
        self.listed.remove(namespace);
        self.forbidden.insert(namespace.to_owned())
    }

    /// Forgets whether the ConfigMaps of a namespace are known.
    pub(super) fn forget(&mut self, namespace: &str) {
        self.listed.remove(namespace);
        self.forbidden.remove(namespace);
    }

    /// Returns whether it is known which ConfigMaps a namespace has, or that they cannot be read.
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.listed.contains(namespace) || self.forbidden.contains(namespace)
    }

    /// Returns the state of a ConfigMap for the compiler.
    pub(crate) fn state(&self, name: &ObjectName) -> ConfigMapState {
        match self.known.get(name) {
            Some(Known::Held(map)) => ConfigMapState::Found(Arc::clone(map)),
            Some(Known::Refused(message)) => ConfigMapState::Refused(message.clone()),
            None if self.forbidden.contains(&name.namespace) => ConfigMapState::Forbidden,
            None => ConfigMapState::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster_state::fixture::name;

    fn map(text: &str) -> ConfigMap {
        ConfigMap::new(name("api"), [("a.yaml".to_owned(), text.as_bytes().to_vec())])
    }

    #[test]
    fn only_labelled_config_maps_are_read() {
        let object = |labels: serde_json::Value| -> Object {
            let data = json!({"metadata": {"labels": labels}, "data": {"a.yaml": "a"}, "binaryData": {"b.gz": "Yg=="}});
            serde_json::from_value(data).expect("is a ConfigMap")
        };
        for labels in [json!(null), json!({}), json!({"tamis.dev/documents": "true"})] {
            assert_eq!(read(&name("api"), object(labels)), None);
        }
        for value in ["true", ""] {
            let read = read(&name("api"), object(json!({(names::DOCUMENT_LABEL): value}))).expect("takes part");
            assert_eq!(read.keys().collect::<Vec<_>>(), ["a.yaml", "b.gz"]);
            assert_eq!(read.document("a.yaml").expect("is there").expect("is text"), &b"a"[..]);
        }
    }

    #[test]
    fn a_change_is_one_of_the_content() {
        let mut store = ConfigMapStore::default();
        assert!(!store.knows("team"));
        assert!(!store.permit("team") && store.knows("team"));
        assert_eq!(store.state(&name("api")), ConfigMapState::Missing);
        assert!(store.put(map("a")) && !store.put(map("a")) && store.put(map("b")));
        assert_eq!(store.state(&name("api")), ConfigMapState::Found(Arc::new(map("b"))));
        assert_eq!(store.bytes(&name("api")), "a.yaml".len() + 1);
        assert!(store.refuse(name("api"), "full".to_owned()) && !store.refuse(name("api"), "full".to_owned()));
        assert_eq!(store.state(&name("api")), ConfigMapState::Refused("full".to_owned()));
        assert!(store.remove(&name("api")) && !store.remove(&name("api")));
        assert!(store.forbid("team") && !store.forbid("team") && store.knows("team"));
        assert_eq!(store.state(&name("api")), ConfigMapState::Forbidden);
        assert!(store.permit("team"));
    }
}
