//! The operator's verdict on an object: the plan makes it, the status reports it. Values only.

use tamis_config::{Condition, Digest, ExpositionId, Reason};
use tamis_crds::ObjectName;

/// The verdict on one object at one generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Problems and warnings; empty if there are none.
    pub findings: Vec<Finding>,
    /// Documents that have to be loaded for the object to be `Programmed`: its own for an Exposition, those of all
    /// expositions that use it for a ToolsFilters, ServiceManifest, CustomTools, Prompts, Resources or ConfigurationPlan.
    pub documents: Vec<RequiredDocument>,
    /// Facts about an Exposition; `None` for other kinds.
    pub exposed: Option<Exposed>,
    /// Facts about a GatewayGroup; `None` for other kinds.
    pub group: Option<GroupFacts>,
    /// What a pause holds back, and which object is paused; `None` if nothing waits.
    pub paused: Option<String>,
    /// The exposition is about to be published differently: while it is new, its status is not written.
    pub waits: bool,
    /// The document could not be written, so gateways serve the one before; the findings say why.
    pub unwritten: bool,
}

/// A problem of an object, or a warning about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The condition that reports it.
    pub condition: PlanCondition,
    /// The reason.
    pub reason: Reason,
    /// Names the field and the remedy.
    pub message: String,
    /// Whether the condition becomes false. A warning appears in the messages of the condition and of `Ready`, and in
    /// an Event.
    pub is_error: bool,
}

impl Finding {
    /// Creates an error, for the condition of its reason.
    pub fn error(reason: Reason, message: impl Into<String>) -> Self {
        Self { condition: PlanCondition::of(reason), reason, message: message.into(), is_error: true }
    }

    /// Creates a warning, for the condition of its reason.
    pub fn warning(reason: Reason, message: impl Into<String>) -> Self {
        Self { is_error: false, ..Self::error(reason, message) }
    }

    /// Moves the finding to another condition than that of its reason.
    #[must_use]
    pub fn under(self, condition: PlanCondition) -> Self {
        Self { condition, ..self }
    }
}

/// The conditions that the plan decides. `Programmed` and `Ready` follow from them and from what gateways report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanCondition {
    /// The object is valid.
    Accepted,
    /// Every referenced object exists and is permitted.
    ResolvedRefs,
}

impl PlanCondition {
    /// The condition that reports a finding with this reason: what holds back an object before gateways see it counts
    /// against `Accepted`.
    #[must_use]
    pub fn of(reason: Reason) -> Self {
        match reason.condition() {
            Condition::Accepted | Condition::Programmed | Condition::Ready | Condition::Upstream => Self::Accepted,
            Condition::ResolvedRefs => Self::ResolvedRefs,
        }
    }

    /// The reason of the condition while it is true.
    #[must_use]
    pub fn met(self) -> Reason {
        match self {
            Self::Accepted => Reason::Accepted,
            Self::ResolvedRefs => Reason::ResolvedRefs,
        }
    }

    /// The condition of the status.
    #[must_use]
    pub fn condition(self) -> Condition {
        match self {
            Self::Accepted => Condition::Accepted,
            Self::ResolvedRefs => Condition::ResolvedRefs,
        }
    }
}

/// A document that gateways must process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredDocument {
    /// The group whose gateways load it.
    pub group: ObjectName,
    /// The exposition.
    pub id: ExpositionId,
    /// The digest of its payload.
    pub digest: Digest,
}

/// What an Exposition publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposed {
    /// The GatewayGroup that publishes it.
    pub group: Option<ObjectName>,
    /// The URL for clients.
    pub url: Option<String>,
    /// Where calls go; `None` if the exposition is stopped.
    pub upstream: Option<UpstreamAddress>,
    /// The number of published tools.
    pub tools: usize,
    /// The number of published tools that are unfiltered.
    pub unfiltered: usize,
    /// Whether the tools are those that an MCP server lists, so that gateways report how many there are.
    pub follows: bool,
    /// Filter sets in the order in which they apply, with the number of tools that each filters.
    pub filters: Vec<(String, usize)>,
    /// Why the last good service or filters are served instead of the current ones; `None` if the current ones are.
    pub serving_previous: Option<String>,
    /// Whether the exposition answers 503; the findings say why.
    pub stopped: bool,
}

/// Where the calls of an exposition go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// The base URL of an HTTP API, or the endpoint of an MCP server.
    pub url: String,
    /// The ConfigurationPlan that changed the address, if one did.
    pub plan: Option<String>,
    /// Whether gateways watch it and report on it.
    pub is_watched: bool,
}

/// The observed state of a GatewayGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// The number of expositions that name the group and may use it.
    pub attached: usize,
    /// The number of ready gateways that have proved to be gateways.
    pub ready_replicas: usize,
    /// The versions that the gateways report.
    pub versions: Vec<String>,
    /// The URL for clients.
    pub url: Option<String>,
}
