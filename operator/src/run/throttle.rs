//! Namespaces whose turns are long rest after each, so that what others do meets an idle operator most of the time. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A turn that takes longer than this is long. Usual turns take a few milliseconds.
const LONG: Duration = Duration::from_millis(100);
/// How many times as long as its last turn a namespace rests.
const REST: u32 = 4;
/// The longest rest.
const MAX_REST: Duration = Duration::from_secs(10);

/// Until when namespaces rest.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    until: HashMap<String, Instant>,
}

impl Throttle {
    /// Takes note of how long a turn took.
    pub(super) fn took(&mut self, namespace: &str, took: Duration, now: Instant) {
        if took > LONG {
            let rest = took.saturating_mul(REST).min(MAX_REST);
            self.until.insert(namespace.to_owned(), now + rest);
        }
    }

    /// Whether a namespace may have a turn.
    pub(super) fn may(&self, namespace: &str, now: Instant) -> bool {
        self.until.get(namespace).is_none_or(|until| *until <= now)
    }

    /// Forgets what is over.
    pub(super) fn forget(&mut self, now: Instant) {
        self.until.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_is_followed_by_a_rest() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        // How long the turn took, and how long the namespace rests.
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
