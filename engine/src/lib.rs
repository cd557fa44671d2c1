//! The filter engine: what of one tool output a language model gets to see.
//!
//! [`compile`] turns a [`ToolFilter`] (what a document declares) into a [`Program`], or into
//! [`Finding`]s that name the field and the remedy; [`Program::apply`] runs it over one output.
//! The crate is pure: no clock, no file, no network, no async.
#![deny(unsafe_code)]

mod finding;
pub mod json;
mod outcome;
mod program;
mod spec;
mod stream;

pub use finding::{Finding, Severity};
pub use json::JsonText;
pub use outcome::{Call, Filtered, Input, Refused, Report, Stage, Structured, Warning};
pub use program::{CompileOptions, Compiled, Enforcement, Limits, Program, ResponseType, compile};
pub use spec::{BudgetSpec, CompactSpec, FilterSpec, OutputSpec, PatchSpec, TestSpec, TextSpec, ToolFilter};
