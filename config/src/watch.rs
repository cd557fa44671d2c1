//! Shared by the watches of operator and gateway: the backoff, and the status that the API server returned.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use kube::core::Status;
use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use kube::runtime::watcher;

/// The delay before the first retry.
const INITIAL_DELAY: Duration = Duration::from_millis(250);
/// The longest delay. With kube's 30 seconds, an edit after an outage could take that long.
const MAX_DELAY: Duration = Duration::from_secs(4);
/// How long a watch must succeed before the delay is reset.
const RESET_AFTER: Duration = Duration::from_secs(30);

/// Returns the delays of a watch after failures: a quarter of a second, then twice as long each time, four seconds at
/// most. Each is reduced by up to half at random, so that watches do not all reconnect at the same moment.
#[must_use]
pub fn watch_backoff() -> impl Backoff {
    ResetTimerBackoff::new(Doubling(INITIAL_DELAY), RESET_AFTER)
}

/// Returns the status that the API server sent when a watch failed; none if it sent none or could not be reached.
#[must_use]
pub fn watch_status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

struct Doubling(Duration);

impl Iterator for Doubling {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.0;
        self.0 = (delay * 2).min(MAX_DELAY);
        let random = u32::try_from(RandomState::new().hash_one(0_u8) % 500).unwrap_or(0);
        Some(delay * (500 + random) / 1000)
    }
}

impl Backoff for Doubling {
    fn reset(&mut self) {
        self.0 = INITIAL_DELAY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let mut backoff = watch_backoff();
        let mut delay = INITIAL_DELAY;
        for _ in 0..10 {
            let wait = backoff.next().expect("it never gives up");
            assert!(wait >= delay / 2 && wait < delay, "{wait:?} of {delay:?}");
            delay = (delay * 2).min(MAX_DELAY);
        }
        assert_eq!(delay, MAX_DELAY);
        backoff.reset();
        assert!(backoff.next().is_some_and(|wait| wait < INITIAL_DELAY));
    }
}
