//! The merged paths of `retain` and of `exclude`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::Glob;
use super::pointer::{Index, Name, Segment};
use crate::stream::Keys;

/// A set of paths as a tree.
///
/// - At an object, a name is a key, and [`Trie::any`] applies to every member.
/// - At an array, a number is an index, [`Trie::any`] applies to every element, and the other names map: each element
///   is treated as if the path began at it.
///
/// The tree holds no path that another path covers: a node with [`Trie::end`] has no children.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trie {
    /// The index of the path that ends here, in the order of declaration. The path covers everything below.
    pub(crate) end: Option<usize>,
    /// Names of members, or indices, with the rest of their paths.
    pub(crate) names: Vec<(Name, Trie)>,
    /// `*`.
    pub(crate) any: Option<Box<Trie>>,
    /// Names that contain `*`. Like names they map over arrays.
    pub(crate) globs: Vec<(Glob, Trie)>,
    /// `**`: the rest of its path begins here, and at everything below.
    pub(crate) deep: Option<Box<Trie>>,
    lookup: Lookup,
}

/// Up to this many names a linear search is faster than a lookup.
const LINEAR_SEARCH_MAX: usize = 8;

/// An index over many names. It is built on first use, from names that no longer change; a clone builds its own.
#[derive(Debug, Default)]
struct Lookup(OnceLock<Box<Many>>);

#[derive(Debug)]
struct Many {
    /// The distinct texts of the names.
    keys: Keys,
    /// The positions of the names with a given text: two if a number is both an index and, in `exclude`, a mere name.
    at: Vec<(usize, Option<usize>)>,
    maps: bool,
}

impl Clone for Lookup {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Trie {
    /// Adds path number `id`. It neither skips a path that is covered already nor removes paths that the new one
    /// covers: `compile` adds no path that another covers.
    pub(crate) fn insert(&mut self, path: &[Segment], id: usize) {
        match path.split_first() {
            None => {
                self.end.get_or_insert(id);
            }
            Some((Segment::Any, rest)) => self.any.get_or_insert_default().insert(rest, id),
            Some((Segment::Deep, rest)) => self.deep.get_or_insert_default().insert(rest, id),
            Some((Segment::Glob(glob), rest)) => {
                let at = self.globs.iter().position(|(g, _)| g == glob).unwrap_or_else(|| {
                    self.globs.push((glob.clone(), Self::default()));
                    self.globs.len() - 1
                });
                self.globs[at].1.insert(rest, id);
            }
            Some((Segment::Name(name), rest)) => {
                let at = self.names.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                    self.names.push((name.clone(), Self::default()));
                    self.names.len() - 1
                });
                self.names[at].1.insert(rest, id);
            }
        }
    }

    /// Gives back the room for paths that are not added any more.
    pub(crate) fn shrink(&mut self) {
        let Self { end: _, names, any, globs, deep, lookup: _ } = self;
        names.shrink_to_fit();
        globs.shrink_to_fit();
        let named = names.iter_mut().map(|(_, below)| below).chain(globs.iter_mut().map(|(_, below)| below));
        named.chain(any.as_deref_mut()).chain(deep.as_deref_mut()).for_each(Self::shrink);
    }

    /// Calls `each` with the number of every path in the tree.
    pub(crate) fn ends(&self, each: &mut impl FnMut(usize)) {
        if let Some(id) = self.end {
            each(id);
        }
        self.children().for_each(|below| below.ends(each));
    }

    /// Returns the subtrees behind one more segment of any kind.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Trie> {
        let Self { end: _, names, any, globs, deep, lookup: _ } = self;
        let named = names.iter().map(|(_, below)| below).chain(globs.iter().map(|(_, below)| below));
        named.chain(any.as_deref()).chain(deep.as_deref())
    }

    /// Returns whether the tree holds no path.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.is_none() && self.children().next().is_none()
    }

    /// Returns whether a segment contains `*` or is `**`.
    pub(crate) fn has_globs(&self) -> bool {
        !self.globs.is_empty() || self.deep.is_some() || self.children().any(Self::has_globs)
    }

    /// Returns the entries of a name: one, or two if one of them is an index.
    pub(crate) fn named(&self, name: &[u8]) -> impl Iterator<Item = &(Name, Trie)> {
        let found = if self.names.len() <= LINEAR_SEARCH_MAX {
            let mut found = self.names.iter().filter(|(n, _)| n.text.as_bytes() == name);
            [found.next(), found.next()]
        } else {
            let many = self.many();
            match many.keys.find(name).map(|number| many.at[number]) {
                Some((one, other)) => [Some(&self.names[one]), other.map(|other| &self.names[other])],
                None => [None, None],
            }
        };
        found.into_iter().flatten()
    }

    /// Returns whether a name or glob of this node maps over the elements of an array: those that are not an index.
    pub(crate) fn maps(&self) -> bool {
        let named = if self.names.len() <= LINEAR_SEARCH_MAX { self.names.iter().any(maps) } else { self.many().maps };
        named || !self.globs.is_empty()
    }

    /// Returns the subtree that names element `index` of an array by its number.
    pub(crate) fn at(&self, index: usize) -> Option<&Trie> {
        let own = |(name, _): &&(Name, Trie)| name.index == Index::At(index);
        let found = if self.names.len() <= LINEAR_SEARCH_MAX {
            self.names.iter().find(own)
        } else {
            // An index has one spelling.
            self.named(index.to_string().as_bytes()).find(own)
        };
        found.map(|(_, below)| below)
    }

    fn many(&self) -> &Many {
        self.lookup.0.get_or_init(|| {
            let mut texts: BTreeMap<&str, (usize, Option<usize>)> = BTreeMap::new();
            for (at, (name, _)) in self.names.iter().enumerate() {
                texts.entry(&name.text).and_modify(|(_, other)| *other = Some(at)).or_insert((at, None));
            }
            Box::new(Many {
                keys: Keys::new(texts.keys().copied()),
                at: texts.into_values().collect(),
                maps: self.names.iter().any(maps),
            })
        })
    }
}

fn maps((name, _): &(Name, Trie)) -> bool {
    !matches!(name.index, Index::At(_))
}
