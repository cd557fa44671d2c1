//! A document that patch operations change in place, in time linear in the document and the operations.
//!
//! A value that no operation enters stays a [`Node`]. An object that an operation enters is indexed once, by the
//! names that any operation uses; a list is split into pieces. Neither moves its members or elements until all
//! operations are done.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::json::{Key, Member, Node, by_key, dedupe, encode};
use crate::program::{Index, Name};
use crate::stream::Keys;
use crate::work::Work;

/// The smallest weight of a value, where copies are counted.
const MIN_VALUE_BYTES: usize = 8;

/// A value that operations may have entered.
#[derive(Debug)]
pub(super) enum Editable<'a> {
    /// No operation has entered it.
    Untouched(Node<'a>),
    Object(Box<Object<'a>>),
    List(Box<List<'a>>),
}

/// An object that operations have entered. Its keys are distinct.
#[derive(Debug, Default)]
pub(super) struct Object<'a> {
    /// The original members, followed by those that operations added. If `below` has an entry for a place, the value
    /// is there.
    members: Vec<Member<'a>>,
    /// The place of each name that operations use, by the number of the name.
    places: HashMap<usize, usize>,
    /// Values that operations have entered or set, by place.
    below: HashMap<usize, Editable<'a>>,
    /// The places of removed members.
    gone: BTreeSet<usize>,
}

/// A list that operations have entered.
#[derive(Debug)]
pub(super) struct List<'a> {
    /// The original elements. Those in no piece have been removed.
    elements: Vec<Node<'a>>,
    pieces: Vec<Piece<'a>>,
    len: usize,
}

#[derive(Debug)]
enum Piece<'a> {
    /// Original elements.
    Kept(Range<usize>),
    /// One element that operations have entered or set.
    One(Editable<'a>),
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::One(_) => 1,
        }
    }
}

/// Why a pointer does not resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// A member or an element is absent, or its parent is a scalar.
    Absent,
    /// The pointer has a name where the document has an array.
    NameOnArray,
    /// The pointer has a name where the document has an empty array.
    NameOnEmptyArray,
}

/// What every step through a document needs.
#[derive(Clone, Copy)]
pub(super) struct Context<'c> {
    /// The names that operations use.
    pub(super) names: &'c Keys,
    pub(super) work: &'c Work<'c>,
}

impl<'a> Editable<'a> {
    /// Makes a container editable in place. Objects lose their duplicates.
    fn enter(&mut self, context: Context<'_>) {
        let Self::Untouched(node) = self else { return };
        match std::mem::replace(node, Node::NULL) {
            Node::Object(mut members) => {
                dedupe(&mut members, context.work);
                let mut places = HashMap::new();
                for (at, member) in members.iter().enumerate() {
                    if !context.work.spend_unbounded(1) {
                        break;
                    }
                    if let Some(name) = context.names.find(&member.key.plain()) {
                        places.insert(name, at);
                    }
                }
                *self = Self::Object(Box::new(Object { members, places, ..Object::default() }));
            }
            Node::Array(elements) => {
                let len = elements.len();
                let pieces = if len == 0 { Vec::new() } else { vec![Piece::Kept(0..len)] };
                *self = Self::List(Box::new(List { elements, pieces, len }));
            }
            scalar => *self = Self::Untouched(scalar),
        }
    }

    /// Returns the value at a strict pointer.
    pub(super) fn find(&mut self, segments: &[Name], context: Context<'_>) -> Result<&mut Self, Miss> {
        let mut live = self;
        for name in segments {
            live.enter(context);
            live = match live {
                Self::Object(object) => {
                    let name = context.names.find(name.text.as_bytes());
                    name.and_then(|name| object.member(name)).ok_or(Miss::Absent)?
                }
                Self::List(list) => {
                    let index = list.index(name)?;
                    list.element(index, context.work).ok_or(Miss::Absent)?
                }
                Self::Untouched(_) => return Err(Miss::Absent),
            };
        }
        Ok(live)
    }

