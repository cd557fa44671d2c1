//! Detects whether the process has slept. After a sleep, one watch may lag behind another by as long as the sleep
//! lasted: together they then show a state that never existed, and another operator may have led meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::leader::Moment;

/// How often the clock is read.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The gap between two readings that counts as a sleep. A busy machine may cause such a gap too, which costs a needless
/// relist.
const SLEEP_THRESHOLD: Duration = Duration::from_secs(1);

/// The last reading of the clock, and the number of sleeps.
#[derive(Debug, Clone, Copy)]
struct Readings {
    last: Moment,
    sleeps: u64,
}

impl Readings {
    fn read(&mut self, now: Moment) -> u64 {
        if now.since(self.last) >= SLEEP_THRESHOLD {
            self.sleeps += 1;
        }
        self.last = now;
        self.sleeps
    }
}

/// Counts the sleeps of the process. The clock is read by a background task and by each caller of
/// [`SleepDetector::sleeps`]: whichever wakes first sees the gap.
#[derive(Debug, Clone)]
pub(super) struct SleepDetector(Arc<Mutex<Readings>>);

impl SleepDetector {
    /// Starts the background task, which ends with the shutdown. Must be called within a Tokio runtime.
    pub(super) fn start(shutdown: CancellationToken) -> Self {
        let sleep_detector = Self(Arc::new(Mutex::new(Readings { last: Moment::now(), sleeps: 0 })));
        let detector = sleep_detector.clone();
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(CHECK_INTERVAL);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while shutdown.run_until_cancelled(tick.tick()).await.is_some() {
                detector.sleeps();
            }
        });
        sleep_detector
    }

    /// Returns how often the process has slept so far.
    pub(super) fn sleeps(&self) -> u64 {
        // The clock is read under the lock, so that no reading is older than the one before it.
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        readings.read(Moment::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_two_readings_is_a_sleep() {
        let mut readings = Readings { last: Moment::at(Duration::ZERO), sleeps: 0 };
        for (ms, sleeps) in [(0, 0), (250, 0), (1_249, 0), (2_249, 1), (2_250, 1), (60_000, 2), (60_250, 2)] {
            assert_eq!(readings.read(Moment::at(Duration::from_millis(ms))), sleeps, "at {ms} ms");
        }
    }
}
