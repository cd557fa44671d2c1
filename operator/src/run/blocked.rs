//! Why a document cannot be written, and what follows from it. Pure.

use std::time::Duration;

use super::action::Failure;
use crate::quota::{Exceeded, QUOTA_EXCEEDED};
use crate::verdict::{ConditionType, Finding};

/// Until the next attempt after another writer was faster.
const STALE: Duration = Duration::from_millis(50);
/// Until the next attempt after the API server refused a write.
const FAILED: Duration = Duration::from_secs(2);
/// Until the next look for room.
const FULL: Duration = Duration::from_secs(15);

/// Why a document cannot be written now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriteBlocked {
    /// Another writer was faster, or a credential has changed: the watch tells.
    Stale,
    /// An object that the operator did not create has the name.
    Foreign(String),
    /// The group's shards are full.
    NoRoom,
    /// The namespace has used up a quota.
    Quota(Exceeded),
    /// The API server refused it; the log says why.
    Refused(String),
}

impl WriteBlocked {
    /// What a failed write of `object` means for the documents that need it.
    pub(super) fn of(failure: &Failure, object: String) -> Self {
        match failure {
            Failure::Stale | Failure::Deposed(_) => Self::Stale,
            Failure::Api(_) => Self::Refused(object),
        }
    }

    /// The finding for the exposition. Returns `None` if the next attempt follows at once.
    pub(super) fn finding(&self) -> Option<Finding> {
        let (reason, message) = match self {
            Self::Stale => return None,
            Self::Quota(exceeded) => (QUOTA_EXCEEDED.as_str(), exceeded.to_string()),
            Self::Foreign(object) => ("Conflict", format!("{object} is there and is not the operator's: remove it")),
            Self::NoRoom => {
                ("TooLarge", "the credentials of its group have no room left: use another group".to_owned())
            }
            Self::Refused(object) => ("Pending", format!("the API refuses {object}: the operator's log says why")),
        };
        Some(Finding { condition: ConditionType::Accepted, reason, message, is_error: true })
    }

    /// The category of the error, for the metrics. Returns `None` if the next attempt follows at once.
    pub(super) fn category(&self) -> Option<&'static str> {
        match self {
            Self::Stale => None,
            Self::Quota(_) => Some("quota"),
            Self::Foreign(_) => Some("conflict"),
            Self::NoRoom => Some("no_room"),
            Self::Refused(_) => Some("refused"),
        }
    }

    /// When to plan the exposition again.
    pub(super) fn retry(&self) -> Duration {
        match self {
            Self::Stale => STALE,
            Self::NoRoom | Self::Quota(_) => FULL,
            Self::Foreign(_) | Self::Refused(_) => FAILED,
        }
    }

    /// Whether the exposition stops: what it serves may have been revoked, and the obstacle may last for any time.
    pub(super) fn stops(&self) -> bool {
        match self {
            Self::NoRoom | Self::Quota(_) => true,
            Self::Stale | Self::Foreign(_) | Self::Refused(_) => false,
        }
    }
}
