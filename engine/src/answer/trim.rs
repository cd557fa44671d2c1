//! Fits a JSON document into a budget: first whole items go, then strings are cut, then members and elements go.

use std::borrow::Cow;

use super::{Cut, Form, Frame, Items};
use crate::json::{Node, compact_len_within};
use crate::work::Work;
use crate::{BudgetReport, Bytes};

/// The bytes that a string keeps where even cutting all strings is not enough and members go too. A number with more
/// is text.
const LAST_RESORT_STRING: usize = 64;

/// A list in a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'p> {
    /// The positions of members and elements from the document to the list; `[]` is the document itself.
    pub(crate) place: &'p [usize],
    /// The length of the list before `maxItems`.
    pub(crate) total: usize,
    /// Whether strings are cut before items go.
    pub(crate) keeps_items: bool,
}

/// Trims `document`, of which a copy is made only then, whose compact JSON has `size` bytes, until its answer fits into `limit`. `said` is what the answer says in any case. Returns what the answer
/// leaves out, including what `maxItems` left out, and a report if anything was trimmed.
///
/// 1. Items go from the end of the list; one stays. Where the list keeps its items, they go with the members.
/// 2. If that is not enough, strings are cut, the longest first, to one common length.
/// 3. If that is not enough either, members and elements go from the end, anywhere. If not even `{}` fits, `{}` is
///    the result, and the report says [`BudgetReport::exceeded`].
pub(crate) fn fit_json<'c>(
    document: &mut Cow<'_, Node<'_>>,
    list: Option<List<'_>>,
    (mut size, limit): (usize, Option<Bytes>),
    (frame, said): (&Frame<'_>, Cut<'c>),
    work: &Work<'_>,
) -> (Cut<'c>, Option<BudgetReport>) {
    let form = if document.as_object().is_some() { Form::Object } else { Form::Wrapped };
    let place = list.map(|list| list.place);
    let items = place.and_then(|place| length(document, place)).unwrap_or(0);
    let total = list.map_or(0, |list| list.total);
    let mut cut = Cut { items: if list.is_some() { Items::cut(items, total) } else { said.items }, ..said };
    let Some(limit) = limit else { return (cut, None) };
    let cost = frame.cost(size, form, cut);
    if cost.fits(limit) {
        return (cut, None);
    }
    let mut report = BudgetReport::new(limit, cost.counted());
    let document = document.to_mut();
    // The size of the frame depends on what is cut, not on the value: the value may use the rest of the limit.
    let room = |size: usize, cut: Cut<'_>| limit.0.saturating_sub(frame.cost(size, form, cut).counted().0 - size);
    let droppable = list.filter(|list| !list.keeps_items);
    if let Some(items) = droppable.and_then(|list| find(document, list.place)) {
        let room = |shown| room(size, Cut { items: Items::cut(shown, total), ..cut });
        size -= drop_items(items, size, room, work);
        cut.items = Items::cut(items.len(), total);
    }
    let left = place.and_then(|place| find(document, place)).map_or(0, |items| items.len());
    let (mut dropped_in_list, mut is_pruned) = (0, false);
    if size > room(size, cut) {
        let within = room(size, Cut { strings: true, ..cut });
        if let Some(longest) = string_limit(document, size.saturating_sub(within), work) {
            cut_strings(document, longest, &mut report.strings_truncated, work);
        } else {
            // The list may become shorter too.
            let items = list.map_or(said.items, |_| Some(Items { shown: left, total }));
            let cut = Cut { items, members: true, fewer: 0, ..cut };
            is_pruned = true;
            prune(document, room(size, cut), &mut report, work);
            let strings = report.strings_truncated;
            if strings > 0 {
                // To say so takes room too.
                prune(document, room(size, Cut { strings: true, ..cut }), &mut report, work);
                report.strings_truncated = strings;
            }
            let after = place.and_then(|place| find(document, place)).map(|items| items.len());
            dropped_in_list = after.map_or(0, |after| left - after);
        }
    }
    let shown = place.and_then(|place| find(document, place)).map_or(0, |items| items.len());
    report.members_dropped -= dropped_in_list;
    report.items_dropped = items - shown;
    // An item that is not shown has no fields.
    let fewer = if list.is_some() { said.fewer.min(shown) } else { said.fewer };
    let cut = Cut {
        items: if list.is_some() { Items::cut(shown, total) } else { said.items },
        strings: report.strings_truncated > 0,
        // What the items have less is among the members that are left out.
        members: report.members_dropped > 0 || (is_pruned && fewer > 0),
        // The items that follow are others if more were left out than the caller knew.
        next: said.next.filter(|_| shown == items),
        fewer: if is_pruned { 0 } else { fewer },
        ..said
    };
    let cost = frame.cost(compact_len_within(document, work), form, cut);
    report.result = cost.counted();
    report.exceeded = !cost.fits(limit);
    (cut, Some(report))
}

