//! `select`: one walk over an item finds every field, wherever it is.

use std::cell::Cell;
use std::ptr;
use std::sync::LazyLock;

use crate::program::{Field, Index, Name, Step};

use super::keys::Keys;
use super::marks::Marks;
use super::scan::{self, Scan, Stop, Tally, at};
use super::shapes::{Number, Place, Shapes};
use super::spare;

/// The number of lists whose elements may be read twice, for `[n]` and for `[*]`.
const MAX_DOUBLE_READS: usize = 4;

/// The source paths of `select`, as a tree.
#[derive(Debug)]
pub(super) struct Paths {
    root: Node,
    /// By slot, the path to which it belongs.
    owners: Box<[usize]>,
}

/// What is on no path.
static OTHER: LazyLock<Node> = LazyLock::new(Node::default);

/// What to do with a value on some path.
#[derive(Debug, Default)]
struct Node {
    /// The slots that receive the value: the paths that end here.
    slots: Box<[usize]>,
    /// The keys of an object on some path.
    keys: Keys,
    below: Box<[Node]>,
    /// The elements `[n]` of an array, in order of `n`.
    indices: Box<[(usize, Node)]>,
    /// The elements `[*]` of an array.
    each: Option<Box<Each>>,
}

#[derive(Debug)]
struct Each {
    node: Node,
    /// The slot of a value found in an element, and the slot of the list that collects it.
    lists: Vec<(usize, usize)>,
}

/// What a path led to in one item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Found {
    #[default]
    Missing,
    /// A span of the input, and whether it contains whitespace.
    Span { start: usize, end: usize, blanks: bool },
    /// A list made by `[*]`: its first and last element in [`Slots::links`].
    List { ends: Option<(usize, usize)> },
}

/// What was found in one item. Reused for all items.
#[derive(Debug)]
pub(super) struct Slots {
    found: Vec<Found>,
    links: Vec<Link>,
    /// The shapes of the items, once there is an item.
    shapes: Option<Box<Shapes>>,
    /// The paths with a `[*]` that were followed to their ends in any item.
    pub(super) reached: Marks,
    /// The paths of which a `[*]` found nothing in a list that is not empty, in any item.
    pub(super) lacking: Marks,
    /// The steps so far: one for each field of an item, and one for each element that the path of a field leads
    /// through.
    pub(super) steps: usize,
}

/// An element of a list, and the next element.
type Link = (Found, Option<usize>);

/// Maximum bytes of each list that a thread keeps.
const KEPT: usize = 4 << 10;

