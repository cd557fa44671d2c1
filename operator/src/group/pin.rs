//! Pins the pods of groups that name an image: an update of the operator leaves them as they are. A new operator may
//! build other pods for the same group, which must not roll out a canary, or a group that waits for a maintenance
//! window. Pure.
//!
//! An annotation of the Deployment holds the desired pod template, with a digest of the group's spec. As long as the
//! spec is the same, that template stays the desired one: a later operator restores it if a user has edited the
//! Deployment.

use kube::api::DynamicObject;
use serde_json::{Value, json};
use tamis_crds::resources::GatewayGroupSpec;

use super::GroupInput;
use super::child::{Child, ChildKind};
use super::compare::at;
use super::step::{Ownership, ownership};

/// The annotation with the pinned template, on the Deployment.
const PINNED: &str = "tamis.dev/pinned";

/// Sets the template of a pinned group's Deployment to the one that was desired when the group last changed.
pub(super) fn keep(group: &GroupInput, child: &mut Child, actual: Option<&DynamicObject>) {
    let is_pinned = group.spec.pod.as_ref().is_some_and(|pod| pod.image.is_some());
    if child.kind != ChildKind::Deployment || !is_pinned {
        return;
    }
    let spec_digest = digest(&group.spec);
    let managed = actual.filter(|actual| ownership(group, &actual.metadata) == Ownership::Owned);
    let before =
        managed.and_then(|actual| actual.metadata.annotations.as_ref()?.get(PINNED)).and_then(|text| read(text));
    if let Some((of, template)) = before
        && of == spec_digest
    {
        child.body["spec"]["template"] = template;
    }
    let template = at(&child.body, &["spec", "template"]).cloned().unwrap_or_default();
    child.annotate(PINNED, &json!({"of": spec_digest, "template": template}).to_string());
}

fn read(text: &str) -> Option<(String, Value)> {
    let mut kept: Value = serde_json::from_str(text).ok()?;
    Some((kept.get("of")?.as_str()?.to_owned(), kept.get_mut("template")?.take()))
}

/// Returns a digest of the fields on which the pods depend. The number of pods and the namespaces that the group serves
/// are not among them.
fn digest(spec: &GatewayGroupSpec) -> String {
    let GatewayGroupSpec { listener, egress, metrics, audit, pod, commands, store, .. } = spec;
    let mut fields = json!([listener, egress, metrics, audit, pod, commands, store]);
    // The order of members is that of the source document, which may differ each time.
    fields.sort_all_objects();
    let digest = tamis_config::Digest::of(fields.to_string().as_bytes());
    digest.0.get(..16).unwrap_or_default().to_owned()
}
