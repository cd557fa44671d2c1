//! The upper bound on the memory of a run, computed before the run begins.

use super::{Branch, Patch, Program};
use crate::json::values_allowed;
use crate::text::TextProgram;
use crate::{Call, Input};

/// Bytes for each member or element while the longest list of a document grows: 56 bytes for a member with its value,
/// times 2.25, and the overhead of the allocator.
const GROWING: usize = 144;
/// Bytes for each member or element of a copy of a part of the document.
const COPIED: usize = 80;
/// Additional bytes of `patches` for each member or element of a container that operations enter.
const INDEXED: usize = 96;
/// Bytes for each form of each item of a list that is fitted into a budget. While a list is fitted there is no tree, whose
/// bytes it may take in addition.
const FORM: usize = 24;
/// How many texts of the size of the output there may be in addition while an answer is fitted: the document, what is shown
/// of it, and that in another format.
const FITTED_TEXTS: usize = 4;
/// Bytes for reports and small buffers, whatever the size of the output.
const FIXED: usize = 4 << 20;

impl Program {
    /// Returns the bytes that a run over `bytes` bytes of output may hold at once, without the output itself: a
    /// multiple of `bytes`, and a constant. A single output mostly needs far less, see [`Program::memory_for`].
    #[must_use]
    pub fn memory(&self, bytes: usize) -> usize {
        self.memory_needed(bytes, values_allowed(bytes).min(bytes / 2 + 1), true)
    }

    /// Returns the bound for one output, from the number of commas and brackets in it. Reads the output once, at
    /// several bytes a nanosecond.
    #[must_use]
    pub fn memory_for(&self, input: Input<'_>, call: &Call<'_>) -> usize {
        match input {
            Input::Json(bytes) if self.0.is_verbatim(call) => FIXED + 2 * bytes.len(),
            Input::Json(bytes) => {
                let separators = memchr::memchr3_iter(b',', b'[', b'{', bytes).count();
                let values = (separators + 1).min(values_allowed(bytes.len())).min(bytes.len() / 2 + 1);
                self.memory_needed(bytes.len(), values, call.shapes())
            }
            Input::Text(bytes) => self.memory_needed(bytes.len(), 0, call.shapes()),
        }
    }

    /// Returns the lists of regular expressions that the program holds: an identity, which programs with equal lists
    /// share for as long as one of them is in use, and the size of the list in bytes once compiled.
    pub fn expressions(&self) -> impl Iterator<Item = (usize, usize)> {
        let text =
            self.0.branches.iter().filter_map(|branch| branch.text.as_deref()).flat_map(TextProgram::expressions);
        text.chain(self.0.branches.iter().filter_map(|branch| branch.output.fit.expressions()))
    }

    /// `shaped` says whether a call may ask for a budget, a format or a page.
    fn memory_needed(&self, bytes: usize, values: usize, shaped: bool) -> usize {
        let most = self.0.limits.max_input_bytes;
        let needs = self.0.branches.iter().map(|branch| branch.memory_needed(bytes, values, most, shaped));
        FIXED + needs.max().unwrap_or(bytes)
    }
}

impl Branch {
    fn memory_needed(&self, bytes: usize, values: usize, most: usize, shaped: bool) -> usize {
        let written: usize = self.patches.iter().map(Patch::bytes_written).sum();
        let copies = self.patches.iter().any(Patch::copies);
        // The bytes that `copy` may add, and that paths of `select` that lead to the same place may add.
        let copied = if copies { most.min(bytes.saturating_mul(self.patches.len())) } else { 0 };
        let multiplied = if self.select_multiplies { most.min(bytes.saturating_mul(self.select.len())) } else { 0 };
        let grown = bytes + written + copied + multiplied;
        let tree = values * GROWING + (written / 2 + copied / 8) * COPIED;
        let selected = if self.select.is_empty() { 0 } else { (values + multiplied / 8) * COPIED };
        let indexed = if self.patches.is_empty() { 0 } else { values * INDEXED };
        let searched = self.text.as_deref().map_or(0, TextProgram::search_bytes) + self.output.fit.search_bytes();
        // Stages on text and on bytes write one buffer while they read another.
        let forms = 1 + self.output.fit.levels.len();
        let fitted = if shaped || !self.output.is_none() { FITTED_TEXTS * grown + values * FORM * forms } else { 0 };
        tree + selected + indexed + searched + 3 * grown + fitted
    }
}
