//! Finds the few keys of an object that matter.

/// A set of names. The number of a name is its position in the sequence from which the set was made.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Bit `n` is set if a name has `n` bytes; the last bit if a name has 63 or more.
    lengths: u64,
    /// The names with their numbers, by length and then by bytes.
    sorted: Box<[(Box<[u8]>, usize)]>,
}

impl Keys {
    pub(crate) fn new<'k>(names: impl IntoIterator<Item = &'k str>) -> Self {
        let mut sorted: Vec<(Box<[u8]>, usize)> =
            names.into_iter().enumerate().map(|(i, name)| (name.as_bytes().into(), i)).collect();
        sorted.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        let lengths = sorted.iter().fold(0, |bits, (name, _)| bits | Self::bit(name.len()));
        Self { lengths, sorted: sorted.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn bit(length: usize) -> u64 {
        1 << length.min(63)
    }

    /// Returns the number of `key`.
    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        // Most keys end here: no name has their length.
        if self.lengths & Self::bit(key.len()) == 0 { None } else { self.search(key) }
    }

    fn search(&self, key: &[u8]) -> Option<usize> {
        if self.sorted.len() <= 8 {
            return self.sorted.iter().find(|(name, _)| **name == *key).map(|(_, i)| *i);
        }
        let found = self.sorted.binary_search_by(|(name, _)| (name.len(), &**name).cmp(&(key.len(), key)));
        found.ok().map(|at| self.sorted[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_name_and_no_other() {
        let long = "x".repeat(70);
        for count in [0, 1, 5, 8, 9, 40] {
            let mut names: Vec<String> = (0..count).map(|i| format!("{}{i}", "k".repeat(i % 7))).collect();
            names.push(long.clone());
            let keys = Keys::new(names.iter().map(String::as_str));
            for (i, name) in names.iter().enumerate() {
                assert_eq!(keys.find(name.as_bytes()), Some(i));
            }
            for other in ["", "kk", "kkkkkk41", &"y".repeat(70), &"x".repeat(69)] {
                assert_eq!(keys.find(other.as_bytes()), None);
            }
        }
    }
}
