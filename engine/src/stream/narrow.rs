//! `retain`: drops everything except what paths name.

use crate::program::{Index, Name};

use super::automaton::{Automaton, State};
use super::prune::Rules;
use super::run::Run;
use super::scan::{Scan, Stop};

/// Stage 2.
#[derive(Debug)]
pub(super) struct Narrow {
    pub(super) paths: Automaton,
    /// The path to the payload, if the payload is named or declared under `Enforced`: values on it stay.
    pub(super) way: Option<Vec<Name>>,
    /// Whether `select` follows under `Enforced`: a list among the items of the payload then stays a list.
    pub(super) selects: bool,
    /// Whether a scalar stays where a path continues: the paths of a preset serve `"user": {"login": ".."}` and
    /// `"user": ".."`.
    pub(super) scalars: bool,
}

/// The position of a walk.
#[derive(Clone, Copy)]
struct Place<'p> {
    state: &'p State,
    /// The rest of the path to the payload; `None` outside that path.
    way: Option<&'p [Name]>,
    room: usize,
    depth: usize,
}

impl Narrow {
    /// Validates and skips the document at `pos`, and writes what the paths leave of it: `{}`, `[]` or `null` if that
    /// is nothing.
    pub(super) fn document(&self, run: &mut Run<'_>, pos: usize, room: usize) -> Scan {
        let place = Place { state: self.paths.state(0), way: self.way.as_deref(), room, depth: 0 };
        let (end, kept) = self.value(run, place, pos)?;
        if !kept {
            nothing(run, pos);
        }
        Ok(end)
    }

    /// The same for a value below the document. If nothing is left of it, writes nothing and returns `false`.
    fn value(&self, run: &mut Run<'_>, place: Place<'_>, pos: usize) -> Scan<(usize, bool)> {
        let state = place.state;
        if state.ends.is_empty() {
            return self.inner(run, place, pos);
        }
        for &id in &state.ends {
            run.hits.set(id);
        }
        if state.inner {
            // Other paths continue below. They keep nothing that is not kept already; the walk only records whether
            // they resolve.
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
            b'{' | b'[' => Ok((run.skip(pos, place.room)?, false)),
            _ if place.state.inner && self.scalars => Ok((run.copy(Rules::default(), pos, place.room)?, true)),
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
                    // Duplicates among dropped members do not matter.
                    run.distinct.add(key);
                    let on = below_way(way, |name| *name.text.as_bytes() == *key);
                    let state = self.paths.state(below);
                    let mark = run.out.len();
                    run.member(open, start..end);
                    let below = Place { state, way: on, room, depth: depth + 1 };
                    let (end, kept) = self.value(run, below, value)?;
                    match on {
                        _ if kept => {}
                        Some(_) => placeholder(run, value),
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
                run.hits.set(id);
            }
        }
        let mut index = 0;
        while more {
            pos = match state.element(index) {
                None => run.skip(pos, room)?,
                Some(below) => {
                    let on = below_way(way, |name| name.index == Index::At(index));
                    let state_below = self.paths.state(below);
                    if run.out.len() > open {
                        run.out.push(b',');
                    }
                    let below = Place { state: state_below, way: on, room, depth: depth + 1 };
                    let (end, kept) = self.value(run, below, pos)?;
                    if !kept {
                        let listed = on.is_some() || (self.selects && way.is_some_and(<[Name]>::is_empty));
                        if listed { placeholder(run, pos) } else { run.out.extend_from_slice(b"{}") }
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

/// Returns the rest of the path below a name that `goes` accepts.
fn below_way(way: Option<&[Name]>, goes: impl Fn(&Name) -> bool) -> Option<&[Name]> {
    way.and_then(<[Name]>::split_first).filter(|(name, _)| goes(name)).map(|(_, rest)| rest)
}

/// Writes the replacement for a document in which nothing is kept.
fn nothing(run: &mut Run<'_>, pos: usize) {
    run.out.extend_from_slice(match run.at(pos) {
        b'{' => b"{}",
        b'[' => b"[]",
        _ => b"null",
    });
}

/// Writes the replacement for a value in which nothing is kept. It shows at most that the value was a list.
fn placeholder(run: &mut Run<'_>, pos: usize) {
    run.out.extend_from_slice(if run.at(pos) == b'[' { b"[]" } else { b"{}" });
}
