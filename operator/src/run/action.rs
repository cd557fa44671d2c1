//! The actions that the state requests from the shell, and the reports of the shell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use serde_json::Value;
use tamis_config::GatewayConfigSpec;
use tamis_crds::ObjectName;

use super::planning::Lane;
use crate::acks::Endpoint;
use crate::cluster_state::{ConfigObject, ServiceKey};
use crate::events::{Event, Regarding};
use crate::group::{self, GroupInput, GroupOutcome};
use crate::leader::Deposed;
use crate::object::ObjectKey;
use crate::watch::Source;

/// An action for the shell. The order of a list of actions matters only for watches: the last action on a source wins.
#[derive(Debug)]
pub(super) enum Action {
    /// Starts a watch, which replaces a watch of the same source.
    Follow { source: Source, epoch: u64 },
    /// Ends a watch.
    Unfollow(Source),
    /// Follows the `/acks` streams of these gateways and of no others.
    Listen(Vec<Endpoint>),
    /// Asks the API server whether Secrets exist.
    Probe(Probe),
    /// Publishes Events.
    Publish(Regarding, Vec<Event>),
    /// Writes to the API server.
    Write(Write),
}

/// A write, and the conditions under which it may begin.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) fence: Fence,
    pub(super) request: Request,
}

/// The conditions that a decision to write relies on. A write whose fence no longer holds does not begin: another
/// operator may have written since, or the watches may lag behind each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    /// The leader's term.
    pub(super) term: u64,
    /// How often the process had slept when the write was decided: see [`super::sleep_detector`].
    pub(super) sleeps: u64,
}

/// One write. Every request carries the `uid` and `resourceVersion` that the decision was based on.
pub(super) enum Request {
    /// Creates a credential shard, or replaces `seen`.
    Shard { owner: Owner, number: usize, data: BTreeMap<String, Vec<u8>>, seen: Option<Arc<Secret>> },
    /// Creates a GatewayConfig, or replaces `seen`.
    Config { owner: Owner, name: ObjectName, spec: Box<GatewayConfigSpec>, seen: Option<Arc<ConfigObject>> },
    /// Deletes a GatewayConfig.
    Delete(Arc<ConfigObject>),
    /// Writes the status of an object.
    Status(Box<StatusWrite>),
    /// Reconciles the objects of a group.
    Group { of: (String, i64), input: GroupInput },
}

/// Shows names only: shards hold credentials.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard { owner, number, .. } => write!(f, "shard {number} of {}", owner.group),
            Self::Config { name, .. } => write!(f, "config {name}"),
            Self::Delete(seen) => write!(f, "delete {}", seen.name),
            Self::Status(status) => write!(f, "status {}", status.key),
            Self::Group { input, .. } => write!(f, "group {}", input.name),
        }
    }
}

/// The status of one object.
pub(super) struct StatusWrite {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) resource_version: String,
    /// The status for server-side apply.
    pub(super) status: Value,
    /// The same as a merge patch, for objects that server-side apply cannot handle.
    pub(super) merge: Value,
    /// Whether the object is malformed, so that server-side apply would fail.
    pub(super) is_unusable: bool,
}

/// The group that owns the written objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) group: ObjectName,
    pub(super) uid: String,
}

/// A query for whether Secrets exist.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) names: Vec<ObjectName>,
    pub(super) purpose: ProbePurpose,
}

/// Why Secrets are probed.
#[derive(Debug)]
pub(super) enum ProbePurpose {
    /// These expositions of a service cannot be planned before the answer.
    Plan(Lane, ServiceKey, BTreeSet<ObjectName>),
    /// No watch covers Secrets without the label, so they are probed from time to time.
    Refresh,
}

/// The result of an action. It has no `Debug`, since it may hold credentials.
pub(super) enum Report {
    /// A credential shard, by the name of its Secret.
    Shard {
        name: ObjectName,
        result: Result<Box<Secret>, Failure>,
    },
    Config {
        name: ObjectName,
        result: Result<Box<ConfigObject>, Failure>,
    },
    Deleted {
        name: ObjectName,
        uid: String,
        result: Result<(), Failure>,
    },
    Status {
        key: ObjectKey,
        result: Result<Box<DynamicObject>, Failure>,
    },
    Group(Box<Reconciled>),
    /// Which of the Secrets exist.
    Probed {
        purpose: ProbePurpose,
        answers: Vec<(ObjectName, bool)>,
    },
}

/// The result of reconciling a group.
pub(super) struct Reconciled {
    pub(super) group: ObjectName,
    /// The `uid` and generation of the GatewayGroup.
    pub(super) of: (String, i64),
    pub(super) fence: Fence,
    pub(super) took: Duration,
    pub(super) outcome: Result<GroupOutcome, group::Error>,
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The fence no longer holds.
    #[error(transparent)]
    Deposed(#[from] Deposed),
    /// The object has changed, appeared or gone since it was seen. The watch delivers its current version.
    #[error("the object has changed since it was read")]
    Stale,
    /// Any other error of the request.
    #[error(transparent)]
    Api(kube::Error),
}

impl Failure {
    /// Classifies an error of the API server.
    pub(super) fn of(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() || status.is_not_found() => {
                Self::Stale
            }
            _ => Self::Api(error),
        }
    }
}
