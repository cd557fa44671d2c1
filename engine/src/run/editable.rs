//! A document that patch operations change in place, in time linear in the document and the operations.
//!
//! A value that no operation enters stays a [`Value`]: a node of the tree or, on the fast path, a span of the bytes. An
//! object that an operation enters is indexed once, by the names that any operation uses; a list is split into pieces.
//! Neither moves its members or elements until all operations are done.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::json::{Key, Kind, Member, Node, by_key, encode};
use crate::program::{Index, Name};
use crate::stream::Keys;
use crate::work::Work;

/// A value that no operation has entered.
pub(crate) trait Value<'a>: Sized {
    /// `null`
    const NULL: Self;
    /// `{}`
    const EMPTY_OBJECT: Self;

    /// Returns the parts of a container. Objects lose their duplicates.
    fn enter(self, work: &Work<'_>) -> Entered<'a, Self>;

    /// Returns the kind of the value, for messages.
    fn kind(&self) -> Kind;

    /// As [`Node::equals_within`].
    fn equals(&self, other: &Node<'_>, work: &Work<'_>) -> bool;
}

/// The parts of a value.
pub(crate) enum Entered<'a, V> {
    /// The value has no parts.
    Scalar(V),
    /// Members with distinct keys, in order.
    Object(Vec<Member<'a, V>>),
    /// Elements in order.
    List(Vec<V>),
}

/// A value that operations may have entered.
#[derive(Debug)]
pub(crate) enum Editable<'a, V> {
    /// No operation has entered it.
    Untouched(V),
    /// An object that operations have entered.
    Object(Box<Object<'a, V>>),
    /// A list that operations have entered.
    List(Box<List<'a, V>>),
}

/// An object that operations have entered. Its keys are distinct.
#[derive(Debug)]
pub(crate) struct Object<'a, V> {
    /// The original members, followed by those that operations added. If `below` has an entry for a place, the value
    /// is there.
    pub(super) members: Vec<Member<'a, V>>,
    /// The place of each name that operations use, by the number of the name.
    pub(super) places: BTreeMap<usize, usize>,
    /// Values that operations have entered or set, by place.
    pub(super) below: BTreeMap<usize, Editable<'a, V>>,
    /// The places of removed members.
    pub(super) gone: BTreeSet<usize>,
}

/// A list that operations have entered.
#[derive(Debug)]
pub(crate) struct List<'a, V> {
    /// The original elements. Those in no piece have been removed.
    pub(super) elements: Vec<V>,
    pub(super) pieces: Vec<Piece<'a, V>>,
    pub(super) len: usize,
}

/// A part of a list that operations have entered.
#[derive(Debug)]
pub(crate) enum Piece<'a, V> {
    /// Original elements.
    Kept(Range<usize>),
    /// One element that operations have entered or set.
    One(Editable<'a, V>),
}

impl<V> Piece<'_, V> {
    fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::One(_) => 1,
        }
    }
}

/// Why a pointer does not resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    /// A member or an element is absent, or its parent is a scalar.
    Absent,
    /// The pointer has a name where the document has an array.
    NameOnArray,
    /// The pointer has a name where the document has an empty array.
    NameOnEmptyArray,
}

/// What every step through a document needs.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    /// The names that operations use.
    pub(crate) names: &'c Keys,
    pub(crate) work: &'c Work<'c>,
}

/// A value in its present state.
#[derive(Debug)]
pub(crate) enum View<'n, 'a, V> {
    /// No operation has entered it.
    Untouched(&'n V),
    /// Operations may have entered it.
    Edited(&'n Editable<'a, V>),
}

impl<V> Clone for View<'_, '_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for View<'_, '_, V> {}

impl<'a, V: Value<'a>> View<'_, 'a, V> {
    fn equals(self, other: &Node<'_>, work: &Work<'_>) -> bool {
        match self {
            Self::Untouched(value) => value.equals(other, work),
            Self::Edited(live) => live.equals(other, work),
        }
    }
}

impl<'a, V: Value<'a>> Editable<'a, V> {
    /// Makes a container editable in place.
    fn enter(&mut self, context: Context<'_>) {
        let Self::Untouched(value) = self else { return };
        *self = Self::entered(std::mem::replace(value, V::NULL).enter(context.work), context);
    }

    /// Returns an editable value from its parts.
    fn entered(parts: Entered<'a, V>, context: Context<'_>) -> Self {
        match parts {
            Entered::Object(members) => {
                let mut places = BTreeMap::new();
                for (at, member) in members.iter().enumerate() {
                    if !context.work.spend_unbounded(1) {
                        break;
                    }
                    if let Some(name) = context.names.find(&member.key.plain()) {
                        places.insert(name, at);
                    }
                }
                Self::Object(Box::new(Object { members, places, below: BTreeMap::new(), gone: BTreeSet::new() }))
            }
            Entered::List(elements) => {
                let len = elements.len();
                let pieces = if len == 0 { Vec::new() } else { vec![Piece::Kept(0..len)] };
                Self::List(Box::new(List { elements, pieces, len }))
            }
            Entered::Scalar(scalar) => Self::Untouched(scalar),
        }
    }

