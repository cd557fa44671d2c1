//! Stages 5 to 8: the list of the payload, and the fields of its items.

use super::cascade;
use super::lookup::Lookups;
use super::paths::{self, View};
use crate::json::{Key, Member, Node, dedupe};
use crate::program::{Branch, Exclude, Field, Plan, Step};
use crate::work::Work;
use crate::{Enforcement, Report};

/// Applies stages 5 to 8 to the payload, or leaves it unchanged and returns the reason. `kept` holds the views of the
/// payload's place in `retain`, if emptied values must go with their contents.
pub(super) fn apply<'a>(
    payload: &mut Node<'a>,
    branch: &'a Branch,
    plan: &Plan,
    kept: Option<&[View<'_>]>,
    report: &mut Report,
    work: &Work<'_>,
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
        let selected = select(payload, shown, branch, plan, report, work)?;
        // An entry that only `select` leaves without effect is not reported as missed.
        begin_part(work)?;
        mark_excluded(payload, shown, exclude, &mut excluded, work);
        *payload = selected;
    }
    begin_part(work)?;
    mark_excluded(payload, shown, exclude, &mut excluded, work);
    match &mut *payload {
        Node::Array(items) => items.iter_mut().for_each(|item| paths::exclude(item, exclude, work)),
        item => paths::exclude(item, exclude, work),
    }
    begin_part(work)?;
    if shown != Some(0) {
        report.unresolved.extend(exclude.missed(|entry| excluded[entry]));
    }
    if branch.drop_nulls {
        prune(payload, branch.drop_empty, work);
    }
    if let Some(kept) = kept.filter(|_| !branch.select.is_empty()) {
        cascade::selected(payload, kept, &branch.select, work);
    }
    if enforced && !branch.select.is_empty() && nothing_left(payload) {
        return Err(NOTHING_SELECTED.to_owned());
    }
    report.items_truncated_from = total.filter(|total| shown.is_some_and(|shown| shown < *total));
    Ok(())
}

/// Begins the next part of the stage, with a bound of its own, so that an output that streams never reaches one: the
/// fast path counts only the fields of items.
fn begin_part(work: &Work<'_>) -> Result<(), String> {
    // If the stage has reached its bound, the caller reports that instead.
    if work.restart() { Ok(()) } else { Err(String::new()) }
}

const NOTHING_SELECTED: &str = "no path of `select` resolves in any item";

/// Records which entries of `exclude` have something to drop in the items that are `shown`.
fn mark_excluded(payload: &Node<'_>, shown: Option<usize>, exclude: &Exclude, found: &mut [bool], work: &Work<'_>) {
    match payload {
        Node::Array(items) => {
            let shown = items.iter().take(shown.unwrap_or(usize::MAX));
            shown.for_each(|item| paths::resolves(item, &exclude.trie, found, work));
        }
        item => paths::resolves(item, &exclude.trie, found, work),
    }
}

