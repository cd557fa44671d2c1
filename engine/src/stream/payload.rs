//! Stages 4 to 8: finds the payload, shortens it, selects, excludes and drops.

use crate::program::{Index, Name};
use crate::run::METADATA;

use super::emit;
use super::marks::Marks;
use super::prune::Rules;
use super::run::Run;
use super::scan::{Scan, Stop};
use super::select::{Found, Paths, Slots};
use super::strip::Strip;

/// The compiled stages.
#[derive(Debug)]
pub(super) struct Payload {
    /// Stage 5; `usize::MAX` is no limit.
    pub(super) max_items: usize,
    /// Stage 6.
    pub(super) select: Option<Select>,
    /// Stages 7 and 8 of an item, or of what `select` made of it.
    pub(super) strip: Strip,
    /// Whether the surroundings of the payload stay.
    pub(super) siblings: bool,
    /// Whether the payload has to be a list.
    pub(super) list_only: bool,
    /// Whether `select` leaves `[]`, not `{}`, for an element that is a list, under `Enforced`.
    pub(super) lists_stay: bool,
    /// Whether elements that are not objects pass `select`, and one field that is found is enough.
    pub(super) advisory: bool,
}

/// Stage 6, and the effect of stage 7 on its members.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) paths: Paths,
    pub(super) outputs: Box<[Output]>,
}

/// One output member of `select`.
#[derive(Debug)]
pub(super) struct Output {
    /// A comma, the key and its colon.
    pub(super) prefix: Box<[u8]>,
    /// Whether stage 7 drops it.
    pub(super) hidden: bool,
    /// The state of stage 7 at the value.
    pub(super) state: Option<usize>,
}

impl Output {
    /// Returns the text before the value.
    #[inline(always)]
    fn prefix(&self, first: bool) -> &[u8] {
        &self.prefix[usize::from(first)..]
    }
}

/// What the stages report.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The list's length before `maxItems`, if `maxItems` shortened it.
    pub(super) truncated_from: Option<usize>,
    /// The number of objects to which `select` was applied.
    pub(super) objects: usize,
    /// By field, whether any object had it.
    pub(super) found: Marks,
    /// By field with a `[*]`, whether its path was followed to its end, and whether a list lacks what the path names.
    reached: Marks,
    lacking: Marks,
    /// Whether something is left of the selected fields, or there was nothing to begin with.
    left: bool,
    /// The original length, if the payload is a list.
    pub(super) total: Option<usize>,
}

impl Facts {
    /// Takes over from `slots` what is known once all items have been read.
    pub(super) fn take_slots(&mut self, slots: &mut Slots) {
        self.reached = std::mem::take(&mut slots.reached);
        self.lacking = std::mem::take(&mut slots.lacking);
    }

    /// Returns whether the path of `field` resolves nowhere.
    pub(super) fn misses(&self, field: usize) -> bool {
        self.objects > 0 && !self.reached.has(field) && (self.lacking.has(field) || !self.found.has(field))
    }
}

impl Payload {
    /// Follows `path` from the value at `pos` to the payload, and applies the stages there.
    pub(super) fn descend(&self, run: &mut Run<'_>, path: &[Name], pos: usize, room: usize, facts: &mut Facts) -> Scan {
        let Some((name, rest)) = path.split_first() else { return self.payload(run, pos, room, facts) };
        let close = match run.at(pos) {
            b'{' => b'}',
            b'[' => b']',
            // The path does not resolve: a failed stage.
            _ => return Err(Stop::Bail),
        };
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        run.out.push(run.bytes[pos]);
        let open = run.out.len();
        let keys = run.distinct.enter();
        let (mut pos, mut more) = run.open(pos, close)?;
        let mut index = 0;
        let mut found = false;
        while more {
            let here;
            if close == b'}' {
                let (value, end) = run.key(pos)?;
                let key = &run.bytes[pos + 1..end - 1];
                here = *key == *name.text.as_bytes();
                run.distinct.add(key);
                if here || self.siblings {
                    run.member(open, pos..end);
                }
                pos = value;
            } else {
                here = name.index == Index::At(index);
                if (here || self.siblings) && run.out.len() > open {
                    run.out.push(b',');
                }
            }
            pos = if here {
                if found {
                    return Err(Stop::Bail);
                }
                found = true;
                self.descend(run, rest, pos, room, facts)?
            } else if self.siblings {
                run.copy(Rules::default(), pos, room)?
            } else {
                run.skip(pos, room)?
            };
            index += 1;
            (pos, more) = run.next(pos, close)?;
        }
        // If siblings are dropped, duplicates among them do not matter; a duplicate of the name on the path was
        // noticed above.
        if !run.distinct.leave(keys, path.len()) && self.siblings || !found {
            return Err(Stop::Bail);
        }
        run.out.push(close);
        Ok(pos)
    }

    /// Returns whether a document that is the payload may hold metadata, which is appended to the selected fields.
    pub(super) fn attaches(&self, document: &[u8]) -> bool {
        self.advisory
            && self.select.is_some()
            && document.trim_ascii_start().first() == Some(&b'{')
            && METADATA.iter().any(|name| memchr::memmem::find(document, name.as_bytes()).is_some())
    }

    /// Returns the capacity to reserve for the output of `input` bytes: large only if nearly all of it will be used.
    pub(super) fn capacity(&self, input: usize) -> usize {
        if self.select.is_none() && self.max_items == usize::MAX { input } else { 0 }
    }

