//! What the operator thinks of an object: made by the plan, read by the status. Values only.

use tamis_config::{Condition, Digest, ExpositionId, Reason};
use tamis_crds::ObjectName;

/// What is said of one object at one generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong with it; empty where all is well.
    pub findings: Vec<Finding>,
    /// Documents that have to be loaded for the object to be `Programmed`: its own for an Exposition, those of all
    /// expositions that use it for a ToolsFilters, ServiceManifest, CustomTools or ConfigurationPlan.
    pub documents: Vec<RequiredDocument>,
    /// What only an Exposition has.
    pub exposed: Option<Exposed>,
    /// What only a GatewayGroup has.
    pub group: Option<GroupFacts>,
    /// What a pause keeps from it, and whose pause it is; none where nothing waits.
    pub paused: Option<String>,
    /// It is about to be published as something else: while it is new nothing is said of it.
    pub waits: bool,
    /// Its document could not be written, so that gateways serve what was before; the findings say why.
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
    /// Whether the condition becomes false. A warning appears in the messages of the condition and of `Ready`, and in an
    /// Event.
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
            Condition::Accepted | Condition::Programmed | Condition::Ready => Self::Accepted,
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

/// A document that gateways must have processed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredDocument {
    /// The group whose gateways load it.
    pub group: ObjectName,
    /// The exposition.
    pub id: ExpositionId,
    /// The digest of its payload.
    pub digest: Digest,
}

/// What is published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposed {
    /// The group that it resolved to.
    pub group: Option<ObjectName>,
    /// Where clients find it.
    pub url: Option<String>,
    /// How many tools it publishes.
    pub tools: usize,
    /// How many of them are unfiltered.
    pub unfiltered: usize,
    /// Filter sets in the order in which they apply, and how many tools each filters.
    pub filters: Vec<(String, usize)>,
    /// Why the last good service or filters are served instead of what the resources say; none where they are not.
    pub serving_previous: Option<String>,
    /// Whether it answers 503; the findings say why.
    pub stopped: bool,
}

/// What a group has attached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Expositions that name it and that it takes.
    pub attached: usize,
    /// Gateways that are ready and have proved to be gateways.
    pub ready_replicas: usize,
    /// Versions of those that can be heard.
    pub versions: Vec<String>,
    /// Where clients find it.
    pub url: Option<String>,
}
