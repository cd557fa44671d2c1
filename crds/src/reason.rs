//! Why something is not as it should be, in one word: what a condition says as its `reason`.

use std::fmt;

use serde::Serialize;

/// A reason, as `Diagnostic.reason`, a condition and a stopped exposition say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Reason {
    /// A filter, or the document that holds it, cannot be used.
    InvalidFilter,
    /// Any other document cannot be used.
    InvalidManifest,
    /// Two documents claim the same, or one says two things that exclude each other.
    Conflict,
    /// A kind of service that is not implemented yet.
    UnsupportedSource,
    /// More than configuration can carry.
    TooLarge,
    /// The namespace has used up one of its quotas.
    QuotaExceeded,
    /// Less than the GatewayGroup requires.
    BelowGroupFloor,
    /// Nothing, or nothing definite, is said of who may call.
    AccessRequired,
    /// The upstream is where the group's gateways may not call.
    EgressDenied,
    /// There is no such service.
    ServiceNotFound,
    /// The service has no such tool.
    ToolNotFound,
    /// The service has no such filter set.
    FilterSetNotFound,
    /// There is no such ConfigurationPlan.
    PlanNotFound,
    /// There is no such ConfigMap.
    ConfigMapNotFound,
    /// There is no such Secret, or not the key in it.
    SecretNotFound,
    /// The owner of the Secret has not let it take part in this way.
    SecretNotLabelled,
    /// The owner of the Secret does not let it be used for such a request.
    SecretUseNotAllowed,
    /// There is no such GatewayGroup.
    GatewayGroupNotFound,
    /// What is named is there, and may not be used from here.
    RefNotPermitted,
}

/// The conditions that a reason can make false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The object says something that can be done.
    Accepted,
    /// What it names is there, and permitted.
    ResolvedRefs,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::InvalidFilter,
        Self::InvalidManifest,
        Self::Conflict,
        Self::UnsupportedSource,
        Self::TooLarge,
        Self::QuotaExceeded,
        Self::BelowGroupFloor,
        Self::AccessRequired,
        Self::EgressDenied,
        Self::ServiceNotFound,
        Self::ToolNotFound,
        Self::FilterSetNotFound,
        Self::PlanNotFound,
        Self::ConfigMapNotFound,
        Self::SecretNotFound,
        Self::SecretNotLabelled,
        Self::SecretUseNotAllowed,
        Self::GatewayGroupNotFound,
        Self::RefNotPermitted,
    ];

    /// As a condition says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidFilter => "InvalidFilter",
            Self::InvalidManifest => "InvalidManifest",
            Self::Conflict => "Conflict",
            Self::UnsupportedSource => "UnsupportedSource",
            Self::TooLarge => "TooLarge",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::BelowGroupFloor => "BelowGroupFloor",
            Self::AccessRequired => "AccessRequired",
            Self::EgressDenied => "EgressDenied",
            Self::ServiceNotFound => "ServiceNotFound",
            Self::ToolNotFound => "ToolNotFound",
            Self::FilterSetNotFound => "FilterSetNotFound",
            Self::PlanNotFound => "PlanNotFound",
            Self::ConfigMapNotFound => "ConfigMapNotFound",
            Self::SecretNotFound => "SecretNotFound",
            Self::SecretNotLabelled => "SecretNotLabelled",
            Self::SecretUseNotAllowed => "SecretUseNotAllowed",
            Self::GatewayGroupNotFound => "GatewayGroupNotFound",
            Self::RefNotPermitted => "RefNotPermitted",
        }
    }

    /// The condition that it makes false.
    #[must_use]
    pub fn condition(self) -> Condition {
        match self {
            Self::InvalidFilter
            | Self::InvalidManifest
            | Self::Conflict
            | Self::UnsupportedSource
            | Self::TooLarge
            | Self::QuotaExceeded
            | Self::BelowGroupFloor
            | Self::AccessRequired
            | Self::EgressDenied => Condition::Accepted,
            Self::ServiceNotFound
            | Self::ToolNotFound
            | Self::FilterSetNotFound
            | Self::PlanNotFound
            | Self::ConfigMapNotFound
            | Self::SecretNotFound
            | Self::SecretNotLabelled
            | Self::SecretUseNotAllowed
            | Self::GatewayGroupNotFound
            | Self::RefNotPermitted => Condition::ResolvedRefs,
        }
    }

    /// Whether it says that something is not there; where a file is broken, it may be in that file.
    pub(crate) fn is_absence(self) -> bool {
        let is_refusal = matches!(self, Self::RefNotPermitted | Self::SecretNotLabelled | Self::SecretUseNotAllowed);
        self.condition() == Condition::ResolvedRefs && !is_refusal
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_written_as_it_is_called() {
        for reason in Reason::ALL {
            assert_eq!(format!("{reason:?}"), reason.as_str());
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            let absent = reason.as_str().ends_with("NotFound");
            assert_eq!(reason.is_absence(), absent, "{reason}");
            assert!(!absent || reason.condition() == Condition::ResolvedRefs, "{reason}");
        }
    }
}