thread_local! {
    static SPARE: Cell<(Vec<Found>, Vec<Link>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// A [`Node`] under construction: names are collected first, and made into [`Keys`] at the end.
#[derive(Default)]
struct Draft {
    slots: Vec<usize>,
    names: Vec<(Box<str>, Draft)>,
    indices: Vec<(usize, Draft)>,
    each: Option<DraftEach>,
}

/// The draft behind `[*]`, and the slots of an element with the lists that collect them.
type DraftEach = (Box<Draft>, Vec<(usize, usize)>);

impl Draft {
    /// Adds a path that ends in slot `slot`; `owners` holds the path of each slot.
    fn insert(&mut self, path: &[Step], slot: usize, owners: &mut Vec<usize>) {
        match path {
            [] => self.slots.push(slot),
            [Step::Each, rest @ ..] => {
                let inner = owners.len();
                owners.push(owners[slot]);
                let (draft, lists) = self.each.get_or_insert_default();
                lists.push((inner, slot));
                draft.insert(rest, inner, owners);
            }
            [step, rest @ ..] => self.below(step).insert(rest, slot, owners),
        }
    }

    /// Returns the draft behind one step, and adds it if there is none.
    fn below(&mut self, step: &Step) -> &mut Self {
        match step {
            Step::Name(name) => {
                let i = self.names.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                    self.names.push((name.clone(), Self::default()));
                    self.names.len() - 1
                });
                &mut self.names[i].1
            }
            Step::Index(index) => {
                let i = self.indices.iter().position(|(n, _)| n == index).unwrap_or_else(|| {
                    self.indices.push((*index, Self::default()));
                    self.indices.len() - 1
                });
                &mut self.indices[i].1
            }
            Step::Each => &mut self.each.get_or_insert_default().0,
        }
    }

    fn insert_pointer(&mut self, path: &[Name], slot: usize) {
        let Some((name, rest)) = path.split_first() else { return self.slots.push(slot) };
        let steps = match name.index {
            Index::At(index) => vec![Step::Name(name.text.clone()), Step::Index(index)],
            Index::End | Index::None => vec![Step::Name(name.text.clone())],
        };
        for step in steps {
            self.below(&step).insert_pointer(rest, slot);
        }
    }

    /// Returns the number of lists whose elements are read twice.
    fn double_reads(&self) -> usize {
        let below = self.names.iter().map(|(_, draft)| draft).chain(self.indices.iter().map(|(_, draft)| draft));
        let below = below.chain(self.each.iter().map(|(draft, _)| &**draft));
        usize::from(self.each.is_some() && !self.indices.is_empty()) + below.map(Self::double_reads).sum::<usize>()
    }

    fn finish(self) -> Node {
        let keys = Keys::new(self.names.iter().map(|(name, _)| &**name));
        let mut indices: Vec<_> = self.indices.into_iter().map(|(n, draft)| (n, draft.finish())).collect();
        indices.sort_by_key(|(n, _)| *n);
        Node {
            slots: self.slots.into(),
            keys,
            below: self.names.into_iter().map(|(_, draft)| draft.finish()).collect(),
            indices: indices.into(),
            each: self.each.map(|(draft, lists)| Box::new(Each { node: draft.finish(), lists })),
        }
    }
}

impl Paths {
    /// Returns the tree of the paths of `fields`; field `i` is found in slot `i`.
    ///
    /// Returns `None` if too many elements would be read twice, for `[n]` and for `[*]`.
    pub(super) fn new(fields: &[Field]) -> Option<Self> {
        let mut owners: Vec<usize> = (0..fields.len()).collect();
        let mut draft = Draft::default();
        for (i, field) in fields.iter().enumerate() {
            draft.insert(&field.path, i, &mut owners);
        }
        (draft.double_reads() <= MAX_DOUBLE_READS).then(|| Self::finish(draft, owners))
    }

    /// Returns the tree of strict pointers, in which a number is an index in an array and a key in an object.
    pub(super) fn pointers(pointers: &[&[Name]]) -> Self {
        let mut draft = Draft::default();
        for (i, pointer) in pointers.iter().enumerate() {
            draft.insert_pointer(pointer, i);
        }
        Self::finish(draft, (0..pointers.len()).collect())
    }

    fn finish(draft: Draft, owners: Vec<usize>) -> Self {
        Self { root: draft.finish(), owners: owners.into() }
    }

    /// Walks the item at `pos`, and leaves its values in `slots`.
    pub(super) fn walk(&self, bytes: &[u8], pos: usize, room: usize, tally: &mut Tally<'_>, slots: &mut Slots) -> Scan {
        if slots.found.len() != self.owners.len() {
            slots.found.resize(self.owners.len(), Found::Missing);
        }
        slots.found.iter_mut().for_each(|found| *found = Found::Missing);
        slots.links.clear();
        let mut shapes = slots.shapes.take().unwrap_or_else(Shapes::new);
        let end = Walk { bytes, paths: self, slots, shapes: &mut shapes, other: &OTHER }.value(
            &self.root,
            Number::ROOT,
            pos,
            room,
            tally,
        );
        slots.shapes = Some(shapes);
        end
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if let Some(shapes) = self.shapes.take() {
            shapes.keep();
        }
        spare::keep(&SPARE, (spare::emptied(&mut self.found, KEPT), spare::emptied(&mut self.links, KEPT)));
    }
}

