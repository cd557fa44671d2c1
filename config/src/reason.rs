//! The reasons that conditions, Events, stopped expositions and refused documents state.

use std::fmt;

use serde::{Deserialize as _, Deserializer, Serialize};

/// The conditions of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The object is valid.
    Accepted,
    /// Every referenced object exists and is permitted.
    ResolvedRefs,
    /// Every ready gateway has loaded the object.
    Programmed,
    /// Sums up the others, except `Upstream`.
    Ready,
    /// The MCP server of an exposition, as its gateways see it. Not a part of `Ready` (decision 0059).
    Upstream,
}

impl Condition {
    /// Every condition, in the order in which a status lists them.
    pub const ALL: [Self; 5] = [Self::Accepted, Self::ResolvedRefs, Self::Programmed, Self::Ready, Self::Upstream];

    /// The `type` of the condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::Programmed => "Programmed",
            Self::Ready => "Ready",
            Self::Upstream => "Upstream",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Declares [`Reason`]: each reason with the condition that it belongs to.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $reason:ident of $condition:ident,)+) => {
        /// Why something is in its state, in one word: the `reason` of a condition, of an Event, of a stopped
        /// exposition and of a document that a gateway refuses.
        ///
        /// It has no `Deserialize`, since a reader may meet the word of a newer version: each field that is read
        /// decides what it makes of such a word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Reason {
            $($(#[$doc])+ $reason,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$reason,)+];

            /// The word, as it is in the API, in documents, in metrics and in logs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)+
                }
            }

            /// The condition that the reason belongs to.
            #[must_use]
            pub fn condition(self) -> Condition {
                match self {
                    $(Self::$reason => Condition::$condition,)+
                }
            }
        }
    };
}

reasons! {
    /// The object is valid.
    Accepted of Accepted,
    /// A filter, or the document that holds it, cannot be used.
    InvalidFilter of Accepted,
    /// Any other document cannot be used.
    InvalidManifest of Accepted,
    /// Two documents claim the same name, or one document contradicts itself.
    Conflict of Accepted,
    /// The kind of service is not supported.
    UnsupportedSource of Accepted,
    /// The configuration exceeds a size limit.
    TooLarge of Accepted,
    /// The namespace has used up one of its quotas.
    QuotaExceeded of Accepted,
    /// The exposition does not meet the requirements of the GatewayGroup.
    BelowGroupFloor of Accepted,
    /// The exposition does not declare who may call.
    AccessRequired of Accepted,
    /// The group's gateways may not call the address of the upstream.
    EgressDenied of Accepted,

    /// Every referenced object exists and is permitted.
    ResolvedRefs of ResolvedRefs,
    /// The service does not exist.
    ServiceNotFound of ResolvedRefs,
    /// The service has no such tool.
    ToolNotFound of ResolvedRefs,
    /// The service has no such filter set.
    FilterSetNotFound of ResolvedRefs,
    /// The ConfigurationPlan does not exist.
    PlanNotFound of ResolvedRefs,
    /// An exposition that the bundle names does not exist.
    ExpositionNotFound of ResolvedRefs,
    /// An exposition that the bundle names is stopped.
    ExpositionStopped of ResolvedRefs,
    /// The ConfigMap does not exist.
    ConfigMapNotFound of ResolvedRefs,
    /// The Secret does not exist, or lacks the key.
    SecretNotFound of ResolvedRefs,
    /// The owner of the Secret has not labelled it for this use.
    SecretNotLabelled of ResolvedRefs,
    /// The owner of the Secret does not allow the request that would carry it.
    SecretUseNotAllowed of ResolvedRefs,
    /// The GatewayGroup does not exist.
    GatewayGroupNotFound of ResolvedRefs,
    /// The referenced object exists, but may not be used from here.
    RefNotPermitted of ResolvedRefs,

    /// Every ready gateway has loaded the object.
    Programmed of Programmed,
    /// Every ready gateway answers 503 for the exposition.
    Stopped of Programmed,
    /// No exposition uses the object.
    NotUsed of Programmed,
    /// Something that should soon be over holds the object back.
    Pending of Programmed,
    /// No gateway of the group is ready.
    GatewayUnavailable of Programmed,
    /// A gateway does not know the format of the document.
    GatewayTooOld of Programmed,
    /// A gateway knows the format of the document and cannot load it.
    GatewayRefused of Programmed,
    /// A pause holds back a change.
    Paused of Programmed,

    /// All other conditions are true.
    Ready of Ready,
    /// An earlier version is served in place of a broken one.
    ServingPrevious of Ready,

    /// The MCP server lists its tools as they are pinned.
    Reachable of Upstream,
    /// The MCP server's list cannot be read.
    Unreachable of Upstream,
    /// The MCP server lists published tools otherwise than they are pinned, or not at all.
    ToolsChanged of Upstream,
    /// No gateway has asked the MCP server yet.
    Unknown of Upstream,
}

