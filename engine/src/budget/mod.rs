//! Stage 10: the byte budget of the text block (`filters.md`, "Budget").
//!
//! Always met, by valid output, wherever any output can meet it. Nothing is encoded to find out:
//! sizes are measured once, then the tree is trimmed in place.

mod json;
mod text;

use crate::BudgetReport;

pub(crate) use json::fit_json;
pub(crate) use text::cut_to;
pub use text::fit_text;

impl BudgetReport {
    /// A report of what is yet to be trimmed.
    pub(crate) fn new(limit: usize, original_bytes: usize) -> Self {
        Self {
            limit,
            original_bytes,
            result_bytes: original_bytes,
            items_dropped: 0,
            strings_truncated: 0,
            members_dropped: 0,
            exceeded: false,
        }
    }
}

#[cfg(test)]
mod tests;
