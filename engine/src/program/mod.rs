//! A compiled filter: [`crate::compile`] makes it, and the executors `run` and `stream` run it.

mod declared;
mod forms;
mod glob;
mod memory;
mod output;
mod pointer;
mod reads;
mod schema;
mod select;
mod trie;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::json::JsonText;
use crate::stream::{Fast, Keys};
use crate::template::CompactProgram;
use crate::text::TextProgram;
use crate::{Call, Enforcement, Limits, ReservedInputs};

pub use forms::{ItemForm, ItemForms};
pub(crate) use glob::Glob;
pub(crate) use output::{OutputProgram, StructuredMode};
pub(crate) use pointer::{Index, Name, Pointer, Segment};
pub use reads::{Parts as ReadParts, Reads};
pub(crate) use select::{Field, Step};
pub(crate) use trie::Trie;

/// A compiled filter. Immutable, cheap to clone, `Send + Sync`.
#[derive(Debug, Clone)]
pub struct Program(pub(crate) Arc<Plan>);

impl Program {
    /// Returns whether only what the filter names passes, so that a member that the upstream adds later does not.
    /// Every branch then has `retain` without globs, or `select` with no siblings of the payload, or, if it works on
    /// text alone, `keep`.
    #[must_use]
    pub fn is_allow_list(&self) -> bool {
        self.0.branches.iter().all(|branch| branch.allow_list)
    }

    /// Returns the reserved inputs that the filter adds to the tool (`output.inputs`).
    #[must_use]
    pub fn inputs(&self) -> ReservedInputs {
        self.0.branches.iter().fold(ReservedInputs::default(), |inputs, branch| inputs.union(branch.output.inputs))
    }

    /// Returns whether a branch of the filter counts tokens: it has a limit in tokens, or several formats to choose from.
    #[must_use]
    pub fn counts_tokens(&self) -> bool {
        let counts = |output: &OutputProgram| output.budget.tokens.is_some() || output.formats.len() > 1;
        self.0.branches.iter().any(|branch| counts(&branch.output))
    }

    /// Returns whether a branch of the filter has a budget.
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.0.branches.iter().any(|branch| !branch.output.budget.is_none())
    }
}

/// The content of a program.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) enforcement: Enforcement,
    pub(crate) limits: Limits,
    pub(crate) strict_patch: bool,
    /// The branches in order; the first whose guard holds applies. The single form is one branch without a guard.
    pub(crate) branches: Box<[Branch]>,
    /// The names in the pointers that branches test.
    pub(crate) tested_names: Keys,
    /// The branches, as far as they can stream.
    pub(crate) fast: Fast,
    /// Outputs larger than this take the tree, which limits how much they grow.
    pub(crate) max_streamed_bytes: usize,
    /// How outputs are written that pass unfiltered.
    pub(crate) unfiltered: Arc<OutputProgram>,
    /// Whether the tool advertises `_format`, so that any answer may be something else than JSON.
    pub(crate) format_input: bool,
    /// Whether the tool advertises an output schema.
    pub(crate) has_schema: bool,
}

impl Plan {
    /// Returns whether the output passes unchanged, whatever it contains.
    pub(crate) fn is_verbatim(&self, call: &Call<'_>) -> bool {
        let passes = matches!(&*self.branches, [Branch { guard: Guard::Always, passthrough: true, .. }]);
        let is_raw = call.raw && self.enforcement == Enforcement::Advisory;
        (is_raw || passes) && !call.shapes()
    }
}

/// One filter, or one branch of a list. Stages run in the order of the fields. Most filters have few stages, so the rare
/// and large ones are boxed.
#[derive(Debug)]
pub(crate) struct Branch {
    /// Stage 1.
    pub(crate) guard: Guard,
    /// Whether only what the filter names passes, see [`Program::is_allow_list`].
    pub(crate) allow_list: bool,
    /// Whether the output passes as it is; all other fields are then empty.
    pub(crate) passthrough: bool,
    /// Stage 2.
    pub(crate) retain: Option<Box<Retain>>,
    /// Stage 3.
    pub(crate) patches: Vec<Patch>,
    /// Stage 4.
    pub(crate) root: Root,
    /// Whether a budget and `compact` detect the list in the filtered document, since no stage needs the payload.
    pub(crate) detects_list: bool,
    /// Stage 5; never 0.
    pub(crate) max_items: Option<usize>,
    /// Stage 6; empty if there is no `select`.
    pub(crate) select: Box<[Field]>,
    pub(crate) select_names: SelectNames,
    /// Whether two paths of `select` may lead to the same place, so that its result can be larger than its input.
    pub(crate) select_multiplies: bool,
    /// Stage 7. Programs without one share [`Exclude::none`].
    pub(crate) exclude: Arc<Exclude>,
    /// Stage 8: drop members whose value is null.
    pub(crate) drop_nulls: bool,
    /// Stage 8: drop members whose value is null, `""`, `[]` or `{}`, from the leaves up.
    pub(crate) drop_empty: bool,
    /// Stage 9, for text output only.
    pub(crate) text: Option<Box<TextProgram>>,
    /// Stages 10 and 11. Programs without `output` share one for each kind of tool.
    pub(crate) output: Arc<OutputProgram>,
    /// Stage 11.
    pub(crate) compact: Option<Box<CompactProgram>>,
}

/// The names in the paths of `select`. Only the tree executor looks them up, so they are collected on first use.
#[derive(Debug, Default)]
pub(crate) struct SelectNames(OnceLock<Box<Keys>>);

/// When a branch applies.
#[derive(Debug)]
pub(crate) enum Guard {
    /// Always: the single form.
    Always,
    /// When the value at the pointer, in the original output, equals the constant.
    Test(Box<Pointer>, JsonText),
    /// When no branch before it applies: the last of a list.
    Otherwise,
}

