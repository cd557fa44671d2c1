//! Stages 5 to 8: the payload's list, and the fields of its items.

use std::borrow::Cow;

use super::paths::{self, View};
use super::settle;
use crate::json::{Key, Member, Node, compact_len, dedupe};
use crate::program::{Branch, Exclude, Field, Plan, Step};
use crate::{Enforcement, Report};

/// Applies stages 5 to 8 to the payload, or leaves it as it is and says why. `kept` is what `retain` says of the
/// payload, where it matters once more.
pub(super) fn apply<'a>(
    payload: &mut Node<'a>,
    branch: &'a Branch,
    plan: &Plan,
    kept: Option<&[View<'_>]>,
    report: &mut Report,
) -> Result<(), String> {
    let enforced = plan.enforcement == Enforcement::Enforced;
    let total = payload.as_array().map(<[_]>::len);
    let shown = total.map(|total| branch.max_items.map_or(total, |max| max.min(total)));
    let exclude = &branch.exclude;
    let mut excluded = exclude.unmissable();
    if branch.select.is_empty() {
        if let (Node::Array(items), Some(shown)) = (&mut *payload, shown) {
            items.truncate(shown);
        }
    } else {
        let selected = select(payload, shown, branch, plan, report)?;
        // What `select` has dropped anyway is not missed.
        found(payload, shown, exclude, &mut excluded);
        *payload = selected;
    }
    found(payload, shown, exclude, &mut excluded);
    match &mut *payload {
        Node::Array(items) => items.iter_mut().for_each(|item| paths::exclude(item, exclude)),
        item => paths::exclude(item, exclude),
    }
    if shown != Some(0) {
        report.unresolved.extend(exclude.missed(&excluded));
    }
    if branch.drop_nulls {
        prune(payload, branch.drop_empty);
    }
    if let Some(kept) = kept.filter(|_| !branch.select.is_empty()) {
        settle::selected(payload, kept, &branch.select);
    }
    if enforced && !branch.select.is_empty() && nothing_left(payload) {
        return Err(MISSED.to_owned());
    }
    report.items_truncated_from = total.filter(|total| shown.is_some_and(|shown| shown < *total));
    Ok(())
}

const MISSED: &str = "no path of `select` resolves in any item";

/// Notes which entries of `exclude` find something to drop in an item of the payload that is `shown`.
fn found(payload: &Node<'_>, shown: Option<usize>, exclude: &Exclude, found: &mut [bool]) {
    match payload {
        Node::Array(items) => {
            let shown = items.iter().take(shown.unwrap_or(usize::MAX));
            shown.for_each(|item| paths::resolves(item, &exclude.trie, found));
        }
        item => paths::resolves(item, &exclude.trie, found),
    }
}

/// The payload made of selected fields; the payload itself stays as it is.
fn select<'a>(
    payload: &Node<'a>,
    shown: Option<usize>,
    branch: &'a Branch,
    plan: &Plan,
    report: &mut Report,
) -> Result<Node<'a>, String> {
    let enforced = plan.enforcement == Enforcement::Enforced;
    // A field for each path: paths that lead to the same place multiply what is there.
    let mut room = branch.select_multiplies.then_some(plan.limits.max_input_bytes);
    let mut found = vec![Traces::default(); branch.select.len()];
    let mut objects = 0;
    let selected = match payload {
        Node::Array(items) => Node::Array(
            items[..shown.unwrap_or(items.len())]
                .iter()
                .filter_map(|item| match item {
                    Node::Object(_) => {
                        objects += 1;
                        fields(item, &branch.select, &mut found, &mut room)
                    }
                    other if !enforced => Some(other.clone()),
                    // Under `Enforced` only what is named passes, and what was there does not show. `retain` says
                    // that a list stays a list.
                    Node::Array(_) if branch.retain.is_some() => Some(Node::Array(Vec::new())),
                    Node::Array(_) | Node::Scalar(_) | Node::String(_) => Some(Node::Object(Vec::new())),
                })
                .collect(),
        ),
        Node::Object(_) => {
            objects = 1;
            fields(payload, &branch.select, &mut found, &mut room).unwrap_or(Node::NULL)
        }
        Node::Scalar(_) | Node::String(_) => {
            return Err(format!("the payload is {}, not an object or a list", payload.kind().as_str()));
        }
    };
    if room == Some(0) {
        return Err("what `select` gives is larger than an output may be".to_owned());
    }
    if objects > 0 {
        // Under `Enforced` it is decided on what is left in the end, see `nothing_left`.
        if !enforced && !found.iter().any(|traces| traces.found) {
            return Err(MISSED.to_owned());
        }
        let missed = branch.select.iter().zip(&found).filter(|(_, traces)| traces.missed());
        report.partial_miss = missed.map(|(field, _)| field.source.to_string()).collect();
    }
    Ok(selected)
}

