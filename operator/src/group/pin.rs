//! Groups that name an image keep their pods as they are when the operator is updated: a new operator makes other pods of
//! the same group, and a canary, or a group that waits for a window, is not to be rolled by that. Pure.
//!
//! What was wanted of the pods is kept in an annotation of the Deployment, with a digest of what the group said. As long
//! as the group says the same, that is what is wanted: a later operator writes it again where somebody has edited it.

use kube::api::DynamicObject;
use serde_json::{Value, json};
use tamis_crds::resources::GatewayGroupSpec;

use super::GroupInput;
use super::child::{Child, ChildKind};
use super::compare::at;
use super::step::{Ownership, ownership};

/// The annotation of a Deployment whose group is pinned.
const PINNED: &str = "tamis.dev/pinned";

/// Wants of a pinned group's Deployment the pods that were wanted when the group last changed.
pub(super) fn keep(group: &GroupInput, child: &mut Child, actual: Option<&DynamicObject>) {
    let is_pinned = group.spec.pod.as_ref().is_some_and(|pod| pod.image.is_some());
    if child.kind != ChildKind::Deployment || !is_pinned {
        return;
    }
    let said = digest(&group.spec);
    let managed = actual.filter(|actual| ownership(group, &actual.metadata) == Ownership::Owned);
    let before =
        managed.and_then(|actual| actual.metadata.annotations.as_ref()?.get(PINNED)).and_then(|text| read(text));
    if let Some((of, template)) = before
        && of == said
    {
        child.body["spec"]["template"] = template;
    }
    let template = at(&child.body, &["spec", "template"]).cloned().unwrap_or_default();
    child.annotate(PINNED, &json!({"of": said, "template": template}).to_string());
}

fn read(text: &str) -> Option<(String, Value)> {
    let mut kept: Value = serde_json::from_str(text).ok()?;
    Some((kept.get("of")?.as_str()?.to_owned(), kept.get_mut("template")?.take()))
}

/// Of what the pods depend on: the number of pods, and whom the group serves, are not among it.
fn digest(spec: &GatewayGroupSpec) -> String {
    let GatewayGroupSpec { listener, egress, metrics, audit, pod, commands, store, .. } = spec;
    let mut said = json!([listener, egress, metrics, audit, pod, commands, store]);
    // In the order of the document it came from, which may be another each time.
    said.sort_all_objects();
    let digest = tamis_config::Digest::of(said.to_string().as_bytes());
    digest.0.get(..16).unwrap_or_default().to_owned()
}
