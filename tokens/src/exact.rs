//! Exact counts: a text is split into parts where a token certainly ends, and each part is counted alone.

use std::fmt;

use tamis_engine::{Boundary, Tokenizer};
use tiktoken::CoreBpe;

use crate::stretch::Stretches;
use crate::{TokenizerName, Vocabulary};

/// The bytes of a part, at most. `tiktoken` merges a piece of this length within milliseconds and in half a megabyte.
/// For longer pieces it takes 24 times their length, and more than linear time.
pub(crate) const PART: usize = 16 << 10;

/// What `tiktoken` splits otherwise than the patterns: the long s is a lower case of S, so this is an `'s`.
pub(crate) const UNCOMMON: &str = "'\u{17f}";

/// The tokenizer of a vocabulary.
pub(crate) struct Exact {
    name: TokenizerName,
    vocabulary: CoreBpe,
    stretches: Stretches,
}

impl Exact {
    /// Reads the vocabulary.
    pub(crate) fn new(vocabulary: Vocabulary) -> Self {
        let (name, loaded) = match vocabulary {
            Vocabulary::O200kBase => (TokenizerName::O200kBase, tiktoken::encoding::o200k_base()),
            Vocabulary::Cl100kBase => (TokenizerName::Cl100kBase, tiktoken::encoding::cl100k_base()),
        };
        Self { name, stretches: Stretches::new(vocabulary, &loaded), vocabulary: loaded }
    }
}

impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_str())
    }
}

impl Tokenizer for Exact {
    fn name(&self) -> &'static str {
        self.name.as_str()
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let (mut at, mut tokens) = (0, 0);
        let mut stretch = None;
        while at < text.len() && tokens <= most {
            let part = part(&text[at..]).filter(|length| !text[at..at + length].contains(UNCOMMON));
            if let Some(length) = part {
                tokens += self.vocabulary.count(&text[at..at + length]);
                at += length;
                if !keep_going(length) {
                    return None;
                }
            } else {
                let stretch = stretch.get_or_insert_with(|| self.stretches.counter(&self.vocabulary));
                let (length, counted) = stretch.count(&text[at..], most - tokens, keep_going)?;
                at += length;
                tokens += counted;
            }
        }
        Some(tokens)
    }

    fn boundary(&self) -> Option<Boundary> {
        Some(is_boundary)
    }
}

/// Returns the length of the longest part that begins `text`, or `None` if no part ends within [`PART`] bytes.
fn part(text: &str) -> Option<usize> {
    if text.len() <= PART {
        return Some(text.len());
    }
    (1..=PART).rev().find(|at| is_boundary(text, *at))
}

/// Returns whether the tokens of `text` are those of `text[..at]` and those of `text[at..]`. `false` says nothing.
///
/// A vocabulary's pattern splits a text into pieces, and tokens never cross pieces. Both patterns (`pieces`) are
/// alternatives of these kinds:
///
/// - words: one character that is no letter and no digit, or none; letters (in `o200k_base` also marks); `'s`, `'ll` or
///   the like. In `cl100k_base`, `'s` is a piece of its own.
/// - numbers: up to three digits.
/// - signs: a space or none; characters that are no whitespace, letter or digit; line ends (in `o200k_base` also `/`).
/// - whitespace.
///
/// So no alternative matches across `at` in these cases, whatever stands before and after:
///
/// 1. a letter, then what is no letter, mark or apostrophe: only words have letters, and they continue with these only;
/// 2. a digit, then what is no digit: only numbers have digits, and they have nothing else;
/// 3. what is no whitespace, then whitespace that is no line end: words and signs have it at their start only.
///
/// Without a match across `at`, the matches before it are the same without the text after it, and the next one begins
/// at `at`. The one lookahead of the patterns, `(?!\S)`, stands after whitespace, which none of the cases has before
/// `at`; a lookbehind there is not.
fn is_boundary(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let (before, after) = (bytes[at - 1], bytes[at]);
    match after {
        b' ' | b'\t' => text[..at].chars().next_back().is_some_and(|before| !before.is_whitespace()),
        _ if before.is_ascii_alphabetic() => after.is_ascii() && !after.is_ascii_alphabetic() && after != b'\'',
        _ if before.is_ascii_digit() => after.is_ascii() && !after.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "exact_tests.rs"]
mod tests;
