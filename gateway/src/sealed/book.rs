//! What a gateway remembers of sessions with sealed ids. No request needs it: it bounds what callers can do, and ends a session at
//! once at the gateway that learned of its end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::recent::Recent;

/// Ended sessions that are remembered.
const MOST_ENDED: usize = 4_096;
/// Answered requests that are remembered.
const MOST_ANSWERED: usize = 4_096;
/// Callers whose new sessions are counted.
const MOST_CALLERS: usize = 4_096;
/// Sessions that a caller may open at servers within [`WINDOW`]. Further ones have no session of the server.
const MOST_OPENED: u32 = 120;
const WINDOW: Duration = Duration::from_secs(60);

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    /// The names of sessions.
    ended: Recent<Box<str>, ()>,
    /// Requests of servers, by the name of the session and their number.
    answered: Recent<(Box<str>, u64), ()>,
    /// Sessions that were opened since, by caller.
    opened: Recent<Box<str>, (Instant, u32)>,
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a session that a caller wants to open at a server. Returns whether it may.
    pub(crate) fn may_open(&self, caller: &str, now: Instant) -> bool {
        let mut pages = self.lock();
        match pages.opened.used(caller) {
            Some((since, count)) if now.saturating_duration_since(*since) < WINDOW => {
                *count += 1;
                *count <= MOST_OPENED
            }
            Some(window) => {
                *window = (now, 1);
                true
            }
            None => {
                pages.opened.insert(caller.into(), (now, 1), MOST_CALLERS);
                true
            }
        }
    }

    /// Notes that a session has ended.
    pub(crate) fn end(&self, session: &str) {
        self.lock().ended.insert(session.into(), (), MOST_ENDED);
    }

    /// Returns whether it is known that a session has ended.
    pub(crate) fn has_ended(&self, session: &str) -> bool {
        self.lock().ended.get(session).is_some()
    }

    /// Notes that a request of a server is being answered. Returns whether it was not answered before.
    pub(crate) fn begin_answer(&self, session: &str, nonce: u64) -> bool {
        let key = (Box::from(session), nonce);
        let mut pages = self.lock();
        let is_first = pages.answered.get(&key).is_none();
        if is_first {
            pages.answered.insert(key, (), MOST_ANSWERED);
        }
        is_first
    }

    /// Notes that the server did not get the answer.
    pub(crate) fn undo_answer(&self, session: &str, nonce: u64) {
        self.lock().answered.remove(&(Box::from(session), nonce));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_opens_a_bounded_number_of_sessions_in_a_window() {
        let (book, now) = (Book::default(), Instant::now());
        for _ in 0..MOST_OPENED {
            assert!(book.may_open("a", now));
        }
        assert!(!book.may_open("a", now + WINDOW / 2));
        assert!(book.may_open("b", now));
        assert!(book.may_open("a", now + WINDOW));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let (book, now) = (Book::default(), Instant::now());
        for n in 0..MOST_ENDED + 10 {
            book.end(&n.to_string());
            assert!(book.begin_answer("s", n as u64));
            assert!(book.may_open(&n.to_string(), now));
        }
        let pages = book.lock();
        assert_eq!(
            (pages.ended.len(), pages.answered.len(), pages.opened.len()),
            (MOST_ENDED, MOST_ANSWERED, MOST_CALLERS)
        );
        drop(pages);
        assert!(!book.has_ended("0") && book.has_ended(&(MOST_ENDED + 9).to_string()));
    }

    #[test]
    fn a_request_is_answered_once_unless_the_server_did_not_get_the_answer() {
        let book = Book::default();
        assert!(book.begin_answer("s", 1));
        assert!(!book.begin_answer("s", 1));
        assert!(book.begin_answer("other", 1) && book.begin_answer("s", 2));
        book.undo_answer("s", 1);
        assert!(book.begin_answer("s", 1));
    }
}
