//! Stretches of text that `tiktoken` cannot count as a part: they are counted piece by piece.

use regex_automata::hybrid::dfa::Cache;
use tiktoken::CoreBpe;

use crate::Vocabulary;
use crate::exact::{PART, UNCOMMON};
use crate::merge::{Merger, Ranks, WINDOW};
use crate::pieces::Pieces;

/// What a vocabulary needs to count stretches.
pub(crate) struct Stretches {
    pieces: Pieces,
    ranks: Ranks,
}

/// Counts the stretches of one text.
pub(crate) struct StretchCounter<'a> {
    stretches: &'a Stretches,
    vocabulary: &'a CoreBpe,
    cache: Cache,
    merger: Merger,
}

impl Stretches {
    pub(crate) fn new(vocabulary: Vocabulary, loaded: &CoreBpe) -> Self {
        Self { pieces: Pieces::new(vocabulary), ranks: Ranks::new(loaded) }
    }

    pub(crate) fn counter<'a>(&'a self, vocabulary: &'a CoreBpe) -> StretchCounter<'a> {
        StretchCounter { stretches: self, vocabulary, cache: self.pieces.cache(), merger: Merger::default() }
    }
}

impl StretchCounter<'_> {
    /// Counts the pieces that begin in the first [`PART`] bytes of `text`, which begins with a piece and is all that
    /// remains. Stops above `most` tokens. Returns how many bytes the pieces have, and how many tokens.
    /// `keep_going`: see [`tamis_engine::Tokenizer::count`].
    pub(crate) fn count(
        &mut self,
        text: &str,
        most: usize,
        keep_going: &mut dyn FnMut(usize) -> bool,
    ) -> Option<(usize, usize)> {
        let ranks = &self.stretches.ranks;
        let (mut at, mut tokens, mut read) = (0, 0, 0);
        while at < PART.min(text.len()) && tokens <= most {
            let length = self.stretches.pieces.next(&mut self.cache, &text[at..], keep_going)?;
            let piece = &text[at..at + length];
            if length <= PART {
                read += length;
                // The piece is the only piece of itself: what matches within it would have matched in the text.
                tokens += match piece.contains(UNCOMMON) {
                    false => self.vocabulary.count(piece),
                    true => self.merger.count(ranks, piece.as_bytes(), WINDOW, usize::MAX, &mut |_| true)?,
                };
            } else {
                tokens += self.merger.count(ranks, piece.as_bytes(), WINDOW, most - tokens, keep_going)?;
            }
            at += length;
        }
        keep_going(read).then_some((at, tokens))
    }
}
