//! Remembers the counts of the parts of texts that one run counts.
//!
//! A run counts texts that are nearly equal: an answer with one item more, the same answer as structured content, an item
//! alone and then within its list. Where the tokenizer says at which places a text can be counted in two halves, a text
//! is divided there, and a part that was counted before is looked up. Which of those places are taken depends on the
//! bytes before them alone, so that equal stretches of two texts are divided into equal parts wherever they stand.
//!
//! No count depends on what is remembered.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;

use foldhash::quality::RandomState;

use super::{Boundary, Tokenizer};
use crate::work::Work;

/// The bytes of a part, at least, but for the last one of a text.
const LEAST: usize = 48;
/// The bytes of a part that is remembered, at most.
const LONGEST: usize = 4 << 10;
/// The bytes that are remembered in one run, at most.
const MOST: usize = 4 << 20;
/// What a remembered part takes in addition to its text, about.
const ENTRY: usize = 64;
/// Of all places, one in so many ends a part, if the text can be divided there.
const RATE: u32 = 8;
/// A byte of a part that is looked up takes about as long as a fraction of a step.
const BYTES_PER_STEP: usize = 4;

/// The parts that were counted in one run, with their tokens.
#[derive(Default)]
pub(crate) struct Memo {
    parts: RefCell<HashMap<Box<str>, u32, RandomState>>,
    /// The bytes that the parts take.
    bytes: Cell<usize>,
    /// The bytes that a tokenizer has counted.
    counted: Cell<usize>,
}

// No content: parts of a payload.
impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parts of {} bytes", self.parts.borrow().len(), self.bytes.get())
    }
}

impl Memo {
    /// Returns the tokens of `text`, at least as far as `most`, as [`Tokenizer::count`] does. All counts of a memo are
    /// those of one tokenizer. Returns `None` if the run is interrupted.
    pub(super) fn count(&self, tokenizer: &dyn Tokenizer, text: &str, most: usize, work: &Work<'_>) -> Option<usize> {
        let Some(is_boundary) = tokenizer.boundary() else {
            return self.counted(tokenizer, text, most, work);
        };
        let (mut at, mut tokens) = (0, 0_usize);
        while at < text.len() && tokens <= most {
            let length = part(&text[at..], is_boundary);
            let part = &text[at..at + length];
            at += length;
            let known = self.parts.borrow().get(part).copied();
            let counted = match known {
                Some(known) => {
                    if !work.spend_unbounded(length / BYTES_PER_STEP) {
                        return None;
                    }
                    known as usize
                }
                None if length <= LONGEST => {
                    let counted = self.counted(tokenizer, part, usize::MAX, work)?;
                    self.remember(part, counted);
                    counted
                }
                None => self.counted(tokenizer, part, most - tokens, work)?,
            };
            tokens = tokens.saturating_add(counted);
        }
        Some(tokens)
    }

    fn counted(&self, tokenizer: &dyn Tokenizer, text: &str, most: usize, work: &Work<'_>) -> Option<usize> {
        self.counted.set(self.counted.get().saturating_add(text.len()));
        tokenizer.count(text, most, &mut |bytes| work.spend_unbounded(bytes * super::STEPS_PER_BYTE))
    }

    fn remember(&self, part: &str, tokens: usize) {
        let bytes = self.bytes.get() + part.len() + ENTRY;
        let Ok(tokens) = u32::try_from(tokens) else { return };
        if bytes <= MOST {
            self.bytes.set(bytes);
            self.parts.borrow_mut().insert(part.into(), tokens);
        }
    }

    /// Returns the bytes that a tokenizer has counted, the lengths of all texts that were not looked up.
    #[cfg(test)]
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted.get()
    }
}

/// Returns the length of the part that begins `text`.
fn part(text: &str, is_boundary: Boundary) -> usize {
    let bytes = text.as_bytes();
    (LEAST..bytes.len()).find(|at| is_marked(bytes, *at) && is_boundary(text, *at)).unwrap_or(bytes.len())
}

/// Returns whether the bytes before `at` mark a place that may end a part: after a letter or a digit, before a sign.
fn is_marked(bytes: &[u8], at: usize) -> bool {
    if !bytes[at - 1].is_ascii_alphanumeric() || bytes[at].is_ascii_alphanumeric() {
        return false;
    }
    let before = u32::from_le_bytes([bytes[at - 4], bytes[at - 3], bytes[at - 2], bytes[at - 1]]);
    // The upper bits of the product depend on all bytes.
    (before.wrapping_mul(0x9E37_79B1) >> 16).is_multiple_of(RATE)
}

#[cfg(test)]
#[path = "memo_tests.rs"]
mod tests;
