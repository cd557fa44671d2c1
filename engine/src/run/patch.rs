//! Stage 3: JSON Patch (RFC 6902) on the tree.

use super::editable::{Context, Editable, Miss, PutError};
use crate::Limits;
use crate::json::Node;
use crate::program::{Name, Patch, Pointer};
use crate::stream::Keys;
use crate::work::Work;

/// How a sequence of operations ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All operations were applied.
    Done,
    /// The `test` at this index failed. The operations before it stay applied.
    TestFailed(usize),
}

/// An operation that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// The index of the operation.
    pub(super) at: usize,
    /// The reason, which describes the shape of the data at most.
    pub(super) reason: String,
}

impl Miss {
    fn reason(self, pointer: &Pointer) -> String {
        match self {
            Self::Absent => format!("`{}` does not exist", pointer.text),
            Self::NameOnArray | Self::NameOnEmptyArray => format!("`{}` goes by a name into a list", pointer.text),
        }
    }
}

/// How operations are applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Whether `remove` of an absent value fails (RFC 6902); otherwise it succeeds.
    pub(super) strict: bool,
    /// Whether `remove` treats an empty array as absent, since a later stage drops it: under `Enforced` the answer
    /// must not distinguish the two.
    pub(super) empty_is_absent: bool,
    /// Whether a member that is set becomes the last one, even if it existed: under `Enforced` its place must not
    /// reveal whether it did.
    pub(super) set_is_last: bool,
    /// The limits on the patched document.
    pub(super) limits: Limits,
}

/// A document under patch operations. Their total cost is linear in the document and their number: each object is
/// indexed once, and nothing moves before the end.
pub(super) struct Patching<'a, 'w> {
    document: Editable<'a, Node<'a>>,
    names: Keys,
    rules: Rules,
    work: &'w Work<'w>,
    /// An upper bound on the nesting of the document.
    depth: usize,
    /// The pointers at which a `remove` found nothing.
    absent: Vec<String>,
    /// The bytes that `copy` has added.
    copied: usize,
}

impl<'a, 'w> Patching<'a, 'w> {
    /// Begins to patch a document with `patches`.
    pub(super) fn new(document: Node<'a>, patches: &[Patch], rules: Rules, work: &'w Work<'w>) -> Self {
        let mut names: Vec<&str> = patches.iter().flat_map(places).flatten().map(|name| &*name.text).collect();
        names.sort_unstable();
        names.dedup();
        let grows = patches.iter().any(|patch| matches!(patch, Patch::Move { .. } | Patch::Copy { .. }));
        let document = Editable::Untouched(document);
        let depth = if grows { document.depth(work) } else { 0 };
        Self { document, names: Keys::new(names), rules, work, depth, absent: Vec::new(), copied: 0 }
    }

    /// Returns the patched document, and the pointers at which a `remove` found nothing.
    pub(super) fn finish(self) -> (Node<'a>, Vec<String>) {
        (self.document.into_node(self.work), self.absent)
    }

    /// Applies operations in order.
    pub(super) fn apply(&mut self, patches: &'a [Patch]) -> Result<Ended, Failed> {
        for (at, patch) in patches.iter().enumerate() {
            let failed = |reason: String| Failed { at, reason };
            if !self.work.spend(1) {
                return Err(failed(String::new()));
            }
            if !self.one(patch).map_err(failed)? {
                return Ok(Ended::TestFailed(at));
            }
        }
        Ok(Ended::Done)
    }

    /// Applies one operation. Returns `false` for a `test` that does not hold.
    fn one(&mut self, patch: &'a Patch) -> Result<bool, String> {
        match patch {
            Patch::Add { path, value } => {
                let value = value.node();
                let depth = value.depth();
                self.add(path, Editable::Untouched(value), depth)?;
            }
            Patch::Remove { path } => match self.remove(path) {
                Ok(_) => {}
                Err(Miss::Absent) if !self.rules.strict => self.absent.push(path.text.to_string()),
                Err(Miss::NameOnEmptyArray) if self.rules.empty_is_absent => self.absent.push(path.text.to_string()),
                Err(miss) => return Err(miss.reason(path)),
            },
            Patch::Replace { path, value } => {
                let value = value.node();
                self.fits(path, value.depth())?;
                *self.find(path)? = Editable::Untouched(value);
            }
            Patch::Move { from, path } if from.segments == path.segments => {
                self.find(from)?;
            }
            Patch::Move { from, path } => {
                let value = self.remove(from).map_err(|miss| miss.reason(from))?;
                let depth = self.depth_of(&value, from, path);
                self.add(path, value, depth)?;
            }
            Patch::Copy { from, path } => {
                let (work, limit, copied) = (self.work, self.rules.limits.max_input_bytes, self.copied);
                let value = self.find(from)?;
                // Each copy can double the document.
                let copied = copied.saturating_add(value.weight(work));
                if copied > limit {
                    return Err("the copies together are larger than an output may be".to_owned());
                }
                let value = Editable::Untouched(value.to_node(work));
                self.copied = copied;
                let depth = self.depth_of(&value, from, path);
                self.add(path, value, depth)?;
            }
            Patch::Test { path, value } => {
                let work = self.work;
                let found = self.document.find(&path.segments, Context { names: &self.names, work });
                return Ok(found.is_ok_and(|found| found.equals(&value.node(), work)));
            }
        }
        Ok(true)
    }

