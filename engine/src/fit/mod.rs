//! Stage 10: decides which items of a list an answer shows, and in which detail (`filters.md`, "Budget").
//!
//! [`Strategy`] says how much each item is worth. [`Levels`] and comments give an item further forms, which are smaller
//! and worth less. [`choose`] takes the most valuable forms whose estimated weights fit, and [`exact`] makes the
//! answer, as it is written and counted, meet its limit. Writing and counting are the caller's.
//!
//! Everything is integers and fixed orders: each replica gives the same bytes.

mod candidates;
mod choose;
mod details;
mod ends;
mod exact;
mod fields;
mod greedy;
mod hull;
mod knapsack;
mod lines;
mod presets;
mod program;
#[cfg(test)]
mod tests;
mod values;
mod weights;

pub(crate) use candidates::{Candidates, Form, Selection};
pub(crate) use choose::{Algorithm, Problem, choose};
pub(crate) use details::{Detail, Details, Level, Levels};
pub(crate) use exact::exact;
#[cfg(test)]
pub(crate) use exact::{FURTHER, Fitted, most_measures};
pub(crate) use fields::Field;
pub(crate) use lines::{Chosen, LineBudget, Measure, both_ends, first_lines};
pub(crate) use presets::Preset;
pub use presets::ToolKind;
pub(crate) use program::FitProgram;
pub(crate) use values::{Newest, Strategy};
pub(crate) use weights::Weights;
