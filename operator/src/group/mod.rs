//! What a GatewayGroup owns: the Deployment of its gateways, and all that those need.
//!
//! [`watch`] tells what is there and what changed; [`children`] says what should be; [`reconcile`] makes it so;
//! [`pods`] says which gateways to listen to. In outline:
//!
//! ```no_run
//! # use tamis_operator::{group, leader::Leadership, options::Options};
//! # async fn example(options: Options, leadership: Leadership, group: group::GroupInput) -> anyhow::Result<()> {
//! let settings = group::Settings::new(options.gateway_image, options.own_namespace);
//! let (observed, changes) = group::watch(&options.client, &options.namespaces);
//! // `changes` is polled; once `observed.waiting_for()` is empty, for each group that changed or whose objects did:
//! let Some(permit) = leadership.may_write() else { return Ok(()) };
//! let outcome = group::reconcile(&options.client, &permit, &group, &settings, &observed).await?;
//! // `outcome.findings` are for the verdict, `outcome.token` and `group::pods(&observed, &group)` for `/acks`.
//! # drop(changes);
//! # Ok(())
//! # }
//! ```
//!
//! How an object is compared: it carries, as an annotation, a digest of what we wanted when we wrote it, and is written
//! again where that is another (a field that is not wanted any more does not show otherwise) or where a field of ours
//! reads differently (somebody edited it). Else nothing is written, and nothing is kept in memory for it: an operator
//! that starts anew writes nothing either.
//!
//! How it is written: first by POST, so that nothing is ever created over what is there, or by an operator that lost its
//! lease meanwhile; then by server-side apply with `uid` and `resourceVersion`. The fields that a POST owns are handed
//! to the apply manager before the first apply, since an apply only drops fields that an apply has written.

mod apply;
mod build;
mod child;
mod compare;
mod keys;
mod network;
mod observe;
mod own_secret;
mod pin;
mod pod;
mod pods;
mod step;
#[cfg(test)]
mod tests;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;

use tamis_crds::ObjectName;
use tamis_crds::resources::GatewayGroupSpec;

pub use apply::{Error, GroupOutcome, reconcile};
pub use build::children;
pub use child::{Child, ChildKind};
pub use network::METRICS_LABEL;
pub use observe::{Change, Observed, watch};
pub use pods::{GatewayPod, pods};

/// A group, as far as its objects depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupInput {
    /// Its namespace and name.
    pub name: ObjectName,
    /// `metadata.uid`: what its objects name as their owner.
    pub uid: String,
    /// What it says.
    pub spec: Arc<GatewayGroupSpec>,
    /// Whether nothing of it is to be written.
    pub paused: bool,
}

/// What all groups of an operator have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The image of gateways whose group names none.
    pub gateway_image: String,
    /// The namespace of the operator's pods, which alone may reach the admin port of gateways; none where the operator
    /// is not a pod: then that port is open.
    pub operator_namespace: Option<String>,
    /// The labels of the operator's pods.
    pub operator_labels: BTreeMap<String, String>,
}

impl Settings {
    /// For an operator whose pods are labelled as our chart and manifests label them.
    #[must_use]
    pub fn new(gateway_image: impl Into<String>, operator_namespace: Option<String>) -> Self {
        let labels = [("app.kubernetes.io/name", "tamis"), ("app.kubernetes.io/component", "operator")];
        Self {
            gateway_image: gateway_image.into(),
            operator_namespace,
            operator_labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}
