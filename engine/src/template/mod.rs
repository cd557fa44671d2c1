//! Go's `text/template` syntax, an own subset, on JSON ([`filters.md`, "Compact template"]).
//!
//! Known: fields, `$x := ..`, `if`, `else if`, `range`, `with`, `break`, `continue`, comments, trim
//! markers, pipelines, parentheses, `and or not eq ne lt le gt ge len index print println printf`.
//!
//! Where it differs from Go, it is so that data cannot make a rendering fail:
//! - A missing or null field prints nothing, and so does a field of it.
//! - Numbers print their digits, strings their characters, objects and lists compact JSON.
//! - `range` over what cannot be ranged over takes `else`; objects are ranged over in their own order.
//! - `lt` and the like are false where two values have no order; `eq` of unlike kinds is false.
//! - `printf` rounds decimals exactly, a tie to the even digit. Its format must be written in the template.
//!
//! [`filters.md`, "Compact template"]: Template

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
pub(crate) use compact::Room;

/// Bytes of one template's source.
const MAX_SOURCE_BYTES: usize = 64 << 10;
/// How deep blocks, and parentheses and pipes, may nest.
const MAX_NESTING: usize = 64;
/// Bytes of one rendering.
const MAX_RENDERED_BYTES: usize = 16 << 20;
/// Steps of one rendering, however large the output: `range` within `range` is bounded by this alone.
const MAX_STEPS: usize = 50_000_000;

/// The steps that the templates of one summary may take together, on an output of `bytes` bytes.
#[must_use]
pub fn template_steps(bytes: usize) -> usize {
    stage_steps(bytes).min(MAX_STEPS)
}

/// A parsed template. Immutable; parsing finds every mistake that does not depend on data.
#[derive(Debug, Clone)]
pub struct Template {
    steps: ast::Block,
    slots: usize,
    fields: Vec<(Box<str>, usize)>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The first mistake, with its place and what to do about it.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        parse::parse(source).map(|parsed| Self { steps: parsed.steps, slots: parsed.slots, fields: parsed.fields })
    }

    /// Renders the template over `dot`, at the end of `out`.
    ///
    /// # Errors
    /// Where a limit of `meter` is reached; `out` then holds a part of the rendering.
    pub fn render(&self, dot: &Node<'_>, out: &mut String, meter: &mut Meter<'_>) -> Result<(), RenderError> {
        eval::Evaluator::run(self, dot, out, meter)
    }

    /// The fields of the outermost dot that the template reads, each with the offset of its use.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, usize)> {
        self.fields.iter().map(|(name, offset)| (name.as_ref(), *offset))
    }
}

/// A mistake in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// Where, in bytes of the source.
    pub offset: usize,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do about it, in one sentence without a full stop.
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

/// What one rendering may still cost; several templates may share one.
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
    /// Limits of one's own, on steps and on bytes of the output.
    #[must_use]
    pub fn new(steps: usize, bytes: usize) -> Self {
        Self { steps, bytes, work: None }
    }

    /// The limits of the stage for an output that came with `bytes` bytes.
    pub(crate) fn of(bytes: usize, work: &'w Work<'w>) -> Self {
        Self { steps: template_steps(bytes), bytes: MAX_RENDERED_BYTES, work: Some(work) }
    }

    fn spend(&mut self, steps: usize) -> Result<(), RenderError> {
        self.steps = self.steps.checked_sub(steps).ok_or(RenderError::TooManySteps)?;
        // Of a run that is over no one sees why.
        if self.work.is_none_or(|work| work.pass(steps)) { Ok(()) } else { Err(RenderError::TooManySteps) }
    }

    fn room(&self, length: usize) -> Result<(), RenderError> {
        if length > self.bytes { Err(RenderError::TooLong { limit: self.bytes }) } else { Ok(()) }
    }
}

/// A rendering that a limit stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderError {
    /// The output is too long.
    TooLong {
        /// In bytes.
        limit: usize,
    },
    /// The template does too much, such as ranges within ranges over long lists.
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
