//! Nothing stays but what paths name: `retain`.

use super::automaton::{Automaton, State};
use super::prune::Rules;
use super::run::Run;
use super::scan::{Scan, Stop};

/// Steps over the value at `pos`, checks it, and writes what the paths leave of it. What they leave nothing of is
/// `{}`, `[]` or `null`.
pub(super) fn document(paths: &Automaton, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
    let (end, kept) = value(paths, run, 0, pos, room, 0)?;
    if !kept {
        nothing(run, pos);
    }
    Ok(end)
}

/// Writes what stays of the value at `pos` where nothing is kept of it.
fn nothing(run: &mut Run<'_>, pos: usize) {
    run.out.extend_from_slice(match run.at(pos) {
        b'{' => b"{}",
        b'[' => b"[]",
        _ => b"null",
    });
}

/// The same for a value below; where nothing is left of it, nothing is written, and `false` says so.
fn value(
    paths: &Automaton,
    run: &mut Run<'_>,
    state: usize,
    pos: usize,
    room: usize,
    depth: usize,
) -> Scan<(usize, bool)> {
    let state = paths.state(state);
    if !state.ends.is_empty() {
        for &id in &state.ends {
            run.hits[id] = true;
        }
        if state.inner {
            // Other paths lead on from here: they keep nothing that is not kept already, and are met or missed.
            let (tally, mark) = (run.tally.clone(), run.out.len());
            inner(paths, run, state, pos, room, depth)?;
            run.tally = tally;
            run.out.truncate(mark);
        }
        return Ok((run.copy(Rules::default(), pos, room)?, true));
    }
    inner(paths, run, state, pos, room, depth)
}

fn inner(
    paths: &Automaton,
    run: &mut Run<'_>,
    state: &State,
    pos: usize,
    room: usize,
    depth: usize,
) -> Scan<(usize, bool)> {
    match run.at(pos) {
        b'{' if state.inner => object(paths, run, state, pos, room, depth),
        b'[' if state.inner => array(paths, run, state, pos, room, depth),
        _ => Ok((run.skip(pos, room)?, false)),
    }
}

fn object(
    paths: &Automaton,
    run: &mut Run<'_>,
    state: &State,
    pos: usize,
    room: usize,
    depth: usize,
) -> Scan<(usize, bool)> {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    let before = run.out.len();
    run.out.push(b'{');
    let open = run.out.len();
    let keys = run.distinct.enter();
    let (mut pos, mut more) = run.open(pos, b'}');
    while more {
        let start = pos;
        let (at, end) = run.key(pos)?;
        let key = &run.bytes[start + 1..end - 1];
        pos = match state.member(key) {
            None => run.skip(at, room)?,
            Some(below) => {
                // Duplicates among what goes do not matter.
                run.distinct.add(key);
                let mark = run.out.len();
                run.member(open, start..end);
                let (pos, kept) = value(paths, run, below, at, room, depth + 1)?;
                if !kept {
                    run.out.truncate(mark);
                }
                pos
            }
        };
        (pos, more) = run.next(pos, b'}')?;
    }
    if !run.distinct.leave(keys, depth) {
        return Err(Stop::Bail);
    }
    if run.out.len() == open {
        run.out.truncate(before);
        return Ok((pos, false));
    }
    run.out.push(b'}');
    Ok((pos, true))
}

fn array(
    paths: &Automaton,
    run: &mut Run<'_>,
    state: &State,
    pos: usize,
    room: usize,
    depth: usize,
) -> Scan<(usize, bool)> {
    let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
    let before = run.out.len();
    run.out.push(b'[');
    let open = run.out.len();
    let (mut pos, mut more) = run.open(pos, b']');
    if !more {
        for &id in &state.vacuous {
            run.hits[id] = true;
        }
    }
    let mut index = 0;
    while more {
        pos = match state.element(index) {
            None => run.skip(pos, room)?,
            Some(below) => {
                let mark = run.out.len();
                if mark > open {
                    run.out.push(b',');
                }
                let written = run.out.len();
                let (end, kept) = value(paths, run, below, pos, room, depth + 1)?;
                if !kept && state.every() {
                    run.out.truncate(written);
                    nothing(run, pos);
                } else if !kept {
                    run.out.truncate(mark);
                }
                end
            }
        };
        index += 1;
        (pos, more) = run.next(pos, b']')?;
    }
    if run.out.len() == open && !state.every() {
        run.out.truncate(before);
        return Ok((pos, false));
    }
    run.out.push(b']');
    Ok((pos, true))
}