    /// Removes the value at `last` in this value, and returns it.
    pub(super) fn take(&mut self, last: &Name, context: Context<'_>) -> Result<Self, Miss> {
        self.enter(context);
        match self {
            Self::Object(object) => {
                let name = context.names.find(last.text.as_bytes());
                name.and_then(|name| object.take(name)).ok_or(Miss::Absent)
            }
            Self::List(list) => {
                let index = list.index(last)?;
                list.take(index, context.work).ok_or(Miss::Absent)
            }
            Self::Untouched(_) => Err(Miss::Absent),
        }
    }

    /// Puts `value` at `last` in this value: in a list before the element there, in an object in place of the member.
    /// With `set_is_last` a member that is set moves to the end; otherwise it keeps its place.
    pub(super) fn put(
        &mut self,
        last: &Name,
        value: Self,
        set_is_last: bool,
        context: Context<'_>,
    ) -> Result<(), PutError> {
        self.enter(context);
        match self {
            Self::Object(object) => {
                // Every name that operations use has a number.
                if let Some(name) = context.names.find(last.text.as_bytes()) {
                    object.put(name, &last.text, value, set_is_last);
                }
                Ok(())
            }
            Self::List(list) => {
                let index = match last.index {
                    Index::End => list.len,
                    _ => list.index(last).map_err(PutError::Miss)?,
                };
                if index > list.len {
                    return Err(PutError::BeyondTheEnd);
                }
                list.put(index, value, context.work);
                Ok(())
            }
            Self::Untouched(node) => Err(PutError::Scalar(node.kind().as_str())),
        }
    }

    /// Returns whether the value equals `other`. It examines no more than `other` has, and duplicate keys.
    pub(super) fn equals(&self, other: &Node<'_>, work: &Work<'_>) -> bool {
        match (self, other) {
            (Self::Untouched(node), other) => node.equals_within(other, work),
            (Self::Object(object), Node::Object(others)) => {
                let others = by_key(others);
                object.members.len() - object.gone.len() == others.len()
                    && object.iter().all(|(key, value)| {
                        work.spend(1) && others.get(&key.plain()).is_some_and(|other| value.equals(other, work))
                    })
            }
            (Self::List(list), Node::Array(others)) => {
                list.len == others.len()
                    && list.iter().zip(others).all(|(value, other)| work.spend(1) && value.equals(other, work))
            }
            (Self::Object(_) | Self::List(_), _) => false,
        }
    }

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

/// Why a value cannot be put at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PutError {
    Miss(Miss),
    /// The index is beyond the end of the list.
    BeyondTheEnd,
    /// The parent is a scalar of this kind.
    Scalar(&'static str),
}

impl<'a> Object<'a> {
    fn member(&mut self, name: usize) -> Option<&mut Editable<'a>> {
        let place = *self.places.get(&name)?;
        let members = &mut self.members;
        Some(self.below.entry(place).or_insert_with(|| Editable::Untouched(take(&mut members[place].value))))
    }

    fn take(&mut self, name: usize) -> Option<Editable<'a>> {
        let place = self.places.remove(&name)?;
        self.gone.insert(place);
        Some(self.below.remove(&place).unwrap_or_else(|| Editable::Untouched(take(&mut self.members[place].value))))
    }

    fn put(&mut self, name: usize, text: &str, value: Editable<'a>, set_is_last: bool) {
        if set_is_last {
            self.take(name);
        }
        let place = *self.places.entry(name).or_insert_with(|| {
            self.members.push(Member { key: Key::from_raw(encode(text)), value: Node::NULL });
            self.members.len() - 1
        });
        self.below.insert(place, value);
    }

    fn iter(&self) -> impl Iterator<Item = (&Key<'a>, View<'_, 'a>)> {
        let members = self.members.iter().enumerate().filter(|(place, _)| !self.gone.contains(place));
        members.map(|(place, member)| {
            (&member.key, self.below.get(&place).map_or(View::Untouched(&member.value), View::Edited))
        })
    }

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

