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
    /// What stays beside that.
    pub(super) stays: Stays,
}

/// What stays beside what the paths lead to.
#[derive(Debug)]
pub(super) enum Stays {
    /// Elements that names or `*` map to, by what they are.
    Advisory,
    /// Every element that a path leads to, and what is on the way to the payload.
    Enforced {
        /// The way, where it is named or declared.
        way: Option<Vec<Name>>,
        /// `select` is to come, which takes out of the payload's items those that are no objects.
        selects: bool,
    },
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct Place<'p> {
    state: &'p State,
    /// The rest of the way to the payload, none beside it.
    way: Option<&'p [Name]>,
    room: usize,
    depth: usize,
}

impl Narrow {
    /// Steps over the document at `pos`, checks it, and writes what the paths leave of it: `{}`, `[]` or `null` where
    /// that is nothing.
    pub(super) fn document(&self, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
        let way = match &self.stays {
            Stays::Enforced { way, .. } => way.as_deref(),
            Stays::Advisory => None,
        };
        let place = Place { state: self.paths.state(0), way, room, depth: 0 };
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
        let (mut pos, mut more) = run.open(pos, b'}')?;
        while more {
            let start = pos;
            let (value, end) = run.key(pos)?;
            let key = &run.bytes[start + 1..end - 1];
            pos = match state.member(key) {
                None => run.skip(value, room)?,
                Some(below) => {
                    // Duplicates among what goes do not matter.
                    run.distinct.add(key);
                    let on = below_way(way, |name| *name.text.as_bytes() == *key);
                    let state = self.paths.state(below);
                    let mark = run.out.len();
                    run.member(open, start..end);
                    let below = Place { state, way: on, room, depth: depth + 1 };
                    let (end, kept) = self.value(run, below, value)?;
                    match on {
                        _ if kept => {}
                        Some(_) => place_of(run, value),
                        None => run.out.truncate(mark),
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
        let (mut pos, mut more) = run.open(pos, b']')?;
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
                    let on = below_way(way, |name| name.index == Index::At(index));
                    let state_below = self.paths.state(below);
                    let mark = run.out.len();
                    if mark > open {
                        run.out.push(b',');
                    }
                    let below = Place { state: state_below, way: on, room, depth: depth + 1 };
                    let (end, kept) = self.value(run, below, pos)?;
                    if !kept && !self.element(run, place, on.is_some(), pos) {
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

    /// Writes what stays of the element at `pos` of the list at `place` where nothing is kept of it, if anything does.
    fn element(&self, run: &mut Run<'_>, place: Place<'_>, on_the_way: bool, pos: usize) -> bool {
        match &self.stays {
            _ if on_the_way => place_of(run, pos),
            Stays::Enforced { selects: true, .. } if place.way.is_some_and(<[Name]>::is_empty) => nothing(run, pos),
            Stays::Enforced { .. } => run.out.extend_from_slice(b"{}"),
            Stays::Advisory if place.state.every() => nothing(run, pos),
            Stays::Advisory => return false,
        }
        true
    }
}

/// The way from what `goes` there on.
fn below_way(way: Option<&[Name]>, goes: impl Fn(&Name) -> bool) -> Option<&[Name]> {
    way.and_then(<[Name]>::split_first).filter(|(name, _)| goes(name)).map(|(_, rest)| rest)
}

/// Writes what stays of the value at `pos` where nothing is kept of it.
fn nothing(run: &mut Run<'_>, pos: usize) {
    run.out.extend_from_slice(match run.at(pos) {
        b'{' => b"{}",
        b'[' => b"[]",
        _ => b"null",
    });
}

/// The same on the way to the payload, where it is seen whether there is a list and nothing else.
fn place_of(run: &mut Run<'_>, pos: usize) {
    run.out.extend_from_slice(if run.at(pos) == b'[' { b"[]" } else { b"{}" });
}
