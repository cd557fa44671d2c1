//! The layouts of objects: their keys in order, each with the kind of its value.
//!
//! All layouts of a document are one tree: a layout is the layout without its last member, and that member. Objects
//! with equal members in the same order have the same layout, so two rows are compared by one number, and a table knows
//! its columns by its layout. Where an object continues as the last one with the same beginning did, one comparison of
//! the key finds the next layout; otherwise a map does.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::keys::{Key, Keys, Span};

/// The kind of a value, as far as a table distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind(u32);

impl Kind {
    /// A string, a number, `true`, `false` or `null`: one cell of a table.
    pub(super) const PRIMITIVE: Self = Self(0);
    /// A value that no table has: an array, an empty object, an object with such values.
    pub(super) const OTHER: Self = Self(1);

    /// An object with this layout, whose cells can be those of a table.
    pub(super) fn group(layout: Layout) -> Self {
        Self(layout.0 + 2)
    }

    /// Returns the layout of a group.
    #[inline(always)]
    pub(super) fn layout(self) -> Option<Layout> {
        self.0.checked_sub(2).map(Layout)
    }
}

/// The number of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Layout(u32);

impl Layout {
    /// The layout without members.
    pub(super) const EMPTY: Self = Self(0);

    /// Returns the number, from 0 to below [`Layouts::len`].
    #[inline(always)]
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A member of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) key: Key,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// The layout without the last member.
    before: Layout,
    last: Member,
    key: Span,
    /// Cells of a row, groups resolved.
    cells: u32,
    /// Bytes of the keys, with quotes and colons, as they were first seen.
    key_bytes: u32,
    /// The layouts that were found after this one, the last one first; [`Layout::EMPTY`] if there was none.
    next: [Layout; 2],
    /// The layout with the same members in the order of their keys' numbers; set by [`Layouts::finish`].
    sorted: Option<Layout>,
    /// Whether every value is a cell or a group.
    tabular: bool,
}

/// The layouts of a document.
#[derive(Debug)]
pub(super) struct Layouts<'a> {
    pub(super) keys: Keys<'a>,
    nodes: Vec<Node>,
    after: HashMap<(Layout, Member), Layout, RandomState>,
    sorting: Vec<Member>,
}

/// A member as far as it is known before its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    key: Key,
    layout: Layout,
}

impl Expected {
    /// Returns whether the text of the key differs from that of the key which was expected.
    #[inline(always)]
    pub(super) fn is_other(self) -> bool {
        self.layout == Layout::EMPTY
    }
}

/// An object has two members with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Duplicate;

impl<'a> Layouts<'a> {
    pub(super) fn new() -> Self {
        let key = Span { start: 0, len: 0 };
        let mut layouts =
            Self { keys: Keys::default(), nodes: Vec::new(), after: HashMap::default(), sorting: Vec::new() };
        layouts.nodes.push(Node {
            before: Layout::EMPTY,
            last: Member { key: Key::NONE, kind: Kind::OTHER },
            key,
            cells: 0,
            key_bytes: 0,
            next: [Layout::EMPTY; 2],
            sorted: Some(Layout::EMPTY),
            tabular: true,
        });
        layouts
    }

    /// Reads the key at `pos` of an object that has `layout` so far. Also returns the position behind the key.
    #[inline(always)]
    pub(super) fn key(&mut self, layout: Layout, json: &'a str, pos: usize) -> (Expected, usize) {
        for next in self.nodes[layout.index()].next {
            let expected = &self.nodes[next.index()];
            if next != Layout::EMPTY
                && let Some(end) = expected.key.matched(json.as_bytes(), pos)
            {
                return (Expected { key: expected.last.key, layout: next }, end);
            }
        }
        self.other_key(json, pos)
    }

    #[inline(never)]
    fn other_key(&mut self, json: &'a str, pos: usize) -> (Expected, usize) {
        let end = super::scan::string(json.as_bytes(), pos);
        (Expected { key: self.keys.add(json, pos, end), layout: Layout::EMPTY }, end)
    }

    /// Returns `layout` with a further member.
    #[inline(always)]
    pub(super) fn push(&mut self, layout: Layout, expected: Expected, kind: Kind) -> Layout {
        if expected.layout != Layout::EMPTY && self.nodes[expected.layout.index()].last.kind == kind {
            return expected.layout;
        }
        self.push_other(layout, Member { key: expected.key, kind })
    }

