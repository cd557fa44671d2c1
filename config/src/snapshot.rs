//! Everything a gateway serves at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Digest, ExpositionDocument, ExpositionId, Reason, ServiceDocument};

/// All documents of one compile. A gateway compares it with what it serves and swaps what differs, exposition by
/// exposition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Services by digest.
    pub services: BTreeMap<Digest, Arc<ServiceDocument>>,
    /// Expositions that are served.
    pub expositions: BTreeMap<ExpositionId, Arc<ExpositionDocument>>,
    /// Expositions that must answer 503, and why.
    pub stopped: BTreeMap<ExpositionId, Stopped>,
}

/// Why an exposition is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The reason, for example [`Reason::ServiceNotFound`].
    pub reason: Reason,
    /// Names the field and the remedy.
    pub message: String,
}
