//! Log lines for refused requests, sampled so that a flood of such requests does not fill a disk.
//!
//! Each line stands for the refusals of one reason at one exposition since the previous line. Exact counts are in
//! `tamis_requests_rejected_total`. Of what the caller sent, a line holds only the path, escaped and shortened.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tamis_config::ExpositionId;

use crate::metrics::Rejection;

/// Minimum time between two lines of one reason at one exposition, and the window of [`LINES`].
const WINDOW: Duration = Duration::from_secs(30);
/// Maximum lines in one window, for all reasons and expositions together.
const LINES: u32 = 60;
/// Maximum number of pairs of reason and exposition that have their own count.
const KEYS: usize = 1_024;
/// Maximum characters of a path.
const SHOWN: usize = 80;

type Key = (Rejection, Option<ExpositionId>);

/// The details of a refused request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refused<'a> {
    /// The client's address.
    pub(crate) peer: Option<IpAddr>,
    /// The path, if no exposition is known.
    pub(crate) path: Option<&'a str>,
    /// Why the exposition is stopped.
    pub(crate) why: Option<&'a str>,
}

/// Writes the lines.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Sampler>);

impl Refusals {
    /// Counts a refusal, and writes a line if one is due.
    pub(crate) fn note(&self, reason: Rejection, exposition: Option<&ExpositionId>, refused: Refused<'_>) {
        let key = (reason, exposition.cloned());
        let due = self.0.lock().unwrap_or_else(PoisonError::into_inner).note(key, Instant::now());
        let Some(count) = due else { return };
        let exposition = exposition.map(ToString::to_string).unwrap_or_default();
        let Refused { peer, path, why } = refused;
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let (path, why) = (path.map(plain).unwrap_or_default(), why.unwrap_or_default());
        let reason = reason.as_str();
        tracing::warn!(reason, exposition, peer, path, why, count, "request refused");
    }
}

/// Returns a path as one word for a line.
fn plain(path: &str) -> String {
    path.chars().take(SHOWN).flat_map(char::escape_default).collect()
}

/// Decides which refusals get a line.
#[derive(Debug, Default)]
struct Sampler {
    keys: HashMap<Key, Line>,
    /// The start of the current window, and the number of lines in it.
    window: Option<(Instant, u32)>,
}

#[derive(Debug)]
struct Line {
    written: Option<Instant>,
    /// Refusals since the last line.
    count: u64,
}

impl Sampler {
    /// Counts a refusal. Returns the number of refusals for a line that is due, including this one; none if no line is
    /// due.
    fn note(&mut self, mut key: Key, now: Instant) -> Option<u64> {
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            self.keys.retain(|_, line| line.written.is_some_and(|written| now - written < WINDOW));
            if self.keys.len() >= KEYS {
                // Too many pairs: count under the reason alone.
                key.1 = None;
            }
        }
        let line = self.keys.entry(key).or_insert(Line { written: None, count: 0 });
        line.count += 1;
        if line.written.is_some_and(|written| now - written < WINDOW) {
            return None;
        }
        let (begun, lines) = self.window.filter(|(begun, _)| now - *begun < WINDOW).unwrap_or((now, 0));
        if lines >= LINES {
            return None;
        }
        self.window = Some((begun, lines + 1));
        line.written = Some(now);
        Some(std::mem::take(&mut line.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(reason: Rejection, name: &str) -> Key {
        let id = ExpositionId { namespace: "team".to_owned(), name: name.to_owned() };
        (reason, Some(id))
    }

    #[test]
    fn a_line_stands_for_all_refusals_since_the_one_before() {
        let (mut sampler, start) = (Sampler::default(), Instant::now());
        let api = || key(Rejection::Unauthorized, "api");
        assert_eq!(sampler.note(api(), start), Some(1));
        for millis in 1..1_000 {
            assert_eq!(sampler.note(api(), start + Duration::from_millis(millis)), None);
        }
        // Another reason, another exposition: a line of its own.
        assert_eq!(sampler.note(key(Rejection::Stopped, "api"), start), Some(1));
        assert_eq!(sampler.note(key(Rejection::Unauthorized, "other"), start), Some(1));
        assert_eq!(sampler.note(api(), start + WINDOW), Some(1_000));
    }

    #[test]
    fn a_flood_over_many_expositions_writes_a_bounded_number_of_lines_and_keeps_a_bounded_number_of_counts() {
        let (mut sampler, start) = (Sampler::default(), Instant::now());
        let mut lines = 0;
        for i in 0..20 * KEYS {
            lines += u32::from(sampler.note(key(Rejection::Stopped, &i.to_string()), start).is_some());
        }
        assert_eq!(lines, LINES);
        assert!(sampler.keys.len() <= KEYS + 1, "{}", sampler.keys.len());
        // Once the window is over there is room for lines again.
        let later = start + WINDOW;
        assert_eq!(sampler.note(key(Rejection::Stopped, "new"), later), Some(1));
        assert!(sampler.keys.len() <= KEYS + 1);
    }

    #[test]
    fn a_path_is_one_plain_word() {
        let path = format!("/mcp/\u{1b}[2J\n\"x\u{202e}{}", "é".repeat(200));
        let shown = plain(&path);
        assert!(shown.is_ascii() && !shown.contains(['\n', '\u{1b}']), "{shown}");
        assert!(shown.starts_with(r#"/mcp/\u{1b}[2J\n\"x\u{202e}"#) && shown.len() <= 10 * SHOWN, "{shown}");
    }
}
