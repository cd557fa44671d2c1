//! Conditions: how they are read from a status, and written into one.

use jiff::Timestamp;
use serde_json::{Value, json};
use tamis_config::{Condition, Reason};

/// `status` of a condition.
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

/// What a condition shall say.
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

    /// The condition as it is written. It keeps the time of its last transition as long as its truth is the same.
    pub(crate) fn write(&self, type_: Condition, generation: i64, before: Option<Seen<'_>>, now: Timestamp) -> Value {
        let since = before
            .filter(|before| before.truth() == Some(self.truth))
            .and_then(|before| before.text("lastTransitionTime"))
            .filter(|time| time.parse::<Timestamp>().is_ok())
            .map_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), str::to_owned);
        json!({
            "type": type_.as_str(),
            "status": self.truth.as_str(),
            "observedGeneration": generation,
            "lastTransitionTime": since,
            "reason": self.reason,
            "message": super::message::whole(&self.message),
        })
    }
}

/// A condition as it is in the API. Somebody else may have written it: nothing in it is relied on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a>(pub(crate) &'a Value);

impl<'a> Seen<'a> {
    /// The condition of a type in a status.
    pub(crate) fn find(status: Option<&'a Value>, type_: Condition) -> Option<Self> {
        let conditions = status?.get("conditions")?.as_array()?;
        conditions
            .iter()
            .find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_.as_str()))
            .map(Self)
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

    /// What it says, as something to say again.
    pub(crate) fn again(self) -> Option<Draft> {
        Some(Draft::new(self.truth()?, self.reason()?, self.message()))
    }
}
