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
    /// What the gateway has seen of the MCP server behind the exposition. Absent for any other service, and from gateways that
    /// watch no servers. An operator that does not know the field ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamReport>,
}

/// What a gateway has seen of an MCP server. It holds no text of the server but the names of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamReport {
    /// Whether the server can be reached, and lists its tools as they are pinned.
    pub state: UpstreamState,
    /// Why the server cannot be reached; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// Published tools that the server does not list any more: the first [`NAMED_TOOLS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Published tools that the server lists with another definition: the first [`NAMED_TOOLS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// How many published tools are gone or changed.
    #[serde(default)]
    pub withheld: usize,
    /// The tools of a server whose list is followed. Absent if its tools are pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<FollowedTools>,
}

/// What an exposition publishes of the tools that its server lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowedTools {
    /// How many tools are published.
    pub tools: usize,
    /// How many of them are unfiltered.
    pub unfiltered: usize,
    /// How many listed tools are left out, because they are not valid or there are too many.
    #[serde(default)]
    pub left_out: usize,
    /// Names of filters and of `tools` to which no listed tool corresponds: the first [`NAMED_TOOLS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
}

/// The most tools of a kind that a report names.
pub const NAMED_TOOLS: usize = 10;

/// The state of an MCP server, as a gateway sees it. The order is by what is worse: of several gateways the worst counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpstreamState {
    /// The server lists its tools, as they are pinned.
    Reachable = 1,
    /// The server lists published tools otherwise than they are pinned, or not at all.
    ToolsChanged = 2,
    /// The server's list cannot be read.
    Unreachable = 3,
    /// The gateway has not asked the server yet, or says something that this version does not know.
    #[default]
    #[serde(other)]
    Unknown = 0,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gateways_and_operators_of_other_versions_are_understood() {
        let id = json!({"namespace": "a", "name": "b"});
        let mut ack = json!({"id": id, "digest": "d", "state": {"state": "loaded"}});
        let read = |ack: &serde_json::Value| serde_json::from_value::<Ack>(ack.clone()).unwrap();
        assert_eq!(read(&ack).upstream, None, "of a gateway that watches nothing");
        assert_eq!(serde_json::to_value(read(&ack)).unwrap(), ack);
        for (said, state) in [
            ("reachable", UpstreamState::Reachable),
            ("toolsChanged", UpstreamState::ToolsChanged),
            ("unreachable", UpstreamState::Unreachable),
            ("unknown", UpstreamState::Unknown),
            ("entangled", UpstreamState::Unknown),
        ] {
            ack["upstream"] = json!({"state": said, "mood": "a field of a newer version"});
            assert_eq!(read(&ack).upstream.unwrap().state, state, "{said}");
        }
        let order =
            [UpstreamState::Unknown, UpstreamState::Reachable, UpstreamState::ToolsChanged, UpstreamState::Unreachable];
        assert!(order.is_sorted());
    }
}
