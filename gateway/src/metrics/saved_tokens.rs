//! Estimates how many tokens a filter keeps from models, from the bytes of each call and the ratios of a sample. Pure.

use std::sync::atomic::{AtomicU64, Ordering};

use tamis_engine::Factor;
use tamis_tokens::Vocabulary;

/// A number of bytes, and the tokens that they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ratio {
    bytes: u64,
    tokens: u64,
}

impl Ratio {
    /// That of the tokenizer `estimate`: a token for 3.5 bytes.
    const ESTIMATE: Self = Self { bytes: 7, tokens: 2 };

    /// Returns the tokens of so many bytes, rounded up.
    fn tokens(self, bytes: usize) -> usize {
        let tokens = (bytes as u128 * u128::from(self.tokens)).div_ceil(u128::from(self.bytes));
        usize::try_from(tokens).unwrap_or(usize::MAX)
    }
}

/// The ratio of the texts that were counted last. Of a text, nothing but its two sizes is kept.
///
/// One word, so that a call reads both sizes and the vocabulary as they were written together.
#[derive(Debug, Default)]
pub(crate) struct SampledRatio(AtomicU64);

/// Bits of each of the two sizes. The other bits are the vocabulary's.
const BITS: u32 = 24;
const MASK: u64 = (1 << BITS) - 1;

impl SampledRatio {
    /// Bytes from which on older texts count half: about the last 16 samples determine the ratio, so it follows an
    /// upstream that changes.
    const MOST: u64 = 64 << 10;

    /// Adds a text of at most 4 MiB. What another vocabulary has counted is forgotten.
    pub(crate) fn add(&self, vocabulary: Vocabulary, bytes: usize, tokens: usize) {
        let (bytes, tokens) = (bytes as u64, tokens as u64);
        // No text has more tokens than bytes. None is empty, so that a ratio has bytes.
        if bytes == 0 || bytes > MASK / 4 || tokens > bytes {
            return;
        }
        let add = |word| {
            let before = Self::read(word, vocabulary).unwrap_or(Ratio { bytes: 0, tokens: 0 });
            let (mut bytes, mut tokens) = (before.bytes + bytes, before.tokens + tokens);
            if bytes > Self::MOST {
                (bytes, tokens) = (bytes.div_ceil(2), tokens.div_ceil(2));
            }
            Some((mark(vocabulary) << (2 * BITS)) | (tokens << BITS) | bytes)
        };
        // The closure always returns a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn read(word: u64, vocabulary: Vocabulary) -> Option<Ratio> {
        let ratio = Ratio { bytes: word & MASK, tokens: (word >> BITS) & MASK };
        (word >> (2 * BITS) == mark(vocabulary) && ratio.bytes > 0).then_some(ratio)
    }

    /// Returns the ratio, by the sample if there is one. Without a vocabulary, that is `estimate`'s.
    fn get(&self, vocabulary: Option<Vocabulary>) -> Ratio {
        let sampled = vocabulary.and_then(|vocabulary| Self::read(self.0.load(Ordering::Relaxed), vocabulary));
        sampled.unwrap_or(Ratio::ESTIMATE)
    }
}

/// The mark of a vocabulary in the word of a ratio; 0 is none.
fn mark(vocabulary: Vocabulary) -> u64 {
    match vocabulary {
        Vocabulary::O200kBase => 1,
        Vocabulary::Cl100kBase => 2,
    }
}

/// The ratios of one tool: of what its upstream sends, and of what models get. White space, addresses and identifiers
/// that a filter removes have ratios of their own, and so has each format.
#[derive(Debug, Default)]
pub(crate) struct Ratios {
    pub(crate) input: SampledRatio,
    pub(crate) output: SampledRatio,
}

/// One call whose saved tokens are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallSizes {
    /// Bytes from the upstream.
    pub(crate) input: usize,
    /// Bytes of the text blocks.
    pub(crate) output: usize,
    /// The tokens of the answer times the factor, if the call had them counted.
    pub(crate) counted: Option<usize>,
    /// What counts the sample; none if the exposition's tokenizer is `estimate`, or if its vocabulary is not loaded.
    pub(crate) vocabulary: Option<Vocabulary>,
    /// The exposition's factor.
    pub(crate) factor: Factor,
}

impl CallSizes {
    /// Returns whether the filter kept bytes from the model. If not, it kept no tokens either.
    pub(crate) fn is_smaller(&self) -> bool {
        self.output < self.input
    }

