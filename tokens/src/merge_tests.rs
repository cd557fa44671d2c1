//! Merging in windows, compared with the encoder of the crate `bpe`, which uses another method.

use proptest::prelude::*;

use super::{Merger, Ranks, WINDOW};

/// The ranks and the oracle of both vocabularies.
fn vocabularies() -> &'static [(Ranks, &'static bpe_openai::Tokenizer); 2] {
    static BOTH: std::sync::OnceLock<[(Ranks, &'static bpe_openai::Tokenizer); 2]> = std::sync::OnceLock::new();
    BOTH.get_or_init(|| {
        [
            (Ranks::new(&tiktoken::encoding::o200k_base()), bpe_openai::o200k_base()),
            (Ranks::new(&tiktoken::encoding::cl100k_base()), bpe_openai::cl100k_base()),
        ]
    })
}

fn count(ranks: &Ranks, piece: &[u8], window: usize) -> usize {
    Merger::default().count(ranks, piece, window, usize::MAX, &mut |_| true).expect("is never told to stop")
}

/// Bytes with many merges: of few letters, of whole tokens, or any.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let tokens =
        prop::collection::vec(0_u32..100_000, 1..80).prop_map(|ids| bpe_openai::o200k_base().bpe.decode_tokens(&ids));
    prop_oneof![
        prop::collection::vec(prop::sample::select(b"aA \n-".as_slice()), 1..400),
        prop::collection::vec(prop::sample::select(b"etaoinshrdlu".as_slice()), 1..400),
        tokens,
        prop::collection::vec(any::<u8>(), 1..300),
        (any::<[u8; 3]>(), 1..200_usize).prop_map(|(bytes, times)| bytes.repeat(times)),
    ]
}

proptest! {
    /// Windows shorter than a token, so that fewer tokens are kept, and windows grow.
    #[test]
    fn windows_change_no_count(piece in pieces(), window in 1_usize..200) {
        for (ranks, oracle) in vocabularies() {
            prop_assert_eq!(count(ranks, &piece, window), oracle.bpe.count(&piece));
        }
    }
}

#[test]
fn a_token_has_its_rank() {
    for (ranks, oracle) in vocabularies() {
        assert_eq!(ranks.ends.len(), oracle.bpe.num_tokens());
        for rank in 0..u32::try_from(ranks.ends.len()).expect("is small") {
            let token = oracle.bpe.token_bytes(rank);
            assert_eq!(ranks.rank(token), rank, "{token:?}");
        }
        assert_eq!(ranks.rank(b"no token has these words"), super::NONE);
    }
}

/// Each window is followed by one question whether to go on, so their number is the work. No window is encoded twice.
#[test]
fn the_work_is_linear_in_the_piece() {
    let letters: Vec<u8> =
        (0_u32..1 << 20).map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 24) as u8 % 26).collect();
    let strings =
        [vec![b'a'; 1 << 20], vec![b' '; 1 << 20], b"-=".repeat(1 << 19), "的一".as_bytes().repeat(1 << 18), letters];
    for (ranks, _) in vocabularies() {
        for string in &strings {
            let windows = string.len().div_ceil(WINDOW - WINDOW / 4);
            let mut asked = 0;
            let counted = Merger::default().count(ranks, string, WINDOW, usize::MAX, &mut |_| {
                asked += 1;
                true
            });
            assert!(counted.is_some() && asked <= windows + 1, "{asked} {windows} {:?}", &string[..8]);
        }
    }
}

#[test]
fn counting_ends_above_the_limit_and_when_told_to() {
    let (ranks, _) = &vocabularies()[0];
    let piece = vec![b'a'; 40 * WINDOW];
    let mut read = 0;
    let most = Merger::default().count(ranks, &piece, WINDOW, 10, &mut |bytes| {
        read += bytes;
        true
    });
    assert!(most.is_some_and(|most| most > 10));
    let mut asked = 0;
    let stopped = Merger::default().count(ranks, &piece, WINDOW, usize::MAX, &mut |_| {
        asked += 1;
        asked < 5
    });
    assert_eq!((stopped, asked), (None, 5));
}
