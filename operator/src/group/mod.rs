//! The objects that a GatewayGroup owns: the Deployment of its gateways, and the objects that they need.
//!
//! [`watch`] reports the objects and their changes, [`children`] builds the desired state, [`reconcile`] applies it,
//! and [`pods`] returns the gateways. In outline:
//!
//! ```no_run
//! # use tamis_operator::{group, leader::Leadership, options::Options};
//! # async fn example(options: Options, leadership: Leadership, group: group::GroupInput) -> anyhow::Result<()> {
//! let settings = group::Settings::new(options.gateway_image, options.own_namespace);
//! let (observed, changes) = group::watch(&options.client, &options.namespaces);
//! // Poll `changes`. Once `observed.waiting_for()` is empty, for each group that has changed or whose objects have:
//! let Some(permit) = leadership.may_write() else { return Ok(()) };
//! let outcome = group::reconcile(&options.client, &permit, &group, &settings, &observed).await?;
//! // `outcome.findings` go into the verdict; `outcome.token` and `group::pods(&observed, &group)` are for `/acks`.
//! # drop(changes);
//! # Ok(())
//! # }
//! ```
//!
//! Comparison: an object has an annotation with a digest of the desired state when it was written. It is written again
//! if that digest differs (a dropped field does not show otherwise) or if a field of the desired state has another
//! value (a user edited it). Otherwise nothing is written, and nothing is kept in memory for the object, so an operator
//! that restarts writes nothing either.
//!
//! Writes: an object is created by POST, so that neither an existing object is overwritten nor one is created by an
//! operator that has lost its lease meanwhile. It is updated by server-side apply with `uid` and `resourceVersion`. The
//! fields that a POST owns are handed to the apply manager before the first apply, since an apply only drops fields
//! that an apply has written.

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

/// The part of a group on which its objects depend.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupInput {
    /// The namespace and name of the group.
    pub name: ObjectName,
    /// `metadata.uid`, for the owner references of its objects.
    pub uid: String,
    /// The spec of the group.
    pub spec: Arc<GatewayGroupSpec>,
    /// Whether the group is paused, so that none of its objects are written.
    pub paused: bool,
}

/// The settings that all groups of an operator share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The image of gateways whose group names none.
    pub gateway_image: String,
    /// The namespace of the operator's pods, which may reach the admin port of gateways. If `None`, the operator is not
    /// a pod, and the admin port is open.
    pub operator_namespace: Option<String>,
    /// The labels of the operator's pods.
    pub operator_labels: BTreeMap<String, String>,
}

impl Settings {
    /// Creates settings for an operator whose pods have the labels of the chart and the manifests.
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