impl Reason {
    /// The reason with this word, if this version knows it.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
    }

    /// Whether a referenced object does not exist. Such an object may still come, or may be in a file that cannot be
    /// read.
    #[must_use]
    pub fn is_absence(self) -> bool {
        match self {
            Self::ServiceNotFound
            | Self::ToolNotFound
            | Self::FilterSetNotFound
            | Self::PlanNotFound
            | Self::ExpositionNotFound
            | Self::ConfigMapNotFound
            | Self::SecretNotFound
            | Self::GatewayGroupNotFound => true,
            Self::Accepted
            | Self::InvalidFilter
            | Self::InvalidManifest
            | Self::Conflict
            | Self::UnsupportedSource
            | Self::TooLarge
            | Self::QuotaExceeded
            | Self::BelowGroupFloor
            | Self::AccessRequired
            | Self::EgressDenied
            | Self::ResolvedRefs
            | Self::ExpositionStopped
            | Self::SecretNotLabelled
            | Self::SecretUseNotAllowed
            | Self::RefNotPermitted
            | Self::Programmed
            | Self::Stopped
            | Self::NotUsed
            | Self::Pending
            | Self::GatewayUnavailable
            | Self::GatewayTooOld
            | Self::GatewayRefused
            | Self::Paused
            | Self::Ready
            | Self::ServingPrevious
            | Self::Reachable
            | Self::Unreachable
            | Self::ToolsChanged
            | Self::Unknown => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the reason of a stopped exposition. A word of a newer version becomes [`Reason::Stopped`]: the exposition must
/// stop even if the gateway does not know why, and the message says why.
pub(crate) fn of_stop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
    read(deserializer, Reason::Stopped)
}

/// Reads the reason why a gateway refuses a document. A word of a newer version becomes [`Reason::GatewayRefused`]: the
/// other acknowledgements of that gateway still count.
pub(crate) fn of_refusal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
    read(deserializer, Reason::GatewayRefused)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D, unknown: Reason) -> Result<Reason, D::Error> {
    String::deserialize(deserializer).map(|word| Reason::parse(&word).unwrap_or(unknown))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acks::AckState;
    use crate::{ExpositionId, StopDocument};

    #[test]
    fn a_reason_is_the_same_word_everywhere() {
        for reason in Reason::ALL.iter().copied() {
            assert_eq!(format!("{reason:?}"), reason.as_str());
            assert_eq!(reason.to_string(), reason.as_str());
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
            let absent = reason.as_str().ends_with("NotFound");
            assert_eq!(reason.is_absence(), absent, "{reason}");
            assert!(!absent || reason.condition() == Condition::ResolvedRefs, "{reason}");
        }
        // What is true of an upstream is that it can be reached.
        for condition in Condition::ALL.into_iter().filter(|condition| *condition != Condition::Upstream) {
            let same = Reason::parse(condition.as_str()).expect("the reason of a condition that is true");
            assert_eq!(same.condition(), condition);
        }
    }

    #[test]
    fn documents_and_acknowledgements_carry_the_word() {
        for reason in Reason::ALL.iter().copied() {
            let id = ExpositionId { namespace: "team".to_owned(), name: "e".to_owned() };
            let stop = StopDocument { format_version: 1, id, reason, message: "m".to_owned() };
            let json = serde_json::to_value(&stop).unwrap();
            assert_eq!(json["reason"], reason.as_str());
            assert_eq!(serde_json::from_value::<StopDocument>(json).unwrap(), stop);
            let refused = AckState::Refused { reason, message: "m".to_owned() };
            let json = serde_json::to_value(&refused).unwrap();
            assert_eq!(json, json!({"state": "refused", "reason": reason.as_str(), "message": "m"}));
            assert_eq!(serde_json::from_value::<AckState>(json).unwrap(), refused);
        }
    }

    #[test]
    fn a_word_of_a_newer_version_stops_and_refuses_all_the_same() {
        for word in ["QuantumDecoherence", "", "stopped"] {
            let stop =
                json!({"formatVersion": 1, "id": {"namespace": "t", "name": "e"}, "reason": word, "message": "m"});
            assert_eq!(serde_json::from_value::<StopDocument>(stop).unwrap().reason, Reason::Stopped);
            let refused = json!({"state": "refused", "reason": word, "message": "m"});
            let refused: AckState = serde_json::from_value(refused).unwrap();
            assert_eq!(refused, AckState::Refused { reason: Reason::GatewayRefused, message: "m".to_owned() });
        }
        let number = json!({"state": "refused", "reason": 7, "message": "m"});
        assert!(serde_json::from_value::<AckState>(number).is_err());
    }
}
