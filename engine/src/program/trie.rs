//! The paths of `retain` and of `exclude`, merged.

use super::pointer::{Index, Name, Segment};

/// A set of paths as a tree. At an object a name is a key, and [`Trie::any`] goes for every
/// member. At an array a number is an index, [`Trie::any`] goes for every element, and the other
/// names map: each element is treated as if [`Trie::mapped`] began at it.
///
/// No path that is covered by another is in the tree: what has [`Trie::end`] has no children.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trie {
    /// A path ends here: everything below is meant. The number of the path, in the order of its declaration.
    pub(crate) end: Option<usize>,
    /// By name.
    pub(crate) names: Vec<(Name, Trie)>,
    /// `*`.
    pub(crate) any: Option<Box<Trie>>,
}

impl Trie {
    /// Adds path number `id`. Nothing is added that is covered already, nor is what it covers taken out:
    /// see `compile`, which adds no path that another covers.
    pub(crate) fn insert(&mut self, path: &[Segment], id: usize) {
        match path.split_first() {
            None => {
                self.end.get_or_insert(id);
            }
            Some((Segment::Any, rest)) => self.any.get_or_insert_default().insert(rest, id),
            Some((Segment::Name(name), rest)) => {
                let at = self.names.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                    self.names.push((name.clone(), Self::default()));
                    self.names.len() - 1
                });
                self.names[at].1.insert(rest, id);
            }
        }
    }

    /// Calls `each` with the numbers of all paths in the tree.
    pub(crate) fn ends(&self, each: &mut impl FnMut(usize)) {
        if let Some(id) = self.end {
            each(id);
        }
        for (_, below) in &self.names {
            below.ends(each);
        }
        if let Some(any) = &self.any {
            any.ends(each);
        }
    }

    /// Whether names of this node map over the elements of an array: those that are no index.
    pub(crate) fn maps(&self) -> bool {
        self.names.iter().any(|(name, _)| !matches!(name.index, Index::At(_)))
    }

    /// The part for element `index` of an array, by number.
    pub(crate) fn at(&self, index: usize) -> Option<&Trie> {
        self.names.iter().find(|(name, _)| name.index == Index::At(index)).map(|(_, below)| below)
    }
}
