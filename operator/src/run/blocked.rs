//! The reasons for which a document cannot be written, with their findings and retries. Pure.

use std::time::Duration;

use tamis_config::Reason;

use super::action::Failure;
use crate::quota::Exceeded;
use crate::verdict::Finding;

/// The delay of a retry after a conflict.
const STALE: Duration = Duration::from_millis(50);
/// The delay of a retry after the API server refused a write.
const FAILED: Duration = Duration::from_secs(2);
/// The delay of a retry after a quota or the shards were full.
const FULL: Duration = Duration::from_secs(15);

/// Why a document cannot be written now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriteBlocked {
    /// The object or a credential has changed since it was seen. The watch delivers the current version.
    Stale,
    /// An object that the operator did not create has the name.
    Foreign(String),
    /// The group's shards are full.
    NoRoom,
    /// The namespace has used up a quota.
    Quota(Exceeded),
    /// The API server refused the write. The log has the reason.
    Refused(String),
}

impl WriteBlocked {
    /// Classifies a failed write of `object` for the documents that need it.
    pub(super) fn of(failure: &Failure, object: String) -> Self {
        match failure {
            Failure::Stale | Failure::Deposed(_) => Self::Stale,
            Failure::Api(_) => Self::Refused(object),
        }
    }

    /// Returns the finding for the exposition, or `None` if the next attempt follows at once.
    pub(super) fn finding(&self) -> Option<Finding> {
        let (reason, message) = match self {
            Self::Stale => return None,
            Self::Quota(exceeded) => (Reason::QuotaExceeded, exceeded.to_string()),
            Self::Foreign(object) => {
                (Reason::Conflict, format!("{object} exists and was not created by the operator: remove it"))
            }
            Self::NoRoom => {
                (Reason::TooLarge, "the credentials of its group have no room left: use another group".to_owned())
            }
            Self::Refused(object) => {
                (Reason::Pending, format!("the API server refused {object}: see the operator's log"))
            }
        };
        Some(Finding::error(reason, message))
    }

    /// Returns the category of the error for the metrics, or `None` if the next attempt follows at once.
    pub(super) fn category(&self) -> Option<&'static str> {
        match self {
            Self::Stale => None,
            Self::Quota(_) => Some("quota"),
            Self::Foreign(_) => Some("conflict"),
            Self::NoRoom => Some("no_room"),
            Self::Refused(_) => Some("refused"),
        }
    }

    /// Returns the delay after which the exposition is planned again.
    pub(super) fn retry(&self) -> Duration {
        match self {
            Self::Stale => STALE,
            Self::NoRoom | Self::Quota(_) => FULL,
            Self::Foreign(_) | Self::Refused(_) => FAILED,
        }
    }

    /// Returns whether the exposition stops: what it serves may have been revoked, and the obstacle may last for any time.
    pub(super) fn stops(&self) -> bool {
        match self {
            Self::NoRoom | Self::Quota(_) => true,
            Self::Stale | Self::Foreign(_) | Self::Refused(_) => false,
        }
    }
}
