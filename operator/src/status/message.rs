//! Texts of bounded length: the API takes 32 KiB in a message and 1 KiB in an Event, and people read less.

use tamis_crds::plain;

/// Bytes of a condition's message, and of an Event's note.
pub(crate) const MAX_BYTES: usize = 1024;
/// Bytes of one finding in it.
const MAX_PART_BYTES: usize = 500;
/// Bytes that `; and 1234567 more` needs.
const REST_BYTES: usize = 24;

/// The text, cut where it is longer than one finding may be.
pub(crate) fn part(text: &str) -> String {
    cut(text, MAX_PART_BYTES)
}

/// The text, cut where it is longer than a message may be.
pub(crate) fn whole(text: &str) -> String {
    cut(text, MAX_BYTES)
}

/// As many of the parts as fit, the first in any case, and how many more there are.
pub(crate) fn join<T: AsRef<str>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    let mut parts = parts.into_iter();
    for next in parts.by_ref() {
        let next = part(next.as_ref());
        if text.is_empty() {
            text = next;
        } else if text.len() + 2 + next.len() + REST_BYTES <= MAX_BYTES {
            text.push_str("; ");
            text.push_str(&next);
        } else {
            return format!("{text}; and {} more", 1 + parts.count());
        }
    }
    text
}

fn cut(text: &str, limit: usize) -> String {
    const MARK: &str = "…";
    let text = plain(text);
    if text.len() <= limit {
        return text;
    }
    let mut end = limit - MARK.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &text[..end])
}
