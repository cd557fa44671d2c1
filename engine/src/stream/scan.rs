//! The byte scanner: skips over JSON and validates every byte of it.
//!
//! These are free functions from a position to the position behind, so that positions stay in registers. They accept
//! what the parser of [`crate::json`] accepts: RFC 8259, valid UTF-8, a bounded depth. Non-ASCII text can only be in
//! strings, so it is checked there and not in a separate pass.

use super::simd;
use crate::work::Work;

/// Why a scan cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The output is not JSON, not UTF-8, or nested too deep.
    Invalid,
    /// The output is JSON, but a case that the fast path leaves to the tree.
    Bail,
    /// The run was interrupted: the caller no longer waits.
    Interrupted,
}

pub(super) type Scan<T = usize> = Result<T, Stop>;

/// The number of values between two polls of the interrupt.
const POLL: usize = 4096;

/// The counters of a scan.
#[derive(Debug, Clone)]
pub(super) struct Tally<'w> {
    /// Bytes of insignificant whitespace so far.
    pub(super) blanks: usize,
    /// Members and elements so far.
    pub(super) values: usize,
    work: &'w Work<'w>,
}

impl<'w> Tally<'w> {
    pub(super) fn new(work: &'w Work<'w>) -> Self {
        Self { blanks: 0, values: 0, work }
    }

    /// Counts a member or an element.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Result<(), Stop> {
        self.values += 1;
        if self.values.is_multiple_of(POLL) { self.poll(POLL) } else { Ok(()) }
    }

    /// Polls before many steps that are not values.
    #[inline(always)]
    pub(super) fn poll_after(&self, steps: usize) -> Result<(), Stop> {
        if steps < POLL / 64 { Ok(()) } else { self.poll(steps) }
    }

    #[inline(never)]
    #[cold]
    fn poll(&self, steps: usize) -> Result<(), Stop> {
        if self.work.spend(steps) { Ok(()) } else { Err(Stop::Interrupted) }
    }
}

/// Returns the byte at `pos`; at the end NUL, which no grammar rule accepts.
#[inline(always)]
pub(super) fn at(bytes: &[u8], pos: usize) -> u8 {
    bytes.get(pos).copied().unwrap_or(0)
}

/// Skips whitespace.
#[inline(always)]
pub(super) fn blanks(bytes: &[u8], pos: usize, tally: &mut Tally<'_>) -> usize {
    if at(bytes, pos) > b' ' {
        return pos;
    }
    let end = blank_run(bytes, pos);
    tally.blanks += end - pos;
    end
}

#[inline(never)]
pub(super) fn blank_run(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<16>) {
        let rest = !simd::blank16(chunk) & 0xffff;
        if rest != 0 {
            return pos + rest.trailing_zeros() as usize;
        }
        pos += 16;
    }
    while matches!(at(bytes, pos), b' ' | b'\t' | b'\n' | b'\r') {
        pos += 1;
    }
    pos
}

/// Skips a string, from behind the opening quote to behind the closing one.
#[inline(always)]
pub(super) fn string(bytes: &[u8], start: usize) -> Scan {
    let mut pos = start;
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<32>) {
        let special = simd::special32(chunk);
        if special == 0 {
            pos += 32;
            continue;
        }
        let first = special.trailing_zeros() as usize;
        pos += first;
        if chunk[first] == b'"' {
            return Ok(pos + 1);
        }
        break;
    }
    string_rest(bytes, start, pos)
}

/// Scans the rest of a string that has an escape, non-ASCII text or the end of the input in its next block.
#[inline(never)]
fn string_rest(bytes: &[u8], start: usize, mut pos: usize) -> Scan {
    loop {
        let byte = at(bytes, pos);
        match byte {
            b'"' => return Ok(pos + 1),
            b'\\' => pos = escape(bytes, pos)?,
            0x20..=0x7f => pos = plain(bytes, pos),
            0x80.. => return string_unicode(bytes, start, pos),
            _ => return Err(Stop::Invalid),
        }
    }
}

