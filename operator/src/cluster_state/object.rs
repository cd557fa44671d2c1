//! One object that people wrote, read.

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::Value;
use tamis_config::names;
use tamis_crds::resources::{Resources, ServiceRef};
use tamis_crds::yaml::Position;
use tamis_crds::{Diagnostic, ObjectName, Unusable, read_object};

use crate::object::{Kind, ObjectKey};
use crate::quota::{Exceeded, QUOTA_EXCEEDED};
use crate::watched_object::Packed;

/// A service as others bind to it, in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServiceKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl ServiceKey {
    pub(crate) fn new(namespace: &str, service: &ServiceRef) -> Self {
        Self { namespace: namespace.to_owned(), name: service.name.clone(), version: service.version.clone() }
    }
}

/// An object of one of our kinds.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    /// When it was created, as RFC 3339 text: sorts by time.
    pub(crate) created: String,
    /// Somebody wants nothing new to come of it.
    pub(crate) paused: bool,
    /// Somebody has asked for its deletion.
    pub(crate) deleting: bool,
    /// What it says: one resource, or what makes it unusable. Of a large one only what binds it to others: see
    /// [`Object::whole`].
    pub(crate) resources: Resources,
    /// The `spec` of a large one.
    packed: Option<Arc<Packed>>,
    /// Bytes of its `spec` as JSON.
    pub(crate) bytes: usize,
    /// What is wrong with its shape.
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) status: Option<Arc<Value>>,
    /// Whether it names a Secret: the Secrets of its namespace are then watched.
    pub(crate) names_secrets: bool,
    /// Whether its namespace has no room for it: it is then unusable, and nothing of it is held.
    pub(crate) refused: bool,
}

impl Object {
    /// Reads an object of the API, whose `spec` is `packed` or in the object. `before`: the same object as it was known; an
    /// unchanged spec is not read again.
    pub(crate) fn read(
        kind: Kind,
        object: &DynamicObject,
        packed: Option<&Arc<Packed>>,
        before: Option<&Self>,
    ) -> Option<Self> {
        let metadata = &object.metadata;
        let name =
            ObjectName { namespace: metadata.namespace.clone().unwrap_or_default(), name: metadata.name.clone()? };
        let uid = metadata.uid.clone().unwrap_or_default();
        let generation = metadata.generation.unwrap_or_default();
        let same = before.filter(|b| b.uid == uid && b.generation == generation && !b.refused);
        let same =
            same.map(|b| (b.resources.clone(), b.diagnostics.clone(), b.packed.clone(), b.bytes, b.names_secrets));
        let (resources, diagnostics, packed, bytes, names_secrets) = same.unwrap_or_else(|| {
            let unpacked = packed.and_then(|packed| packed.spec());
            let spec = unpacked.as_ref().or(object.data.get("spec")).unwrap_or(&Value::Null);
            // What a group names is mounted into its pods, and never read here.
            let names_secrets = kind != Kind::GatewayGroup && names_secrets(spec);
            let mut written = bare(kind, &name, spec);
            // Fields next to `spec`, which the kind does not have: `enforcement` in the wrong place protects nothing.
            for (field, value) in object.data.as_object().into_iter().flatten() {
                if field != "spec" && field != "status" {
                    written[field] = value.clone();
                }
            }
            let read = read_object(&written);
            let large = kind.is_large() && read.resources.unusable.is_empty();
            let packed = if large { packed.cloned().or_else(|| Packed::of(spec)) } else { None };
            let bytes = packed.as_ref().map_or_else(|| spec.to_string().len(), |packed| packed.bytes());
            let resources = if packed.is_some() { read.resources.heads() } else { read.resources };
            (resources, read.diagnostics, packed, bytes, names_secrets)
        });
        Some(Self {
            key: ObjectKey { kind, name },
            uid,
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            generation,
            created: metadata.creation_timestamp.as_ref().map(|t| t.0.to_string()).unwrap_or_default(),
            paused: is_paused(metadata.annotations.as_ref()),
            deleting: metadata.deletion_timestamp.is_some(),
            resources,
            packed,
            bytes,
            diagnostics,
            status: object.data.get("status").cloned().map(Arc::new),
            names_secrets,
            refused: false,
        })
    }

