//! Decides when to reload a folder after its files have begun to change.
//!
//! Pure: instants come in, and the instant of the next look comes out. A save is several events (create, write,
//! close, rename), so a look waits until the folder has been quiet for a moment. It waits longer for a file that is
//! still open for writing, since half a file may be valid.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The quiet time before a look.
const QUIET: Duration = Duration::from_millis(15);
/// The longest time by which steady changes delay a look.
const LONGEST: Duration = Duration::from_millis(60);
/// How long a look waits for a writer that neither continues to write nor closes the file.
const OPEN: Duration = Duration::from_secs(1);

/// A change that the watcher saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A document was opened for writing or written to; it may be incomplete.
    Writing(PathBuf),
    /// A document that was written to has been closed.
    Written(PathBuf),
    /// Something else: renamed, removed, linked, or events were missed.
    Other,
}

/// The changes since the last look.
#[derive(Debug, Default)]
pub(super) struct Debounce {
    first: Option<Instant>,
    last: Option<Instant>,
    open: BTreeMap<PathBuf, Instant>,
    written: bool,
}

impl Debounce {
    /// Records a change.
    pub(super) fn record(&mut self, change: Change, now: Instant) {
        self.first.get_or_insert(now);
        self.last = Some(now);
        match change {
            Change::Writing(path) => {
                self.written = true;
                self.open.insert(path, now);
            }
            Change::Written(path) => {
                self.written = true;
                self.open.remove(&path);
            }
            Change::Other => {}
        }
    }

    /// Returns when to look, or `None` if nothing has changed.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.open.values().max() {
            Some(written) => Some(*written + OPEN),
            None => Some((self.last? + QUIET).min(self.first? + LONGEST)),
        }
    }

    /// Resets the state when a look begins. Returns whether the content of a document was written: a reload is then
    /// due without comparing times and sizes.
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(self).written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn due_after(changes: &[(u64, Change)]) -> Option<u64> {
        let start = Instant::now();
        let mut debounce = Debounce::default();
        for (ms, change) in changes {
            debounce.record(change.clone(), at(start, *ms));
        }
        debounce.due().map(|due| (due - start).as_millis().try_into().expect("small"))
    }

    fn writing() -> Change {
        Change::Writing("a.yaml".into())
    }

    fn written() -> Change {
        Change::Written("a.yaml".into())
    }

    #[test]
    fn a_look_waits_for_quiet_and_for_open_files() {
        type Row<'a> = (&'a str, &'a [(u64, Change)], Option<u64>);
        let table: &[Row<'_>] = &[
            ("nothing happened", &[], None),
            ("a rename", &[(0, Change::Other)], Some(15)),
            ("a save in place", &[(0, writing()), (1, writing()), (2, written())], Some(17)),
            ("a slow writer is waited for", &[(0, writing()), (300, writing())], Some(1300)),
            ("who closes at last", &[(0, writing()), (300, written())], Some(60)),
            (
                "steady renames do not delay for ever",
                &[
                    (0, Change::Other),
                    (14, Change::Other),
                    (28, Change::Other),
                    (42, Change::Other),
                    (56, Change::Other),
                ],
                Some(60),
            ),
            (
                "one closed, another still open",
                &[(0, writing()), (0, Change::Writing("b.yaml".into())), (5, written())],
                Some(1000),
            ),
        ];
        for (what, changes, expected) in table {
            assert_eq!(due_after(changes), *expected, "{what}");
        }
    }

    #[test]
    fn a_look_starts_afresh() {
        let mut debounce = Debounce::default();
        let now = Instant::now();
        debounce.record(writing(), now);
        assert!(debounce.take());
        assert_eq!(debounce.due(), None);
        debounce.record(Change::Other, now);
        assert!(!debounce.take());
    }
}
