//! Under `Enforced`, removes values that `retain` kept only for a part that a later stage dropped: the answer must
//! not distinguish a dropped part from an absent one.

use super::editable::{Editable, Value};
use super::paths::{self, View, any_element, start};
use crate::json::Node;
use crate::program::{Field, Step, Trie};
use crate::stream::Keys;
use crate::work::Work;

/// Returns the views of the value at `place` in the paths of `retain`.
pub(super) fn kept_at<'t>(document: &Node<'_>, trie: &'t Trie, place: &[usize], work: &Work<'_>) -> Vec<View<'t>> {
    let mut views = start(trie);
    let mut node = document;
    for &position in place {
        (views, node) = match node {
            Node::Object(all) => match all.get(position) {
                Some(member) => (paths::member(&views, &member.key, work), &member.value),
                None => return Vec::new(),
            },
            Node::Array(all) => match all.get(position) {
                Some(element) => (any_element(&views, work), element),
                None => return Vec::new(),
            },
            Node::Scalar(_) | Node::String(_) => return Vec::new(),
        };
    }
    views
}

/// Removes what `retain` kept for a part that later stages have dropped. Values at `place` and on the path to it
/// stay, and `place` is updated as values move. With `selected`, the payload at `place` was made by `select` and is
/// left alone.
pub(super) fn document(
    document: &mut Node<'_>,
    trie: &Trie,
    place: Option<&mut [usize]>,
    selected: bool,
    work: &Work<'_>,
) {
    value_at(document, &start(trie), place, selected, work);
}

/// Cleans one value, and returns whether anything is left of it.
fn value_at(
    node: &mut Node<'_>,
    views: &[View<'_>],
    mut place: Option<&mut [usize]>,
    selected: bool,
    work: &Work<'_>,
) -> bool {
    if !work.spend(views.len()) {
        return true;
    }
    let made = selected && place.as_ref().is_some_and(|place| place.is_empty());
    if made || views.iter().any(|view| view.end().is_some()) {
        return true;
    }
    let every = views.iter().any(|view| view.every_element());
    let (mut at, mut kept, mut moved) = (0, 0, None);
    let way = place.as_ref().and_then(|place| place.first().copied());
    let mut one = |value: &mut Node<'_>, below: &[View<'_>], stays: bool| {
        let on = way == Some(at);
        let rest = if on { place.as_deref_mut().and_then(|place| place.get_mut(1..)) } else { None };
        let left = below.is_empty() || value_at(value, below, rest, selected, work);
        if stays && !left && !on {
            // `retain` leaves `{}` for an element in which it keeps nothing.
            *value = Node::Object(Vec::new());
        }
        let stays = left || stays || on;
        if on {
            moved = Some(kept);
        }
        at += 1;
        kept += usize::from(stays);
        stays
    };
    let left = match node {
        Node::Object(all) => {
            all.retain_mut(|member| {
                let below = paths::member(views, &member.key, work);
                one(&mut member.value, &below, false)
            });
            !all.is_empty()
        }
        Node::Array(all) => {
            let below = any_element(views, work);
            all.retain_mut(|element| one(element, &below, true));
            every || !all.is_empty()
        }
        Node::Scalar(_) | Node::String(_) => true,
    };
    if let (Some(first), Some(moved)) = (place.and_then(|place| place.first_mut()), moved) {
        *first = moved;
    }
    left
}

/// As [`document`], for a document that `retain` made and that operations have edited since, if they set scalars alone.
/// A value that no operation has entered is as `retain` left it, so there is nothing to remove from it.
pub(crate) fn edited<'a, V: Value<'a>>(document: &mut Editable<'a, V>, trie: &Trie, work: &Work<'_>) {
    edited_at(document, &start(trie), work);
}

/// Cleans one value, and returns whether anything is left of it.
fn edited_at<'a, V: Value<'a>>(value: &mut Editable<'a, V>, views: &[View<'_>], work: &Work<'_>) -> bool {
    let left = |value: &mut Editable<'a, V>, below: &[View<'_>]| below.is_empty() || edited_at(value, below, work);
    if views.iter().any(|view| view.end().is_some()) {
        return true;
    }
    match value {
        Editable::Untouched(_) => true,
        Editable::Object(object) => {
            object.retain_edited(|key, value| left(value, &paths::member(views, key, work)));
            object.iter().next().is_some()
        }
        Editable::List(list) => {
            let below = any_element(views, work);
            for element in list.edited_mut() {
                if !left(element, &below) {
                    // `retain` leaves `{}` for an element in which it keeps nothing.
                    *element = Editable::Untouched(V::EMPTY_OBJECT);
                }
            }
            views.iter().any(|view| view.every_element()) || list.iter().next().is_some()
        }
    }
}

/// As [`document`], for what `select` made of a payload whose views are `views`.
pub(super) fn selected(payload: &mut Node<'_>, views: &[View<'_>], select: &[Field], work: &Work<'_>) {
    let by_name = Keys::new(select.iter().map(|field| &*field.name));
    match payload {
        Node::Array(items) => {
            let below = any_element(views, work);
            items.iter_mut().for_each(|item| fields(item, &below, &by_name, select, work));
        }
        item => fields(item, views, &by_name, select, work),
    }
}

fn fields(item: &mut Node<'_>, views: &[View<'_>], by_name: &Keys, select: &[Field], work: &Work<'_>) {
    let Node::Object(all) = item else { return };
    all.retain_mut(|member| {
        let field = by_name.find(&member.key.plain()).map(|at| &select[at]);
        field.is_none_or(|field| found_by(&mut member.value, views, &field.path, work))
    });
}

fn found_by(found: &mut Node<'_>, views: &[View<'_>], path: &[Step], work: &Work<'_>) -> bool {
    if !work.spend(1 + views.len()) {
        return true;
    }
    let Some((step, rest)) = path.split_first() else {
        return views.is_empty() || value_at(found, views, None, false, work);
    };
    let below = match step {
        Step::Name(name) => paths::member(views, &**name, work),
        Step::Index(_) | Step::Each => any_element(views, work),
    };
    match found {
        Node::Array(all) if *step == Step::Each => {
            let before = all.len();
            all.retain_mut(|element| found_by(element, &below, rest, work));
            before == 0 || !all.is_empty()
        }
        found => found_by(found, &below, rest, work),
    }
}
