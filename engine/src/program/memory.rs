//! What a run takes of memory, at most, told before it begins.

use super::{Branch, Patch, Program};
use crate::json::values_allowed;
use crate::text::TextProgram;
use crate::{Call, Input};

/// Bytes that a member or an element takes while the longest list of a document grows: 56 for a member with its
/// value, 2.25 times, and the allocator's own.
const GROWING: usize = 144;
/// Bytes that it takes in a copy of a part of the document.
const COPIED: usize = 80;
/// Bytes that the operations of `patches` take for each member or element of what they enter, beside the document.
const INDEXED: usize = 96;
/// Whatever the size of the output: reports and small buffers.
const FIXED: usize = 4 << 20;

impl Program {
    /// The bytes that a run over `bytes` bytes of output may hold at once, the output itself not counted: a multiple
    /// of `bytes`, and a constant. What an output of its own needs is mostly far less: see [`Program::memory_for`].
    #[must_use]
    pub fn memory(&self, bytes: usize) -> usize {
        self.needs(bytes, values_allowed(bytes).min(bytes / 2 + 1))
    }

    /// The same for one output, by the commas and brackets in it: reads it once, at several bytes a nanosecond.
    #[must_use]
    pub fn memory_for(&self, input: Input<'_>, call: &Call<'_>) -> usize {
        match input {
            Input::Json(bytes) if self.0.is_verbatim(call) => FIXED + 2 * bytes.len(),
            Input::Json(bytes) => {
                let separators = memchr::memchr3_iter(b',', b'[', b'{', bytes).count();
                let values = (separators + 1).min(values_allowed(bytes.len())).min(bytes.len() / 2 + 1);
                self.needs(bytes.len(), values)
            }
            Input::Text(bytes) => self.needs(bytes.len(), 0),
        }
    }

    /// The lists of regular expressions that the program holds: an identity, which programs with equal lists share for as
    /// long as one of them is in use, and the bytes that the list takes once compiled.
    pub fn expressions(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.branches.iter().filter_map(|branch| branch.text.as_ref()).flat_map(TextProgram::expressions)
    }

    fn needs(&self, bytes: usize, values: usize) -> usize {
        let needs = self.0.branches.iter().map(|branch| branch.needs(bytes, values, self.0.limits.max_input_bytes));
        FIXED + needs.max().unwrap_or(bytes)
    }
}

impl Branch {
    fn needs(&self, bytes: usize, values: usize, most: usize) -> usize {
        let written: usize = self.patches.iter().map(Patch::written).sum();
        let copies = self.patches.iter().any(Patch::copies);
        // What `copy` may add, and what paths of `select` that lead to one place may.
        let copied = if copies { most.min(bytes.saturating_mul(self.patches.len())) } else { 0 };
        let multiplied = if self.select_multiplies { most.min(bytes.saturating_mul(self.select.len())) } else { 0 };
        let grown = bytes + written + copied + multiplied;
        let tree = values * GROWING + (written / 2 + copied / 8) * COPIED;
        let selected = if self.select.is_empty() { 0 } else { (values + multiplied / 8) * COPIED };
        let indexed = if self.patches.is_empty() { 0 } else { values * INDEXED };
        let searched = self.text.as_ref().map_or(0, TextProgram::search_bytes);
        // Stages on text and on bytes write one buffer while they read another.
        tree + selected + indexed + searched + 3 * grown
    }
}
