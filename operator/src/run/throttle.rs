//! Throttles namespaces with long turns: each rests after a long turn, so that other namespaces meet an idle operator
//! most of the time. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The duration from which a turn counts as long. Usual turns take a few milliseconds.
const LONG: Duration = Duration::from_millis(100);
/// The rest as a multiple of the turn.
const REST: u32 = 4;
/// The longest rest.
const MAX_REST: Duration = Duration::from_secs(10);

/// The namespaces that rest, and until when.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    until: HashMap<String, Instant>,
}

impl Throttle {
    /// Records how long a turn took.
    pub(super) fn took(&mut self, namespace: &str, took: Duration, now: Instant) {
        if took > LONG {
            let rest = took.saturating_mul(REST).min(MAX_REST);
            self.until.insert(namespace.to_owned(), now + rest);
        }
    }

    /// Returns whether a namespace may have a turn.
    pub(super) fn may(&self, namespace: &str, now: Instant) -> bool {
        self.until.get(namespace).is_none_or(|until| *until <= now)
    }

    /// Forgets rests that are over.
    pub(super) fn forget(&mut self, now: Instant) {
        self.until.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_after_a_long_turn() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        // The duration of the turn, and of the rest.
        for (took, rest) in [(0, 0), (100, 0), (101, 404), (1_000, 4_000), (60_000, 10_000)] {
            let mut throttle = Throttle::default();
            throttle.took("a", ms(took), now);
            assert!(throttle.may("b", now));
            assert!(throttle.may("a", now + ms(rest)), "{took}");
            assert!(rest == 0 || !throttle.may("a", now + ms(rest) - ms(1)), "{took}");
            throttle.forget(now + ms(rest));
            assert!(throttle.until.is_empty());
        }
    }
}