/// Returns the length of the list at `path`.
fn length(node: &Node<'_>, path: &[usize]) -> Option<usize> {
    let list = path.iter().try_fold(node, |node, &position| match node {
        Node::Array(elements) => elements.get(position),
        Node::Object(members) => members.get(position).map(|member| &member.value),
        Node::Scalar(_) | Node::String(_) => None,
    })?;
    list.as_array().map(<[_]>::len)
}

fn find<'n, 'a>(node: &'n mut Node<'a>, path: &[usize]) -> Option<&'n mut Vec<Node<'a>>> {
    let mut node = node;
    for &position in path {
        node = match node {
            Node::Array(elements) => elements.get_mut(position)?,
            Node::Object(members) => &mut members.get_mut(position)?.value,
            Node::Scalar(_) | Node::String(_) => return None,
        };
    }
    match node {
        Node::Array(elements) => Some(elements),
        _ => None,
    }
}

/// Drops items from the end until a document of `size` bytes fits into `room`, which depends on the number of items,
/// or until one item is left. Returns the bytes saved.
fn drop_items(items: &mut Vec<Node<'_>>, size: usize, room: impl Fn(usize) -> usize, work: &Work<'_>) -> usize {
    let mut saved = 0;
    let mut keep = items.len();
    let mut within = 0;
    while keep > 1 {
        keep -= 1;
        saved += compact_len_within(&items[keep], work) + 1;
        // The text about the items changes when the first item goes, and then with the number of digits.
        if keep + 1 == items.len() || keep.ilog10() < (keep + 1).ilog10() {
            within = room(keep);
        }
        if size.saturating_sub(saved) <= within {
            break;
        }
    }
    items.truncate(keep.max(1));
    saved.min(size)
}

/// Returns the length to which strings must be cut, the longest first, to save `excess` bytes. `None` if even empty
/// strings are not enough.
fn string_limit(node: &Node<'_>, excess: usize, work: &Work<'_>) -> Option<usize> {
    let mut lengths = Vec::new();
    collect_strings(node, &mut lengths, work);
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    // Cutting the first `n` to the length of the next saves `sum - n * next`.
    let mut sum = 0;
    for (index, &length) in lengths.iter().enumerate() {
        sum += length;
        let (count, next) = (index + 1, lengths.get(index + 1).copied().unwrap_or(0));
        if sum - count * next >= excess {
            return Some((sum - excess) / count);
        }
    }
    None
}

fn collect_strings(node: &Node<'_>, lengths: &mut Vec<usize>, work: &Work<'_>) {
    if !work.spend_unbounded(1) {
        return;
    }
    match node {
        Node::Scalar(_) => {}
        Node::String(raw) => lengths.push(raw.len() - 2),
        Node::Array(elements) => elements.iter().for_each(|e| collect_strings(e, lengths, work)),
        Node::Object(members) => members.iter().for_each(|m| collect_strings(&m.value, lengths, work)),
    }
}

