//! A bounded queue between calls and the thread that writes their records.
//!
//! To wake a thread for each record would cost more than to write the record. The thread therefore waits for
//! [`LINGER`] after the first record and takes all that have come by then. It is woken earlier if the queue is half
//! full, or if large answers wait in it to be signed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of entries.
pub(super) const CAPACITY: usize = 2_048;
/// Number of entries at which the thread is woken at once.
const URGENT: usize = CAPACITY / 2;
/// Number of bytes, held by the entries, at which the thread is woken at once.
const URGENT_BYTES: usize = 1 << 20;
/// How long the thread waits for more entries after the first one.
pub(super) const LINGER: Duration = Duration::from_millis(5);

/// The queue.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    /// Bytes that the waiting entries hold.
    bytes: usize,
    reader: Reader,
    mode: Mode,
}

/// What the thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Waits for the first entry.
    Idle,
    /// Waits for more entries, or takes them without being woken.
    Awake,
    /// Has been woken to take the entries at once.
    Called,
}

/// How entries are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// By the thread, many at once.
    Batched,
    /// By those who push them.
    WrittenThrough,
    /// The queue is gone. The thread takes the remaining entries and ends.
    Closed,
}

/// The result of [`Queue::push`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed<T> {
    /// The thread will take the entry.
    Queued,
    /// The entry is queued, and the caller has to take it.
    Take,
    /// The queue is full; the caller has to take its entries and try again.
    Full(T),
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let state = State { waiting: Vec::new(), bytes: 0, reader: Reader::Awake, mode: Mode::Batched };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // No code that may panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry that holds so many bytes.
    pub(super) fn push(&self, entry: T, bytes: usize) -> Pushed<T> {
        let mut state = self.state();
        if state.waiting.len() >= CAPACITY {
            return Pushed::Full(entry);
        }
        state.waiting.push(entry);
        state.bytes += bytes;
        if state.mode != Mode::Batched {
            return Pushed::Take;
        }
        let next = match state.reader {
            Reader::Idle => Reader::Awake,
            Reader::Awake if state.waiting.len() >= URGENT || state.bytes >= URGENT_BYTES => Reader::Called,
            Reader::Awake | Reader::Called => return Pushed::Queued,
        };
        state.reader = next;
        drop(state);
        self.changed.notify_one();
        Pushed::Queued
    }

    /// Moves all entries to the end of `batch`, in the order in which they were added.
    pub(super) fn take(&self, batch: &mut Vec<T>) {
        let mut state = self.state();
        state.bytes = 0;
        if batch.is_empty() {
            std::mem::swap(&mut state.waiting, batch);
        } else {
            batch.append(&mut state.waiting);
        }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Waits until the thread should take entries. Returns false if there are none and there will be none.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state();
        while state.waiting.is_empty() {
            if state.mode == Mode::Closed {
                return false;
            }
            state.reader = Reader::Idle;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lingers = |state: &mut State<T>| state.reader == Reader::Awake && state.mode == Mode::Batched;
        let (mut state, _) =
            self.changed.wait_timeout_while(state, LINGER, lingers).unwrap_or_else(PoisonError::into_inner);
        state.reader = Reader::Awake;
        true
    }

    /// From now on, those who push an entry take it. The thread takes what is in the queue at once.
    pub(super) fn write_through(&self) {
        self.set(Mode::WrittenThrough);
    }

    /// Ends the thread once the queue is empty.
    pub(super) fn close(&self) {
        self.set(Mode::Closed);
    }

    fn set(&self, mode: Mode) {
        self.state().mode = mode;
        self.changed.notify_one();
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
