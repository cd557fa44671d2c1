//! What a gateway says at `/acks`: server-sent events whose `data` is one [`AckEvent`] in JSON.
//!
//! The first event of a stream is always a [`AckEvent::Snapshot`]; what follows are differences.

use serde::{Deserialize, Serialize};

use crate::{Digest, ExpositionId};

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum AckEvent {
    /// All that the gateway has processed.
    #[serde(rename_all = "camelCase")]
    Snapshot {
        /// Differs after a restart: counters begin anew.
        instance: String,
        /// Its version; empty in one that does not say.
        #[serde(default)]
        version: String,
        /// The format versions that it reads.
        format_versions: Vec<u32>,
        /// Everything that it was given, whether it could load it or not.
        expositions: Vec<Ack>,
        /// What it has saved since it started.
        saved: Vec<Saved>,
    },
    /// What was loaded, refused or removed since the last event.
    #[serde(rename_all = "camelCase")]
    Changed {
        /// New states.
        expositions: Vec<Ack>,
        /// Expositions that are gone.
        removed: Vec<ExpositionId>,
    },
    /// Counters that moved since the last event.
    #[serde(rename_all = "camelCase")]
    Counted {
        /// Totals since the start of the gateway.
        saved: Vec<Saved>,
    },
}

/// What became of an exposition's newest document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The exposition.
    pub id: ExpositionId,
    /// `spec.digest` of the GatewayConfig that was processed.
    pub digest: Digest,
    /// What became of it.
    pub state: AckState,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum AckState {
    /// Every call that begins now is answered by it.
    Loaded,
    /// The exposition answers 503, as the document says.
    Stopped,
    /// What the document names is not there yet.
    #[serde(rename_all = "camelCase")]
    Waiting {
        /// What for.
        message: String,
    },
    /// It cannot be loaded; the one before is served where there was one that may stay, else 503.
    #[serde(rename_all = "camelCase")]
    Refused {
        /// `GatewayTooOld`, or why it is invalid.
        reason: String,
        /// What is wrong.
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
