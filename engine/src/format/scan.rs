//! Moves over compact JSON that is known to be valid: nothing is checked, and no position is outside the text.

use crate::stream::stop32;

/// Returns the byte at `pos`, and NUL behind the end.
#[inline(always)]
pub(super) fn at(bytes: &[u8], pos: usize) -> u8 {
    bytes.get(pos).copied().unwrap_or(0)
}

/// Returns the position of the first `"` or `\` from `pos` on.
#[inline(always)]
pub(super) fn quote_or_escape(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<32>) {
        let stops = stop32(chunk);
        if stops != 0 {
            return pos + stops.trailing_zeros() as usize;
        }
        pos += 32;
    }
    while !matches!(at(bytes, pos), b'"' | b'\\' | 0) {
        pos += 1;
    }
    pos
}

/// Returns the position behind the string whose opening quote is at `pos`.
#[inline(always)]
pub(super) fn string(bytes: &[u8], pos: usize) -> usize {
    let stop = quote_or_escape(bytes, pos + 1);
    if at(bytes, stop) == b'\\' { escaped_string(bytes, stop) } else { stop + 1 }
}

/// Returns the position behind a string, from its first escape.
#[inline(never)]
fn escaped_string(bytes: &[u8], mut pos: usize) -> usize {
    while at(bytes, pos) == b'\\' {
        pos = quote_or_escape(bytes, pos + 2);
    }
    pos + 1
}

/// Returns whether the string between `pos`, its first escape, and `end` has an escaped surrogate without its partner.
#[inline(never)]
pub(super) fn has_lone_surrogate(bytes: &[u8], mut pos: usize, end: usize) -> bool {
    while pos < end && at(bytes, pos) == b'\\' {
        match surrogate(bytes, pos) {
            Some(Half::High) if surrogate(bytes, pos + 6) == Some(Half::Low) => pos += 12,
            Some(_) => return true,
            None => pos += 2,
        }
        pos = quote_or_escape(bytes, pos);
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// Returns which half of a surrogate pair the escape at `pos` is.
fn surrogate(bytes: &[u8], pos: usize) -> Option<Half> {
    match bytes.get(pos..pos + 4)? {
        [b'\\', b'u', b'd' | b'D', third] => match third {
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(Half::High),
            b'c'..=b'f' | b'C'..=b'F' => Some(Half::Low),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether an object with members begins at `pos`.
#[inline(always)]
pub(super) fn opens_object(bytes: &[u8], pos: usize) -> bool {
    at(bytes, pos) == b'{' && at(bytes, pos + 1) != b'}'
}

/// Returns the position behind the number or the literal at `pos`.
#[inline(always)]
pub(super) fn word(bytes: &[u8], mut pos: usize) -> usize {
    while !matches!(at(bytes, pos), b',' | b'}' | b']' | 0) {
        pos += 1;
    }
    pos
}

/// Returns the position behind the value at `pos`.
pub(super) fn value(bytes: &[u8], mut pos: usize) -> usize {
    let mut depth = 0_usize;
    loop {
        match at(bytes, pos) {
            b'"' => pos = string(bytes, pos),
            b'{' | b'[' => {
                depth += 1;
                pos += 1;
                continue;
            }
            b'}' | b']' => {
                depth -= 1;
                pos += 1;
            }
            b',' | b':' => {
                pos += 1;
                continue;
            }
            _ => pos = word(bytes, pos),
        }
        // Behind a value or a key: a key is followed by a colon, which the loop passes.
        if depth == 0 {
            return pos;
        }
    }
}

/// Bytes that are copied at once.
const BLOCK: usize = 32;

/// Appends `bytes[from..to]`, which is mostly short: a block is copied, and what is too much of it taken back.
#[inline(always)]
pub(super) fn copy(bytes: &[u8], from: usize, to: usize, out: &mut Vec<u8>) {
    let len = to - from;
    if len <= BLOCK
        && let Some(block) = bytes.get(from..).and_then(<[u8]>::first_chunk::<BLOCK>)
    {
        out.extend_from_slice(block);
        out.truncate(out.len() - (BLOCK - len));
    } else {
        out.extend_from_slice(&bytes[from..to]);
    }
}
