//! Decides what to do about one object of a group. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tamis_config::names;

use super::GroupInput;
use super::child::{Child, ChildKind, DESIRED};
use super::compare::{at, covers, owns};

/// What to do about one object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The object has the desired state.
    Keep,
    /// The object does not exist.
    Create,
    /// The object belongs to the group and differs from the desired state.
    Update(Update),
    /// The object is being deleted, or belongs to a deleted group of the same name: it has to go first.
    Wait,
    /// The object has another owner.
    Foreign,
}

/// How an object is updated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Update {
    /// `metadata.uid` of the object that was seen.
    pub(super) uid: String,
    /// `metadata.resourceVersion` of the object that was seen.
    pub(super) resource_version: String,
    /// `metadata.managedFields` in which the fields of the operator's POST belong to its apply. `None` if they already
    /// do.
    pub(super) managed_fields: Option<Value>,
    /// The number of replicas that the hand-over manager takes over, since the operator is about to drop the field.
    pub(super) hand_over: Option<i64>,
}

/// Who owns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The group.
    Owned,
    /// A deleted group of the same name.
    Leftover,
    /// Another owner, or none.
    Foreign,
}

/// Returns the owner that controls an object.
pub(super) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns who owns an object. An object without a controller belongs to the group if the operator wrote it for this
/// group: a user has removed the owner reference, and it is restored.
pub(super) fn ownership(group: &GroupInput, meta: &ObjectMeta) -> Ownership {
    match controller(meta) {
        Some(owner) if owner.uid == group.uid => Ownership::Owned,
        Some(owner) if owner.kind == "GatewayGroup" && owner.name == group.name.name => Ownership::Leftover,
        Some(_) => Ownership::Foreign,
        None => {
            let labelled = meta.labels.as_ref().and_then(|l| l.get(names::GROUP_LABEL)) == Some(&group.name.name);
            let written = meta.managed_fields.iter().flatten().any(is_applied_here);
            if labelled && written { Ownership::Owned } else { Ownership::Foreign }
        }
    }
}

/// Decides what to do about an object as it was last seen.
pub(super) fn step(group: &GroupInput, child: &Child, actual: Option<&DynamicObject>) -> Step {
    let Some(actual) = actual else { return Step::Create };
    let meta = &actual.metadata;
    match ownership(group, meta) {
        Ownership::Foreign => return Step::Foreign,
        Ownership::Leftover => return Step::Wait,
        Ownership::Owned if meta.deletion_timestamp.is_some() => return Step::Wait,
        Ownership::Owned => {}
    }
    let wanted = at(&child.body, &["metadata", "annotations", DESIRED]).and_then(Value::as_str);
    let written = meta.annotations.as_ref().and_then(|a| a.get(DESIRED)).map(String::as_str);
    // The API leaves `apiVersion` and `kind` out of lists, so they are filled in.
    let mut whole = json!({
        "apiVersion": at(&child.body, &["apiVersion"]),
        "kind": at(&child.body, &["kind"]),
        "metadata": meta,
    });
    if let (Some(whole), Value::Object(data)) = (whole.as_object_mut(), &actual.data) {
        whole.extend(data.clone());
    }
    if wanted == written && covers(&child.body, &whole) {
        return Step::Keep;
    }
    Step::Update(Update {
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        managed_fields: as_applied(meta.managed_fields.as_deref().unwrap_or_default()),
        hand_over: hand_over(child, actual),
    })
}

fn is_applied_here(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(names::MANAGED_BY) && entry.subresource.is_none()
}

/// Returns the managed fields with the fields of the operator's POST owned by its apply, or `None` if there is no entry
/// of a POST. A server-side apply removes only fields that its manager has applied.
fn as_applied(entries: &[ManagedFieldsEntry]) -> Option<Value> {
    let operation =
        |entry: &ManagedFieldsEntry, operation| is_applied_here(entry) && entry.operation.as_deref() == Some(operation);
    if !entries.iter().any(|entry| operation(entry, "Update")) {
        return None;
    }
    let applied = entries.iter().any(|entry| operation(entry, "Apply"));
    let mut entries = entries.to_vec();
    if applied {
        entries.retain(|entry| !operation(entry, "Update"));
    }
    for entry in entries.iter_mut().filter(|entry| operation(entry, "Update")) {
        entry.operation = Some("Apply".to_owned());
    }
    Some(json!(entries))
}

/// Returns the replicas of a Deployment that the operator owns and is about to drop: dropped at once, the number would
/// fall to one until the autoscaler acts.
fn hand_over(child: &Child, actual: &DynamicObject) -> Option<i64> {
    if child.kind != ChildKind::Deployment || at(&child.body, &["spec", "replicas"]).is_some() {
        return None;
    }
    let mut applied = actual.metadata.managed_fields.iter().flatten().filter(|entry| is_applied_here(entry));
    let owned =
        applied.any(|entry| entry.fields_v1.as_ref().is_some_and(|fields| owns(&fields.0, &["spec", "replicas"])));
    at(&actual.data, &["spec", "replicas"]).and_then(Value::as_i64).filter(|_| owned)
}
