//! Bounds the length of messages: the API accepts 32 KiB in a condition and 1 KiB in an Event, and people read less.

use tamis_crds::plain;

/// The most bytes of a condition's message, and of an Event's note.
pub(crate) const MAX_BYTES: usize = 1024;
/// The most bytes of one finding in it.
const MAX_PART_BYTES: usize = 500;
/// The bytes of `; and 1234567 more`.
const REST_BYTES: usize = 24;

/// Cuts the text to the length of one finding.
pub(crate) fn part(text: &str) -> String {
    cut(text, MAX_PART_BYTES)
}

/// Cuts the text to the length of a message.
pub(crate) fn whole(text: &str) -> String {
    cut(text, MAX_BYTES)
}

/// Joins as many parts as fit, at least the first, and counts the rest.
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
