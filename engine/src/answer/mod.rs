//! Stage 10: the budget of an answer (`filters.md`, "Budget").
//!
//! A budget is met by valid output wherever any output can meet it, and the frame around the value counts. Nothing is
//! encoded to find out: sizes are measured once, then the tree is trimmed in place.

mod cut;
mod frame;
mod measure;
mod search;
mod trim;

use crate::{Budget, BudgetReport, Bytes};

pub(crate) use cut::cut_to;
pub(crate) use frame::{ADDED, CHUNKS, Cut, Form, Frame, Items, OWN, PAGINATION, RESULT, TRUNCATED};
pub(crate) use measure::{Output, Scale, Size};
pub(crate) use search::{Attempt, search};
pub(crate) use trim::{List, fit_json};

impl BudgetReport {
    /// Returns the report of an answer that has not been trimmed yet, for a limit in bytes.
    pub(crate) fn new(limit: Bytes, original: Bytes) -> Self {
        Self {
            limit: Budget { bytes: Some(limit), tokens: None },
            original,
            result: original,
            items_dropped: 0,
            strings_truncated: 0,
            members_dropped: 0,
            exceeded: false,
        }
    }
}

#[cfg(test)]
mod tests;