/// Stage 2.
#[derive(Debug)]
pub(crate) struct Retain {
    /// The merged paths; `end` holds indices into `paths`.
    pub(crate) trie: Trie,
    /// The paths as written, for the report of those that resolve nowhere.
    pub(crate) paths: Box<[Box<str>]>,
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
    /// Returns the bytes that the operation may add to the document.
    pub(crate) fn bytes_written(&self) -> usize {
        match self {
            Self::Add { path, value } | Self::Replace { path, value } => path.text.len() + value.as_str().len() + 4,
            Self::Move { path, .. } | Self::Copy { path, .. } => path.text.len() + 4,
            Self::Remove { .. } | Self::Test { .. } => 0,
        }
    }

    /// Returns whether the operation may duplicate a part of the document.
    pub(crate) fn copies(&self) -> bool {
        matches!(self, Self::Copy { .. })
    }
}

/// The location of the payload. Siblings of a payload that is not the document stay under `Advisory`, or where there
/// is a `retain`. Otherwise they go, and the objects and arrays around the payload hold nothing else.
#[derive(Debug)]
pub(crate) enum Root {
    /// No payload is needed: there is no stage of 5 to 8 and no `compact`.
    Unused,
    /// The whole document: declared, or `Enforced` without `root`.
    Document,
    /// `root`, unless it is `""`. If it does not resolve, the stage fails.
    Pointer(Box<Pointer>),
    /// `response.type: array`: the document if it is a list, else the detected list. The stage fails if there is no
    /// list and, under `Enforced`, if the document is not a list.
    List,
    /// `Advisory` without a declaration: the payload is detected.
    Detect,
}

/// Stage 7.
#[derive(Debug, Default)]
pub(crate) struct Exclude {
    /// What goes, relative to the item; `end` holds the index of the entry. Names are never indices here: in an item
    /// that is a list they are names of members of its elements.
    pub(crate) trie: Trie,
    /// The entries that name a member of the item, and nothing below it.
    pub(crate) names: Box<[Box<str>]>,
    /// The entries as written, by index. `None` for an entry that is never reported as missed: another entry drops
    /// the same, or `select` gives no such member.
    pub(crate) entries: Box<[Option<Box<str>>]>,
}

impl Exclude {
    /// Returns the stage that drops nothing.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Exclude>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Returns whether it drops nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.trie.is_empty()
    }

    /// Returns whether its entries are only names of members of the item.
    pub(crate) fn is_plain(&self) -> bool {
        let Trie { end, names, any, globs, deep, .. } = &self.trie;
        let leaf = |below: &Trie| below.children().next().is_none();
        let plain = |(name, below): &(Name, Trie)| leaf(below) && name.index == Index::None;
        end.is_none() && any.is_none() && globs.is_empty() && deep.is_none() && names.iter().all(plain)
    }

    /// Returns, by index, whether an entry is never missed: the initial state of a search for the missed ones.
    pub(crate) fn unmissable(&self) -> Vec<bool> {
        self.entries.iter().map(Option::is_none).collect()
    }

    /// Returns the entries that were not `found`, as written.
    pub(crate) fn missed(&self, is_found: impl Fn(usize) -> bool) -> impl Iterator<Item = String> {
        let entries = self.entries.iter().enumerate().filter(move |(number, _)| !is_found(*number));
        entries.filter_map(|(_, entry)| entry.as_deref().map(str::to_owned))
    }
}

impl Root {
    /// Returns the path to the payload if the payload is named or declared. Under `Enforced`, `retain` keeps a value
    /// on this path even if it keeps nothing in it: an error would distinguish a field that is dropped later from one
    /// that is absent.
    pub(crate) fn way(&self) -> Option<&[Name]> {
        match self {
            Self::Pointer(pointer) => Some(&pointer.segments),
            Self::Document | Self::List => Some(&[]),
            Self::Unused | Self::Detect => None,
        }
    }
}

impl Branch {
    /// Returns the names in the paths of `select`.
    pub(crate) fn names(&self) -> &Keys {
        self.select_names.0.get_or_init(|| {
            let steps = self.select.iter().flat_map(|field| &field.path);
            let names: BTreeSet<&str> =
                steps.filter_map(|step| if let Step::Name(name) = step { Some(&**name) } else { None }).collect();
            Box::new(Keys::new(names))
        })
    }

    /// Returns whether later stages can empty a value that `retain` kept for a part of it. Under `Enforced` the
    /// emptied value then goes too, as if the part had been absent: the answer must not distinguish a dropped part
    /// from an absent one.
    pub(crate) fn cascades(&self) -> bool {
        let patched = self.patches.iter().any(|patch| matches!(patch, Patch::Remove { .. } | Patch::Move { .. }));
        self.retain.is_some() && (self.drop_nulls || patched || !self.exclude.is_empty())
    }

    /// Returns whether there is no stage at all.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { passthrough, text, output, .. } = self;
        !self.is_structural() && text.is_none() && output.is_none() && !passthrough
    }

    /// Returns whether a stage works on JSON, so that output that is not JSON is a failure. A new stage does not
    /// compile until it is listed here.
    pub(crate) fn is_structural(&self) -> bool {
        let Self {
            retain,
            patches,
            // Each stage of a payload sets a root, and so does `compact`.
            root,
            max_items: _,
            select: _,
            select_names: _,
            select_multiplies: _,
            exclude: _,
            drop_nulls: _,
            drop_empty: _,
            compact: _,
            // These work on text, on both, or on nothing.
            guard: _,
            allow_list: _,
            passthrough: _,
            detects_list: _,
            text: _,
            output: _,
        } = self;
        retain.is_some() || !patches.is_empty() || !matches!(root, Root::Unused)
    }
}
