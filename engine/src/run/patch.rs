//! Stage 3: JSON Patch, RFC 6902, on the tree.

use super::live::{Context, Live, Miss, PutError};
use crate::Limits;
use crate::json::Node;
use crate::program::{Name, Patch, Pointer};
use crate::stream::Keys;
use crate::work::Work;

/// How a sequence of operations ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All were applied.
    Done,
    /// The `test` at this place failed: what came before stays applied.
    TestFailed(usize),
}

/// An operation that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// Its place in the list.
    pub(super) at: usize,
    /// Why, in words that say nothing of the data but its shape.
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
    /// `remove` of what is absent fails (RFC 6902); else it is satisfied.
    pub(super) strict: bool,
    /// An empty array is as good as absent to `remove`, since a later stage drops it: under `Enforced` it must not
    /// be told from what is absent.
    pub(super) empty_is_absent: bool,
    /// A member that is set becomes the last one, also where there was one by its name: under `Enforced` its place
    /// must not tell that.
    pub(super) set_is_last: bool,
    /// How large a document may become.
    pub(super) limits: Limits,
}

/// A document that operations are applied to. What they cost together is linear in the document and their number:
/// each object is looked at once, and nothing is moved before the end.
pub(super) struct Patching<'a, 'w> {
    document: Live<'a>,
    names: Keys,
    rules: Rules,
    work: &'w Work<'w>,
    /// The document is nested no deeper.
    depth: usize,
    /// What a `remove` did not find.
    absent: Vec<String>,
    /// What `copy` has added, in bytes.
    copied: usize,
}

impl<'a, 'w> Patching<'a, 'w> {
    /// Begins with a document that is to be changed by `patches`.
    pub(super) fn new(document: Node<'a>, patches: &[Patch], rules: Rules, work: &'w Work<'w>) -> Self {
        let mut names: Vec<&str> = patches.iter().flat_map(places).flatten().map(|name| &*name.text).collect();
        names.sort_unstable();
        names.dedup();
        let grows = patches.iter().any(|patch| matches!(patch, Patch::Move { .. } | Patch::Copy { .. }));
        let document = Live::Still(document);
        let depth = if grows { document.depth(work) } else { 0 };
        Self { document, names: Keys::new(names), rules, work, depth, absent: Vec::new(), copied: 0 }
    }

    /// The document with what was done to it, and the pointers of which a `remove` found nothing.
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

    /// Applies one operation; `false` is a `test` that does not hold.
    fn one(&mut self, patch: &'a Patch) -> Result<bool, String> {
        match patch {
            Patch::Add { path, value } => {
                let value = value.node();
                let depth = value.depth();
                self.add(path, Live::Still(value), depth)?;
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
                *self.find(path)? = Live::Still(value);
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
                // Copies can double the document each time.
                let copied = copied.saturating_add(value.weight(work));
                if copied > limit {
                    return Err("the copies together are larger than an output may be".to_owned());
                }
                let value = Live::Still(value.to_node(work));
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

    fn find(&mut self, pointer: &Pointer) -> Result<&mut Live<'a>, String> {
        let context = Context { names: &self.names, work: self.work };
        self.document.find(&pointer.segments, context).map_err(|miss| miss.reason(pointer))
    }

    fn remove(&mut self, pointer: &Pointer) -> Result<Live<'a>, Miss> {
        let context = Context { names: &self.names, work: self.work };
        match pointer.segments.split_last() {
            None => Ok(std::mem::replace(&mut self.document, Live::Still(Node::NULL))),
            Some((last, parents)) => self.document.find(parents, context)?.take(last, context),
        }
    }

    fn add(&mut self, pointer: &Pointer, value: Live<'a>, depth: usize) -> Result<(), String> {
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

    /// How deep a value that was at `from` is nested, or more where that makes no difference at `to`.
    fn depth_of(&self, value: &Live<'_>, from: &Pointer, to: &Pointer) -> usize {
        let at_most = self.depth.saturating_sub(from.segments.len());
        if to.segments.len() + at_most <= self.deepest() { at_most } else { value.depth(self.work) }
    }

    fn deepest(&self) -> usize {
        self.rules.limits.max_depth.min(crate::json::DEPTH_CEILING)
    }

    /// Everything that walks a tree recurses: it must not grow deeper than what is parsed.
    fn fits(&mut self, pointer: &Pointer, depth: usize) -> Result<(), String> {
        let depth = pointer.segments.len() + depth;
        if depth > self.deepest() {
            return Err(format!("at `{}` the document becomes nested too deep", pointer.text));
        }
        self.depth = self.depth.max(depth);
        Ok(())
    }
}

/// Whether operation `at` is about a place within one that a later operation removes, and nothing
/// between them reads or writes there.
///
/// Under `Enforced` such an operation must not fail: whether it can apply depends on what is removed.
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
