//! `exclude`, and the patches that stream: keeps everything except what paths name.

use super::automaton::{Automaton, State};
use super::prune::Rules;
use super::run::{Kept, Run};
use super::scan::{Scan, Stop};

/// Paths, and what happens at the places they lead to.
#[derive(Debug)]
pub(super) struct Strip {
    pub(super) paths: Automaton,
    /// The edit of each path, by its number; `None` if every path drops what it leads to.
    pub(super) edits: Option<Vec<Edit>>,
    /// Which of the remaining members are dropped for their value.
    pub(super) rules: Rules,
}

/// One operation of `patches`.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    /// Removes the value.
    Remove {
        /// Whether the value has to exist.
        required: bool,
    },
    /// Replaces the value, which must exist, by compact JSON.
    Replace(Box<[u8]>),
    /// Sets a member. A new member becomes the last one. The object must exist.
    Add {
        /// Whether the member becomes the last one even if it existed.
        last: bool,
        /// The key of the member, as JSON.
        key: Box<[u8]>,
        /// The value, as compact JSON.
        value: Box<[u8]>,
        /// The state of the object.
        parent: usize,
    },
}

impl Strip {
    /// Validates and skips the value at `pos`, `depth` objects deep, and writes what stays. `state` is its place;
    /// `None` where no path leads.
    pub(super) fn value(&self, run: &mut Run<'_>, state: Option<usize>, pos: usize, room: usize, depth: usize) -> Scan {
        let Some(number) = state else { return run.copy(self.rules, pos, room) };
        let state = self.paths.state(number);
        match run.at(pos) {
            b'{' if state.inner => self.object(run, number, state, pos, room, depth),
            b'[' if state.inner => self.array(run, state, pos, room, depth),
            _ => run.copy(self.rules, pos, room),
        }
    }

    fn object(&self, run: &mut Run<'_>, number: usize, state: &State, pos: usize, room: usize, depth: usize) -> Scan {
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
                    if let Some(constant) = self.edit(run, ends) {
                        run.member(open, start..end);
                        run.out.extend_from_slice(constant);
                    }
                    pos = self.skip_dropped(run, below, value, room, depth + 1)?;
                }
            }
            (pos, more) = run.next(pos, b'}')?;
        }
        run.flush(open, kept);
        if !run.distinct.leave(keys, depth) {
            return Err(Stop::Bail);
        }
        self.append(run, number, open);
        run.out.push(b'}');
        Ok(pos)
    }

    fn array(&self, run: &mut Run<'_>, state: &State, pos: usize, room: usize, depth: usize) -> Scan {
        // A patch that names a member of a list fails.
        if self.edits.is_some() && state.every() {
            return Err(Stop::Bail);
        }
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        run.out.push(b'[');
        let open = run.out.len();
        let (mut pos, mut more) = run.open(pos, b']')?;
        if !more && self.edits.is_none() {
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
            // Adding an element moves the others, which a pass with fixed indices cannot express.
            if ends.iter().any(|&id| self.edits.as_ref().is_some_and(|e| matches!(e[id], Edit::Add { .. }))) {
                return Err(Stop::Bail);
            }
            let constant = if ends.is_empty() { None } else { Some(self.edit(run, ends)) };
            if constant != Some(None) && run.out.len() > open {
                run.out.push(b',');
            }
            pos = match constant {
                None => self.value(run, below, pos, room, depth + 1)?,
                Some(constant) => {
                    run.out.extend_from_slice(constant.unwrap_or_default());
                    self.skip_dropped(run, below, pos, room, depth + 1)?
                }
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
        if self.edits.is_some() || !inner {
            return run.skip(pos, room);
        }
        let mark = run.out.len();
        let end = self.value(run, state, pos, room, depth)?;
        run.out.truncate(mark);
        Ok(end)
    }

    /// Returns the new value of the place where the paths `ends` end; `None` if it is dropped.
    fn edit(&self, run: &mut Run<'_>, ends: &[usize]) -> Option<&[u8]> {
        let Some(edits) = &self.edits else {
            ends.iter().for_each(|&id| run.hits.set(id));
            return None;
        };
        // Patches that stream have at most one path to a place.
        let id = *ends.first()?;
        if let Edit::Add { last: true, .. } = &edits[id] {
            return None;
        }
        run.hits.set(id);
        match &edits[id] {
            Edit::Remove { .. } => None,
            Edit::Replace(value) | Edit::Add { value, .. } => Some(value),
        }
    }

    /// Writes the members that `add` sets and that the object did not have.
    fn append(&self, run: &mut Run<'_>, number: usize, open: usize) {
        for (id, edit) in self.edits.iter().flatten().enumerate() {
            if let Edit::Add { key, value, parent, .. } = edit
                && *parent == number
                && !run.hits.has(id)
            {
                run.hits.set(id);
                if run.out.len() > open {
                    run.out.push(b',');
                }
                run.out.extend_from_slice(key);
                run.out.push(b':');
                run.out.extend_from_slice(value);
            }
        }
    }
}