/// Scans a string that contains non-ASCII text: finds its end first, and then validates all its bytes at once. In
/// valid UTF-8 no byte of a longer sequence is a quote, an escape or a control character, so the end is right.
fn string_unicode(bytes: &[u8], start: usize, mut pos: usize) -> Scan {
    loop {
        match at(bytes, pos) {
            b'"' => break,
            b'\\' => pos = escape(bytes, pos)?,
            0x20.. => pos = unchecked(bytes, pos),
            _ => return Err(Stop::Invalid),
        }
    }
    match simdutf8::basic::from_utf8(&bytes[start..pos]) {
        Ok(_) => Ok(pos + 1),
        Err(_) => Err(Stop::Invalid),
    }
}

/// Scans a key, from behind its opening quote. A key with an escape is left to the tree: it can be compared only
/// after decoding.
#[inline(always)]
pub(super) fn key(bytes: &[u8], start: usize) -> Scan {
    if let Some(chunk) = bytes.get(start..).and_then(<[u8]>::first_chunk::<32>) {
        let special = simd::special32(chunk);
        if special != 0 {
            let first = special.trailing_zeros() as usize;
            if chunk[first] == b'"' {
                return Ok(start + first + 1);
            }
        }
    }
    key_rest(bytes, start)
}

#[inline(never)]
fn key_rest(bytes: &[u8], start: usize) -> Scan {
    let end = string(bytes, start)?;
    if memchr::memchr(b'\\', &bytes[start..end]).is_some() { Err(Stop::Bail) } else { Ok(end) }
}

#[inline(always)]
fn plain(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<32>) {
        let special = simd::special32(chunk);
        if special != 0 {
            return pos + special.trailing_zeros() as usize;
        }
        pos += 32;
    }
    while matches!(at(bytes, pos), 0x20 | 0x21 | 0x23..=0x5b | 0x5d..=0x7f) {
        pos += 1;
    }
    pos
}

#[inline(always)]
fn unchecked(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<32>) {
        let stop = simd::stop32(chunk);
        if stop != 0 {
            return pos + stop.trailing_zeros() as usize;
        }
        pos += 32;
    }
    while matches!(at(bytes, pos), 0x20 | 0x21 | 0x23..=0x5b | 0x5d..) {
        pos += 1;
    }
    pos
}

