//! What the success of a patch reveals to a caller under `Enforced`.
//!
//! Under `Enforced` a failing operation is an error. An operation that reads what another stage removes therefore
//! reveals something about it. That may be intended, as with a branch's `test`, so it is a warning and not an error.
//! A program without these warnings gives equal answers to outputs that differ only in what the program removes.

use std::collections::HashSet;

use super::check::Findings;
use super::patches::overlaps;
use super::pointers::covers;
use crate::json::{JsonText, Kind, Node};
use crate::program::{Branch, Index, Name, Patch, Pointer, Root, Segment, Step, Trie};

const LEAKS: &str = "whether it succeeds tells the caller about it";

/// Warns about operations that read what another stage of `branch` removes. `retained` are the paths of `retain`.
pub(super) fn check(branch: &Branch, retained: Option<&[Vec<Segment>]>, findings: &mut Findings<'_>) {
    for (i, patch) in branch.patches.iter().enumerate() {
        let reads = reads(patch);
        let removed_later = later_remove(&branch.patches, i, &reads);
        let (what, remedy) = if let Some(later) = removed_later {
            (format!("what patches[{later}] removes"), "remove one of the two operations")
        } else if reads.iter().any(|read| outside_the_payload(branch, read.place)) {
            ("what is outside the payload, and is removed".to_owned(), "name it in `retain`, or remove the operation")
        } else if reads.iter().any(|read| not_selected(branch, read.place) || excluded(branch, read.place)) {
            ("what `select` or `exclude` drops".to_owned(), "remove the operation")
        } else if reads.iter().any(|read| element_may_go(branch, read.place)) {
            let what = "an element that `maxItems` drops, or `select` where it is not an object";
            (what.to_owned(), "remove the operation")
        } else if branch.drop_nulls && distinguishes_null(patch) {
            ("whether a member is absent or null, which `dropNulls` hides".to_owned(), "remove the operation")
        } else if branch.drop_nulls && writes_nothing(branch, patch) {
            ("what is there, and writes what `dropNulls` or `dropEmpty` drops".to_owned(), "remove the operation")
        } else if branch.cascades()
            && !matches!(patch, Patch::Remove { .. })
            && reads.iter().any(|read| !whole(retained, read.place))
        {
            ("a part of what `retain` keeps, which may go when it is empty".to_owned(), "let `retain` keep all of it")
        } else {
            continue;
        };
        findings.warning(&format!("patches[{i}]"), format!("reads {what}: {LEAKS}"), remedy);
    }
}

/// A place that must exist for an operation to succeed.
struct Read<'p> {
    place: &'p [Name],
    /// Whether the value at the place matters too.
    value: bool,
}

fn reads(patch: &Patch) -> Vec<Read<'_>> {
    match patch {
        Patch::Test { path, .. } => vec![Read { place: &path.segments, value: true }],
        Patch::Replace { path, .. } => vec![Read { place: &path.segments, value: false }],
        Patch::Add { path, .. } | Patch::Remove { path } => vec![parent(path)],
        Patch::Move { from, path } | Patch::Copy { from, path } => {
            vec![Read { place: &from.segments, value: false }, parent(path)]
        }
    }
}

fn parent(path: &Pointer) -> Read<'_> {
    Read { place: path.segments.split_last().map(|(_, parent)| parent).unwrap_or_default(), value: false }
}

fn later_remove(patches: &[Patch], at: usize, reads: &[Read<'_>]) -> Option<usize> {
    // A `remove` within a later `remove` decides nothing: the executor does not let it fail.
    if matches!(patches[at], Patch::Remove { .. }) {
        return None;
    }
    let later = patches.iter().enumerate().skip(at + 1);
    later
        .filter_map(|(i, patch)| match patch {
            Patch::Remove { path } => Some((i, &path.segments)),
            _ => None,
        })
        .find(|(_, gone)| {
            reads.iter().any(|read| if read.value { overlaps(read.place, gone) } else { read.place.starts_with(gone) })
        })
        .map(|(i, _)| i)
}

fn root(branch: &Branch) -> &[Name] {
    match &branch.root {
        Root::Pointer(pointer) => &pointer.segments,
        _ => &[],
    }
}

fn outside_the_payload(branch: &Branch, place: &[Name]) -> bool {
    branch.retain.is_none() && !overlaps(root(branch), place)
}

/// Returns the place within an item of the payload, whether the payload is an object or a list.
fn in_item<'p>(branch: &Branch, place: &'p [Name]) -> Option<&'p [Name]> {
    let below = place.strip_prefix(root(branch))?;
    match below.split_first() {
        Some((first, rest)) if first.index != Index::None => Some(rest),
        _ => Some(below),
    }
}

