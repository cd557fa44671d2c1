//! Tokenizers for the engine: exact counts by two vocabularies of OpenAI, and an estimate.
//!
//! [`tokenizer`] gives the tokenizer of a [`TokenizerName`]. A vocabulary is read on the first use of its name, once for
//! the process: ask for it when a document is loaded, not during a call. A process that never asks holds the compressed
//! vocabularies in its program file, and nothing in memory.
//!
//! - `exact` splits a text into parts where a token certainly ends, and counts each part with the crate `tiktoken`.
//! - `stretch` counts what cannot be split this way, a piece at a time: `pieces` finds the pieces, and `merge` counts a
//!   piece that is longer than a part.
//!
//! Each of them takes time linear in the text and memory for one part, and asks often enough whether to go on. Why
//! `tiktoken` is not enough for that: `docs/decisions/0048-counting-tokens.md`.
//!
//! The crate is pure: it has no clock, no files, no network and no async code.
#![forbid(unsafe_code)]

mod exact;
mod merge;
mod name;
mod pieces;
mod stretch;

use std::sync::{Arc, OnceLock};

use tamis_engine::{Estimate, Tokenizer};

use exact::Exact;
pub use name::{TokenizerName, UnknownTokenizer};

/// A vocabulary: it says which byte strings are tokens, and in which order they are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vocabulary {
    /// 199,998 tokens.
    O200kBase,
    /// 100,256 tokens.
    Cl100kBase,
}

impl Vocabulary {
    /// Returns the tokenizer of this vocabulary. The first call in a process takes about a tenth of a second, and its
    /// memory is kept until the process ends.
    #[must_use]
    pub fn load(self) -> Arc<dyn Tokenizer> {
        Arc::<Exact>::clone(self.place().get_or_init(|| Arc::new(Exact::new(self))))
    }

    /// Returns whether this process has loaded the vocabulary. [`Vocabulary::load`] is then quick.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        self.place().get().is_some()
    }

    fn place(self) -> &'static OnceLock<Arc<Exact>> {
        static O200K_BASE: OnceLock<Arc<Exact>> = OnceLock::new();
        static CL100K_BASE: OnceLock<Arc<Exact>> = OnceLock::new();
        match self {
            Self::O200kBase => &O200K_BASE,
            Self::Cl100kBase => &CL100K_BASE,
        }
    }

    /// Returns the name of the tokenizer that counts with this vocabulary.
    #[must_use]
    pub const fn name(self) -> TokenizerName {
        match self {
            Self::O200kBase => TokenizerName::O200kBase,
            Self::Cl100kBase => TokenizerName::Cl100kBase,
        }
    }
}

/// Returns the tokenizer with this name, and loads its vocabulary if it has one: see [`Vocabulary::load`].
#[must_use]
pub fn tokenizer(name: TokenizerName) -> Arc<dyn Tokenizer> {
    name.vocabulary().map_or_else(|| Arc::new(Estimate) as Arc<dyn Tokenizer>, Vocabulary::load)
}