impl<'a> List<'a> {
    /// Returns the index that `name` stands for; `-` is beyond the end.
    fn index(&self, name: &Name) -> Result<usize, Miss> {
        match name.index {
            Index::At(index) => Ok(index),
            Index::End => Ok(usize::MAX),
            Index::None if self.len == 0 => Err(Miss::NameOnEmptyArray),
            Index::None => Err(Miss::NameOnArray),
        }
    }

    /// Splits the pieces so that one begins at `index`, and returns its number; at the end, the number of pieces.
    fn split(&mut self, index: usize, work: &Work<'_>) -> usize {
        let mut start = 0;
        for number in 0..self.pieces.len() {
            if start == index || !work.spend(1) {
                return number;
            }
            let len = self.pieces[number].len();
            if index < start + len {
                if let Piece::Kept(range) = &mut self.pieces[number] {
                    let behind = range.start + (index - start)..range.end;
                    range.end = behind.start;
                    self.pieces.insert(number + 1, Piece::Kept(behind));
                }
                return number + 1;
            }
            start += len;
        }
        self.pieces.len()
    }

    /// Returns the number of the piece that holds element `index` alone, splitting pieces as needed.
    fn isolate(&mut self, index: usize, work: &Work<'_>) -> Option<usize> {
        if index >= self.len {
            return None;
        }
        let number = self.split(index, work);
        if let Piece::Kept(range) = self.pieces.get_mut(number)? {
            let at = range.start;
            range.start += 1;
            let one = Piece::One(Editable::Untouched(take(&mut self.elements[at])));
            if range.start == range.end {
                self.pieces[number] = one;
            } else {
                self.pieces.insert(number, one);
            }
        }
        Some(number)
    }

    fn element(&mut self, index: usize, work: &Work<'_>) -> Option<&mut Editable<'a>> {
        let number = self.isolate(index, work)?;
        match &mut self.pieces[number] {
            Piece::One(live) => Some(live),
            Piece::Kept(_) => None,
        }
    }

    fn take(&mut self, index: usize, work: &Work<'_>) -> Option<Editable<'a>> {
        let number = self.isolate(index, work)?;
        self.len -= 1;
        match self.pieces.remove(number) {
            Piece::One(live) => Some(live),
            Piece::Kept(_) => None,
        }
    }

    fn put(&mut self, index: usize, value: Editable<'a>, work: &Work<'_>) {
        let number = self.split(index, work);
        self.pieces.insert(number, Piece::One(value));
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = View<'_, 'a>> {
        self.pieces.iter().flat_map(|piece| {
            let (kept, one) = match piece {
                Piece::Kept(range) => (&self.elements[range.clone()], None),
                Piece::One(live) => (&[][..], Some(View::Edited(live))),
            };
            kept.iter().map(View::Untouched).chain(one)
        })
    }

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

/// A value, whether an operation has entered it or not.
#[derive(Clone, Copy)]
enum View<'n, 'a> {
    Untouched(&'n Node<'a>),
    Edited(&'n Editable<'a>),
}

impl<'n, 'a> View<'n, 'a> {
    fn equals(self, other: &Node<'_>, work: &Work<'_>) -> bool {
        match self {
            Self::Untouched(node) => node.equals_within(other, work),
            Self::Edited(live) => live.equals(other, work),
        }
    }

    fn to_node(self, work: &Work<'_>) -> Node<'a> {
        match self {
            Self::Untouched(node) | Self::Edited(Editable::Untouched(node)) => node.clone(),
            Self::Edited(Editable::Object(object)) => {
                let member =
                    |(key, value): (&Key<'a>, View<'_, 'a>)| Member { key: key.clone(), value: value.to_node(work) };
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
        let member = |key: &Key<'_>, value: View<'_, '_>| key.raw().len() + 1 + value.sum(work, each);
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

fn take<'a>(node: &mut Node<'a>) -> Node<'a> {
    std::mem::replace(node, Node::NULL)
}
