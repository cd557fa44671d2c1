//! Checks that the keys of an object differ, without keeping the keys.

use std::cell::Cell;

use super::spare;

/// The hashes of the keys of all open objects, as a stack, and the sets of hashes that were last found distinct.
///
/// Keys are compared by hash alone. If two hashes agree, the fast path gives way to the tree, so an unlucky or
/// crafted pair of keys costs time and nothing else. Objects of a list mostly have the same keys in the same order,
/// which the last object at the same depth has shown to be distinct.
#[derive(Debug)]
pub(super) struct Distinct {
    open: Vec<u64>,
    last: [Vec<u64>; 4],
    sorted: Vec<u64>,
}

/// Maximum bytes of each list of hashes that a thread keeps.
const KEPT: usize = 4 << 10;

thread_local! {
    static SPARE: Cell<[Vec<u64>; 6]> = const { Cell::new([const { Vec::new() }; 6]) };
}

impl Drop for Distinct {
    fn drop(&mut self) {
        let Self { open, last: [a, b, c, d], sorted } = self;
        spare::keep(&SPARE, [open, a, b, c, d, sorted].map(|hashes| spare::emptied(hashes, KEPT)));
    }
}

/// Where the keys of an object begin on the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl Distinct {
    pub(super) fn new() -> Self {
        let [open, a, b, c, d, sorted] = spare::take(&SPARE);
        Self { open, last: [a, b, c, d], sorted }
    }

    pub(super) fn enter(&self) -> Mark {
        Mark(self.open.len())
    }

    #[inline(always)]
    pub(super) fn add(&mut self, key: &[u8]) {
        self.open.push(hash(key));
    }

    /// Ends the object that began at `mark`, `depth` deep. Returns whether its keys differ.
    pub(super) fn leave(&mut self, mark: Mark, depth: usize) -> bool {
        let keys = &self.open[mark.0..];
        let last = &mut self.last[depth % 4];
        let known = last.starts_with(keys);
        let distinct = known || {
            self.sorted.clear();
            self.sorted.extend_from_slice(keys);
            self.sorted.sort_unstable();
            self.sorted.windows(2).all(|pair| pair[0] != pair[1])
        };
        if distinct && !known {
            last.clear();
            last.extend_from_slice(keys);
        }
        self.open.truncate(mark.0);
        distinct
    }
}

#[inline(always)]
fn hash(key: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (key.len() as u64).wrapping_mul(MIX);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), MIX);
    }
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    fold(state ^ u64::from_le_bytes(tail), MIX)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distinct(set: &mut Distinct, keys: &[&str]) -> bool {
        let mark = set.enter();
        keys.iter().for_each(|key| set.add(key.as_bytes()));
        set.leave(mark, 1)
    }

    #[test]
    fn finds_duplicates() {
        let mut set = Distinct::new();
        assert!(distinct(&mut set, &[]));
        assert!(distinct(&mut set, &["", "a", "b", "aa", "\0"]));
        assert!(distinct(&mut set, &["", "a"]), "the beginning of what is known");
        assert!(!distinct(&mut set, &["", "a", "b", "a"]));
        assert!(!distinct(
            &mut set,
            &["long enough for more than one word", "x", "long enough for more than one word"]
        ));
        assert!(distinct(&mut set, &["b", "a", ""]));
        assert!(set.open.is_empty());
    }

    #[test]
    fn an_inner_object_leaves_the_outer_alone() {
        let mut set = Distinct::new();
        let outer = set.enter();
        set.add(b"a");
        assert!(distinct(&mut set, &["a", "b"]));
        set.add(b"b");
        assert!(set.leave(outer, 0));
    }
}