    #[inline(never)]
    fn push_other(&mut self, layout: Layout, last: Member) -> Layout {
        let [first, second] = self.nodes[layout.index()].next;
        // Often the same key with a value of the other kind: `null` and an object.
        let next = if second != Layout::EMPTY && self.nodes[second.index()].last == last {
            second
        } else {
            self.with(layout, last)
        };
        if next != first {
            self.nodes[layout.index()].next = [next, first];
        }
        next
    }

    /// Returns `layout` with a further member, without a guess.
    #[inline(never)]
    pub(super) fn with(&mut self, layout: Layout, last: Member) -> Layout {
        let new = Layout(self.nodes.len() as u32);
        let found = *self.after.entry((layout, last)).or_insert(new);
        if found == new {
            let before = self.nodes[layout.index()];
            let cells = last.kind.layout().map_or(1, |group| self.nodes[group.index()].cells);
            let key = self.keys.span(last.key);
            self.nodes.push(Node {
                before: layout,
                last,
                key,
                cells: before.cells.saturating_add(cells),
                key_bytes: before.key_bytes.saturating_add(key.len + 1),
                next: [Layout::EMPTY; 2],
                sorted: None,
                tabular: before.tabular && last.kind != Kind::OTHER,
            });
        }
        found
    }

    /// Returns the kind of an object that has `layout` at its end.
    ///
    /// # Errors
    /// [`Duplicate`]: two keys are equal.
    #[inline(always)]
    pub(super) fn finish(&mut self, layout: Layout) -> Result<Kind, Duplicate> {
        let node = &self.nodes[layout.index()];
        let kind = if node.tabular && layout != Layout::EMPTY { Kind::group(layout) } else { Kind::OTHER };
        if node.sorted.is_none() {
            self.sort(layout)?;
        }
        Ok(kind)
    }

    #[inline(never)]
    fn sort(&mut self, layout: Layout) -> Result<(), Duplicate> {
        let mut sorting = std::mem::take(&mut self.sorting);
        self.members(layout, &mut sorting);
        let mut is_sorted = sorting.windows(2).all(|pair| pair[0].key < pair[1].key);
        let distinct = is_sorted || {
            sorting.sort_unstable_by_key(|member| member.key);
            sorting.windows(2).all(|pair| pair[0].key != pair[1].key)
        };
        for member in &mut sorting {
            if let Some(group) = member.kind.layout() {
                let sorted = self.sorted(group);
                is_sorted &= sorted == group;
                member.kind = Kind::group(sorted);
            }
        }
        let sorted = if self.nodes[layout.index()].tabular && !is_sorted {
            sorting.iter().fold(Layout::EMPTY, |sorted, member| self.with(sorted, *member))
        } else {
            layout
        };
        self.sorting = sorting;
        // The sorted layout is sorted itself, whether or not an object has it.
        self.nodes[sorted.index()].sorted = Some(sorted);
        self.nodes[layout.index()].sorted = Some(sorted);
        if distinct { Ok(()) } else { Err(Duplicate) }
    }

    /// Returns the layout that all objects with the same members have, whatever their order. The layout is finished.
    #[inline(always)]
    pub(super) fn sorted(&self, layout: Layout) -> Layout {
        self.nodes[layout.index()].sorted.unwrap_or(layout)
    }

    /// Replaces `members` by those of the layout, in order.
    pub(super) fn members(&self, layout: Layout, members: &mut Vec<Member>) {
        members.clear();
        let mut at = layout;
        while at != Layout::EMPTY {
            let node = &self.nodes[at.index()];
            members.push(node.last);
            at = node.before;
        }
        members.reverse();
    }

    /// Returns the cells of a row with this layout.
    #[inline(always)]
    pub(super) fn cells(&self, layout: Layout) -> usize {
        self.nodes[layout.index()].cells as usize
    }

    /// Returns the bytes of the keys of an object with this layout, with quotes and colons.
    #[inline(always)]
    pub(super) fn key_bytes(&self, layout: Layout) -> usize {
        self.nodes[layout.index()].key_bytes as usize
    }

    /// Returns the number of layouts.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}
