//! `dropNulls` and `dropEmpty`: what is dropped is written first and taken back.

use super::emit;
use super::scan::{self, Scan, Stop, Tally, at};

/// Which members go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Those whose value is null.
    pub(super) nulls: bool,
    /// Those whose value is `""`, `[]` or `{}`, after what is in it has gone.
    pub(super) empties: bool,
}

impl Rules {
    pub(super) fn any(self) -> bool {
        self.nulls || self.empties
    }

    /// Whether a member goes whose value has been written as `value`.
    #[inline(always)]
    pub(super) fn drop(self, value: &[u8]) -> bool {
        match value {
            b"null" => self.nulls,
            b"\"\"" | b"[]" | b"{}" => self.empties,
            _ => false,
        }
    }
}

/// Steps over the value at `pos`, checks it, and appends what `rules` leave of it.
pub(super) fn copy(rules: Rules, bytes: &[u8], pos: usize, room: usize, tally: &mut Tally, out: &mut Vec<u8>) -> Scan {
    match at(bytes, pos) {
        b'{' if rules.any() => object(rules, bytes, pos, room, tally, out),
        b'[' if rules.any() => array(rules, bytes, pos, room, tally, out),
        _ => emit::copy(bytes, pos, room, tally, out),
    }
}

fn object(rules: Rules, bytes: &[u8], pos: usize, room: usize, tally: &mut Tally, out: &mut Vec<u8>) -> Scan {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    let open = out.len();
    out.push(b'{');
    let mut pos = scan::blanks(bytes, pos + 1, tally);
    if at(bytes, pos) == b'}' {
        out.push(b'}');
        return Ok(pos + 1);
    }
    loop {
        if at(bytes, pos) != b'"' {
            return Err(Stop::Invalid);
        }
        let end = scan::string(bytes, pos + 1)?;
        let key = &bytes[pos..end];
        pos = scan::colon(bytes, end, tally)?;
        let mark = out.len();
        if mark > open + 1 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b':');
        let value = out.len();
        pos = copy(rules, bytes, pos, room, tally, out)?;
        if rules.drop(&out[value..]) {
            out.truncate(mark);
        }
        let (next, more) = scan::comma(bytes, pos, b'}', tally)?;
        pos = next;
        if !more {
            out.push(b'}');
            return Ok(pos);
        }
    }
}

fn array(rules: Rules, bytes: &[u8], pos: usize, room: usize, tally: &mut Tally, out: &mut Vec<u8>) -> Scan {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    out.push(b'[');
    let mut pos = scan::blanks(bytes, pos + 1, tally);
    if at(bytes, pos) == b']' {
        out.push(b']');
        return Ok(pos + 1);
    }
    loop {
        pos = copy(rules, bytes, pos, room, tally, out)?;
        let (next, more) = scan::comma(bytes, pos, b']', tally)?;
        pos = next;
        out.push(if more { b',' } else { b']' });
        if !more {
            return Ok(pos);
        }
    }
}
