//! Token counts, as far as the engine knows them: a tokenizer is given to it.

mod memo;

use std::fmt;
use std::num::NonZeroU32;

pub(crate) use memo::Memo;

use crate::work::Work;

/// Says whether the tokens of a text are those of `text[..at]` and those of `text[at..]`. `at` is within the text, and
/// between characters. `false` says nothing.
pub type Boundary = fn(text: &str, at: usize) -> bool;

/// A tokenizer: it says how many tokens a text has.
///
/// The count of a text is the same on every machine and at every time, and takes time linear in the text.
pub trait Tokenizer: fmt::Debug + Send + Sync {
    /// Returns the name of the tokenizer in documents and reports, such as `o200k_base`.
    fn name(&self) -> &'static str;

    /// Returns whether the counts are those of a vocabulary. Otherwise they are an estimate, and reports say so.
    fn is_exact(&self) -> bool;

    /// Counts the tokens of `text`. Names of special tokens in it (`<|endoftext|>`) are ordinary text. Counting may end
    /// when the text is known to have more than `most` tokens: the result is then any number above `most`.
    ///
    /// `keep_going` is called with the number of bytes that have been read since the last time, at least once for
    /// 64 KiB. Returns `None` once it returns `false`.
    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize>;

    /// Returns where a text can be counted in two halves, if the tokenizer knows such places. A text that is counted
    /// after one that differs in places is then counted in those places only. Leave it out for a tokenizer that takes
    /// no time for a byte.
    fn boundary(&self) -> Option<Boundary> {
        None
    }
}

/// The tokenizer `estimate`: a token for 3.5 bytes, rounded up (seed 002, "Token Estimation").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate;

impl Tokenizer for Estimate {
    fn name(&self) -> &'static str {
        "estimate"
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn count(&self, text: &str, _: usize, _: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        Some((text.len() * 2).div_ceil(7))
    }
}

/// A size or a limit, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tokens(pub usize);

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a count is multiplied by, since a provider's own tokenizer gives more tokens than the one that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor {
    millionths: NonZeroU32,
}

impl Factor {
    /// A factor of 1.
    pub const ONE: Self = Self { millionths: NonZeroU32::new(Self::UNIT).unwrap() };
    /// The millionths of a factor of 1.
    pub(crate) const UNIT: u32 = 1_000_000;
    /// The largest factor.
    const MOST: u32 = 100;

    /// Returns the factor nearest to `factor`, in millionths. Returns `None` unless it is between 0.01 and 100.
    #[must_use]
    pub fn new(factor: f64) -> Option<Self> {
        let within = (0.01..=f64::from(Self::MOST)).contains(&factor);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 100,000,000")]
        let millionths = within.then(|| (factor * f64::from(Self::UNIT)).round() as u32);
        millionths.and_then(NonZeroU32::new).map(|millionths| Self { millionths })
    }

    /// Returns the factor in millionths.
    pub(crate) fn millionths(self) -> u32 {
        self.millionths.get()
    }

    /// Returns `tokens` times the factor, rounded up.
    #[must_use]
    pub fn apply(self, tokens: usize) -> Tokens {
        let product = tokens as u128 * u128::from(self.millionths.get());
        Tokens(usize::try_from(product.div_ceil(Self::UNIT.into())).unwrap_or(usize::MAX))
    }

    /// Returns the largest number of tokens that is at most `most` once it is multiplied.
    pub(crate) fn within(self, most: Tokens) -> usize {
        let quotient = most.0 as u128 * u128::from(Self::UNIT) / u128::from(self.millionths.get());
        usize::try_from(quotient).unwrap_or(usize::MAX)
    }
}

/// How an exposition counts tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenCounter<'a> {
    /// Gives the tokens of a text.
    pub tokenizer: &'a dyn Tokenizer,
    /// What they are multiplied by.
    pub factor: Factor,
}

impl Default for TokenCounter<'_> {
    fn default() -> Self {
        Self { tokenizer: &Estimate, factor: Factor::ONE }
    }
}

impl TokenCounter<'_> {
    /// Returns whether the counts are those of a vocabulary, and not an estimate.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.tokenizer.is_exact() && self.factor == Factor::ONE
    }

    /// Counts the tokens of `text`, at least as far as `most`; see [`Tokenizer::count`].
    pub fn count(&self, text: &str, most: Tokens, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<Tokens> {
        let counted = self.tokenizer.count(text, self.factor.within(most), keep_going);
        counted.map(|tokens| self.factor.apply(tokens))
    }

    /// As [`TokenCounter::count`], as part of a run. Parts of the text that the run has counted before are not counted
    /// again. Returns `None` if the run is interrupted.
    pub(crate) fn count_within(&self, text: &str, most: Tokens, work: &Work<'_>) -> Option<Tokens> {
        let counted = work.counts.count(self.tokenizer, text, self.factor.within(most), work);
        counted.map(|tokens| self.factor.apply(tokens))
    }

    /// Returns whether `text` has far more than `most` tokens, as its first [`SAMPLE`] bytes say: [`FAR`] times as many. This
    /// is an estimate. It is `false` for texts that are counted quickly. Returns `None` if the run is interrupted.
    pub(crate) fn is_far_above(&self, text: &str, most: Tokens, work: &Work<'_>) -> Option<bool> {
        if text.len() <= SAMPLE || !self.tokenizer.is_exact() {
            return Some(false);
        }
        let sample = &text[..text.floor_char_boundary(SAMPLE)];
        let Tokens(tokens) = self.count_within(sample, Tokens(usize::MAX), work)?;
        let all = tokens as u128 * text.len() as u128 / sample.len() as u128;
        Some(all > most.0 as u128 * FAR)
    }
}

/// The bytes of a text that are counted to learn whether it is far above a limit.
const SAMPLE: usize = 16 << 10;
/// How many times a limit is far above it. Parts of one text differ less in their bytes for a token.
const FAR: u128 = 8;

/// A byte that is counted takes about as long as this many steps.
const STEPS_PER_BYTE: usize = 4;

#[cfg(test)]
mod tests {
    use super::{Estimate, Factor, TokenCounter, Tokens};

    #[test]
    fn the_estimate_rounds_up() {
        for (bytes, tokens) in [(0, 0), (1, 1), (3, 1), (4, 2), (7, 2), (8, 3), (3500, 1000)] {
            let counted = TokenCounter::default().count(&"x".repeat(bytes), Tokens(usize::MAX), &mut |_| true);
            assert_eq!(counted, Some(Tokens(tokens)), "{bytes}");
        }
    }

    #[test]
    fn a_factor_rounds_up() {
        for (factor, tokens, want) in [(1.0, 7, 7), (1.46, 100, 146), (1.46, 101, 148), (0.01, 1, 1), (100.0, 3, 300)] {
            let factor = Factor::new(factor).expect("within the limits");
            assert_eq!(factor.apply(tokens), Tokens(want), "{factor:?} {tokens}");
            let most = factor.within(Tokens(want));
            assert!(factor.apply(most) <= Tokens(want) && factor.apply(most + 1) > Tokens(want), "{factor:?} {want}");
            assert!(!TokenCounter { tokenizer: &Estimate, factor }.is_exact());
        }
        assert_eq!(Factor::new(1.0), Some(Factor::ONE));
        assert_eq!(Factor::new(100.0).map(|factor| factor.apply(usize::MAX)), Some(Tokens(usize::MAX)));
        for refused in [0.0, -1.0, 0.0099, 100.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Factor::new(refused), None, "{refused}");
        }
    }
}