/// The fields of one item; `room` is what they may take, where that is watched. None, and no room, where it is spent.
fn fields<'a>(
    item: &Node<'a>,
    select: &'a [Field],
    found: &mut [Traces],
    room: &mut Option<usize>,
) -> Option<Node<'a>> {
    let mut members = Vec::with_capacity(select.len());
    for (field, traces) in select.iter().zip(found) {
        if field.path.contains(&Step::Each) {
            walk(item, &field.path, traces);
        }
        if let Some(value) = lookup(item, &field.path) {
            traces.found = true;
            traces.reached |= !field.path.contains(&Step::Each);
            if let Some(room) = room {
                *room = room.saturating_sub(compact_len(&value));
                if *room == 0 {
                    return None;
                }
            }
            members.push(Member { key: Key::from_raw(&*field.key), value: value.into_owned() });
        }
    }
    Some(Node::Object(members))
}

/// What one source path of `select` has met in all items.
#[derive(Debug, Clone, Copy, Default)]
struct Traces {
    /// It gave a value, be it a list that is empty.
    found: bool,
    /// It was followed to its end.
    reached: bool,
    /// A `[*]` of it found nothing in a list that is not empty.
    lacking: bool,
}

impl Traces {
    /// Whether it leads nowhere: lists that are empty say nothing, others do.
    fn missed(self) -> bool {
        !self.reached && (self.lacking || !self.found)
    }
}

/// Follows a source path everywhere; gives whether it finds a value.
fn walk(node: &Node<'_>, path: &[Step], traces: &mut Traces) -> bool {
    let Some((step, rest)) = path.split_first() else {
        traces.reached = true;
        return true;
    };
    match (step, node) {
        (Step::Name(name), Node::Object(_)) => node.get(name).is_some_and(|value| walk(value, rest, traces)),
        (Step::Index(index), Node::Array(elements)) => {
            elements.get(*index).is_some_and(|element| walk(element, rest, traces))
        }
        (Step::Each, Node::Array(elements)) => {
            let found =
                elements.iter().fold(elements.is_empty(), |found, element| walk(element, rest, traces) || found);
            traces.lacking |= !found;
            found
        }
        _ => false,
    }
}

/// What a source path finds; a path with `[*]` makes a list.
pub(super) fn lookup<'n, 'a>(node: &'n Node<'a>, path: &[Step]) -> Option<Cow<'n, Node<'a>>> {
    let Some((step, rest)) = path.split_first() else { return Some(Cow::Borrowed(node)) };
    match (step, node) {
        (Step::Name(name), Node::Object(_)) => lookup(node.get(name)?, rest),
        (Step::Index(index), Node::Array(elements)) => lookup(elements.get(*index)?, rest),
        (Step::Each, Node::Array(elements)) => {
            let list: Vec<_> =
                elements.iter().filter_map(|element| lookup(element, rest).map(Cow::into_owned)).collect();
            (!list.is_empty() || elements.is_empty()).then_some(Cow::Owned(Node::Array(list)))
        }
        _ => None,
    }
}

/// Whether a select kept nothing at all. Under `Enforced` this, and not what was found, makes a total
/// miss: a field that was found and then dropped must look like one that was never there.
fn nothing_left(payload: &Node<'_>) -> bool {
    let empty = |item: &Node<'_>| item.as_object().is_some_and(<[_]>::is_empty);
    match payload {
        Node::Array(items) => !items.is_empty() && items.iter().all(empty),
        item => empty(item),
    }
}

/// Drops members whose value is null, and with `empty` those whose value is `""`, `[]` or `{}`, from the leaves up.
/// Of duplicate keys the last counts: dropped alone it would bring back the value that it hides.
fn prune(node: &mut Node<'_>, empty: bool) {
    match node {
        Node::Object(members) => {
            dedupe(members);
            members.retain_mut(|member| {
                prune(&mut member.value, empty);
                !(member.value.is_null() || (empty && is_empty(&member.value)))
            });
        }
        Node::Array(elements) => elements.iter_mut().for_each(|element| prune(element, empty)),
        Node::Scalar(_) | Node::String(_) => {}
    }
}

fn is_empty(node: &Node<'_>) -> bool {
    match node {
        Node::Scalar(_) => false,
        Node::String(raw) => raw.len() == 2,
        Node::Array(elements) => elements.is_empty(),
        Node::Object(members) => members.is_empty(),
    }
}
