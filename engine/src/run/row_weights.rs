//! What rows of text weigh: their shares of the budget, before an answer is written and counted.

use std::ops::Range;

use crate::Bytes;
use crate::answer::{Scale, Size};
use crate::json;
use crate::tokens::{Factor, TokenCounter, Tokens};

/// The bytes of a text whose rows are counted one by one. Of a longer text so many are counted, from all over it.
const COUNTED: usize = 64 << 10;
/// The samples of a longer text: what is dense in one part of it, is not in another.
const SAMPLES: usize = 64;
/// The tokens of which the share is computed: that of a single one is rounded too much.
const MANY: usize = 1_000_000;

/// The weights of the rows of a text.
pub(super) struct RowWeights<'s> {
    scale: Scale<'s>,
    text: &'s str,
    /// Whether rows become part of a JSON string.
    escaped: bool,
    tokens: TokenWeights,
    /// The share of a million tokens.
    million: u64,
}

/// The tokens of rows.
enum TokenWeights {
    /// There is no limit in tokens.
    None,
    /// The tokens of each row with its line end.
    Counted(Vec<u32>),
    /// The tokens and bytes of a sample of each part of the text.
    Sampled(Vec<(usize, usize)>),
}

impl<'s> RowWeights<'s> {
    /// Weighs the rows of `text`. `rows` are their places in order; a line end follows each of them. `escaped` says
    /// whether the text becomes a JSON string in an answer.
    pub(super) fn new(
        scale: Scale<'s>,
        text: &'s str,
        rows: impl Iterator<Item = Range<usize>>,
        escaped: bool,
    ) -> Self {
        let counter = TokenCounter { factor: Factor::ONE, ..scale.counter };
        // An interrupted run has no result, whatever its weights.
        let count = |text: &str| counter.count_within(text, Tokens(usize::MAX), scale.work).unwrap_or_default().0;
        let written = |place: Range<usize>, end: &str| {
            let row = &text[place];
            // Without the quotes.
            let row = if escaped { json::encode(row)[1..].trim_end_matches('"').to_owned() } else { row.to_owned() };
            row + end
        };
        let end = if escaped { "\\n" } else { "\n" };
        let tokens = if scale.budget.tokens.is_none() {
            TokenWeights::None
        } else if counter.is_exact() && text.len() <= COUNTED {
            TokenWeights::Counted(
                rows.map(|row| u32::try_from(count(&written(row, end))).unwrap_or(u32::MAX)).collect(),
            )
        } else {
            let part = part(text);
            let sample = |number: usize| {
                let start = text.ceil_char_boundary((number * part).min(text.len()));
                let place = start..text.floor_char_boundary((start + COUNTED / SAMPLES).min(text.len())).max(start);
                let bytes = place.len().max(1);
                (count(&written(place, "")).max(1), bytes)
            };
            TokenWeights::Sampled((0..SAMPLES).map(sample).collect())
        };
        let million = scale.share(Size { bytes: Bytes(0), tokens: Some(scale.counter.factor.apply(MANY)) });
        Self { scale, text, escaped, tokens, million }
    }

    /// Returns the share of the budget of a row with its line end.
    pub(super) fn of(&self, number: usize, place: &Range<usize>) -> u64 {
        let bytes = if self.escaped { json::encoded_len(&self.text[place.clone()]) } else { place.len() + 1 };
        let bytes = self.scale.share(Size { bytes: Bytes(bytes), tokens: None });
        let tokens = match &self.tokens {
            TokenWeights::None => 0,
            TokenWeights::Counted(tokens) => u128::from(tokens.get(number).copied().unwrap_or(0)) * MANY as u128,
            TokenWeights::Sampled(samples) => {
                let (tokens, of) = samples[(place.start / part(self.text)).min(samples.len() - 1)];
                ((place.len() + 1) * tokens) as u128 * MANY as u128 / of as u128
            }
        };
        let tokens = (tokens * u128::from(self.million)).div_ceil(MANY as u128 * MANY as u128);
        bytes.max(u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    /// Returns the part of a room that rows may take by their weights, so that what is written fits.
    pub(super) fn within(&self, room: u64) -> u64 {
        match self.tokens {
            TokenWeights::None => room,
            // Tokens nearly add up at line ends.
            TokenWeights::Counted(_) => room / 64 * 63,
            // The estimate is one of bytes.
            TokenWeights::Sampled(_) if !self.scale.counter.tokenizer.is_exact() => room / 256 * 255,
            TokenWeights::Sampled(_) => room / 16 * 15,
        }
    }
}

/// Returns the bytes of the parts of a text that are sampled.
fn part(text: &str) -> usize {
    text.len().div_ceil(SAMPLES).max(1)
}