    fn find(&mut self, pointer: &Pointer) -> Result<&mut Editable<'a, Node<'a>>, String> {
        let context = Context { names: &self.names, work: self.work };
        self.document.find(&pointer.segments, context).map_err(|miss| miss.reason(pointer))
    }

    fn remove(&mut self, pointer: &Pointer) -> Result<Editable<'a, Node<'a>>, Miss> {
        let context = Context { names: &self.names, work: self.work };
        match pointer.segments.split_last() {
            None => Ok(std::mem::replace(&mut self.document, Editable::Untouched(Node::NULL))),
            Some((last, parents)) => self.document.find(parents, context)?.take(last, context),
        }
    }

    fn add(&mut self, pointer: &Pointer, value: Editable<'a, Node<'a>>, depth: usize) -> Result<(), String> {
        self.fits(pointer, depth)?;
        let context = Context { names: &self.names, work: self.work };
        let Some((last, parents)) = pointer.segments.split_last() else {
            self.document = value;
            return Ok(());
        };
        let parent = self.document.find(parents, context).map_err(|miss| match miss {
            Miss::Absent => format!("what `{}` is in does not exist", pointer.text),
            Miss::NameOnArray | Miss::NameOnEmptyArray => miss.reason(pointer),
        })?;
        parent.put(last, value, self.rules.set_is_last, context).map_err(|error| match error {
            PutError::Miss(miss) => miss.reason(pointer),
            PutError::BeyondTheEnd => format!("`{}` is beyond the end of the list", pointer.text),
            PutError::Scalar(kind) => format!("what `{}` is in is {kind}", pointer.text),
        })
    }

    /// Returns how deep a value from `from` is nested, or an upper bound if that suffices at `to`.
    fn depth_of(&self, value: &Editable<'_, Node<'_>>, from: &Pointer, to: &Pointer) -> usize {
        let at_most = self.depth.saturating_sub(from.segments.len());
        if to.segments.len() + at_most <= self.deepest() { at_most } else { value.depth(self.work) }
    }

    fn deepest(&self) -> usize {
        self.rules.limits.max_depth.min(crate::json::DEPTH_CEILING)
    }

    /// Checks that the document stays within the depth limit: everything that walks a tree recurses.
    fn fits(&mut self, pointer: &Pointer, depth: usize) -> Result<(), String> {
        let depth = pointer.segments.len() + depth;
        if depth > self.deepest() {
            return Err(format!("at `{}` the document becomes nested too deep", pointer.text));
        }
        self.depth = self.depth.max(depth);
        Ok(())
    }
}

/// Returns whether operation `at` is a `remove` within a place that a later operation removes, and nothing between
/// them reads or writes there.
///
/// Under `Enforced` such an operation must not fail: whether it applies depends on data that is removed.
pub(super) fn is_moot(patches: &[Patch], at: usize) -> bool {
    let Some(Patch::Remove { path }) = patches.get(at) else { return false };
    for later in &patches[at + 1..] {
        match later {
            Patch::Remove { path: outer } if path.segments.starts_with(&outer.segments) => return true,
            other if places(other).any(|place| overlaps(place, &path.segments)) => return false,
            _ => {}
        }
    }
    false
}

fn places(patch: &Patch) -> impl Iterator<Item = &[Name]> {
    let (path, from) = match patch {
        Patch::Add { path, .. } | Patch::Remove { path } | Patch::Replace { path, .. } | Patch::Test { path, .. } => {
            (path, None)
        }
        Patch::Move { from, path } | Patch::Copy { from, path } => (path, Some(from)),
    };
    std::iter::once(path).chain(from).map(|pointer| pointer.segments.as_slice())
}

fn overlaps(a: &[Name], b: &[Name]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}
