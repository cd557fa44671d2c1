//! A set of small numbers: the paths, fields or operations of a filter that a run has met.

/// Numbers below this are kept without an allocation.
const INLINE: usize = 64;

/// A set of numbers, empty at first.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The numbers below [`INLINE`], as bits.
    low: u64,
    /// The other numbers, as bits from [`INLINE`] on.
    high: Vec<u64>,
}

impl Marks {
    #[inline(always)]
    pub(super) fn set(&mut self, number: usize) {
        if number < INLINE {
            self.low |= 1 << number;
        } else {
            self.set_high(number - INLINE);
        }
    }

    #[inline(never)]
    #[cold]
    fn set_high(&mut self, bit: usize) {
        let word = bit / 64;
        if word >= self.high.len() {
            self.high.resize(word + 1, 0);
        }
        self.high[word] |= 1 << (bit % 64);
    }

    #[inline(always)]
    pub(super) fn has(&self, number: usize) -> bool {
        if number < INLINE {
            return self.low & 1 << number != 0;
        }
        let bit = number - INLINE;
        self.high.get(bit / 64).is_some_and(|word| word & 1 << (bit % 64) != 0)
    }

    /// Returns whether there is no number in the set.
    pub(super) fn is_empty(&self) -> bool {
        self.low == 0 && self.high.iter().all(|word| *word == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_in_the_set_once_it_was_added(numbers in prop::collection::vec(0..300_usize, 0..40)) {
            let mut marks = Marks::default();
            prop_assert!(marks.is_empty());
            numbers.iter().for_each(|number| marks.set(*number));
            let expected: BTreeSet<usize> = numbers.into_iter().collect();
            for number in 0..400 {
                prop_assert_eq!(marks.has(number), expected.contains(&number), "{}", number);
            }
            prop_assert_eq!(marks.is_empty(), expected.is_empty());
        }
    }
}