impl Slots {
    pub(super) fn new() -> Self {
        let (found, links) = spare::take(&SPARE);
        Self { found, links, shapes: None, reached: Marks::default(), lacking: Marks::default(), steps: 0 }
    }

    #[inline(always)]
    pub(super) fn found(&self, slot: usize) -> &Found {
        &self.found[slot]
    }

    /// Returns an element of a list, and the link of the next element.
    pub(super) fn link(&self, link: usize) -> Link {
        self.links[link]
    }

    fn append(&mut self, list: usize, found: Found) {
        let link = self.links.len();
        self.links.push((found, None));
        let ends = match self.found[list] {
            Found::List { ends: Some((first, last)) } => {
                self.links[last].1 = Some(link);
                (first, link)
            }
            _ => (link, link),
        };
        self.found[list] = Found::List { ends: Some(ends) };
    }
}

struct Walk<'w> {
    bytes: &'w [u8],
    paths: &'w Paths,
    slots: &'w mut Slots,
    shapes: &'w mut Shapes,
    other: &'w Node,
}

/// What follows in an object.
enum Follows {
    /// A member: the place of its key, the position of its value, and the number of its key.
    Member(Place, usize, Option<u32>),
    /// The closing bracket, and the position behind it.
    End(usize),
}

impl<'w> Walk<'w> {
    /// Reads the value at `pos`, which is on the path of `node`. `member` is the member that it belongs to.
    #[inline(always)]
    fn value(&mut self, node: &'w Node, member: Number, pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
        let before = tally.blanks;
        let end = match at(self.bytes, pos) {
            b'{' => self.object(node, member, pos, room, tally)?,
            b'[' => self.array(node, member, pos, room, tally)?,
            _ => scan::scalar(self.bytes, pos)?,
        };
        self.found(node, pos, end, tally.blanks != before);
        Ok(end)
    }

    /// Notes the value from `start` to `end`, which is on the path of `node`.
    #[inline(always)]
    fn found(&mut self, node: &Node, start: usize, end: usize, blanks: bool) {
        for &slot in &node.slots {
            self.slots.found[slot] = Found::Span { start, end, blanks };
            let owner = self.paths.owners[slot];
            if owner != slot {
                self.slots.reached.set(owner);
            }
        }
    }

    fn object(&mut self, node: &'w Node, member: Number, pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
        let bytes = self.bytes;
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let opening = pos;
        let mut pos = pos;
        let mut place = self.shapes.enter(member, ptr::from_ref(node).addr());
        let mut seen = 0u64;
        loop {
            let key;
            // The length of the value, if it is a scalar that has been read.
            let mut length = None;
            if let Some(found) = self.shapes.find(place, bytes, pos) {
                tally.blanks += found.blanks;
                tally.value()?;
                key = found.key;
                pos += found.length;
                length = scan::short(found.value);
                if length.is_none() {
                    pos = scan::blanks(bytes, pos, tally);
                }
            } else if at(bytes, pos) == b'}' {
                return Ok(pos + 1);
            } else {
                match self.unexpected(node, place, pos == opening, pos, tally)? {
                    Follows::Member(at, value, number) => (place, pos, key) = (at, value, number),
                    Follows::End(end) => return Ok(end),
                }
            }
            let below = match key {
                None => self.other,
                Some(key) => {
                    // The last of duplicates counts, and everything found in the first would have to be forgotten.
                    let bit = 1 << (key % 64);
                    if seen & bit != 0 {
                        return Err(Stop::Bail);
                    }
                    seen |= bit;
                    &node.below[key as usize]
                }
            };
            let member;
            (place, member) = self.shapes.pass(place);
            pos = match length {
                Some(length) => {
                    self.found(below, pos, pos + length, false);
                    pos + length
                }
                None => self.value(below, member, pos, room, tally)?,
            };
        }
    }

