//! The measured documents: lists of objects, repeated until the size is reached.

use std::io::Write;

/// 16 recorded issue objects, one a line between brackets.
const RECORDED: &str = include_str!("../data/issues.json");

/// What the objects of a measured document are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Document {
    /// Recorded issues of 5 kB: long values, most of which the filters do not keep.
    Issues,
    /// Items of 250 bytes: short keys, short strings and small numbers.
    Items,
}

impl Document {
    pub(crate) const ALL: [Self; 2] = [Self::Issues, Self::Items];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Issues => "issues",
            Self::Items => "items",
        }
    }

    /// Returns the measured sizes, in MB.
    pub(crate) fn sizes(self) -> &'static [f64] {
        match self {
            Self::Issues => &[0.5, 10.0, 100.0],
            Self::Items => &[0.004, 0.064, 0.5],
        }
    }

    /// Returns a document of at least `size` bytes.
    #[must_use]
    pub(crate) fn of(self, size: usize) -> Vec<u8> {
        match self {
            Self::Issues => issues(size),
            Self::Items => items(size),
        }
    }
}

/// Returns a JSON list of at least `size` bytes: items like those of the upstream in `bench/gateway`, each with its own
/// number.
fn items(size: usize) -> Vec<u8> {
    let mut out = vec![b'['];
    for n in 1u64.. {
        if n > 1 {
            out.push(b',');
        }
        write!(
            out,
            concat!(
                r#"{{"id":{},"number":{},"title":"Crash when opening file {}","state":"open","locked":false,"#,
                r#""comments":{},"user":{{"login":"octocat","id":583231,"type":"User"}},"#,
                r#""body":"It crashes on start, every time I open it.","assignee":null}}"#
            ),
            1_000_000 + n,
            n,
            n,
            n % 7
        )
        .expect("memory");
        if out.len() >= size {
            break;
        }
    }
    out.push(b']');
    out
}

/// Returns a JSON list of at least `size` bytes: the recorded objects, repeated, each with its own number and title (so
/// that nothing repeats exactly) and otherwise as recorded. The result is the same for the same size.
#[must_use]
pub(crate) fn issues(size: usize) -> Vec<u8> {
    let recorded: Vec<&str> =
        RECORDED.lines().filter(|line| line.starts_with('{')).map(|line| line.trim_end_matches(',')).collect();
    let mut out = Vec::with_capacity(size + (8 << 10));
    out.push(b'[');
    for (n, issue) in (1u64..).zip(recorded.iter().cycle()) {
        if n > 1 {
            out.push(b',');
        }
        renumbered(issue, n, &mut out);
        if out.len() >= size {
            break;
        }
    }
    out.push(b']');
    out
}

/// Returns one issue with `n` as its number and as the first word of its title.
fn renumbered(issue: &str, n: u64, out: &mut Vec<u8>) {
    // The issue's own members come before members with the same names in nested objects (`milestone`).
    let (head, rest) = after(issue, "\"number\":");
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let (middle, tail) = after(rest, "\"title\":\"");
    write!(out, "{head}{n}{middle}{} {tail}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).expect("memory");
}

/// Splits `text` after the first `marker`.
fn after<'a>(text: &'a str, marker: &str) -> (&'a str, &'a str) {
    text.split_at(text.find(marker).expect("every issue has it") + marker.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_are_json_and_distinct() {
        let list: Vec<serde_json::Value> = serde_json::from_slice(&items(64_000)).unwrap();
        assert!(list.iter().enumerate().all(|(i, item)| item["number"] == i + 1));
    }

    #[test]
    fn the_issues_are_distinct() {
        let list: Vec<serde_json::Value> = serde_json::from_slice(&issues(200_000)).unwrap();
        assert!(list.iter().enumerate().all(|(i, issue)| issue["number"] == i + 1));
        let titles: std::collections::HashSet<_> = list.iter().map(|issue| issue["title"].as_str().unwrap()).collect();
        assert_eq!(titles.len(), list.len());
    }

    #[test]
    fn the_payload_has_the_requested_size() {
        for document in Document::ALL {
            let size = document.of(500_000).len();
            assert!((500_000..510_000).contains(&size), "{size}");
        }
    }
}
