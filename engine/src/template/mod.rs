//! Go's `text/template` syntax on JSON: a subset of its own ([`filters.md`, "Compact template"]).
//!
//! Supported: fields, `$x := ..`, `if`, `else if`, `range`, `with`, `break`, `continue`, comments, trim markers,
//! pipelines, parentheses, `and or not eq ne lt le gt ge len index print println printf`.
//!
//! It differs from Go so that data cannot make a rendering fail:
//! - A missing or null field prints nothing, and so does a field of it.
//! - Numbers print their digits, strings their characters, objects and lists compact JSON.
//! - `range` over a value that has no elements or members takes `else`; objects are ranged over in their own order.
//! - `lt` and the like are false if two values have no order; `eq` of different kinds is false.
//! - `printf` rounds decimals exactly, a tie to the even digit. Its format must be written in the template.
//!
//! [`filters.md`, "Compact template"]: Template

mod aggregate;
mod ast;
mod compact;
mod decimal;
mod eval;
mod format;
mod lex;
mod parse;
mod value;

use std::fmt;

use crate::json::Node;
use crate::work::{Work, stage_steps};

pub use compact::CompactProgram;
pub(crate) use compact::{Counts, Rendered, place, structured};

/// The bytes that the source of one template may have.
const MAX_SOURCE_BYTES: usize = 64 << 10;
/// The nesting of blocks, and of parentheses and pipes.
const MAX_NESTING: usize = 64;
/// The bytes that one rendering may write.
const MAX_RENDERED_BYTES: usize = 16 << 20;
/// The steps of one rendering, however large the output: nothing else bounds `range` within `range`.
const MAX_STEPS: usize = 50_000_000;

/// Returns the steps that the templates of one summary may take together, on an output of `bytes` bytes.
#[must_use]
pub fn template_steps(bytes: usize) -> usize {
    stage_steps(bytes).min(MAX_STEPS)
}

/// A parsed template. Immutable. Parsing finds every mistake that does not depend on data.
#[derive(Debug, Clone)]
pub struct Template {
    steps: ast::Block,
    slots: usize,
    fields: Vec<(Box<str>, usize)>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors The first mistake, with its place and its remedy.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        parse::parse(source, parse::Dot::Any).map(Self::from)
    }

    /// Parses a template whose dot is a list of items. It has more functions: `paths .a`, `range .a`, `counts .a` and
    /// `sum .a`, over the values that the items have at `.a`; see [`aggregate`]. `range` loops as everywhere, unless a
    /// field of the list of items follows it, since a list has no fields.
    ///
    /// # Errors The first mistake, with its place and its remedy. A field of the list of items that is not the argument
    /// of one of the functions is one: it would print nothing.
    pub(crate) fn parse_over_items(source: &str) -> Result<Self, TemplateError> {
        parse::parse(source, parse::Dot::Items).map(Self::from)
    }

    /// Renders the template over `dot`, and appends the result to `out`.
    ///
    /// # Errors A limit of `meter` was reached; `out` then holds a part of the rendering.
    pub fn render(&self, dot: &Node<'_>, out: &mut String, meter: &mut Meter<'_>) -> Result<(), RenderError> {
        eval::Evaluator::run(self, dot, out, meter)
    }

    /// Returns the fields of the outermost dot that the template reads, each with the offset of its use. For a template
    /// over items: the fields of an item that the functions over items read.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, usize)> {
        self.fields.iter().map(|(name, offset)| (name.as_ref(), *offset))
    }
}

impl From<parse::Parsed> for Template {
    fn from(parsed: parse::Parsed) -> Self {
        let parse::Parsed { steps, slots, fields } = parsed;
        Self { steps, slots, fields }
    }
}

/// A mistake in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The offset in the source, in bytes.
    pub offset: usize,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The remedy, in one sentence without a full stop.
    pub remedy: String,
}

impl TemplateError {
    fn new(offset: usize, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { offset, message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}, {}", self.offset, self.message, self.remedy)
    }
}

impl std::error::Error for TemplateError {}

/// The remaining steps and bytes of a rendering; several templates may share one meter.
#[derive(Debug, Clone)]
pub struct Meter<'w> {
    steps: usize,
    bytes: usize,
    work: Option<&'w Work<'w>>,
}

impl Default for Meter<'_> {
    fn default() -> Self {
        Self { steps: MAX_STEPS, bytes: MAX_RENDERED_BYTES, work: None }
    }
}

impl<'w> Meter<'w> {
    /// Returns a meter with the given limits on steps and on bytes of the output.
    #[must_use]
    pub fn new(steps: usize, bytes: usize) -> Self {
        Self { steps, bytes, work: None }
    }

    /// Returns the meter of a stage for an output that had `bytes` bytes originally.
    pub(crate) fn of(bytes: usize, work: &'w Work<'w>) -> Self {
        Self { steps: template_steps(bytes), bytes: MAX_RENDERED_BYTES, work: Some(work) }
    }

    /// Returns a meter with the given limits on steps and on bytes of the output. It polls the interrupt of `work`.
    pub(crate) fn within(steps: usize, bytes: usize, work: &'w Work<'w>) -> Self {
        Self { steps, bytes, work: Some(work) }
    }

    fn spend(&mut self, steps: usize) -> Result<(), RenderError> {
        self.steps = self.steps.checked_sub(steps).ok_or(RenderError::TooManySteps)?;
        // An interrupted run shows no error to anyone.
        if self.work.is_none_or(|work| work.spend_unbounded(steps)) { Ok(()) } else { Err(RenderError::TooManySteps) }
    }

    fn room(&self, length: usize) -> Result<(), RenderError> {
        if length > self.bytes { Err(RenderError::TooLong { limit: self.bytes }) } else { Ok(()) }
    }
}

/// The limit that stopped a rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderError {
    /// The rendered text is too long.
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The template takes too many steps, such as ranges within ranges over long lists.
    TooManySteps,
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "the rendered text is longer than {limit} bytes"),
            Self::TooManySteps => f.write_str("the template takes too many steps on this output"),
        }
    }
}

impl std::error::Error for RenderError {}

#[cfg(test)]
mod tests;
