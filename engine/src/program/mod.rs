//! A compiled filter: what [`crate::compile`] makes and the executors run.

mod glob;
mod memory;
mod pointer;
mod schema;
mod select;
mod trie;

use std::sync::Arc;

use crate::json::JsonText;
use crate::stream::{Fast, Keys};
use crate::template::CompactProgram;
use crate::text::TextProgram;
use crate::{Bytes, Call, Enforcement, Limits};

pub(crate) use glob::Glob;
pub(crate) use pointer::{Index, Name, Pointer, Segment};
pub(crate) use select::{Field, Step};
pub(crate) use trie::Trie;

/// A filter that runs. Cheap to share, immutable, `Send + Sync`.
#[derive(Debug, Clone)]
pub struct Program(pub(crate) Arc<Plan>);

impl Program {
    /// Whether nothing passes but what the filter names, so that a member that the upstream adds later does not: every
    /// branch has `retain` without globs, `select` with nothing beside the payload, or, for text alone, `keep`.
    #[must_use]
    pub fn is_allow_list(&self) -> bool {
        self.0.branches.iter().all(|branch| branch.allow_list)
    }
}

/// What a program is made of.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) enforcement: Enforcement,
    pub(crate) limits: Limits,
    pub(crate) strict_patch: bool,
    /// In order; the first whose guard holds applies. One, unguarded, in the single form.
    pub(crate) branches: Vec<Branch>,
    /// The names in the pointers that branches test.
    pub(crate) guarded: Keys,
    /// The branches, as far as they stream.
    pub(crate) fast: Fast,
    /// Outputs larger than this take the tree, which watches how large they become.
    pub(crate) streams_up_to: usize,
}

impl Plan {
    /// Whether the output goes to the caller as it came, whatever is in it.
    pub(crate) fn is_verbatim(&self, call: &Call<'_>) -> bool {
        let passes = matches!(self.branches.as_slice(), [Branch { guard: Guard::Always, passthrough: true, .. }]);
        (call.raw && self.enforcement == Enforcement::Advisory) || (passes && call.budget.is_none())
    }
}

/// One filter, or one branch of a list. Stages run in the order of the fields.
#[derive(Debug)]
pub(crate) struct Branch {
    /// Stage 1.
    pub(crate) guard: Guard,
    /// Nothing passes but what the filter names, see [`Program::is_allow_list`].
    pub(crate) allow_list: bool,
    /// The output as it is; all other fields are empty.
    pub(crate) passthrough: bool,
    /// Stage 2.
    pub(crate) retain: Option<Retain>,
    /// Stage 3.
    pub(crate) patches: Vec<Patch>,
    /// Stage 4.
    pub(crate) root: Root,
    /// Where no stage needs to know the payload, a budget and `compact` look for the list in what the stages leave.
    pub(crate) detects: bool,
    /// Stage 5; never 0.
    pub(crate) max_items: Option<usize>,
    /// Stage 6; empty is none.
    pub(crate) select: Vec<Field>,
    /// The names in those paths.
    pub(crate) names: Keys,
    /// Two paths of `select` may lead to one place: what it gives can be larger than what it is given.
    pub(crate) select_multiplies: bool,
    /// Stage 7.
    pub(crate) exclude: Exclude,
    /// Stage 8: members whose value is null go.
    pub(crate) drop_nulls: bool,
    /// Stage 8: members whose value is null, `""`, `[]` or `{}` go, from the leaves up.
    pub(crate) drop_empty: bool,
    /// Stage 9, of text output only.
    pub(crate) text: Option<TextProgram>,
    /// Stage 10; a call can lower it.
    pub(crate) budget: Option<Bytes>,
    /// Whether the answer says what is cut.
    pub(crate) notice: bool,
    /// Stage 11.
    pub(crate) compact: Option<CompactProgram>,
}

/// When a branch applies.
#[derive(Debug)]
pub(crate) enum Guard {
    /// Single form.
    Always,
    /// The value at the pointer, in the original output, equals the constant.
    Test(Pointer, JsonText),
    /// Last of a list.
    Otherwise,
}

/// Stage 2.
#[derive(Debug)]
pub(crate) struct Retain {
    /// The paths, merged; `end` holds indices into `paths`.
    pub(crate) trie: Trie,
    /// As they were written; those that resolve nowhere are reported so.
    pub(crate) paths: Vec<Box<str>>,
}

/// One RFC 6902 operation.
#[derive(Debug)]
pub(crate) enum Patch {
    Add { path: Pointer, value: JsonText },
    Remove { path: Pointer },
    Replace { path: Pointer, value: JsonText },
    Move { from: Pointer, path: Pointer },
    Copy { from: Pointer, path: Pointer },
    Test { path: Pointer, value: JsonText },
}