    /// The object, of which nothing is held but what binds it to others. It is unusable, not absent: what relies on it keeps
    /// what it had, or stops.
    pub(crate) fn refuse(self, exceeded: Exceeded) -> Self {
        let file: Arc<str> = self.key.to_string().into();
        let service = match self.services().pop() {
            Some(ServiceKey { namespace: _, name, version }) => Some(ServiceRef { name, version }),
            None => self.resources.unusable.first().and_then(|unusable| unusable.service.clone()),
        };
        let unusable = Unusable {
            kind: Some(self.key.kind.as_str().to_owned()),
            name: Some(self.key.name.clone()),
            service,
            set: self.resources.filters.first().and_then(|set| set.spec.name.clone()),
            file: Arc::clone(&file),
            message: exceeded.to_string(),
        };
        let diagnostic = Diagnostic::error(&file, Position::START, "", exceeded.what(), exceeded.remedy());
        Self {
            resources: Resources { unusable: vec![Arc::new(unusable)], ..Resources::default() },
            packed: None,
            bytes: 0,
            diagnostics: vec![diagnostic.because(QUOTA_EXCEEDED)],
            refused: true,
            ..self
        }
    }

    /// Whether [`Object::resources`] is not all that it says.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// All that it says. Reads a large one again: what is needed often should be kept for a while.
    pub(crate) fn whole(&self) -> Resources {
        let Some(packed) = &self.packed else { return self.resources.clone() };
        match packed.spec() {
            Some(spec) => read_object(&bare(self.key.kind, &self.key.name, &spec)).resources,
            // It was compressed here and has not left memory since.
            None => self.resources.clone(),
        }
    }

    /// The services that it is, binds to or publishes.
    pub(crate) fn services(&self) -> Vec<ServiceKey> {
        let namespace = &self.key.name.namespace;
        let resources = &self.resources;
        // One that cannot be read is served as before: it is looked at with the service that it seems to publish, or, where
        // not even that is known, with none.
        let unusable = resources.unusable.first().filter(|_| self.key.kind == Kind::Exposition);
        let unusable = unusable.map(|unusable| match &unusable.service {
            Some(service) => ServiceKey::new(namespace, service),
            None => ServiceKey { namespace: namespace.clone(), name: String::new(), version: String::new() },
        });
        let manifests = resources.manifests.iter().map(|manifest| ServiceKey {
            namespace: namespace.clone(),
            name: manifest.spec.name.clone().unwrap_or_else(|| manifest.name.name.clone()),
            version: manifest.spec.version.clone(),
        });
        let bound = resources.filters.iter().map(|r| &r.spec.service);
        let bound = bound.chain(resources.tools.iter().map(|r| &r.spec.service));
        let bound = bound.chain(resources.expositions.iter().map(|r| &r.spec.service));
        manifests.chain(bound.map(|service| ServiceKey::new(namespace, service))).chain(unusable).collect()
    }

    /// The Secret with the callers' keys of an exposition.
    pub(crate) fn callers(&self) -> Option<&str> {
        let access = self.resources.expositions.first()?.spec.access.as_ref()?;
        Some(&access.api_keys.as_ref()?.secret_ref.name)
    }

    /// Whether it cannot be read.
    pub(crate) fn is_unusable(&self) -> bool {
        !self.resources.unusable.is_empty()
    }

    /// The older one wins where two say the same; names decide between equals.
    pub(crate) fn age(&self) -> (&str, &ObjectName) {
        (&self.created, &self.key.name)
    }
}

fn is_paused(annotations: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    annotations.and_then(|annotations| annotations.get(names::PAUSED_ANNOTATION)).is_some_and(|text| text == "true")
}

/// What the reader looks at, without status and the managed fields.
fn bare(kind: Kind, name: &ObjectName, spec: &Value) -> Value {
    serde_json::json!({
        "apiVersion": tamis_crds::resources::API_VERSION,
        "kind": kind.as_str(),
        "metadata": {"namespace": name.namespace, "name": name.name},
        "spec": spec,
    })
}

fn names_secrets(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| key == "secretRef" || names_secrets(value)),
        Value::Array(items) => items.iter().any(names_secrets),
        _ => false,
    }
}

/// Whether an object was written by an operator of ours.
pub(crate) fn is_managed(labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    labels.and_then(|labels| labels.get("app.kubernetes.io/managed-by")).is_some_and(|by| by == names::MANAGED_BY)
}