    /// Returns the estimate of the tokens that the filter kept from the model.
    pub(crate) fn saved_tokens(&self, ratios: &Ratios) -> usize {
        if !self.is_smaller() {
            return 0;
        }
        let tokens = |ratio: &SampledRatio, bytes| self.factor.apply(ratio.get(self.vocabulary).tokens(bytes)).0;
        let before = tokens(&ratios.input, self.input);
        before.saturating_sub(self.counted.unwrap_or_else(|| tokens(&ratios.output, self.output)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tamis_engine::{Estimate, Tokenizer as _};

    use super::*;

    const O200K: Vocabulary = Vocabulary::O200kBase;
    const CL100K: Vocabulary = Vocabulary::Cl100kBase;

    fn sizes(input: usize, output: usize, vocabulary: Option<Vocabulary>) -> CallSizes {
        CallSizes { input, output, counted: None, vocabulary, factor: Factor::ONE }
    }

    #[test]
    fn without_a_sample_the_ratio_is_that_of_the_tokenizer_estimate() {
        let ratios = Ratios::default();
        for (input, output) in [(0, 0), (1, 0), (100, 20), (20, 100), (9_999, 9_998), (1 << 40, 3)] {
            let count = |bytes: usize| (bytes * 2).div_ceil(7);
            let expected = if output < input { count(input) - count(output) } else { 0 };
            for vocabulary in [None, Some(O200K), Some(CL100K)] {
                assert_eq!(sizes(input, output, vocabulary).saved_tokens(&ratios), expected, "{input} {output}");
            }
        }
        assert_eq!(Estimate.count(&"x".repeat(100), usize::MAX, &mut |_| true), Some(29));
        assert_eq!(sizes(100, 0, None).saved_tokens(&ratios), 29);
    }

    #[test]
    fn input_and_output_have_ratios_of_their_own() {
        let ratios = Ratios::default();
        ratios.input.add(O200K, 4_000, 1_000);
        ratios.output.add(O200K, 1_000, 500);
        assert_eq!(sizes(8_000, 2_000, Some(O200K)).saved_tokens(&ratios), 2_000 - 1_000);
        // The sample of one vocabulary says nothing about another one.
        assert_eq!(sizes(7_000, 700, Some(CL100K)).saved_tokens(&ratios), 2_000 - 200);
        assert_eq!(sizes(7_000, 700, None).saved_tokens(&ratios), 2_000 - 200);
        // Fewer bytes that are more tokens save none.
        assert_eq!(sizes(4_000, 3_000, Some(O200K)).saved_tokens(&ratios), 0);
        ratios.input.add(CL100K, 10, 10);
        assert_eq!(sizes(7_000, 700, Some(CL100K)).saved_tokens(&ratios), 7_000 - 200);
    }

    #[test]
    fn a_counted_answer_is_not_estimated_and_a_factor_applies_to_both() {
        let ratios = Ratios::default();
        ratios.input.add(O200K, 4_000, 1_000);
        let factor = Factor::new(1.5).expect("within the limits");
        let call = CallSizes { factor, ..sizes(8_000, 800, Some(O200K)) };
        assert_eq!(call.saved_tokens(&ratios), 3_000 - 344);
        assert_eq!(CallSizes { counted: Some(450), ..call }.saved_tokens(&ratios), 3_000 - 450);
        assert_eq!(CallSizes { counted: Some(9_000), ..call }.saved_tokens(&ratios), 0);
        // Nothing is saved where nothing was kept, whatever the ratios.
        assert_eq!(CallSizes { counted: Some(1), ..sizes(800, 800, Some(O200K)) }.saved_tokens(&ratios), 0);
    }

    #[test]
    fn the_ratio_follows_the_last_samples() {
        let ratio = SampledRatio::default();
        (0..1_000).for_each(|_| ratio.add(O200K, 4_096, 1_024));
        let get = || ratio.get(Some(O200K)).tokens(4_096);
        // Halves are rounded up.
        assert!((1_024..=1_026).contains(&get()), "{}", get());
        (0..100).for_each(|_| ratio.add(O200K, 4_096, 2_048));
        assert!((2_040..=2_050).contains(&get()), "{}", get());
    }

    #[test]
    fn texts_that_cannot_be_are_not_added() {
        let ratio = SampledRatio::default();
        for (bytes, tokens) in [(0, 0), (5, 6), (1 << 30, 1), (usize::MAX, usize::MAX)] {
            ratio.add(O200K, bytes, tokens);
            assert_eq!(ratio.get(Some(O200K)), Ratio::ESTIMATE, "{bytes} {tokens}");
        }
    }

    proptest! {
        /// The ratio is between the smallest and the largest of the texts, and its word never overflows into its
        /// neighbour.
        #[test]
        fn a_ratio_is_within_its_texts(texts in proptest::collection::vec((1_usize..5_000, 0_usize..=100), 1..60)) {
            let ratio = SampledRatio::default();
            let texts: Vec<_> = texts.into_iter().map(|(bytes, percent)| (bytes, bytes * percent / 100)).collect();
            for (bytes, tokens) in &texts {
                ratio.add(CL100K, *bytes, *tokens);
            }
            let Ratio { bytes, tokens } = ratio.get(Some(CL100K));
            let of = |(bytes, tokens): &(usize, usize)| *tokens as f64 / *bytes as f64;
            let (least, most) = texts.iter().map(of).fold((1.0_f64, 0.0_f64), |(a, b), r| (a.min(r), b.max(r)));
            let found = tokens as f64 / bytes as f64;
            prop_assert!(found >= least - 0.001 && found <= most + 0.001, "{least} {found} {most}");
            prop_assert_eq!(ratio.get(Some(O200K)), Ratio::ESTIMATE);
        }
    }
}