impl Patch {
    /// Bytes that the operation may write of its own.
    pub(crate) fn written(&self) -> usize {
        match self {
            Self::Add { path, value } | Self::Replace { path, value } => path.text.len() + value.as_str().len() + 4,
            Self::Move { path, .. } | Self::Copy { path, .. } => path.text.len() + 4,
            Self::Remove { .. } | Self::Test { .. } => 0,
        }
    }

    /// Whether the document may come to hold a part of itself twice.
    pub(crate) fn copies(&self) -> bool {
        matches!(self, Self::Copy { .. })
    }
}

/// Where the payload is. Siblings of a payload that is not the document stay under `Advisory`, or
/// where `retain` is given; else they go, and the objects and arrays around the payload hold nothing else.
#[derive(Debug)]
pub(crate) enum Root {
    /// No stage of 5 to 8 and no `compact`: none is looked for.
    Unused,
    /// The whole document: declared, or `Enforced` without `root`.
    Document,
    /// `root`, not `""`; unresolved is a failed stage.
    Pointer(Pointer),
    /// `response.type: array`: the document if it is a list, else the detected list; none is a failed stage,
    /// and so is, under `Enforced`, a document that is no list.
    List,
    /// `Advisory`, nothing declared.
    Detect,
}

/// Stage 7.
#[derive(Debug, Default)]
pub(crate) struct Exclude {
    /// What goes, relative to the item; `end` holds the number of the entry. Names are no indices here: in an item that
    /// is a list they are those of its elements.
    pub(crate) trie: Trie,
    /// The entries that name a member of the item, and nothing below it.
    pub(crate) names: Vec<Box<str>>,
    /// By number, as they were written. None for an entry that is never missed: another drops the same, or `select`
    /// gives no such member.
    pub(crate) entries: Vec<Option<Box<str>>>,
}

impl Exclude {
    /// Whether it drops nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.trie.is_empty()
    }

    /// Whether its entries are names of members of the item, and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        let Trie { end, names, any, globs, deep, .. } = &self.trie;
        let leaf = |below: &Trie| below.children().next().is_none();
        let plain = |(name, below): &(Name, Trie)| leaf(below) && name.index == Index::None;
        end.is_none() && any.is_none() && globs.is_empty() && deep.is_none() && names.iter().all(plain)
    }

    /// By number, whether an entry needs no place to be found: the beginning of a search for those that are missed.
    pub(crate) fn unmissable(&self) -> Vec<bool> {
        self.entries.iter().map(Option::is_none).collect()
    }

    /// The entries that were not `found`, as they were written.
    pub(crate) fn missed(&self, found: &[bool]) -> impl Iterator<Item = String> {
        self.entries
            .iter()
            .zip(found)
            .filter(|(_, found)| !**found)
            .filter_map(|(entry, _)| entry.as_deref().map(str::to_owned))
    }
}

impl Root {
    /// The way to the payload where it is named or declared, so that `retain` can leave it there under `Enforced`
    /// also where nothing of it is kept: an error would tell a field that is dropped later from one that is absent.
    pub(crate) fn way(&self) -> Option<&[Name]> {
        match self {
            Self::Pointer(pointer) => Some(&pointer.segments),
            Self::Document | Self::List => Some(&[]),
            Self::Unused | Self::Detect => None,
        }
    }
}

impl Branch {
    /// Whether later stages can empty what `retain` has kept a part of. Under `Enforced` that then goes too, as if
    /// the part had not been there: what is dropped must not be told from what is absent.
    pub(crate) fn settles(&self) -> bool {
        let patched = self.patches.iter().any(|patch| matches!(patch, Patch::Remove { .. } | Patch::Move { .. }));
        self.retain.is_some() && (self.drop_nulls || patched || !self.exclude.is_empty())
    }

    /// Whether there is no stage at all.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { passthrough, text, budget, .. } = self;
        !self.is_structural() && text.is_none() && budget.is_none() && !passthrough
    }

    /// Whether a stage works on JSON, which makes output that is none a failure. A new stage does not compile until it
    /// is said here whether it does.
    pub(crate) fn is_structural(&self) -> bool {
        let Self {
            retain,
            patches,
            // Each stage of a payload names one, and so does `compact`.
            root,
            max_items: _,
            select: _,
            names: _,
            select_multiplies: _,
            exclude: _,
            drop_nulls: _,
            drop_empty: _,
            compact: _,
            // These work on text, on both, or on nothing.
            guard: _,
            allow_list: _,
            passthrough: _,
            detects: _,
            text: _,
            budget: _,
            notice: _,
        } = self;
        retain.is_some() || !patches.is_empty() || !matches!(root, Root::Unused)
    }
}
