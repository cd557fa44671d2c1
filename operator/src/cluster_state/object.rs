//! Objects that users write, parsed.

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::Value;
use tamis_config::{Reason, names};
use tamis_crds::resources::{Published, Resources, ServiceRef};
use tamis_crds::yaml::Position;
use tamis_crds::{Diagnostic, ObjectName, Unusable, read_object};

use crate::object::{Kind, ObjectKey};
use crate::quota::Exceeded;
use crate::watched_object::Packed;

/// A service, as other objects of its namespace bind to it.
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

    /// Returns the key under which the bundles of a namespace are planned. No service has an empty name.
    pub(crate) fn bundles(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: String::new(), version: String::new() }
    }
}

/// An object of one of Tamis' kinds.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    /// The time of creation as RFC 3339 text, which sorts by time.
    pub(crate) created: String,
    /// Whether the annotation pauses the object.
    pub(crate) paused: bool,
    /// Whether the object is being deleted.
    pub(crate) deleting: bool,
    /// The parsed content: one resource, or an entry that says why the object is unusable. For a large object only the
    /// part that binds it to others: see [`Object::whole`].
    pub(crate) resources: Resources,
    /// The `spec` of a large object.
    packed: Option<Arc<Packed>>,
    /// The length of the `spec` as JSON, in bytes.
    pub(crate) bytes: usize,
    /// The problems of the object's shape.
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) status: Option<Arc<Value>>,
    /// Whether the object names a Secret: the Secrets of its namespace are then watched.
    pub(crate) names_secrets: bool,
    /// Whether the namespace's quota of source bytes refuses the object: it is then unusable, and its content is not
    /// kept.
    pub(crate) refused: bool,
}

impl Object {
    /// Parses an object from the API, whose `spec` is `packed` or in the object. `before`: the known version of the
    /// object; an unchanged spec is not parsed again.
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
            // The Secrets that a group names are mounted into its pods, and the operator never reads them.
            let names_secrets = kind != Kind::GatewayGroup && names_secrets(spec);
            let mut written = bare(kind, &name, spec);
            // Unknown fields next to `spec` are kept so that they are rejected: `enforcement` in the wrong place
            // protects nothing.
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

    /// Drops the content of the object except for the part that binds it to others. The object is then unusable, not
    /// absent: expositions that rely on it keep the last known good state, or stop.
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
            diagnostics: vec![diagnostic.because(Reason::QuotaExceeded)],
            refused: true,
            ..self
        }
    }

    /// Returns whether [`Object::resources`] is only a part of the content.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Returns the whole content. Parses a large object again, so callers that need it often should keep it for a
    /// while.
    pub(crate) fn whole(&self) -> Resources {
        let Some(packed) = &self.packed else { return self.resources.clone() };
        match packed.spec() {
            Some(spec) => read_object(&bare(self.key.kind, &self.key.name, &spec)).resources,
            // Unreachable: the operator compressed it, and it has not left memory since.
            None => self.resources.clone(),
        }
    }

    /// Returns the services that the object describes, binds to or publishes.
    pub(crate) fn services(&self) -> Vec<ServiceKey> {
        let namespace = &self.key.name.namespace;
        let resources = &self.resources;
        // An unreadable exposition is served as before: it is planned with the service that it seems to publish, or
        // with the bundles if not even that is known.
        let unusable = resources.unusable.first().filter(|_| self.key.kind == Kind::Exposition);
        let unusable = unusable.map(|unusable| match &unusable.service {
            Some(service) => ServiceKey::new(namespace, service),
            None => ServiceKey::bundles(namespace),
        });
        let manifests = resources.manifests.iter().map(|manifest| ServiceKey {
            namespace: namespace.clone(),
            name: manifest.spec.name.clone().unwrap_or_else(|| manifest.name.name.clone()),
            version: manifest.spec.version.clone(),
        });
        let bound = resources.filters.iter().map(|r| &r.spec.service);
        let bound = bound.chain(resources.tools.iter().map(|r| &r.spec.service));
        let bound = bound.chain(resources.prompts.iter().map(|r| &r.spec.service));
        let bound = bound.chain(resources.contents.iter().map(|r| &r.spec.service));
        let bound = bound.chain(resources.expositions.iter().filter_map(|r| r.spec.of_service()));
        let bundles = resources.expositions.iter().filter(|r| r.spec.of_service().is_none());
        let bundles = bundles.map(|_| ServiceKey::bundles(namespace));
        let bound = bound.map(|service| ServiceKey::new(namespace, service));
        manifests.chain(bound).chain(bundles).chain(unusable).collect()
    }

    /// Returns the expositions that a bundle names.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ObjectName> {
        let bundles = self.resources.expositions.iter().flat_map(|resource| match resource.spec.published() {
            Published::Bundle(parts) => parts,
            Published::Service(_) => &[],
        });
        let namespace = &self.key.name.namespace;
        bundles.map(|part| ObjectName { namespace: namespace.clone(), name: part.name.clone() })
    }

    /// Returns the ConfigMaps that a manifest names.
    pub(crate) fn config_maps(&self) -> impl Iterator<Item = ObjectName> {
        let named = self.resources.manifests.iter().flat_map(|manifest| manifest.spec.config_maps());
        let namespace = &self.key.name.namespace;
        named.map(|named| ObjectName { namespace: namespace.clone(), name: named.name.clone() })
    }

    /// Returns the Secret with the callers' keys of an exposition.
    pub(crate) fn callers(&self) -> Option<&str> {
        let access = self.resources.expositions.first()?.spec.access.as_ref()?;
        Some(&access.api_keys.as_ref()?.secret_ref.name)
    }

    /// Returns whether the object is unreadable, or refused by a quota.
    pub(crate) fn is_unusable(&self) -> bool {
        !self.resources.unusable.is_empty()
    }

    /// Returns the key by which the older of two conflicting objects wins. The name decides between objects of the same
    /// age.
    pub(crate) fn age(&self) -> (&str, &ObjectName) {
        (&self.created, &self.key.name)
    }
}

fn is_paused(annotations: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    annotations.and_then(|annotations| annotations.get(names::PAUSED_ANNOTATION)).is_some_and(|text| text == "true")
}

/// Builds the document that is parsed, without status and metadata other than the name.
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

/// Returns whether a Tamis operator wrote an object, by its labels.
pub(crate) fn is_managed(labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    labels.and_then(|labels| labels.get("app.kubernetes.io/managed-by")).is_some_and(|by| by == names::MANAGED_BY)
}
