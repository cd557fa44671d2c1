//! The tokens of one long piece, by byte-pair encoding in windows.
//!
//! The encoding of a byte string begins with its bytes. While two neighbours together are a token, the pair with the
//! lowest rank is merged, of equal ones the leftmost. Three properties allow to encode a part of the string alone; `E`
//! is the encoding, and a merge crosses a place if that is where its two parts meet.
//!
//! 1. If no merge of `E(xy)` crosses the place between `x` and `y`, then `E(xy) = E(x) E(y)`. The merges within `x` do
//!    not change which pairs there are within `y`, nor their order, and the other way round.
//! 2. If `t` and `u` are neighbours in an encoding, then `E(tu) = t u`: no merge crossed the ends of the two, nor the
//!    place between them, so (1) holds for the three places.
//! 3. If `E(tu) = t u` for each two neighbours of a list of tokens, the list is the encoding of its bytes. Take the first
//!    merge that crosses a place between two of them, `t` and `u`. Until then the merges within `t` and `u` were those of
//!    `E(tu)`, in the same order; the crossing pair has the lowest rank of all, so also of those within `t` and `u`. So
//!    `E(tu)` has that merge too, which contradicts `E(tu) = t u`.
//!
//! A window is encoded, and most of its tokens are kept. The next window begins after the last token kept. If its first
//! token is the one that followed in the window before, then all neighbours are neighbours in the encoding of a window,
//! and by (2) and (3) the list is the encoding of the whole piece. If it is another, fewer tokens are kept; if none can
//! be kept, the piece is counted again in longer windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use tiktoken::CoreBpe;

/// The bytes of a window.
pub(crate) const WINDOW: usize = 4 << 10;

/// The tokens of a vocabulary in the order in which they are merged: the rank of a token is its position.
pub(crate) struct Ranks {
    /// The bytes of all tokens.
    bytes: Box<[u8]>,
    /// Where each token ends in `bytes`.
    ends: Box<[u32]>,
    /// A hash table with open addressing. An empty slot is `NONE`.
    slots: Box<[u32]>,
}

const NONE: u32 = u32::MAX;

impl Ranks {
    /// Reads the tokens of a vocabulary.
    pub(crate) fn new(vocabulary: &CoreBpe) -> Self {
        let count = u32::try_from(vocabulary.vocab_size()).expect("ranks have 32 bits");
        let mut ranks = Self {
            bytes: Box::default(),
            ends: Box::default(),
            slots: vec![NONE; (2 * count as usize).next_power_of_two()].into(),
        };
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(count as usize));
        for rank in 0..count {
            bytes.extend(vocabulary.decode(&[rank]));
            ends.push(u32::try_from(bytes.len()).expect("a vocabulary has some megabytes"));
        }
        (ranks.bytes, ranks.ends) = (bytes.into(), ends.into());
        for rank in 0..count {
            let free = ranks.probe(ranks.token(rank)).find(|slot| ranks.slots[*slot] == NONE);
            ranks.slots[free.expect("half of the slots are free")] = rank;
        }
        ranks
    }

    fn token(&self, rank: u32) -> &[u8] {
        let begin = if rank == 0 { 0 } else { self.ends[rank as usize - 1] };
        &self.bytes[begin as usize..self.ends[rank as usize] as usize]
    }

    /// Returns the slots that may have `token`, in order.
    fn probe(&self, token: &[u8]) -> impl Iterator<Item = usize> + use<> {
        // FNV-1a, whose upper bits are the better ones.
        let hash = token
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let (first, mask) = ((hash >> 32) as usize, self.slots.len() - 1);
        (0..).map(move |step| (first + step) & mask)
    }

    /// Returns the rank of a token, or [`NONE`].
    fn rank(&self, token: &[u8]) -> u32 {
        let slots = self.probe(token).map(|slot| self.slots[slot]);
        slots.into_iter().find(|rank| *rank == NONE || self.token(*rank) == token).unwrap_or(NONE)
    }
}

/// Counts the tokens of pieces. Keeps its memory, some 200 kB, from one piece to the next.
#[derive(Default)]
pub(crate) struct Merger {
    encoding: Encoding,
    next: Encoding,
    buffers: Buffers,
}

/// Where the tokens of a window end.
type Encoding = Vec<u32>;

impl Merger {
    /// Counts the tokens of `piece`, or stops above `most`. `keep_going`: see [`tamis_engine::Tokenizer::count`].
    pub(crate) fn count(
        &mut self,
        ranks: &Ranks,
        piece: &[u8],
        window: usize,
        most: usize,
        keep_going: &mut dyn FnMut(usize) -> bool,
    ) -> Option<usize> {
        let mut window = window;
        loop {
            match self.count_in(ranks, piece, window, most, keep_going) {
                Counted::Tokens(tokens) => return Some(tokens),
                Counted::Stopped => return None,
                Counted::TooShort => window *= 2,
            }
        }
    }

