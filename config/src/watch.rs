//! What operator and gateway do alike as they watch the API: how patiently they ask again, and what they were told.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use kube::core::Status;
use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use kube::runtime::watcher;

/// Before the first try.
const FIRST: Duration = Duration::from_millis(250);
/// Between two tries at most. With kube's half a minute an edit would take that long after an outage.
const LONGEST: Duration = Duration::from_secs(4);
/// How long a watch has to go well before it begins with the first again.
const WELL: Duration = Duration::from_secs(30);

/// How long a watch waits after a failure: a quarter of a second, then twice as long each time, four seconds at most;
/// up to half of it less, so that not all come back at one moment.
#[must_use]
pub fn watch_backoff() -> impl Backoff {
    ResetTimerBackoff::new(Doubling(FIRST), WELL)
}

/// What the API server said when a watch failed; none where it said nothing, or was not reached.
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
        let whole = self.0;
        self.0 = (whole * 2).min(LONGEST);
        let random = u32::try_from(RandomState::new().hash_one(0_u8) % 500).unwrap_or(0);
        Some(whole * (500 + random) / 1000)
    }
}

impl Backoff for Doubling {
    fn reset(&mut self) {
        self.0 = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let mut backoff = watch_backoff();
        let mut whole = FIRST;
        for _ in 0..10 {
            let wait = backoff.next().expect("it never gives up");
            assert!(wait >= whole / 2 && wait < whole, "{wait:?} of {whole:?}");
            whole = (whole * 2).min(LONGEST);
        }
        assert_eq!(whole, LONGEST);
        backoff.reset();
        assert!(backoff.next().is_some_and(|wait| wait < FIRST));
    }
}
