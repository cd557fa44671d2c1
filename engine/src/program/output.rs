//! The compiled `output` of a filter.

use std::sync::{Arc, LazyLock};

use crate::fit::{FitProgram, ToolKind};
use crate::format::{Format, ToonOptions};
use crate::pages::ChunksProgram;
use crate::{Budget, ReservedInputs};

/// When an answer that is JSON has structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StructuredMode {
    Always,
    /// Where the tool advertises an output schema.
    Schema,
    Never,
}

/// Stages 10 and 11 without `compact`: how an answer is fitted and written.
#[derive(Debug)]
pub(crate) struct OutputProgram {
    /// The limits on the answer; a call can lower them.
    pub(crate) budget: Budget,
    /// The formats to choose from; at least one.
    pub(crate) formats: Box<[Format]>,
    /// How TOON is written.
    pub(crate) toon: ToonOptions,
    /// Which answers that are JSON have structured content.
    pub(crate) structured: StructuredMode,
    /// Whether the answer reports cuts.
    pub(crate) notice: bool,
    /// The reserved inputs that the filter adds to the tool.
    pub(crate) inputs: ReservedInputs,
    /// Which items are shown.
    pub(crate) fit: FitProgram,
    /// The index of the others.
    pub(crate) chunks: ChunksProgram,
    /// All that `fit` is compiled from, as text: lists that are divided in another way have another id.
    pub(crate) settings: Box<str>,
}

impl OutputProgram {
    /// Returns the program of a filter without `output`.
    fn of(tool: ToolKind) -> Self {
        Self {
            budget: Budget::default(),
            formats: Box::new([Format::Json]),
            toon: ToonOptions::default(),
            structured: StructuredMode::Always,
            notice: true,
            inputs: ReservedInputs::default(),
            fit: FitProgram::of(tool),
            chunks: ChunksProgram::default(),
            settings: format!("{tool:?}").into(),
        }
    }

    /// Returns [`OutputProgram::of`], which all programs share.
    pub(crate) fn shared(tool: ToolKind) -> Arc<Self> {
        static SHARED: LazyLock<[Arc<OutputProgram>; ToolKind::ALL.len()]> =
            LazyLock::new(|| ToolKind::ALL.map(|tool| Arc::new(OutputProgram::of(tool))));
        let number = ToolKind::ALL.into_iter().position(|kind| kind == tool).unwrap_or(0);
        Arc::clone(&SHARED[number])
    }

    /// Returns whether every answer is JSON as it is.
    pub(crate) fn is_json(&self) -> bool {
        *self.formats == [Format::Json]
    }

    /// Returns whether it changes nothing of any output.
    pub(crate) fn is_none(&self) -> bool {
        self.budget.is_none() && self.is_json()
    }
}
