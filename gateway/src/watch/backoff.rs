//! How long the background waits before it asks a server again. Pure.

use std::time::Duration;

use crate::backoff;

/// The longest time between two reads of a list.
const LONGEST: Duration = Duration::from_secs(300);
/// The first wait after a failure, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), LONGEST);
/// The shortest time between two reads of a list, however often the server announces a change.
const LEAST: Duration = Duration::from_secs(1);
/// Reading a list takes at most this share of the time.
const SHARE: u32 = 10;

/// Returns how long to wait after so many failures in a row. `random` is between 0 and 1.
pub(super) fn after_failures(failures: u32, random: f64) -> Duration {
    backoff::after_failures(failures, WAITS, random)
}

/// Returns how long after the beginning of a read that took `took` the next one may begin.
pub(super) fn between_reads(took: Duration) -> Duration {
    took.saturating_mul(SHARE).clamp(LEAST, LONGEST)
}

/// Returns the share of a list's time after which it is read again: early enough that no call waits for it, and not at the same
/// time as the lists of other servers.
pub(super) fn share(random: f64) -> f64 {
    0.8 + random * 0.15
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::random;

    #[test]
    fn waits_double_up_to_five_minutes_and_are_spread() {
        let seconds = |failures, random| after_failures(failures, random).as_secs_f64();
        for (failures, most) in [(0, 1.0), (1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (u32::MAX, 300.0)] {
            assert_eq!((seconds(failures, 0.0), seconds(failures, 1.0)), (most / 2.0, most), "{failures}");
        }
    }

    #[test]
    fn a_list_is_read_at_most_once_a_second_and_a_tenth_of_the_time() {
        for (took, wait) in [(0, 1_000), (99, 1_000), (500, 5_000), (600_000, 300_000)] {
            assert_eq!(between_reads(Duration::from_millis(took)), Duration::from_millis(wait), "{took}");
        }
        assert!(share(1.0) < 1.0);
        assert!((0..100).map(|_| random()).all(|random| (0.0..=1.0).contains(&random)));
    }
}
