//! Everything a gateway serves at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Access, BundleDocument, Digest, ExpositionDocument, ExpositionId, Reason, ServiceDocument};

/// All documents of one compile. A gateway compares it with what it serves and swaps what differs, exposition by
/// exposition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Services by digest.
    pub services: BTreeMap<Digest, Arc<ServiceDocument>>,
    /// Expositions that are served.
    pub expositions: BTreeMap<ExpositionId, Arc<ExpositionDocument>>,
    /// Bundles that are served.
    pub bundles: BTreeMap<ExpositionId, Arc<BundleDocument>>,
    /// Expositions that must answer 503, and why.
    pub stopped: BTreeMap<ExpositionId, Stopped>,
}

impl Snapshot {
    /// Returns the expositions and bundles that are served at an address of their own, by name, each with what it says about
    /// access. An exposition that is called through bundles only has no address.
    #[must_use]
    pub fn addresses(&self) -> BTreeMap<&ExpositionId, Option<&Access>> {
        let expositions = self.expositions.iter().map(|(id, document)| (id, document.access.as_ref()));
        let bundles = self.bundles.iter().map(|(id, document)| (id, document.access.as_ref()));
        expositions.chain(bundles).filter(|(_, access)| *access != Some(&Access::BundleOnly)).collect()
    }
}

/// Why an exposition is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The reason, for example [`Reason::ServiceNotFound`].
    pub reason: Reason,
    /// Names the field and the remedy.
    pub message: String,
}
