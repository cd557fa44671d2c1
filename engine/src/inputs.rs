//! The inputs of a call that the gateway answers itself (`filters.md`, "Reserved inputs").

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An input that the gateway adds to a tool, and that never reaches the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ReservedInput {
    /// Whether the output is filtered.
    #[serde(rename = "_output_mode")]
    OutputMode,
    /// The largest answer, in bytes.
    #[serde(rename = "_budget")]
    Budget,
    /// The largest answer, in tokens.
    #[serde(rename = "_budget_tokens")]
    BudgetTokens,
    /// The format of the answer.
    #[serde(rename = "_format")]
    Format,
    /// A part of the list, by its number in the index.
    #[serde(rename = "chunk")]
    Chunk,
    /// The first item to show.
    #[serde(rename = "offset")]
    Offset,
    /// The number of items to show.
    #[serde(rename = "limit")]
    Limit,
}

impl ReservedInput {
    /// All of them, in the order in which a tool lists them.
    pub const ALL: [Self; 7] =
        [Self::OutputMode, Self::Budget, Self::BudgetTokens, Self::Format, Self::Chunk, Self::Offset, Self::Limit];

    /// Returns the name of the input.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OutputMode => "_output_mode",
            Self::Budget => "_budget",
            Self::BudgetTokens => "_budget_tokens",
            Self::Format => "_format",
            Self::Chunk => "chunk",
            Self::Offset => "offset",
            Self::Limit => "limit",
        }
    }

    /// Returns the input with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|input| input.as_str() == name)
    }
}

impl fmt::Display for ReservedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of reserved inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReservedInputs(u8);

impl ReservedInputs {
    /// Returns whether `input` is in the set.
    #[must_use]
    pub fn contains(self, input: ReservedInput) -> bool {
        self.0 & Self::bit(input) != 0
    }

    /// Returns the set without `input`.
    #[must_use]
    pub fn without(self, input: ReservedInput) -> Self {
        Self(self.0 & !Self::bit(input))
    }

    /// Returns the inputs of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the inputs in the order in which a tool lists them.
    pub fn iter(self) -> impl Iterator<Item = ReservedInput> {
        ReservedInput::ALL.into_iter().filter(move |input| self.contains(*input))
    }

    fn bit(input: ReservedInput) -> u8 {
        1 << input as u8
    }
}

impl FromIterator<ReservedInput> for ReservedInputs {
    fn from_iter<I: IntoIterator<Item = ReservedInput>>(inputs: I) -> Self {
        Self(inputs.into_iter().fold(0, |set, input| set | Self::bit(input)))
    }
}

#[cfg(test)]
mod tests {
    use super::{ReservedInput, ReservedInputs};

    #[test]
    fn a_set_holds_what_it_was_made_of() {
        let all: ReservedInputs = ReservedInput::ALL.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), ReservedInput::ALL);
        for input in ReservedInput::ALL {
            assert_eq!(ReservedInput::named(input.as_str()), Some(input));
            assert_eq!(serde_json::to_value(input).unwrap(), input.as_str());
            let one: ReservedInputs = [input].into_iter().collect();
            assert_eq!(one.iter().collect::<Vec<_>>(), [input]);
            assert_eq!(all.without(input).union(one), all);
            assert!(!all.without(input).contains(input));
        }
        assert_eq!(ReservedInput::named("_own"), None);
    }
}
