//! Answers with the memory that is reserved for them.

use super::{Chain, Reservation};

/// An answer, and its memory until it is written; none for an answer that is too small to count.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) chain: Chain,
    pub(crate) held: Option<Reservation>,
}

impl From<Vec<u8>> for Held {
    fn from(bytes: Vec<u8>) -> Self {
        Self { chain: bytes.into(), held: None }
    }
}

impl Held {
    /// Combines an answer with its reservation, which is shrunk to the answer's memory.
    pub(crate) fn new(answer: impl Into<Chain>, mut held: Reservation) -> Self {
        let chain = answer.into();
        held.shrink_to(chain.memory() as u64);
        Self { chain, held: Some(held) }
    }

    /// Joins the answers to a batch into one JSON list. Nothing is copied.
    pub(crate) fn list(answers: Vec<Self>) -> Self {
        let mut chain = Chain::default();
        let mut held: Option<Reservation> = None;
        for answer in answers {
            chain.put(if chain.is_empty() { b"[" } else { b"," });
            chain.append(answer.chain);
            match (&mut held, answer.held) {
                (Some(all), Some(more)) => all.absorb(more),
                (None, more) => held = more,
                (Some(_), None) => {}
            }
        }
        chain.put(b"]");
        Self { chain, held }
    }
}