/// Scans one escape, from its backslash. Lone surrogates are escapes like others.
#[inline(always)]
fn escape(bytes: &[u8], pos: usize) -> Scan {
    match at(bytes, pos + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(pos + 2),
        b'u' if bytes.get(pos + 2..pos + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => Ok(pos + 6),
        _ => Err(Stop::Invalid),
    }
}

/// Scans a number, from its sign or first digit.
#[inline(always)]
pub(super) fn number(bytes: &[u8], mut pos: usize) -> Scan {
    pos += usize::from(at(bytes, pos) == b'-');
    pos = match at(bytes, pos) {
        b'0' => pos + 1,
        b'1'..=b'9' => digits(bytes, pos),
        _ => return Err(Stop::Invalid),
    };
    if matches!(at(bytes, pos), b'.' | b'e' | b'E') { fraction(bytes, pos) } else { Ok(pos) }
}

#[inline(never)]
fn fraction(bytes: &[u8], mut pos: usize) -> Scan {
    if at(bytes, pos) == b'.' {
        pos = some_digits(bytes, pos + 1)?;
    }
    if matches!(at(bytes, pos), b'e' | b'E') {
        pos += 1;
        pos += usize::from(matches!(at(bytes, pos), b'+' | b'-'));
        pos = some_digits(bytes, pos)?;
    }
    Ok(pos)
}

#[inline(always)]
fn digits(bytes: &[u8], mut pos: usize) -> usize {
    while at(bytes, pos).is_ascii_digit() {
        pos += 1;
    }
    pos
}

fn some_digits(bytes: &[u8], pos: usize) -> Scan {
    let end = digits(bytes, pos);
    if end == pos { Err(Stop::Invalid) } else { Ok(end) }
}

/// `true`, `false` or `null`.
#[inline(always)]
fn literal(bytes: &[u8], pos: usize) -> Scan {
    match bytes.get(pos..).and_then(<[u8]>::first_chunk::<4>) {
        Some(b"true" | b"null") => Ok(pos + 4),
        Some(b"fals") if at(bytes, pos + 4) == b'e' => Ok(pos + 5),
        _ => Err(Stop::Invalid),
    }
}

/// Skips any value, from its first byte. `room` is the number of further levels of nesting that are allowed.
#[inline(always)]
pub(super) fn value(bytes: &[u8], pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
    match at(bytes, pos) {
        b'{' => object(bytes, pos, room, tally),
        b'[' => array(bytes, pos, room, tally),
        _ => scalar(bytes, pos),
    }
}

/// Skips a value that is neither an object nor an array, from its first byte.
#[inline(always)]
pub(super) fn scalar(bytes: &[u8], pos: usize) -> Scan {
    match at(bytes, pos) {
        b'"' => string(bytes, pos + 1),
        b't' | b'f' | b'n' => literal(bytes, pos),
        _ => number(bytes, pos),
    }
}

/// Returns the length of the value at the beginning of `block` if it is an ordinary scalar and ends within the block: a
/// string of ASCII characters without escapes, an integer that is not negative, or a literal.
#[inline(always)]
pub(super) fn short(block: &[u8; 32]) -> Option<usize> {
    match block[0] {
        b'"' => {
            let end = (simd::special32(block) >> 1).trailing_zeros() as usize + 1;
            (*block.get(end)? == b'"').then_some(end + 1)
        }
        first @ b'0'..=b'9' => {
            let length = simd::digits16(block.first_chunk()?).trailing_ones() as usize;
            let whole = !matches!(block[length], b'.' | b'e' | b'E' | b'0'..=b'9');
            (whole && (first != b'0' || length == 1)).then_some(length)
        }
        b't' | b'f' | b'n' => literal(block, 0).ok(),
        _ => None,
    }
}

/// Moves from behind a key, across the colon, to the value.
#[inline(always)]
pub(super) fn colon(bytes: &[u8], pos: usize, tally: &mut Tally<'_>) -> Scan {
    let pos = blanks(bytes, pos, tally);
    if at(bytes, pos) != b':' {
        return Err(Stop::Invalid);
    }
    Ok(blanks(bytes, pos + 1, tally))
}

/// Moves across what follows an element or a member: a comma or the closing bracket. Returns whether another one
/// follows.
#[inline(always)]
pub(super) fn comma(bytes: &[u8], pos: usize, close: u8, tally: &mut Tally<'_>) -> Scan<(usize, bool)> {
    let pos = blanks(bytes, pos, tally);
    let byte = at(bytes, pos);
    if byte == b',' {
        tally.value()?;
        Ok((blanks(bytes, pos + 1, tally), true))
    } else if byte == close {
        Ok((pos + 1, false))
    } else {
        Err(Stop::Invalid)
    }
}

#[inline(never)]
fn object(bytes: &[u8], pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    let mut pos = blanks(bytes, pos + 1, tally);
    if at(bytes, pos) == b'}' {
        return Ok(pos + 1);
    }
    tally.value()?;
    loop {
        if at(bytes, pos) != b'"' {
            return Err(Stop::Invalid);
        }
        pos = string(bytes, pos + 1)?;
        pos = colon(bytes, pos, tally)?;
        pos = value(bytes, pos, room, tally)?;
        let (next, more) = comma(bytes, pos, b'}', tally)?;
        if !more {
            return Ok(next);
        }
        pos = next;
    }
}

#[inline(never)]
fn array(bytes: &[u8], pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    let mut pos = blanks(bytes, pos + 1, tally);
    if at(bytes, pos) == b']' {
        return Ok(pos + 1);
    }
    tally.value()?;
    loop {
        pos = value(bytes, pos, room, tally)?;
        let (next, more) = comma(bytes, pos, b']', tally)?;
        if !more {
            return Ok(next);
        }
        pos = next;
    }
}
