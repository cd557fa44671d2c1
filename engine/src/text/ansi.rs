//! Removes terminal escape sequences (ECMA-48 and the additions of xterm).

use std::borrow::Cow;

use memchr::memchr2;

use crate::work::Work;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
/// CAN and SUB abort a control string.
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// Removes ANSI escape sequences: CSI (colours, cursor), OSC (titles, hyperlinks), DCS, SOS, PM, APC, and sequences
/// of two and three characters, whether they begin with `ESC` or a C1 character (U+0080 to U+009F).
///
/// One pass, linear in the text. No `ESC` survives, and a sequence that is cut off at the end is removed too. An
/// unterminated control string (OSC, DCS, ..) reaches to the end of its line and no further: one broken title must
/// not swallow a log.
#[must_use]
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    strip_ansi_within(text, &Work::unlimited())
}

/// As [`strip_ansi`], until the run is interrupted.
pub(super) fn strip_ansi_within<'t>(text: &'t str, work: &Work<'_>) -> Cow<'t, str> {
    // 0xC2 begins the C1 characters, and others: each one is checked.
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = memchr2(ESC, 0xc2, &bytes[at..]) {
        let start = at + found;
        if !work.spend_unbounded(1) {
            break;
        }
        match sequence(bytes, start) {
            Some(end) => {
                out.push_str(&text[from..start]);
                from = end;
                at = end;
            }
            // Another character that begins with 0xC2.
            None => at = start + 1,
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// Returns the end of the sequence that begins at `start`, if there is one. The end is always a character boundary.
fn sequence(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes[start] == ESC {
        let after = start + 1;
        return Some(match bytes.get(after) {
            Some(b'[') => control_sequence(bytes, after + 1),
            Some(b']' | b'P' | b'X' | b'^' | b'_') => control_string(bytes, after + 1),
            Some(0x20..=0x2f) => {
                let rest = skip(bytes, after, |b| (0x20..=0x2f).contains(&b));
                skip_one(bytes, rest, |b| (0x30..=0x7e).contains(&b))
            }
            Some(0x30..=0x7e) => after + 1,
            _ => after,
        });
    }
    let after = start + 2;
    match bytes.get(start + 1) {
        Some(0x9b) => Some(control_sequence(bytes, after)),
        Some(0x90 | 0x98 | 0x9d | 0x9e | 0x9f) => Some(control_string(bytes, after)),
        // The other C1 controls stand alone. Some readers treat U+0085 (next line) as a line end: it stays.
        Some(&b) if (0x80..=0x9f).contains(&b) && b != 0x85 => Some(after),
        _ => None,
    }
}

/// Skips parameters, intermediates and one final byte. Any other byte ends the sequence and stays.
fn control_sequence(bytes: &[u8], at: usize) -> usize {
    let at = skip(bytes, at, |b| (0x30..=0x3f).contains(&b));
    let at = skip(bytes, at, |b| (0x20..=0x2f).contains(&b));
    skip_one(bytes, at, |b| (0x40..=0x7e).contains(&b))
}

/// Skips to BEL or ST (`ESC \` or U+009C), inclusive, or to a line end or another `ESC`, exclusive.
fn control_string(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let end = skip(bytes, at, |b| !matches!(b, BEL | ESC | CAN | SUB | b'\n' | b'\r' | 0xc2));
        match (bytes.get(end), bytes.get(end + 1)) {
            (Some(&(BEL | CAN | SUB)), _) => return end + 1,
            (Some(&ESC), Some(b'\\')) | (Some(0xc2), Some(0x9c)) => return end + 2,
            // Another character of two bytes.
            (Some(0xc2), _) => at = end + 2,
            _ => return end,
        }
    }
}

fn skip(bytes: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes[at..].iter().position(|&b| !wanted(b)).map_or(bytes.len(), |n| at + n)
}

fn skip_one(bytes: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    at + usize::from(bytes.get(at).is_some_and(|&b| wanted(b)))
}
