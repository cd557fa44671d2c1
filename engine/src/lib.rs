//! The filter engine: decides which parts of a tool's output a language model sees.
//! - [`compile`] turns a [`ToolFilter`] (the filter as a document declares it) into a [`Program`]. Where it cannot,
//!   it returns [`Finding`]s that name the field and the remedy.
//! - [`Program::apply`] runs the program over one output and returns [`Filtered`], or [`Refused`] where an `Enforced`
//!   filter fails.
//!
//! Two executors give the same bytes: `run` applies every stage to a tree, and is the reference; `stream` filters in
//! one validating pass over the bytes, and gives way to `run` wherever a document is out of the ordinary.
//!
//! The crate is pure: it has no clock, no files, no network and no async code.
#![deny(unsafe_code)]

mod answer;
mod compile;
mod finding;
mod fit;
mod format;
mod inputs;
pub mod json;
mod outcome;
mod pages;
mod program;
mod report;
mod run;
mod spec;
mod stream;
pub mod template;
pub mod text;
mod tokens;
mod work;

pub use compile::{CompileOptions, Compiled, Enforcement, Limits, ResponseType, compile, compile_within};
pub use finding::{Finding, Severity};
pub use fit::ToolKind;
pub use format::{CompactJson, Delimiter, Format, ToonOptions, UnknownFormat, Unrepresentable};
pub use inputs::{ReservedInput, ReservedInputs};
pub use json::JsonText;
pub use outcome::{
    Budget, BudgetReport, Bytes, Call, Filtered, Input, Parts, Refused, Report, Stage, Structured, TokenReport, Warning,
};
pub use pages::{Page, PageError, PageInput, PageInputs, PageRequest};
pub use program::{ItemForm, ItemForms, Program, ReadParts, Reads};
pub use spec::{
    BudgetSpec, ChunksSpec, CompactSpec, FilterSpec, FormatSpec, OutputSpec, PatchSpec, StrategyFields, StrategySpec,
    TestSpec, TextSpec, ToolFilter, ToonSpec,
};
pub use text::PatternBudget;
pub use tokens::{Boundary, Estimate, Factor, TokenCounter, Tokenizer, Tokens};
pub use work::{Interrupted, stage_steps, text_steps};