/// Returns whether the place is in an element of the payload's list that later stages may remove.
fn element_may_go(branch: &Branch, place: &[Name]) -> bool {
    let element = place.strip_prefix(root(branch)).and_then(<[_]>::first).and_then(|name| name.index.number());
    element.is_some_and(|index| !branch.select.is_empty() || branch.max_items.is_some_and(|max| index >= max))
}

fn not_selected(branch: &Branch, place: &[Name]) -> bool {
    let Some(place) = in_item(branch, place).filter(|place| !place.is_empty() && !branch.select.is_empty()) else {
        return false;
    };
    let takes = |path: &[Step]| {
        path.iter().zip(place).all(|(step, name)| match step {
            Step::Name(text) => **text == *name.text,
            Step::Index(index) => name.index == Index::At(*index),
            Step::Each => name.index != Index::None,
        })
    };
    let plain = branch.exclude.is_plain();
    let names: HashSet<&str> = branch.exclude.names.iter().map(|name| &**name).collect();
    let hidden = |key: &str| names.contains(key) || !plain;
    !branch.select.iter().any(|field| takes(&field.path) && !hidden(&field.name))
}

fn excluded(branch: &Branch, place: &[Name]) -> bool {
    let Some(place) = in_item(branch, place).filter(|_| branch.select.is_empty()) else { return false };
    // Everything that a `**` entry might reach counts: a warning too many is better than one too few.
    place.first().is_some_and(|first| {
        let Trie { end: _, names, any, globs, deep, .. } = &branch.exclude.trie;
        any.is_some()
            || deep.is_some()
            || names.iter().any(|(name, _)| name.text == first.text)
            || globs.iter().any(|(glob, _)| glob.matches(&first.text))
    })
}

/// Returns whether an operation can distinguish a member that is null from one that is absent.
fn distinguishes_null(patch: &Patch) -> bool {
    match patch {
        Patch::Move { .. } | Patch::Copy { .. } => true,
        Patch::Test { value, .. } => {
            let value = value.node();
            match value.kind() {
                Kind::Null => true,
                Kind::String => value.as_str().is_some_and(|text| text.is_empty()),
                Kind::Array | Kind::Object => true,
                Kind::Boolean | Kind::Number => false,
            }
        }
        Patch::Add { .. } | Patch::Remove { .. } | Patch::Replace { .. } => false,
    }
}

/// Returns whether nothing is left of what an operation writes, although the operation needs something to exist: a
/// `replace` by a value that `dropNulls` or `dropEmpty` drops, or an `add` of such a value to an object that may have
/// been empty, and is then dropped too.
fn writes_nothing(branch: &Branch, patch: &Patch) -> bool {
    let goes = |value: &JsonText| is_dropped(&value.node(), branch.drop_empty);
    match patch {
        Patch::Replace { path, value } => !path.segments.is_empty() && goes(value),
        Patch::Add { path, value } => branch.drop_empty && path.segments.len() > 1 && goes(value),
        Patch::Remove { .. } | Patch::Move { .. } | Patch::Copy { .. } | Patch::Test { .. } => false,
    }
}

/// Returns whether a member with this value is dropped; with `empty`, from the leaves up.
fn is_dropped(value: &Node<'_>, empty: bool) -> bool {
    match value {
        Node::Scalar(_) => value.is_null(),
        Node::String(raw) => empty && raw.len() == 2,
        Node::Array(elements) => empty && elements.is_empty(),
        Node::Object(members) => empty && members.iter().all(|member| is_dropped(&member.value, true)),
    }
}

/// Returns whether `retain` keeps all of the value at `place`, or there is no `retain`.
fn whole(retained: Option<&[Vec<Segment>]>, place: &[Name]) -> bool {
    let place: Vec<_> = place.iter().cloned().map(Segment::Name).collect();
    place.is_empty() || retained.is_none_or(|paths| paths.iter().any(|path| covers(path, &place)))
}