    /// Returns the value at a strict pointer.
    pub(crate) fn find(&mut self, segments: &[Name], context: Context<'_>) -> Result<&mut Self, Miss> {
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
    pub(crate) fn take(&mut self, last: &Name, context: Context<'_>) -> Result<Self, Miss> {
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
    pub(crate) fn put(
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
            Self::Untouched(value) => Err(PutError::Scalar(value.kind().as_str())),
        }
    }

    /// Returns whether the value equals `other`. It examines no more than `other` has, and duplicate keys.
    pub(crate) fn equals(&self, other: &Node<'_>, work: &Work<'_>) -> bool {
        match (self, other) {
            (Self::Untouched(value), other) => value.equals(other, work),
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
}

/// Why a value cannot be put at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutError {
    Miss(Miss),
    /// The index is beyond the end of the list.
    BeyondTheEnd,
    /// The parent is a scalar of this kind.
    Scalar(&'static str),
}

impl<'a, V: Value<'a>> Object<'a, V> {
    fn member(&mut self, name: usize) -> Option<&mut Editable<'a, V>> {
        let place = *self.places.get(&name)?;
        let members = &mut self.members;
        Some(self.below.entry(place).or_insert_with(|| Editable::Untouched(take(&mut members[place].value))))
    }

    fn take(&mut self, name: usize) -> Option<Editable<'a, V>> {
        let place = self.places.remove(&name)?;
        self.gone.insert(place);
        Some(self.below.remove(&place).unwrap_or_else(|| Editable::Untouched(take(&mut self.members[place].value))))
    }

    fn put(&mut self, name: usize, text: &str, value: Editable<'a, V>, set_is_last: bool) {
        if set_is_last {
            self.take(name);
        }
        let place = *self.places.entry(name).or_insert_with(|| {
            self.members.push(Member { key: Key::from_raw(encode(text)), value: V::NULL });
            self.members.len() - 1
        });
        self.below.insert(place, value);
    }

    /// Removes those members that operations have entered or set for which `stays` returns `false`.
    pub(super) fn retain_edited(&mut self, mut stays: impl FnMut(&Key<'a>, &mut Editable<'a, V>) -> bool) {
        for (place, value) in &mut self.below {
            if !stays(&self.members[*place].key, value) {
                self.gone.insert(*place);
            }
        }
    }

    /// Returns the members in their present state.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key<'a>, View<'_, 'a, V>)> {
        let members = self.members.iter().enumerate().filter(|(place, _)| !self.gone.contains(place));
        members.map(|(place, member)| {
            (&member.key, self.below.get(&place).map_or(View::Untouched(&member.value), View::Edited))
        })
    }
}

impl<'a, V: Value<'a>> List<'a, V> {
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

    fn element(&mut self, index: usize, work: &Work<'_>) -> Option<&mut Editable<'a, V>> {
        let number = self.isolate(index, work)?;
        match &mut self.pieces[number] {
            Piece::One(live) => Some(live),
            Piece::Kept(_) => None,
        }
    }

    fn take(&mut self, index: usize, work: &Work<'_>) -> Option<Editable<'a, V>> {
        let number = self.isolate(index, work)?;
        self.len -= 1;
        match self.pieces.remove(number) {
            Piece::One(live) => Some(live),
            Piece::Kept(_) => None,
        }
    }

    fn put(&mut self, index: usize, value: Editable<'a, V>, work: &Work<'_>) {
        let number = self.split(index, work);
        self.pieces.insert(number, Piece::One(value));
        self.len += 1;
    }

    /// Returns the elements that operations have entered or set.
    pub(super) fn edited_mut(&mut self) -> impl Iterator<Item = &mut Editable<'a, V>> {
        self.pieces.iter_mut().filter_map(|piece| match piece {
            Piece::One(live) => Some(live),
            Piece::Kept(_) => None,
        })
    }

    /// Returns the elements in their present state.
    pub(crate) fn iter(&self) -> impl Iterator<Item = View<'_, 'a, V>> {
        self.pieces.iter().flat_map(|piece| {
            let (kept, one) = match piece {
                Piece::Kept(range) => (&self.elements[range.clone()], None),
                Piece::One(live) => (&[][..], Some(View::Edited(live))),
            };
            kept.iter().map(View::Untouched).chain(one)
        })
    }
}

fn take<'a, V: Value<'a>>(value: &mut V) -> V {
    std::mem::replace(value, V::NULL)
}