/// Cuts every string that has more than `longest` bytes between its quotes. Returns the bytes saved.
fn cut_strings(node: &mut Node<'_>, longest: usize, count: &mut usize, work: &Work<'_>) -> usize {
    if !work.spend_unbounded(1) {
        return 0;
    }
    match node {
        Node::Scalar(_) => 0,
        Node::String(raw) => cut_string(raw, longest, count),
        Node::Array(elements) => elements.iter_mut().map(|e| cut_strings(e, longest, count, work)).sum(),
        Node::Object(members) => members.iter_mut().map(|m| cut_strings(&mut m.value, longest, count, work)).sum(),
    }
}

fn cut_string(raw: &mut Cow<'_, str>, longest: usize, count: &mut usize) -> usize {
    let before = raw.len();
    if before - 2 <= longest {
        return 0;
    }
    // The dots go in if there is room for them and for a character before them.
    let (room, dots) = if longest > 3 { (longest - 3, "...") } else { (longest, "") };
    let inner = &raw[1..before - 1];
    let cut = format!("\"{}{dots}\"", &inner[..boundary(inner, room)]);
    *count += 1;
    let saved = before - cut.len();
    *raw = Cow::Owned(cut);
    saved
}

/// Returns the last place at or before `room` where an escaped text may be cut: not within a character, an escape, or
/// the two escapes of a surrogate pair.
fn boundary(escaped: &str, room: usize) -> usize {
    let bytes = escaped.as_bytes();
    let mut at = 0;
    loop {
        let next = at + unit(bytes, at);
        if next > room || next == at {
            return at;
        }
        at = next;
    }
}

/// Returns the bytes of the character or escape at `at`; 0 at the end.
fn unit(bytes: &[u8], at: usize) -> usize {
    let escape = |at: usize| -> Option<u32> {
        let text = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
    };
    match bytes.get(at) {
        None => 0,
        Some(b'\\') => match escape(at) {
            Some(0xd800..=0xdbff) if matches!(escape(at + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(_) => 6,
            None => 2,
        },
        Some(0..=0x7f) => 1,
        Some(0x80..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..) => 4,
    }
}

/// Returns the smallest size to which a node can be trimmed while it stays.
fn min_len(node: &Node<'_>) -> usize {
    match node {
        Node::Scalar(raw) if raw.len() <= LAST_RESORT_STRING => raw.len(),
        Node::Scalar(_) | Node::String(_) | Node::Array(_) | Node::Object(_) => 2,
    }
}

/// The last resort: keeps, in order, what fits into `room`. Returns the bytes that are left, which exceed `room` only
/// if [`min_len`] does.
fn prune(node: &mut Node<'_>, room: usize, report: &mut BudgetReport, work: &Work<'_>) -> usize {
    if !work.spend_unbounded(1) {
        return 0;
    }
    // A number that is cut is none.
    if let Node::Scalar(raw) = node
        && raw.len() > room.max(LAST_RESORT_STRING)
    {
        *node = Node::String(format!("\"{raw}\"").into());
    }
    match node {
        Node::Scalar(raw) => raw.len(),
        Node::String(raw) => {
            let longest = room.saturating_sub(2).min(LAST_RESORT_STRING);
            cut_string(raw, longest, &mut report.strings_truncated);
            raw.len()
        }
        Node::Array(elements) => prune_children(elements, room, report, work, |_| 0, |element| element),
        Node::Object(members) => {
            prune_children(members, room, report, work, |member| member.key.raw().len() + 1, |member| &mut member.value)
        }
    }
}

fn prune_children<'a: 'c, 'c, T>(
    children: &'c mut Vec<T>,
    room: usize,
    report: &mut BudgetReport,
    work: &Work<'_>,
    overhead: impl Fn(&T) -> usize,
    value: impl Fn(&mut T) -> &mut Node<'a>,
) -> usize {
    let mut used = 2;
    let mut keep = 0;
    for child in children.iter_mut() {
        let outside = used + usize::from(keep > 0) + overhead(child);
        let value = value(child);
        if outside + min_len(value) > room {
            break;
        }
        used = outside + prune(value, room - outside, report, work);
        keep += 1;
    }
    report.members_dropped += children.len() - keep;
    children.truncate(keep);
    used
}
