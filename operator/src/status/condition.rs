//! Conditions: how the operator reads them from a status, and writes them into one.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use tamis_config::{Condition, Reason};
use tamis_crds::resources::StatusCondition;

/// The `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The content of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) truth: Truth,
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Draft {
    pub(crate) fn new(truth: Truth, reason: Reason, message: impl Into<String>) -> Self {
        Self { truth, reason, message: message.into() }
    }

    /// Returns the condition of the status. The time of its last transition stays while its truth is the same.
    pub(super) fn dated(
        &self,
        condition: Condition,
        generation: i64,
        before: Option<Seen<'_>>,
        now: Timestamp,
    ) -> StatusCondition {
        let since = before
            .filter(|before| before.truth() == Some(self.truth))
            .and_then(|before| before.text("lastTransitionTime")?.parse().ok());
        StatusCondition {
            type_: condition.as_str().to_owned(),
            status: self.truth.as_str().to_owned(),
            observed_generation: Some(generation),
            last_transition_time: Time(since.unwrap_or(now)),
            reason: self.reason.to_string(),
            message: super::message::whole(&self.message),
        }
    }
}

/// A condition in the API. Another writer may have changed it, so any field may be missing or malformed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a>(pub(crate) &'a Value);

impl<'a> Seen<'a> {
    /// Finds a condition in a status.
    pub(crate) fn find(status: Option<&'a Value>, condition: Condition) -> Option<Self> {
        let conditions = status?.get(super::CONDITIONS)?.as_array()?;
        let is_it = |found: &&Value| found.get("type").and_then(Value::as_str) == Some(condition.as_str());
        conditions.iter().find(is_it).map(Self)
    }

    pub(crate) fn text(self, field: &str) -> Option<&'a str> {
        self.0.get(field)?.as_str()
    }

    /// The reason, if it is one of the operator's.
    pub(crate) fn reason(self) -> Option<Reason> {
        self.text("reason").and_then(Reason::parse)
    }

    pub(crate) fn message(self) -> &'a str {
        self.text("message").unwrap_or_default()
    }

    pub(crate) fn truth(self) -> Option<Truth> {
        [Truth::True, Truth::False, Truth::Unknown]
            .into_iter()
            .find(|truth| self.text("status") == Some(truth.as_str()))
    }

    pub(crate) fn generation(self) -> Option<i64> {
        self.0.get("observedGeneration")?.as_i64()
    }

    /// Returns its content, to be written again.
    pub(super) fn again(self) -> Option<Draft> {
        Some(Draft::new(self.truth()?, self.reason()?, self.message()))
    }
}
