//! `exclude`: keeps everything except what paths name.

use super::automaton::{Automaton, State};
use super::prune::Rules;
use super::run::{Kept, Run};
use super::scan::{Scan, Stop};

/// Paths, and what happens at the places they lead to.
#[derive(Debug)]
pub(super) struct Strip {
    /// The paths to what is dropped.
    pub(super) paths: Automaton,
    /// Which of the remaining members are dropped for their value.
    pub(super) rules: Rules,
}

impl Strip {
    /// Validates and skips the value at `pos`, `depth` objects deep, and writes what stays. `state` is its place;
    /// `None` where no path leads.
    pub(super) fn value(&self, run: &mut Run<'_>, state: Option<usize>, pos: usize, room: usize, depth: usize) -> Scan {
        let Some(number) = state else { return run.copy(self.rules, pos, room) };
        let state = self.paths.state(number);
        match run.at(pos) {
            b'{' if state.inner => self.object(run, state, pos, room, depth),
            b'[' if state.inner => self.array(run, state, pos, room, depth),
            _ => run.copy(self.rules, pos, room),
        }
    }

    fn object(&self, run: &mut Run<'_>, state: &State, pos: usize, room: usize, depth: usize) -> Scan {
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        run.out.push(b'{');
        let open = run.out.len();
        let keys = run.distinct.enter();
        let (mut pos, mut more) = run.open(pos, b'}')?;
        let mut kept = Kept::default();
        while more {
            let (start, blanks) = (pos, run.tally.blanks);
            let (value, end) = run.key(pos)?;
            let key = &run.bytes[start + 1..end - 1];
            run.distinct.add(key);
            let below = state.member(key);
            if below.is_none() && !self.rules.any() {
                pos = run.skip(value, room)?;
                kept.add(start, pos, blanks);
            } else {
                run.flush(open, std::mem::take(&mut kept));
                let ends = below.map_or(&[][..], |below| &self.paths.state(below).ends);
                if ends.is_empty() {
                    let mark = run.out.len();
                    run.member(open, start..end);
                    let written = run.out.len();
                    pos = self.value(run, below, value, room, depth + 1)?;
                    if self.rules.drop(&run.out[written..]) {
                        run.out.truncate(mark);
                    }
                } else {
                    ends.iter().for_each(|&id| run.hits.set(id));
                    pos = self.skip_dropped(run, below, value, room, depth + 1)?;
                }
            }
            (pos, more) = run.next(pos, b'}')?;
        }
        run.flush(open, kept);
        if !run.distinct.leave(keys, depth) {
            return Err(Stop::Bail);
        }
        run.out.push(b'}');
        Ok(pos)
    }

    fn array(&self, run: &mut Run<'_>, state: &State, pos: usize, room: usize, depth: usize) -> Scan {
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        run.out.push(b'[');
        let open = run.out.len();
        let (mut pos, mut more) = run.open(pos, b']')?;
        if !more {
            state.vacuous.iter().for_each(|&id| run.hits.set(id));
        }
        let mut index = 0;
        let mut kept = Kept::default();
        while more {
            let below = state.element(index);
            index += 1;
            if below.is_none() && !self.rules.any() {
                let (start, blanks) = (pos, run.tally.blanks);
                pos = run.skip(pos, room)?;
                kept.add(start, pos, blanks);
                (pos, more) = run.next(pos, b']')?;
                continue;
            }
            run.flush(open, std::mem::take(&mut kept));
            let ends = below.map_or(&[][..], |below| &self.paths.state(below).ends);
            pos = if ends.is_empty() {
                if run.out.len() > open {
                    run.out.push(b',');
                }
                self.value(run, below, pos, room, depth + 1)?
            } else {
                ends.iter().for_each(|&id| run.hits.set(id));
                self.skip_dropped(run, below, pos, room, depth + 1)?
            };
            (pos, more) = run.next(pos, b']')?;
        }
        run.flush(open, kept);
        run.out.push(b']');
        Ok(pos)
    }

    /// Skips a value that is dropped. Other entries of `exclude` may name a part of it: that part counts as found.
    fn skip_dropped(&self, run: &mut Run<'_>, state: Option<usize>, pos: usize, room: usize, depth: usize) -> Scan {
        let inner = state.is_some_and(|state| self.paths.state(state).inner);
        if !inner {
            return run.skip(pos, room);
        }
        let mark = run.out.len();
        let end = self.value(run, state, pos, room, depth)?;
        run.out.truncate(mark);
        Ok(end)
    }
}