    fn payload(&self, run: &mut Run<'_>, pos: usize, room: usize, facts: &mut Facts) -> Scan {
        match run.at(pos) {
            b'[' => self.list(run, pos, room, facts),
            b'{' if !self.list_only => self.object(run, pos, room, facts),
            _ if self.select.is_some() || self.list_only => Err(Stop::Bail),
            _ => self.strip.value(run, Some(0), pos, room, 0),
        }
    }

    fn list(&self, run: &mut Run<'_>, pos: usize, room: usize, facts: &mut Facts) -> Scan {
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        run.out.push(b'[');
        let open = run.out.len();
        let (mut pos, mut more) = run.open(pos, b']')?;
        let mut count = 0;
        while more {
            pos = if count >= self.max_items {
                // Left out, but it has to be valid JSON all the same.
                run.skip(pos, room)?
            } else if self.select.is_none() || run.at(pos) == b'{' || self.advisory {
                if run.out.len() > open {
                    run.out.push(b',');
                }
                if run.at(pos) == b'{' {
                    self.object(run, pos, room, facts)?
                } else {
                    self.strip.value(run, Some(0), pos, room, 0)?
                }
            } else {
                if run.out.len() > open {
                    run.out.push(b',');
                }
                let list = self.lists_stay && run.at(pos) == b'[';
                run.out.extend_from_slice(if list { b"[]" } else { b"{}" });
                facts.left |= list;
                run.skip(pos, room)?
            };
            count += 1;
            (pos, more) = run.next(pos, b']')?;
        }
        if count > self.max_items {
            facts.truncated_from = Some(count);
        }
        facts.total = Some(count);
        facts.left |= run.out.len() == open;
        run.out.push(b']');
        Ok(pos)
    }

    fn object(&self, run: &mut Run<'_>, pos: usize, room: usize, facts: &mut Facts) -> Scan {
        let Some(select) = &self.select else { return self.strip.value(run, Some(0), pos, room, 0) };
        facts.objects += 1;
        run.slots.steps += select.outputs.len();
        run.tally.poll_after(select.outputs.len())?;
        let end = select.paths.walk(run.bytes, pos, room, &mut run.tally, &mut run.slots)?;
        run.out.push(b'{');
        let open = run.out.len();
        for (i, output) in select.outputs.iter().enumerate() {
            // Read in place: a copy of the whole value would wait until its parts, written just before, are in the cache.
            let scalar = match *run.slots.found(i) {
                Found::Missing => continue,
                Found::Span { start, end, .. } if output.state.is_none() && !matches!(run.at(start), b'{' | b'[') => {
                    Some(&run.bytes[start..end])
                }
                Found::Span { .. } | Found::List { .. } => None,
            };
            facts.found.set(i);
            if let Some(value) = scalar {
                if !self.strip.rules.drop(value) {
                    let out = &mut *run.out;
                    out.extend_from_slice(output.prefix(out.len() == open));
                    out.extend_from_slice(value);
                }
                continue;
            }
            let found = *run.slots.found(i);
            if let Some(state) = output.state.map(|state| self.strip.paths.state(state)).filter(|_| output.hidden) {
                // The selected fields do not show whether an entry that continues below resolves.
                if state.inner {
                    return Err(Stop::Bail);
                }
                state.ends.iter().for_each(|&id| run.hits.set(id));
                continue;
            }
            let mark = run.out.len();
            run.out.extend_from_slice(output.prefix(mark == open));
            let value = run.out.len();
            self.found(run, found, output.state)?;
            if self.strip.rules.drop(&run.out[value..]) {
                run.out.truncate(mark);
            }
        }
        facts.left |= run.out.len() > open;
        run.out.push(b'}');
        Ok(end)
    }

    /// Returns whether `select` succeeded. Under `Advisory` it fails if it finds nothing; under `Enforced` if nothing
    /// is left, since a field that was found and then dropped must look like one that was absent.
    pub(super) fn succeeded(&self, facts: &Facts) -> bool {
        match &self.select {
            None => true,
            Some(_) if self.advisory => facts.objects == 0 || !facts.found.is_empty(),
            Some(_) => facts.left,
        }
    }

    /// Writes what a path of `select` found.
    fn found(&self, run: &mut Run<'_>, found: Found, state: Option<usize>) -> Result<(), Stop> {
        match found {
            Found::Missing => {}
            Found::Span { start, end, blanks } => {
                let plain = !blanks && state.is_none();
                let nested = matches!(run.at(start), b'{' | b'[');
                if !nested || (plain && !self.strip.rules.any()) {
                    run.out.extend_from_slice(&run.bytes[start..end]);
                } else if state.is_none() && !self.strip.rules.any() {
                    emit::compact(&run.bytes[start..end], run.out);
                } else {
                    // The span has been validated and counted.
                    let tally = run.tally.clone();
                    self.strip.value(run, state, start, usize::MAX, 1)?;
                    run.tally = tally;
                }
            }
            Found::List { ends } => {
                if let (None, Some(state)) = (ends, state) {
                    self.strip.paths.state(state).vacuous.iter().for_each(|&id| run.hits.set(id));
                }
                run.out.push(b'[');
                let mut next = ends.map(|(first, _)| first);
                let open = run.out.len();
                while let Some(link) = next {
                    if run.out.len() > open {
                        run.out.push(b',');
                    }
                    let (found, after) = run.slots.link(link);
                    // To the paths of stage 7, a list is a level of its own.
                    if state.is_some() {
                        return Err(Stop::Bail);
                    }
                    self.found(run, found, None)?;
                    next = after;
                }
                run.out.push(b']');
            }
        }
        Ok(())
    }
}
