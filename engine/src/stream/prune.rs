//! `dropNulls` and `dropEmpty`: members are written first, and removed again if they are to be dropped.

use super::run::{Kept, Run};
use super::scan::{Scan, Stop};

/// Which members are dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Members whose value is null.
    pub(super) nulls: bool,
    /// Members whose value is `""`, `[]` or `{}`, once their own contents have been dropped.
    pub(super) empties: bool,
}

impl Rules {
    pub(super) fn any(self) -> bool {
        self.nulls || self.empties
    }

    /// Returns whether to drop a member whose value was written as `value`.
    #[inline(always)]
    pub(super) fn drop(self, value: &[u8]) -> bool {
        match value {
            b"null" => self.nulls,
            b"\"\"" | b"[]" | b"{}" => self.empties,
            _ => false,
        }
    }
}

/// Validates and skips the value at `pos`, and appends what `rules` leave of it.
pub(super) fn copy(rules: Rules, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
    match run.at(pos) {
        b'{' => object(rules, run, pos, room),
        b'[' => array(rules, run, pos, room),
        _ => {
            let end = run.skip(pos, room)?;
            run.out.extend_from_slice(&run.bytes[pos..end]);
            Ok(end)
        }
    }
}

fn object(rules: Rules, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    run.out.push(b'{');
    let open = run.out.len();
    let keys = run.distinct.enter();
    let (mut pos, mut more) = run.open(pos, b'}')?;
    let mut kept = Kept::default();
    while more {
        let (start, blanks) = (pos, run.tally.blanks);
        let (value, end) = run.key(pos)?;
        run.distinct.add(&run.bytes[start + 1..end - 1]);
        if matches!(run.at(value), b'{' | b'[') {
            run.flush(open, std::mem::take(&mut kept));
            let mark = run.out.len();
            run.member(open, start..end);
            let written = run.out.len();
            pos = copy(rules, run, value, room)?;
            if rules.drop(&run.out[written..]) {
                run.out.truncate(mark);
            }
        } else {
            pos = run.skip(value, room)?;
            if rules.drop(&run.bytes[value..pos]) {
                run.flush(open, std::mem::take(&mut kept));
            } else {
                kept.add(start, pos, blanks);
            }
        }
        (pos, more) = run.next(pos, b'}')?;
    }
    // The last of duplicates counts: dropping it alone would bring back the value that it hides.
    if !run.distinct.leave(keys, room) {
        return Err(Stop::Bail);
    }
    run.flush(open, kept);
    run.out.push(b'}');
    Ok(pos)
}

fn array(rules: Rules, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    run.out.push(b'[');
    let (mut pos, mut more) = run.open(pos, b']')?;
    while more {
        pos = copy(rules, run, pos, room)?;
        (pos, more) = run.next(pos, b']')?;
        if more {
            run.out.push(b',');
        }
    }
    run.out.push(b']');
    Ok(pos)
}