    /// Reads what follows an opening bracket or a value of an object, up to the next value, and remembers it.
    #[inline(never)]
    fn unexpected(
        &mut self,
        node: &Node,
        place: Place,
        opening: bool,
        start: usize,
        tally: &mut Tally<'_>,
    ) -> Scan<Follows> {
        let bytes = self.bytes;
        if let Some(place) = self.shapes.ahead(place, bytes, start)
            && let Some(found) = self.shapes.find(place, bytes, start)
        {
            tally.blanks += found.blanks;
            tally.value()?;
            return Ok(Follows::Member(place, scan::blanks(bytes, start + found.length, tally), found.key));
        }
        let before = tally.blanks;
        let pos;
        if opening {
            pos = scan::blanks(bytes, start + 1, tally);
            if at(bytes, pos) == b'}' {
                return Ok(Follows::End(pos + 1));
            }
            tally.value()?;
        } else {
            let (next, more) = scan::comma(bytes, start, b'}', tally)?;
            if !more {
                return Ok(Follows::End(next));
            }
            pos = next;
        }
        if at(bytes, pos) != b'"' {
            return Err(Stop::Invalid);
        }
        let (key, end) = if node.keys.is_empty() {
            (None, scan::string(bytes, pos + 1)?)
        } else {
            let end = scan::key(bytes, pos + 1)?;
            (node.keys.find(&bytes[pos + 1..end - 1]).map(|key| key as u32), end)
        };
        let value = scan::colon(bytes, end, tally)?;
        let text = (&bytes[start..value], tally.blanks - before);
        let place = self.shapes.learn(place, opening, text, key, tally.values);
        Ok(Follows::Member(place, value, key))
    }

    fn array(&mut self, node: &'w Node, member: Number, pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
        let bytes = self.bytes;
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let mut indices = node.indices.iter().peekable();
        let mut pos = scan::blanks(bytes, pos + 1, tally);
        let mut empty = true;
        if at(bytes, pos) == b']' {
            pos += 1;
        } else {
            empty = false;
            tally.value()?;
            for i in 0.. {
                let index = indices.next_if(|(n, _)| *n == i).map(|(_, below)| below);
                pos = self.element(index, node.each.as_deref(), member, pos, room, tally)?;
                let (next, more) = scan::comma(bytes, pos, b']', tally)?;
                pos = next;
                if !more {
                    break;
                }
            }
        }
        for &(_, list) in node.each.as_deref().map_or(&[][..], |each| &each.lists) {
            if empty {
                self.slots.found[list] = Found::List { ends: None };
            } else if matches!(self.slots.found[list], Found::Missing) {
                self.slots.lacking.set(self.paths.owners[list]);
            }
        }
        Ok(pos)
    }

    #[inline(always)]
    fn element(
        &mut self,
        index: Option<&'w Node>,
        each: Option<&'w Each>,
        member: Number,
        pos: usize,
        room: usize,
        tally: &mut Tally<'_>,
    ) -> Scan {
        let mut end = None;
        if let Some(each) = each {
            self.slots.steps += each.lists.len();
            tally.poll_after(each.lists.len())?;
            for &(inner, _) in &each.lists {
                self.slots.found[inner] = Found::Missing;
            }
            end = Some(self.value(&each.node, member, pos, room, tally)?);
            for &(inner, list) in &each.lists {
                let found = self.slots.found[inner];
                if !matches!(found, Found::Missing) {
                    self.slots.append(list, found);
                }
            }
        }
        match (index, end) {
            // With both `a[0].b` and `a[*].c`, the element is read twice, and its whitespace is counted once.
            (Some(node), Some(_)) => self.value(node, member, pos, room, &mut tally.clone()),
            (None, Some(end)) => Ok(end),
            (node, None) => self.value(node.unwrap_or(self.other), member, pos, room, tally),
        }
    }
}
