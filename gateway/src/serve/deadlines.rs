//! Deadlines by which the peer of a connection must have read its answers. A timing wheel of counts: an answer touches two
//! atomics and a tick a third, with no lock, timer or allocation for each answer.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

/// Slots of the wheel: the longest time that a peer may take to read an answer, in ticks.
const SLOTS: u8 = 64;

/// The wheel of one connection.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// The current slot.
    now: AtomicU8,
    /// The number of answers whose deadline is each slot.
    due: [AtomicU32; SLOTS as usize],
}

/// The slot of an answer's deadline, to be returned to [`Deadlines::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due(u8);

impl Default for Deadlines {
    fn default() -> Self {
        Self { now: AtomicU8::new(0), due: [const { AtomicU32::new(0) }; SLOTS as usize] }
    }
}

impl Deadlines {
    /// Begins an answer that the peer has to read within `time`.
    pub(super) fn begin(&self, time: Duration, tick: Duration) -> Due {
        // One tick more, since the next one may be near. Less than all slots, since a tick may come in between.
        let most = f64::from(u32::from(SLOTS) - 2);
        let ticks = ((time.as_secs_f64() / tick.as_secs_f64()).ceil() + 1.0).min(most) as u8;
        let slot = (self.now.load(Ordering::Relaxed) + ticks) % SLOTS;
        self.due[usize::from(slot)].fetch_add(1, Ordering::Relaxed);
        Due(slot)
    }

    /// Ends an answer that was written.
    pub(super) fn end(&self, Due(slot): Due) {
        self.due[usize::from(slot)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Advances by a tick. Returns whether an answer is overdue.
    pub(super) fn tick(&self) -> bool {
        let now = (self.now.load(Ordering::Relaxed) + 1) % SLOTS;
        self.now.store(now, Ordering::Relaxed);
        self.due[usize::from(now)].load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(5);

    #[test]
    fn an_answer_is_late_after_its_time() {
        // In ticks of five seconds, rounded up to the next look; three hundred seconds are the most.
        for (seconds, ticks) in [(0, 1), (30, 7), (31, 8), (35, 8), (286, 59), (u64::MAX, 62)] {
            let wheel = Deadlines::default();
            // Wherever the wheel stands.
            for turn in 0..70 {
                wheel.tick();
                let due = wheel.begin(Duration::from_secs(seconds), TICK);
                let late = (1..100).find(|_| wheel.tick());
                assert_eq!(late, Some(ticks), "{seconds} after {turn}");
                wheel.end(due);
            }
        }
    }

    #[test]
    fn what_has_been_read_is_not_late() {
        let wheel = Deadlines::default();
        let (first, second) = (wheel.begin(TICK, TICK), wheel.begin(TICK, TICK));
        wheel.end(first);
        wheel.end(second);
        assert!((0..200).all(|_| !wheel.tick()));
    }
}
