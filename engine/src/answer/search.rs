//! Meets a limit that is not in bytes by way of limits in bytes.

use crate::Bytes;

/// The attempts that may look for the best answer. Further ones only look for any that fits.
const ATTEMPTS: usize = 8;
/// The bytes of an answer that is small enough for [`HALVINGS`]: an attempt takes little time.
const SMALL: usize = 64 << 10;
/// The further attempts for a small answer, which halve what is left: few limits may give an answer that uses the budget up.
const HALVINGS: usize = 16;
/// The share of the limit, in percent, that is enough.
const ENOUGH: u128 = 97;

/// One answer, with its size in bytes and in the unit of the limit.
pub(crate) struct Attempt<T> {
    pub(crate) answer: T,
    pub(crate) bytes: Bytes,
    /// Any number above the limit if the answer does not fit.
    pub(crate) measured: u64,
}

/// Finds an answer that measures at most `most`. `attempt` makes the answer for a limit in bytes. The answer for `over`
/// bytes measures more; `guess` is the first limit to try.
///
/// The more bytes an answer may have, the more it measures, but only roughly. So each limit follows from the measure of
/// the attempt before, between the largest limit whose answer fits and the smallest whose answer does not. Where a larger
/// limit gave the same answer, and after the first attempts, the next one is in the middle. If no answer fits, the result is the one for no bytes at all.
///
/// # Errors
/// An attempt failed.
pub(crate) fn search<T, E>(
    most: u64,
    over: Bytes,
    guess: Bytes,
    mut attempt: impl FnMut(Bytes) -> Result<Attempt<T>, E>,
) -> Result<Attempt<T>, E> {
    let mut best: Option<(usize, Attempt<T>)> = None;
    let mut over = over.0;
    let attempts = if over <= SMALL { ATTEMPTS + HALVINGS } else { ATTEMPTS };
    let mut limit = guess.0.min(over.saturating_sub(1));
    for round in 1.. {
        let tried = attempt(Bytes(limit))?;
        let (bytes, measured) = (tried.bytes.0.min(limit) as u128, u128::from(tried.measured.max(1)));
        let scaled = |bytes: u128| usize::try_from(bytes * u128::from(most) / measured).unwrap_or(usize::MAX);
        // An answer often has fewer bytes than its limit, so the next limit by its bytes may be one that was tried.
        let (guess, by_limit) = (scaled(bytes), scaled(limit as u128));
        let mut is_same = false;
        if tried.measured <= most {
            if u128::from(tried.measured) * 100 >= u128::from(most) * ENOUGH {
                return Ok(tried);
            }
            is_same = best.as_ref().is_some_and(|(_, best)| best.bytes == tried.bytes);
            best = Some((limit, tried));
        } else if limit == 0 {
            return Ok(tried);
        } else {
            over = limit;
        }
        limit = match &best {
            Some((low, _)) if round >= attempts || over - low <= 1 => break,
            Some((low, _)) => {
                let between = |guess: &usize| *low < *guess && *guess < over;
                let next = [guess, by_limit].into_iter().find(between).filter(|_| !is_same && round < ATTEMPTS);
                next.unwrap_or(low.midpoint(over))
            }
            None if round >= ATTEMPTS => over / 2,
            None => guess.min(over - 1 - over / 8),
        };
    }
    Ok(best.expect("the loop ends with an answer that fits").1)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, search};
    use crate::Bytes;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn found<T>(result: Result<Attempt<T>, Infallible>) -> Attempt<T> {
        let Ok(found) = result;
        found
    }

    /// Answers consist of parts; an answer for a limit has the parts that fit into it.
    fn parts(sizes: &[(usize, u64)], limit: usize) -> (usize, usize, u64) {
        let (mut bytes, mut tokens) = (0, 0);
        let shown = sizes.iter().take_while(|(size, cost)| {
            let fits = bytes + size <= limit;
            (bytes, tokens) = if fits { (bytes + size, tokens + cost) } else { (bytes, tokens) };
            fits
        });
        (shown.count(), bytes, tokens)
    }

    proptest! {
        #[test]
        fn the_answer_fits_and_nearly_nothing_more_would(
            sizes in prop::collection::vec((1_usize..60, 0_u64..40), 1..80), most in 0_u64..900, guess in 0_usize..5000,
        ) {
            let all: usize = sizes.iter().map(|(size, _)| size).sum();
            let total: u64 = sizes.iter().map(|(_, cost)| cost).sum();
            prop_assume!(total > most);
            let mut tried = 0;
            let found = found(search(most, Bytes(all), Bytes(guess), |limit| {
                tried += 1;
                let (shown, bytes, tokens) = parts(&sizes, limit.0);
                Ok(Attempt { answer: shown, bytes: Bytes(bytes), measured: tokens })
            }));
            prop_assert!(found.measured <= most);
            prop_assert!(tried <= 24, "{}", tried);
            // Of a small answer, the best one is found: if not this, one that uses nearly all of the budget.
            let best = (0..=all).map(|limit| parts(&sizes, limit).2).filter(|tokens| *tokens <= most).max();
            let enough = found.measured * 100 >= most * 97;
            prop_assert!(enough || Some(found.measured) == best, "{} of {}, {:?}", found.measured, most, best);
        }
    }

    #[test]
    fn even_the_smallest_answer_may_not_fit() {
        let found = found(search(3, Bytes(1 << 30), Bytes(1 << 20), |limit| {
            Ok(Attempt { answer: limit, bytes: limit, measured: 4 + limit.0 as u64 })
        }));
        assert_eq!((found.answer, found.measured), (Bytes(0), 4));
    }

    /// An answer of 20 bytes up to a limit of 40, and few limits above it whose answers fit too.
    #[test]
    fn a_better_answer_is_found_behind_many_equal_ones() {
        for guess in 0..113 {
            let found = found(search(8, Bytes(113), Bytes(guess), |limit| {
                let (bytes, measured) = match limit.0 {
                    0..41 => (20, 7),
                    41..47 => (limit.0, 8),
                    _ => (limit.0, 9 + (limit.0 as u64 - 47) / 4),
                };
                Ok(Attempt { answer: (), bytes: Bytes(bytes), measured })
            }));
            assert_eq!(found.measured, 8, "{guess}");
        }
    }

    #[test]
    fn the_search_uses_the_tokens_up() {
        for (most, size) in [(10_u64, 1_000_usize), (8_000, 100_000), (8_000, 10_000_000), (1, 100)] {
            let mut tried = 0;
            // Long texts have fewer tokens for their bytes than short ones.
            let found = found(search(most, Bytes(size), Bytes(most as usize * 4), |limit| {
                tried += 1;
                let tokens = (limit.0 / (3 + limit.0 / size)) as u64;
                Ok(Attempt { answer: (), bytes: limit, measured: tokens })
            }));
            assert!(found.measured * 100 >= most * 97 && found.measured <= most, "{most} {}", found.measured);
            assert!(tried <= 8, "{tried}");
        }
    }
}
