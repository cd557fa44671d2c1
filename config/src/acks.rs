//! The events of a gateway's `/acks`: server-sent events whose `data` is one [`AckEvent`] in JSON.
//!
//! The first event of a stream is always an [`AckEvent::Snapshot`]. Later events are differences.

use serde::{Deserialize, Serialize};

use crate::{Digest, ExpositionId, Reason};

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum AckEvent {
    /// Everything that the gateway has processed.
    #[serde(rename_all = "camelCase")]
    Snapshot {
        /// Differs after a restart, which resets the counters.
        instance: String,
        /// The gateway's version; empty if the gateway does not report one.
        #[serde(default)]
        version: String,
        /// The format versions that it reads.
        format_versions: Vec<u32>,
        /// The result of every exposition, whether it was loaded or not.
        expositions: Vec<Ack>,
        /// The totals since the gateway started.
        saved: Vec<Saved>,
    },
    /// Expositions that were loaded, refused or removed since the last event.
    #[serde(rename_all = "camelCase")]
    Changed {
        /// New states.
        expositions: Vec<Ack>,
        /// Expositions that were removed.
        removed: Vec<ExpositionId>,
    },
    /// Counters that moved since the last event.
    #[serde(rename_all = "camelCase")]
    Counted {
        /// Totals since the start of the gateway.
        saved: Vec<Saved>,
    },
}

/// The result of an exposition's newest document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The exposition.
    pub id: ExpositionId,
    /// `spec.digest` of the GatewayConfig that was processed.
    pub digest: Digest,
    /// The result.
    pub state: AckState,
}

/// The result of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum AckState {
    /// The document serves every call that begins now.
    Loaded,
    /// The exposition answers 503, as the document says.
    Stopped,
    /// The document names a service or a credential that has not arrived yet.
    #[serde(rename_all = "camelCase")]
    Waiting {
        /// What is missing.
        message: String,
    },
    /// The document cannot be loaded. The previous one is served if it may stay; otherwise the exposition answers 503.
    #[serde(rename_all = "camelCase")]
    Refused {
        /// [`Reason::GatewayTooOld`], or the reason why the document is invalid. An operator that does not know the word
        /// reads [`Reason::GatewayRefused`].
        #[serde(deserialize_with = "crate::reason::of_refusal")]
        reason: Reason,
        /// The problem.
        message: String,
    },
}

/// Totals of one exposition since its gateway started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    /// The exposition.
    pub id: ExpositionId,
    /// Bytes that came from upstreams.
    pub input_bytes: u64,
    /// Bytes that went to callers.
    pub output_bytes: u64,
}
