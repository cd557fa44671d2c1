//! The pieces of a text: tokens never cross them.
//!
//! Each vocabulary has a pattern, whose matches, one after the other, are the pieces. `tiktoken` finds them too, but
//! does not show them, and cannot stop within one. Here a lazy DFA finds the end of the next piece, a byte at a time.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::{Anchored, Input};

use crate::Vocabulary;

/// The bytes that are searched between two questions whether to go on.
const ASK: usize = 32 << 10;

/// The patterns of OpenAI's `tiktoken` end in `\s+(?!\S)|\s+`: whitespace before other text leaves its last character to
/// the next piece. An automaton has no lookahead, so [`Pieces::next`] does that.
const WHITESPACE: &str = r"\s+";
const O200K_BASE: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+",
);
const CL100K_BASE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
);

/// The pattern of a vocabulary.
pub(crate) struct Pieces {
    dfa: DFA,
}

impl Pieces {
    pub(crate) fn new(vocabulary: Vocabulary) -> Self {
        let pattern = match vocabulary {
            Vocabulary::O200kBase => O200K_BASE,
            Vocabulary::Cl100kBase => CL100K_BASE,
        };
        let thompson = NFA::config().which_captures(WhichCaptures::None);
        let dfa = DFA::builder()
            .configure(DFA::config().prefilter(None).skip_cache_capacity_check(true))
            .thompson(thompson)
            .build_many(&[pattern, WHITESPACE])
            .expect("the patterns are valid");
        Self { dfa }
    }

    /// Returns the states that a search finds, for [`Self::next`].
    pub(crate) fn cache(&self) -> Cache {
        self.dfa.create_cache()
    }

    /// Returns the length of the first piece of `text`. Returns `None` once `keep_going`, which is called while the
    /// search reads, returns `false`.
    pub(crate) fn next(
        &self,
        cache: &mut Cache,
        text: &str,
        keep_going: &mut dyn FnMut(usize) -> bool,
    ) -> Option<usize> {
        const ENDLESS: &str = "the search has no limit to give up at";
        let start = Input::new(text).anchored(Anchored::Yes);
        let mut state = self.dfa.start_state_forward(cache, &start).expect(ENDLESS);
        // The end of the longest match so far, and whether it is one of whitespace. A state matches a byte late.
        let mut found = None;
        let mut bytes = text.bytes().enumerate();
        loop {
            let next = bytes.next();
            state = match next {
                Some((_, byte)) => self.dfa.next_state(cache, state, byte).expect(ENDLESS),
                None => self.dfa.next_eoi_state(cache, state).expect(ENDLESS),
            };
            let at = next.map_or(text.len(), |(at, _)| at);
            if state.is_match() {
                found = Some((at, self.dfa.match_pattern(cache, state, 0).as_usize() == 1));
            }
            if state.is_dead() || next.is_none() {
                break;
            }
            if at % ASK == ASK - 1 && !keep_going(0) {
                return None;
            }
        }
        let (end, whitespace) = found.expect("each character begins a match");
        if whitespace && end < text.len() {
            let before_last = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
            return Some(if before_last > 0 { before_last } else { end });
        }
        Some(end)
    }
}
