//! Whether the process has slept. After a sleep one watch may be behind another by as long as it lasted: what they tell then
//! is no state that ever was, and another operator may have led meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::leader::Moment;

/// How often the clock is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Without a look for so long, the process has slept. A busy machine delays a look too, and then everything is relisted needlessly.
const ASLEEP: Duration = Duration::from_secs(1);

/// Counts how often the process has slept.
#[derive(Debug, Clone, Copy)]
struct Looks {
    last: Moment,
    sleeps: u64,
}

impl Looks {
    fn look(&mut self, now: Moment) -> u64 {
        if now.since(self.last) >= ASLEEP {
            self.sleeps += 1;
        }
        self.last = now;
        self.sleeps
    }
}

/// When the clock was last read, by a background task or by a caller of [`Wakes::sleeps`]: the first of them to wake sees the
/// gap.
#[derive(Debug, Clone)]
pub(super) struct Wakes(Arc<Mutex<Looks>>);

impl Wakes {
    /// Starts the task that looks, until the shutdown. To be called within a Tokio runtime.
    pub(super) fn start(shutdown: CancellationToken) -> Self {
        let wakes = Self(Arc::new(Mutex::new(Looks { last: Moment::now(), sleeps: 0 })));
        let looking = wakes.clone();
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(LOOK);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while shutdown.run_until_cancelled(tick.tick()).await.is_some() {
                looking.sleeps();
            }
        });
        wakes
    }

    /// How often the process has slept so far.
    pub(super) fn sleeps(&self) -> u64 {
        // Read under the lock, so that no look is older than the one before it.
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.look(Moment::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_two_looks_is_a_sleep() {
        let mut looks = Looks { last: Moment::at(Duration::ZERO), sleeps: 0 };
        for (ms, sleeps) in [(0, 0), (250, 0), (1_249, 0), (2_249, 1), (2_250, 1), (60_000, 2), (60_250, 2)] {
            assert_eq!(looks.look(Moment::at(Duration::from_millis(ms))), sleeps, "at {ms} ms");
        }
    }
}
