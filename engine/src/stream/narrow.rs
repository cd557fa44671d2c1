//! Nothing stays but what paths name: `retain`.

use crate::program::{Index, Name};

use super::automaton::{Automaton, State};
use super::prune::Rules;
use super::run::Run;
use super::scan::{Scan, Stop};

/// Stage 2.
#[derive(Debug)]
pub(super) struct Narrow {
    pub(super) paths: Automaton,
    /// What is on this way stays where a path leads there, even if nothing of it is kept.
    pub(super) way: Vec<Name>,
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct Place<'p> {
    state: &'p State,
    /// The rest of [`Narrow::way`], empty beside it.
    way: &'p [Name],
    room: usize,
    depth: usize,
}

impl Narrow {
    /// Steps over the document at `pos`, checks it, and writes what the paths leave of it: `{}`, `[]` or `null` where
    /// that is nothing.
    pub(super) fn document(&self, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
        let place = Place { state: self.paths.state(0), way: &self.way, room, depth: 0 };
        let (end, kept) = self.value(run, place, pos)?;
        if !kept {
            nothing(run, pos);
        }
        Ok(end)
    }

    /// The same for a value below; where nothing is left of it, nothing is written, and `false` says so.
    fn value(&self, run: &mut Run<'_>, place: Place<'_>, pos: usize) -> Scan<(usize, bool)> {
        let state = place.state;
        if state.ends.is_empty() {
            return self.inner(run, place, pos);
        }
        for &id in &state.ends {
            run.hits[id] = true;
        }
        if state.inner {
            // Other paths lead on from here: they keep nothing that is not kept already, and are met or missed.
            let (tally, mark) = (run.tally.clone(), run.out.len());
            self.inner(run, place, pos)?;
            run.tally = tally;
            run.out.truncate(mark);
        }
        Ok((run.copy(Rules::default(), pos, place.room)?, true))
    }

    fn inner(&self, run: &mut Run<'_>, place: Place<'_>, pos: usize) -> Scan<(usize, bool)> {
        match run.at(pos) {
            b'{' if place.state.inner => self.object(run, place, pos),
            b'[' if place.state.inner => self.array(run, place, pos),
            _ => Ok((run.skip(pos, place.room)?, false)),
        }
    }

    fn object(&self, run: &mut Run<'_>, place: Place<'_>, pos: usize) -> Scan<(usize, bool)> {
        let Place { state, way, room, depth } = place;
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let before = run.out.len();
        run.out.push(b'{');
        let open = run.out.len();
        let keys = run.distinct.enter();
        let (mut pos, mut more) = run.open(pos, b'}');
        while more {
            let start = pos;
            let (value, end) = run.key(pos)?;
            let key = &run.bytes[start + 1..end - 1];
            pos = match state.member(key) {
                None => run.skip(value, room)?,
                Some(below) => {
                    // Duplicates among what goes do not matter.
                    run.distinct.add(key);
                    let on = way.split_first().filter(|(name, _)| *name.text.as_bytes() == *key).map(|(_, rest)| rest);
                    let state = self.paths.state(below);
                    let mark = run.out.len();
                    run.member(open, start..end);
                    let below = Place { state, way: on.unwrap_or_default(), room, depth: depth + 1 };
                    let (end, kept) = self.value(run, below, value)?;
                    if !kept && on.is_some() {
                        nothing(run, value);
                    } else if !kept {
                        run.out.truncate(mark);
                    }
                    end
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

    fn array(&self, run: &mut Run<'_>, place: Place<'_>, pos: usize) -> Scan<(usize, bool)> {
        let Place { state, way, room, depth } = place;
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
                    let on = way.split_first().filter(|(name, _)| name.index == Index::At(index)).map(|(_, rest)| rest);
                    let state_below = self.paths.state(below);
                    let mark = run.out.len();
                    if mark > open {
                        run.out.push(b',');
                    }
                    let below = Place { state: state_below, way: on.unwrap_or_default(), room, depth: depth + 1 };
                    let (end, kept) = self.value(run, below, pos)?;
                    if !kept && (state.every() || on.is_some()) {
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
}

/// Writes what stays of the value at `pos` where nothing is kept of it.
fn nothing(run: &mut Run<'_>, pos: usize) {
    run.out.extend_from_slice(match run.at(pos) {
        b'{' => b"{}",
        b'[' => b"[]",
        _ => b"null",
    });
}