/// Returns the payload reduced to the selected fields; `payload` itself stays unchanged.
fn select<'a>(
    payload: &Node<'a>,
    shown: Option<usize>,
    branch: &'a Branch,
    plan: &Plan,
    report: &mut Report,
    work: &Work<'_>,
) -> Result<Node<'a>, String> {
    let enforced = plan.enforcement == Enforcement::Enforced;
    // Each path gives a field, so paths to the same place multiply what is there: the result needs a limit.
    let mut room = branch.select_multiplies.then_some(plan.limits.max_input_bytes);
    let mut found = vec![Traces::default(); branch.select.len()];
    let mut lookups = Lookups::new(branch.names(), work);
    let mut objects = 0;
    let selected = match payload {
        Node::Array(items) => Node::Array(
            items[..shown.unwrap_or(items.len())]
                .iter()
                .filter_map(|item| match item {
                    Node::Object(_) => {
                        objects += 1;
                        fields(item, &branch.select, &mut found, &mut room, &mut lookups)
                    }
                    other if !enforced => Some(other.clone()),
                    // Under `Enforced` only what is named passes, and the answer must not show what was there. With
                    // `retain`, a list stays a list.
                    Node::Array(_) if branch.retain.is_some() => Some(Node::Array(Vec::new())),
                    Node::Array(_) | Node::Scalar(_) | Node::String(_) => Some(Node::Object(Vec::new())),
                })
                .collect(),
        ),
        Node::Object(_) => {
            objects = 1;
            fields(payload, &branch.select, &mut found, &mut room, &mut lookups).unwrap_or(Node::NULL)
        }
        Node::Scalar(_) | Node::String(_) => {
            return Err(format!("the payload is {}, not an object or a list", payload.kind().as_str()));
        }
    };
    if room == Some(0) {
        return Err("what `select` gives is larger than an output may be".to_owned());
    }
    if objects > 0 {
        // Under `Enforced` the result decides, see `nothing_left`.
        if !enforced && !found.iter().any(|traces| traces.found) {
            return Err(NOTHING_SELECTED.to_owned());
        }
        let missed = branch.select.iter().zip(&found).filter(|(_, traces)| traces.missed());
        report.partial_miss = missed.map(|(field, _)| field.source.to_string()).collect();
    }
    Ok(selected)
}

/// Returns the selected fields of one item. `room` is the remaining byte budget, if one is enforced; `None` means
/// that the budget or the bound of the stage is exhausted.
fn fields<'n, 'a>(
    item: &'n Node<'a>,
    select: &'a [Field],
    found: &mut [Traces],
    room: &mut Option<usize>,
    lookups: &mut Lookups<'_, 'n, 'a>,
) -> Option<Node<'a>> {
    if !lookups.begin(select.len()) {
        return None;
    }
    let mut members = Vec::new();
    for (field, traces) in select.iter().zip(found) {
        if field.path.contains(&Step::Each) {
            lookups.trace(item, &field.path, traces);
        }
        if let Some(value) = lookups.find(item, &field.path) {
            traces.found = true;
            traces.reached |= !field.path.contains(&Step::Each);
            if let Some(room) = room {
                *room = room.saturating_sub(lookups.weight(&value));
                if *room == 0 {
                    return None;
                }
            }
            members.push(Member { key: Key::from_raw(&*field.key), value: value.into_owned() });
        }
    }
    members.shrink_to_fit();
    Some(Node::Object(members))
}

/// What one source path of `select` met in all items.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traces {
    /// The path gave a value in some item; an empty list counts.
    pub(super) found: bool,
    /// The path was followed to its end in some item.
    pub(super) reached: bool,
    /// A `[*]` of the path found nothing in a list that is not empty.
    pub(super) lacking: bool,
}

impl Traces {
    /// Returns whether the path resolves nowhere. An empty list is no evidence; any other list is.
    fn missed(self) -> bool {
        !self.reached && (self.lacking || !self.found)
    }
}

/// Returns whether nothing is left of the selected fields. Under `Enforced` this decides whether `select` missed
/// everything, not what it found: a field that was found and then dropped must look like one that was absent.
fn nothing_left(payload: &Node<'_>) -> bool {
    let empty = |item: &Node<'_>| item.as_object().is_some_and(<[_]>::is_empty);
    match payload {
        Node::Array(items) => !items.is_empty() && items.iter().all(empty),
        item => empty(item),
    }
}

/// Drops members whose value is null and, with `empty`, those whose value is `""`, `[]` or `{}`, from the leaves up.
/// The last of duplicate keys counts: dropping it alone would bring back the value that it hides.
fn prune(node: &mut Node<'_>, empty: bool, work: &Work<'_>) {
    if !work.spend_unbounded(1) {
        return;
    }
    match node {
        Node::Object(members) => {
            dedupe(members, work);
            members.retain_mut(|member| {
                prune(&mut member.value, empty, work);
                !(member.value.is_null() || (empty && is_empty(&member.value)))
            });
        }
        Node::Array(elements) => elements.iter_mut().for_each(|element| prune(element, empty, work)),
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
