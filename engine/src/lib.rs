//! The filter engine: what of one tool output a language model gets to see.
//!
//! [`compile`] turns a [`ToolFilter`] (what a document declares) into a [`Program`], or into
//! [`Finding`]s that name the field and the remedy; [`Program::apply`] runs it over one output.
//! The crate is pure: no clock, no file, no network, no async.
#![deny(unsafe_code)]

mod budget;
mod compile;
mod finding;
pub mod json;
mod outcome;
mod program;
mod report;
mod run;
mod spec;
mod stream;
pub mod template;
pub mod text;
mod work;

pub use compile::{CompileOptions, Compiled, Enforcement, Limits, ResponseType, compile, compile_within};
pub use finding::{Finding, Severity};
pub use json::JsonText;
pub use outcome::{BudgetReport, Bytes, Call, Filtered, Input, Refused, Report, Stage, Structured, Warning};
pub use program::Program;
pub use spec::{BudgetSpec, CompactSpec, FilterSpec, OutputSpec, PatchSpec, TestSpec, TextSpec, ToolFilter};
pub use text::PatternBudget;
pub use work::{Interrupted, stage_steps, text_steps};
