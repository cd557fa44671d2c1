//! Editable values over nodes of the tree.

use super::editable::{Editable, Entered, List, Object, Piece, Value, View};
use crate::json::{Key, Kind, Member, Node, dedupe};
use crate::work::Work;

/// The smallest weight of a value, where copies are counted.
const MIN_VALUE_BYTES: usize = 8;

impl<'a> Value<'a> for Node<'a> {
    const NULL: Self = Node::NULL;
    const EMPTY_OBJECT: Self = Node::Object(Vec::new());

    fn enter(self, work: &Work<'_>) -> Entered<'a, Self> {
        match self {
            Self::Object(mut members) => {
                dedupe(&mut members, work);
                Entered::Object(members)
            }
            Self::Array(elements) => Entered::List(elements),
            scalar @ (Self::Scalar(_) | Self::String(_)) => Entered::Scalar(scalar),
        }
    }

    fn kind(&self) -> Kind {
        self.kind()
    }

    fn equals(&self, other: &Node<'_>, work: &Work<'_>) -> bool {
        self.equals_within(other, work)
    }
}

impl<'a> Editable<'a, Node<'a>> {
    /// Returns a copy of the value in its present state.
    pub(super) fn to_node(&self, work: &Work<'_>) -> Node<'a> {
        View::Edited(self).to_node(work)
    }

    /// Returns the size of a copy of the value, in bytes of a document.
    pub(super) fn weight(&self, work: &Work<'_>) -> usize {
        View::Edited(self).sum(work, &|own| own.max(MIN_VALUE_BYTES))
    }

    /// Returns how deep the value is nested.
    pub(super) fn depth(&self, work: &Work<'_>) -> usize {
        View::Edited(self).depth(work)
    }

    /// Returns the value with all edits applied.
    pub(super) fn into_node(self, work: &Work<'_>) -> Node<'a> {
        match self {
            Self::Untouched(node) => node,
            Self::Object(object) => Node::Object(object.into_members(work)),
            Self::List(list) => Node::Array(list.into_elements(work)),
        }
    }
}

impl<'a> Object<'a, Node<'a>> {
    fn into_members(self, work: &Work<'_>) -> Vec<Member<'a>> {
        let Self { mut members, places: _, below, gone } = self;
        for (place, live) in below {
            members[place].value = live.into_node(work);
        }
        if !gone.is_empty() {
            let _ = work.spend_unbounded(members.len());
            let mut gone = gone.into_iter().peekable();
            let mut place = 0;
            members.retain(|_| {
                place += 1;
                gone.next_if_eq(&(place - 1)).is_none()
            });
        }
        members
    }
}

impl<'a> List<'a, Node<'a>> {
    fn into_elements(self, work: &Work<'_>) -> Vec<Node<'a>> {
        let Self { elements, pieces, len } = self;
        if let [Piece::Kept(range)] = pieces.as_slice()
            && range.len() == elements.len()
        {
            return elements;
        }
        let _ = work.spend_unbounded(len);
        let mut out = Vec::with_capacity(len);
        let mut rest = elements.into_iter();
        let mut at = 0;
        for piece in pieces {
            match piece {
                Piece::Kept(range) => {
                    out.extend(rest.by_ref().skip(range.start - at).take(range.len()));
                    at = range.end;
                }
                Piece::One(live) => out.push(live.into_node(work)),
            }
        }
        out
    }
}

impl<'a> View<'_, 'a, Node<'a>> {
    fn to_node(self, work: &Work<'_>) -> Node<'a> {
        match self {
            Self::Untouched(node) | Self::Edited(Editable::Untouched(node)) => node.clone(),
            Self::Edited(Editable::Object(object)) => {
                let member = |(key, value): (&Key<'a>, View<'_, 'a, Node<'a>>)| Member {
                    key: key.clone(),
                    value: value.to_node(work),
                };
                Node::Object(object.iter().take_while(|_| work.spend_unbounded(1)).map(member).collect())
            }
            Self::Edited(Editable::List(list)) => Node::Array(
                list.iter().take_while(|_| work.spend_unbounded(1)).map(|value| value.to_node(work)).collect(),
            ),
        }
    }

    /// Returns the sum of `each` over the own bytes of all values, with keys and punctuation.
    fn sum(self, work: &Work<'_>, each: &dyn Fn(usize) -> usize) -> usize {
        if !work.spend(1) {
            return 0;
        }
        let member = |key: &Key<'_>, value: View<'_, '_, Node<'_>>| key.raw().len() + 1 + value.sum(work, each);
        match self {
            Self::Untouched(Node::Scalar(raw)) | Self::Edited(Editable::Untouched(Node::Scalar(raw))) => {
                each(raw.len())
            }
            Self::Untouched(Node::String(raw)) | Self::Edited(Editable::Untouched(Node::String(raw))) => {
                each(raw.len())
            }
            Self::Untouched(Node::Array(all)) | Self::Edited(Editable::Untouched(Node::Array(all))) => {
                each(2) + all.iter().map(|value| 1 + Self::Untouched(value).sum(work, each)).sum::<usize>()
            }
            Self::Untouched(Node::Object(all)) | Self::Edited(Editable::Untouched(Node::Object(all))) => {
                each(2) + all.iter().map(|m| 1 + member(&m.key, Self::Untouched(&m.value))).sum::<usize>()
            }
            Self::Edited(Editable::Object(object)) => {
                each(2) + object.iter().map(|(key, value)| 1 + member(key, value)).sum::<usize>()
            }
            Self::Edited(Editable::List(list)) => {
                each(2) + list.iter().map(|value| 1 + value.sum(work, each)).sum::<usize>()
            }
        }
    }

    fn depth(self, work: &Work<'_>) -> usize {
        if !work.spend(1) {
            return 0;
        }
        let deepest = |depths: &mut dyn Iterator<Item = usize>| 1 + depths.max().unwrap_or(0);
        match self {
            Self::Untouched(Node::Scalar(_) | Node::String(_))
            | Self::Edited(Editable::Untouched(Node::Scalar(_) | Node::String(_))) => 0,
            Self::Untouched(Node::Array(all)) | Self::Edited(Editable::Untouched(Node::Array(all))) => {
                deepest(&mut all.iter().map(|value| Self::Untouched(value).depth(work)))
            }
            Self::Untouched(Node::Object(all)) | Self::Edited(Editable::Untouched(Node::Object(all))) => {
                deepest(&mut all.iter().map(|member| Self::Untouched(&member.value).depth(work)))
            }
            Self::Edited(Editable::Object(object)) => deepest(&mut object.iter().map(|(_, value)| value.depth(work))),
            Self::Edited(Editable::List(list)) => deepest(&mut list.iter().map(|value| value.depth(work))),
        }
    }
}