    /// Counts in windows of one length.
    fn count_in(
        &mut self,
        ranks: &Ranks,
        piece: &[u8],
        window: usize,
        most: usize,
        keep_going: &mut dyn FnMut(usize) -> bool,
    ) -> Counted {
        let (mut at, mut tokens) = (0, 0);
        self.buffers.encode(ranks, head(piece, window), &mut self.encoding);
        while piece.len() - at > window && tokens <= most {
            // All but an eighth.
            let mut kept = self.encoding.len() - self.encoding.len().div_ceil(8);
            loop {
                if kept == 0 {
                    return Counted::TooShort;
                }
                let (cut, following) = (self.encoding[kept - 1], self.encoding[kept]);
                let rest = &piece[at + cut as usize..];
                self.buffers.encode(ranks, head(rest, window), &mut self.next);
                if self.next[0] == following - cut {
                    break;
                }
                kept /= 2;
                if !keep_going(0) {
                    return Counted::Stopped;
                }
            }
            let cut = self.encoding[kept - 1] as usize;
            (at, tokens) = (at + cut, tokens + kept);
            mem::swap(&mut self.encoding, &mut self.next);
            if !keep_going(cut) {
                return Counted::Stopped;
            }
        }
        if tokens > most {
            return Counted::Tokens(tokens);
        }
        if keep_going(piece.len() - at) { Counted::Tokens(tokens + self.encoding.len()) } else { Counted::Stopped }
    }
}

/// What counting in windows of one length comes to.
enum Counted {
    /// The tokens, or more than the limit.
    Tokens(usize),
    /// `keep_going` returned `false`.
    Stopped,
    /// What follows a window decides on its first tokens.
    TooShort,
}

fn queued(rank: u32, at: u32) -> Reverse<u64> {
    Reverse(u64::from(rank) << 32 | u64::from(at))
}

fn head(bytes: &[u8], length: usize) -> &[u8] {
    &bytes[..length.min(bytes.len())]
}

/// What encoding a window needs. A part is known by the position of its first byte.
#[derive(Default)]
struct Buffers {
    /// The part after each part, and the one before it.
    after: Vec<u32>,
    before: Vec<u32>,
    /// The rank of each part together with the one after it, or [`NONE`].
    pair: Vec<u32>,
    /// The pairs by rank and then by place, as [`queued`]. One whose rank is no longer that in `pair` is gone.
    queue: BinaryHeap<Reverse<u64>>,
}

impl Buffers {
    /// Encodes `bytes`, at most 4 GiB of them.
    fn encode(&mut self, ranks: &Ranks, bytes: &[u8], encoding: &mut Encoding) {
        let end = bytes.len() as u32;
        self.after.clear();
        self.after.extend(1..=end);
        self.before.clear();
        self.before.extend((0..end).map(|at| at.saturating_sub(1)));
        self.pair.clear();
        self.pair.extend(bytes.windows(2).map(|pair| ranks.rank(pair)));
        self.pair.push(NONE);
        self.queue.clear();
        self.queue
            .extend((0..end).zip(&self.pair).filter(|(_, rank)| **rank != NONE).map(|(at, rank)| queued(*rank, at)));
        while let Some(Reverse(first)) = self.queue.pop() {
            let (rank, at) = ((first >> 32) as u32, first as u32);
            if self.pair[at as usize] != rank {
                continue;
            }
            let second = self.after[at as usize];
            let third = self.after[second as usize];
            self.after[at as usize] = third;
            self.pair[second as usize] = NONE;
            if third < end {
                self.before[third as usize] = at;
            }
            self.look_up(ranks, bytes, at);
            if at > 0 {
                self.look_up(ranks, bytes, self.before[at as usize]);
            }
        }
        encoding.clear();
        let mut at = 0;
        while at < end {
            at = self.after[at as usize];
            encoding.push(at);
        }
    }

    /// Looks up the rank of the part at `at` with the part after it.
    fn look_up(&mut self, ranks: &Ranks, bytes: &[u8], at: u32) {
        let second = self.after[at as usize];
        let rank = match self.after.get(second as usize) {
            Some(end) => ranks.rank(&bytes[at as usize..*end as usize]),
            None => NONE,
        };
        self.pair[at as usize] = rank;
        if rank != NONE {
            self.queue.push(queued(rank, at));
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
