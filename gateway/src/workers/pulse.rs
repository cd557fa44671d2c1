//! Whether a worker still runs tasks. Pure.

use std::time::{Duration, Instant};

/// How often a worker is asked.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// How long a worker may take to answer. Longer work belongs in the pool, and a throttled control group gets its next share of
/// a core after 100 ms.
pub(super) const STALLED: Duration = Duration::from_millis(500);

/// The last question to a worker.
#[derive(Debug)]
pub(super) struct Pulse {
    asked: u64,
    since: Instant,
    is_stalled: bool,
}

/// What a tick found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The last question is answered: ask the next one.
    Answered,
    /// The last question is not answered yet.
    Waits,
    /// The last question has not been answered for [`STALLED`]. Said once.
    Stalled,
    /// A question that was not answered for this long now is: ask the next one.
    Recovered(Duration),
}

impl Pulse {
    /// Begins before the first question.
    pub(super) fn new(now: Instant) -> Self {
        Self { asked: 0, since: now, is_stalled: false }
    }

    /// Does not count a time in which nothing could answer.
    pub(super) fn excuse(&mut self, late: Duration) {
        self.since += late;
    }

    /// Compares the number of answers with that of the questions.
    pub(super) fn tick(&mut self, answered: u64, now: Instant) -> Verdict {
        let waited = now.saturating_duration_since(self.since);
        if answered >= self.asked {
            self.asked += 1;
            self.since = now;
            return if std::mem::take(&mut self.is_stalled) { Verdict::Recovered(waited) } else { Verdict::Answered };
        }
        if self.is_stalled || waited < STALLED {
            return Verdict::Waits;
        }
        self.is_stalled = true;
        Verdict::Stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_reported_once_and_ends_with_the_next_answer() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pulse = Pulse::new(start);
        let table = [
            (0, 0, Verdict::Answered),
            (1, 100, Verdict::Answered),
            (1, 200, Verdict::Waits),
            (1, 599, Verdict::Waits),
            (1, 600, Verdict::Stalled),
            (1, 5_000, Verdict::Waits),
            (2, 5_100, Verdict::Recovered(Duration::from_secs(5))),
            (3, 5_200, Verdict::Answered),
            (3, 5_800, Verdict::Stalled),
        ];
        for (answered, millis, expected) in table {
            assert_eq!(pulse.tick(answered, at(millis)), expected, "{millis}");
        }
    }

    #[test]
    fn a_time_in_which_the_process_did_not_run_is_no_stall() {
        let start = Instant::now();
        let mut pulse = Pulse::new(start);
        assert_eq!(pulse.tick(0, start), Verdict::Answered);
        pulse.excuse(Duration::from_secs(60));
        assert_eq!(pulse.tick(0, start + Duration::from_secs(60)), Verdict::Waits);
        assert_eq!(pulse.tick(0, start + Duration::from_secs(61)), Verdict::Stalled);
    }
}
