//! Decides, before the first byte is written, which branch applies and where the payload is.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use crate::json::{self, Node, to_string};
use crate::program::{Branch, Guard, Index, Name, Step};
use crate::run::{METADATA, WRAPPERS, score};
use crate::work::{Work, stage_steps};

use super::keys::Keys;
use super::payload::Payload;
use super::run::Run;
use super::scan::{Scan, Stop, at};
use super::select::{Found, Paths, Slots};

/// Returns the paths of the pointers that `branches` test.
pub(super) fn tests(branches: &[Branch]) -> Option<Paths> {
    let pointers: Vec<_> = branches
        .iter()
        .filter_map(|branch| match &branch.guard {
            Guard::Test(pointer, _) => Some(pointer.segments.as_slice()),
            Guard::Always | Guard::Otherwise => None,
        })
        .collect();
    if pointers.is_empty() { None } else { Some(Paths::pointers(&pointers)) }
}

/// Returns the number of the first branch whose test holds.
pub(super) fn branch(
    tests: Option<&Paths>,
    branches: &[Branch],
    bytes: &[u8],
    depth: usize,
    work: &Work<'_>,
) -> Result<usize, Stop> {
    let Some(tests) = tests else { return Ok(0) };
    let mut slots = Slots::new();
    let mut unused = Vec::new();
    Run::new(bytes, &mut unused, work)
        .document(|run, pos| tests.walk(run.bytes, pos, depth, &mut run.tally, &mut slots))?;
    work.begin_stage(stage_steps(bytes.len()));
    let chosen = first_holding(branches, bytes, depth, &slots, work);
    // The tree fails the same way, and reports it.
    if work.end_stage() { Err(Stop::Bail) } else { chosen }
}

/// Returns the number of the first branch whose test holds on the values in `slots`.
fn first_holding(
    branches: &[Branch],
    bytes: &[u8],
    depth: usize,
    slots: &Slots,
    work: &Work<'_>,
) -> Result<usize, Stop> {
    let mut parsed: HashMap<(usize, usize), Node<'_>> = HashMap::new();
    // Values within each other are parsed more than once.
    let mut room = bytes.len().saturating_mul(4);
    // Branches without a test come last, so the numbers of branches and slots agree.
    for (number, branch) in branches.iter().enumerate() {
        let Guard::Test(_, value) = &branch.guard else { return Ok(number) };
        let Found::Span { start, end, .. } = *slots.found(number) else { continue };
        let (value, nested) = (value.node(), |byte| matches!(byte, b'{' | b'[' | b'"'));
        let (there, wanted) = (at(bytes, start), at(to_string(&value).as_bytes(), 0));
        if there != wanted && (nested(there) || nested(wanted)) {
            continue;
        }
        let node = match parsed.entry((start, end)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                room = room.checked_sub(end - start).ok_or(Stop::Bail)?;
                let read = json::read(&bytes[start..end], depth, usize::MAX, work).map_err(|_| Stop::Bail)?;
                new.insert(read.node)
            }
        };
        if node.equals_within(&value, work) {
            return Ok(number);
        }
    }
    Err(Stop::Bail)
}

