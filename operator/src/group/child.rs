//! The objects that belong to a group.

use std::fmt;

use kube::core::ApiResource;
use kube::core::gvk::GroupVersionKind;
use serde_json::{Map, Value, json};
use tamis_config::names;
use tamis_crds::resources::API_VERSION;

use super::GroupInput;

/// The kinds of a group's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChildKind {
    /// The gateways' identity at the API server.
    ServiceAccount,
    /// The right to read their own configuration.
    Role,
    /// Grants the Role to the ServiceAccount.
    RoleBinding,
    /// Limits the connections to and from the gateways.
    NetworkPolicy,
    /// The address that clients call.
    Service,
    /// The gateways.
    Deployment,
    /// Limits how many gateways may be evicted at once.
    PodDisruptionBudget,
    /// Scales the number of gateways with the load.
    HorizontalPodAutoscaler,
}

impl ChildKind {
    /// All kinds, in the order in which they are written: the objects that a pod needs come before the Deployment.
    pub const ALL: [Self; 8] = [
        Self::ServiceAccount,
        Self::Role,
        Self::RoleBinding,
        Self::NetworkPolicy,
        Self::Service,
        Self::Deployment,
        Self::PodDisruptionBudget,
        Self::HorizontalPodAutoscaler,
    ];

    /// Returns the value of the field `kind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.names().2
    }

    /// Returns the API resource of the kind.
    #[must_use]
    pub fn api_resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.names();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
            Self::Role => ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
            Self::RoleBinding => ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
            Self::NetworkPolicy => ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
            Self::Service => ("", "v1", "Service", "services"),
            Self::Deployment => ("apps", "v1", "Deployment", "deployments"),
            Self::PodDisruptionBudget => ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            Self::HorizontalPodAutoscaler => {
                ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            }
        }
    }
}

/// The desired state of an object: the fields that the operator owns, and no others.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The kind.
    pub kind: ChildKind,
    /// The namespace of the group.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The whole object, with `apiVersion`, `kind` and `metadata`.
    pub body: Value,
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// The annotation with a digest of the desired state when the operator wrote an object. It reveals that a field has
/// been dropped from the desired state, which the object itself does not show.
pub(super) const DESIRED: &str = "tamis.dev/desired";
/// The value of `app.kubernetes.io/component` on gateways.
pub(super) const COMPONENT: &str = "gateway";

impl Child {
    /// Creates an object of a group: named `tamis-GROUP`, labelled, and owned by the group. `content`: the fields
    /// besides `metadata`.
    pub(super) fn new(kind: ChildKind, group: &GroupInput, content: Value) -> Self {
        let name = names::group_object(&group.name.name);
        let resource = kind.api_resource();
        let mut body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata(group, &name),
        });
        if let (Some(body), Value::Object(content)) = (body.as_object_mut(), content) {
            body.extend(content);
        }
        let mut child = Self { kind, namespace: group.name.namespace.clone(), name, body };
        child.sign();
        child
    }

    /// Adds an annotation.
    pub(super) fn annotate(&mut self, name: &str, value: &str) {
        self.body["metadata"]["annotations"][name] = json!(value);
        self.sign();
    }

    /// Sets the annotation with the digest of all other fields.
    fn sign(&mut self) {
        if let Some(annotations) = self.body["metadata"]["annotations"].as_object_mut() {
            annotations.remove(DESIRED);
        }
        let digest = tamis_config::Digest::of(self.body.to_string().as_bytes());
        self.body["metadata"]["annotations"][DESIRED] = json!(digest.0.get(..16));
    }
}

/// Returns the `metadata` of an object of a group. The owner reference does not block the owner's deletion, since that
/// would need the right to write finalizers of groups.
pub(super) fn metadata(group: &GroupInput, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": group.name.namespace,
        "labels": labels(group),
        "ownerReferences": [{
            "apiVersion": API_VERSION,
            "kind": "GatewayGroup",
            "name": group.name.name,
            "uid": group.uid,
            "controller": true,
        }],
    })
}

/// Returns the labels by which a group's pods are selected. They never change.
pub(super) fn selector(group: &GroupInput) -> Map<String, Value> {
    let labels = [
        ("app.kubernetes.io/name", "tamis"),
        ("app.kubernetes.io/component", COMPONENT),
        (names::GROUP_LABEL, &group.name.name),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// Returns the labels of all objects of a group.
pub(super) fn labels(group: &GroupInput) -> Map<String, Value> {
    let mut labels = selector(group);
    let instance = names::group_object(&group.name.name);
    for (key, value) in [
        ("app.kubernetes.io/instance", instance.as_str()),
        ("app.kubernetes.io/part-of", "tamis"),
        ("app.kubernetes.io/managed-by", names::MANAGED_BY),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    labels
}
