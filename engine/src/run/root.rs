//! Stage 4: locates the payload.

use super::lookup::Lookups;
use super::paths::resolves;
use crate::json::{Member, Node, dedupe};
use crate::program::{Branch, Index, Pointer, Root};
use crate::work::Work;

/// The members that are searched for a list first, in this order (seed kimbap: "Payload root detection").
pub(crate) const WRAPPERS: [&str; 3] = ["items", "result", "data"];

/// The path to the payload: positions of members and elements from the document down.
pub(super) type Place = Vec<usize>;

/// Returns the place of the payload, or the reason why there is none.
pub(super) fn locate(
    document: &mut Node<'_>,
    branch: &Branch,
    enforced: bool,
    work: &Work<'_>,
) -> Result<Option<Place>, String> {
    match &branch.root {
        Root::Unused => Ok(None),
        Root::Document => Ok(Some(Vec::new())),
        Root::Pointer(pointer) => follow(document, pointer, work).map(Some),
        Root::List => match document {
            Node::Array(_) => Ok(Some(Vec::new())),
            Node::Object(members) if !enforced => {
                dedupe(members, work);
                let list = list_in(members).ok_or("the output is declared to be a list, and there is none in it")?;
                Ok(Some(vec![list]))
            }
            _ => Err("the output is declared to be a list, and is none".to_owned()),
        },
        Root::Detect => Ok(Some(detect(document, branch, work))),
    }
}

fn follow(document: &mut Node<'_>, pointer: &Pointer, work: &Work<'_>) -> Result<Place, String> {
    let mut place = Vec::with_capacity(pointer.segments.len());
    let mut node = document;
    for name in &pointer.segments {
        let unresolved = || format!("`{}` does not resolve", pointer.text);
        let (at, next) = match node {
            Node::Object(members) => {
                dedupe(members, work);
                let at = members.iter().position(|member| member.key.is(&name.text)).ok_or_else(unresolved)?;
                (at, &mut members[at].value)
            }
            Node::Array(elements) => match name.index {
                Index::At(at) => (at, elements.get_mut(at).ok_or_else(unresolved)?),
                Index::End | Index::None => return Err(unresolved()),
            },
            Node::Scalar(_) | Node::String(_) => return Err(unresolved()),
        };
        place.push(at);
        node = next;
    }
    Ok(place)
}

/// Returns the position of the list under one of the [`WRAPPERS`], or else of the first list.
fn list_in(members: &[Member<'_>]) -> Option<usize> {
    let named = |name| members.iter().position(|m| m.key.is(name) && m.value.as_array().is_some());
    WRAPPERS.into_iter().find_map(named).or_else(|| members.iter().position(|m| m.value.as_array().is_some()))
}

/// Returns the place of the list that `maxItems` would shorten if nothing names it: the document, or a list in it.
pub(super) fn list(document: &mut Node<'_>, work: &Work<'_>) -> Option<Place> {
    match document {
        Node::Array(_) => Some(Vec::new()),
        Node::Object(members) => {
            dedupe(members, work);
            list_in(members).map(|at| vec![at])
        }
        Node::Scalar(_) | Node::String(_) => None,
    }
}

/// Returns the place of the document or of its list, whichever resolves more of the filter's paths.
fn detect(document: &mut Node<'_>, branch: &Branch, work: &Work<'_>) -> Place {
    let Node::Object(members) = document else { return Vec::new() };
    dedupe(members, work);
    let Some(at) = list_in(members) else { return Vec::new() };
    let list = &members[at];
    let elements = list.value.as_array().unwrap_or_default();
    let wrapped = WRAPPERS.into_iter().any(|name| list.key.is(name));
    if elements.is_empty() && wrapped {
        return vec![at];
    }
    let first = elements.iter().find(|element| element.as_object().is_some());
    let in_list = first.map_or(0, |item| score(item, branch, work));
    if score(document, branch, work) > in_list { Vec::new() } else { vec![at] }
}

/// Returns how many `select` paths and `exclude` entries resolve in `item`.
pub(crate) fn score(item: &Node<'_>, branch: &Branch, work: &Work<'_>) -> usize {
    let mut lookups = Lookups::new(branch.names(), work);
    let selected = branch.select.iter().filter(|field| lookups.resolves(item, &field.path)).count();
    let mut excluded = vec![false; branch.exclude.entries.len()];
    resolves(item, &branch.exclude.trie, &mut excluded, work);
    selected + excluded.into_iter().filter(|found| *found).count()
}

/// Returns the payload at `place`, which [`locate`] returned.
pub(super) fn at<'n, 'a>(document: &'n mut Node<'a>, place: &[usize]) -> Option<&'n mut Node<'a>> {
    let mut node = document;
    for &position in place {
        node = match node {
            Node::Object(members) => &mut members.get_mut(position)?.value,
            Node::Array(elements) => elements.get_mut(position)?,
            Node::Scalar(_) | Node::String(_) => return None,
        };
    }
    Some(node)
}

/// Removes everything outside the path to the payload. Returns the new path.
pub(super) fn isolate(document: &mut Node<'_>, place: &[usize]) -> Place {
    let mut node = document;
    for &position in place {
        node = match node {
            Node::Object(members) => {
                members.truncate(position + 1);
                members.drain(..position);
                match members.first_mut() {
                    Some(member) => &mut member.value,
                    None => break,
                }
            }
            Node::Array(elements) => {
                elements.truncate(position + 1);
                elements.drain(..position);
                match elements.first_mut() {
                    Some(element) => element,
                    None => break,
                }
            }
            Node::Scalar(_) | Node::String(_) => break,
        };
    }
    vec![0; place.len()]
}
