//! `select`: one walk over an item finds every field, wherever it is.

use std::cell::Cell;

use crate::program::{Field, Index, Name, Step};

use super::keys::Keys;
use super::marks::Marks;
use super::scan::{self, Scan, Stop, Tally, at};
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
    /// The paths that were followed to their ends in any item.
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
        (draft.double_reads() <= MAX_DOUBLE_READS).then(|| Self { root: draft.finish(), owners: owners.into() })
    }

    /// Returns the tree of strict pointers, in which a number is an index in an array and a key in an object.
    pub(super) fn pointers(pointers: &[&[Name]]) -> Self {
        let mut draft = Draft::default();
        for (i, pointer) in pointers.iter().enumerate() {
            draft.insert_pointer(pointer, i);
        }
        Self { root: draft.finish(), owners: (0..pointers.len()).collect() }
    }

    /// Walks the item at `pos`, and leaves its values in `slots`.
    pub(super) fn walk(&self, bytes: &[u8], pos: usize, room: usize, tally: &mut Tally<'_>, slots: &mut Slots) -> Scan {
        slots.found.clear();
        slots.found.resize(self.owners.len(), Found::Missing);
        slots.links.clear();
        Walk { bytes, owners: &self.owners, slots }.value(&self.root, pos, room, tally)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        spare::keep(&SPARE, (spare::emptied(&mut self.found, KEPT), spare::emptied(&mut self.links, KEPT)));
    }
}

impl Slots {
    pub(super) fn new() -> Self {
        let (found, links) = spare::take(&SPARE);
        Self { found, links, reached: Marks::default(), lacking: Marks::default(), steps: 0 }
    }

    pub(super) fn get(&self, slot: usize) -> Found {
        self.found[slot]
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
    owners: &'w [usize],
    slots: &'w mut Slots,
}

impl Walk<'_> {
    #[inline(always)]
    fn value(&mut self, node: &Node, pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
        let before = tally.blanks;
        let end = match at(self.bytes, pos) {
            b'{' if !node.keys.is_empty() => self.object(node, pos, room, tally)?,
            b'[' if !node.indices.is_empty() || node.each.is_some() => self.array(node, pos, room, tally)?,
            _ => scan::value(self.bytes, pos, room, tally)?,
        };
        for &slot in &node.slots {
            self.slots.found[slot] = Found::Span { start: pos, end, blanks: tally.blanks != before };
            self.slots.reached.set(self.owners[slot]);
        }
        Ok(end)
    }

    fn object(&mut self, node: &Node, pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
        let bytes = self.bytes;
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let mut pos = scan::blanks(bytes, pos + 1, tally);
        if at(bytes, pos) == b'}' {
            return Ok(pos + 1);
        }
        tally.value()?;
        let mut seen = 0u64;
        loop {
            if at(bytes, pos) != b'"' {
                return Err(Stop::Invalid);
            }
            let start = pos + 1;
            let end = scan::key(bytes, start)?;
            pos = scan::colon(bytes, end, tally)?;
            pos = match node.keys.find(&bytes[start..end - 1]) {
                None => scan::value(bytes, pos, room, tally)?,
                Some(i) => {
                    // The last of duplicates counts, and everything found in the first would have to be forgotten.
                    let bit = 1 << (i % 64);
                    if seen & bit != 0 {
                        return Err(Stop::Bail);
                    }
                    seen |= bit;
                    self.value(&node.below[i], pos, room, tally)?
                }
            };
            let (next, more) = scan::comma(bytes, pos, b'}', tally)?;
            pos = next;
            if !more {
                return Ok(pos);
            }
        }
    }

    fn array(&mut self, node: &Node, pos: usize, room: usize, tally: &mut Tally<'_>) -> Scan {
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
                pos = self.element(index, node.each.as_deref(), pos, room, tally)?;
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
                self.slots.lacking.set(self.owners[list]);
            }
        }
        Ok(pos)
    }

    fn element(
        &mut self,
        index: Option<&Node>,
        each: Option<&Each>,
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
            end = Some(self.value(&each.node, pos, room, tally)?);
            for &(inner, list) in &each.lists {
                let found = self.slots.found[inner];
                if !matches!(found, Found::Missing) {
                    self.slots.append(list, found);
                }
            }
        }
        match (index, end) {
            // With both `a[0].b` and `a[*].c`, the element is read twice, and its whitespace is counted once.
            (Some(node), Some(_)) => self.value(node, pos, room, &mut tally.clone()),
            (Some(node), None) => self.value(node, pos, room, tally),
            (None, Some(end)) => Ok(end),
            (None, None) => scan::value(self.bytes, pos, room, tally),
        }
    }
}