/// Returns whether the output may be text in a JSON object, `{"raw": ".."}`. Reads no further than the first member
/// that such an object does not have.
pub(super) fn is_text_form(bytes: &[u8], depth: usize, work: &Work<'_>) -> Scan<bool> {
    let mut unused = Vec::new();
    let mut run = Run::new(bytes, &mut unused, work);
    let (mut text, mut other) = (false, false);
    let looked = run.document(|run, pos| {
        if run.at(pos) != b'{' {
            other = true;
            return Err(Stop::Bail);
        }
        let (mut pos, mut more) = run.open(pos, b'}')?;
        while more {
            let (value, end) = run.key(pos)?;
            let key = &run.bytes[pos + 1..end - 1];
            text |= key == b"raw";
            if key != b"raw" && !METADATA.iter().any(|name| key == name.as_bytes()) {
                other = true;
                return Err(Stop::Bail);
            }
            pos = run.skip(value, depth)?;
            (pos, more) = run.next(pos, b'}')?;
        }
        Ok(pos)
    });
    match looked {
        Ok(()) => Ok(text),
        Err(_) if other => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Returns the path to the payload where none is declared. With `scored`, the document itself may be the payload.
pub(super) fn payload(
    branch: &Branch,
    stages: &Payload,
    scored: bool,
    bytes: &[u8],
    depth: usize,
    work: &Work<'_>,
) -> Result<Vec<Name>, Stop> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        // There is no list to find; the next pass validates the JSON, and fails if it needs a list.
        return Ok(Vec::new());
    }
    let firsts = branch.select.iter().filter_map(|field| match field.path.first() {
        Some(Step::Name(name)) => Some(&**name),
        _ => None,
    });
    let firsts = Keys::new(firsts.collect::<BTreeSet<_>>());
    let excluded = Keys::new(branch.exclude.names.iter().map(|name| &**name));
    let mut search = PayloadSearch { firsts, excluded, depth, lists: [None; 4], own: 0, may_select: false };
    let mut unused = Vec::new();
    let mut run = Run::new(bytes, &mut unused, work);
    run.document(|run, pos| if run.at(pos) == b'{' { search.members(run, pos) } else { Err(Stop::Bail) })?;
    let Some(list) = search.lists.into_iter().flatten().next() else {
        // Declared to be a list, and the document has none: a failed stage.
        return if scored { Ok(Vec::new()) } else { Err(Stop::Bail) };
    };
    let name = str::from_utf8(&bytes[list.key.0..list.key.1]).map_err(|_| Stop::Invalid)?;
    let there = vec![Name { text: name.into(), index: Index::None }];
    if !scored || (list.empty && WRAPPERS.contains(&name)) {
        return Ok(there);
    }
    if !branch.exclude.is_plain() {
        return Err(Stop::Bail);
    }
    let in_list = match list.first {
        Some((start, end)) => score(&json::parse(&bytes[start..end], depth).map_err(|_| Stop::Bail)?, branch, work),
        None => 0,
    };
    let mut own = search.own;
    if search.may_select
        && let Some(select) = &stages.select
    {
        let mut slots = Slots::new();
        run = Run::new(bytes, &mut unused, work);
        run.document(|run, pos| select.paths.walk(run.bytes, pos, depth, &mut run.tally, &mut slots))?;
        own += (0..branch.select.len()).filter(|&i| !matches!(slots.found(i), Found::Missing)).count();
    }
    Ok(if own > in_list { Vec::new() } else { there })
}

/// A list that is a member of the document.
#[derive(Clone, Copy)]
struct List {
    key: (usize, usize),
    empty: bool,
    /// The span of its first object.
    first: Option<(usize, usize)>,
}

struct PayloadSearch {
    /// The names that paths of `select` begin with.
    firsts: Keys,
    /// The names in `exclude`.
    excluded: Keys,
    depth: usize,
    /// The list under each of the usual names, then the first list under any name.
    lists: [Option<List>; 4],
    /// The number of members of the document that `exclude` names.
    own: usize,
    /// Whether a path of `select` may resolve in the document.
    may_select: bool,
}

impl PayloadSearch {
    fn members(&mut self, run: &mut Run<'_>, pos: usize) -> Scan {
        let room = self.depth.checked_sub(1).ok_or(Stop::Invalid)?;
        let keys = run.distinct.enter();
        let (mut pos, mut more) = run.open(pos, b'}')?;
        while more {
            let (value, end) = run.key(pos)?;
            let span = (pos + 1, end - 1);
            let key = &run.bytes[span.0..span.1];
            run.distinct.add(key);
            self.own += usize::from(self.excluded.find(key).is_some());
            self.may_select |= self.firsts.find(key).is_some();
            pos = if run.at(value) == b'[' {
                let (list, end) = self.list(run, span, value, room)?;
                let usual = WRAPPERS.iter().position(|name| name.as_bytes() == key);
                self.lists[3].get_or_insert(list);
                if let Some(place) = usual {
                    self.lists[place] = Some(list);
                }
                end
            } else {
                run.skip(value, room)?
            };
            (pos, more) = run.next(pos, b'}')?;
        }
        if run.distinct.leave(keys, 0) { Ok(pos) } else { Err(Stop::Bail) }
    }

    fn list(&self, run: &mut Run<'_>, key: (usize, usize), pos: usize, room: usize) -> Scan<(List, usize)> {
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let (mut pos, mut more) = run.open(pos, b']')?;
        let mut list = List { key, empty: !more, first: None };
        while more {
            let start = pos;
            pos = run.skip(pos, room)?;
            if run.at(start) == b'{' {
                list.first.get_or_insert((start, pos));
            }
            (pos, more) = run.next(pos, b']')?;
        }
        Ok((list, pos))
    }
}
