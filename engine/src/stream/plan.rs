//! Which stages can stream, and what they are made into. Everything here happens once, when a filter is compiled.

use crate::json::{self, DEPTH_CEILING, JsonText};
use crate::program::{Branch, Field, Index, Name, Patch, Pointer, Root, Segment, Trie};
use crate::{Enforcement, Limits};

use super::automaton::Automaton;
use super::emit;
use super::narrow::Narrow;
use super::payload::{Output, Payload, Select};
use super::prune::Rules;
use super::select::Paths;
use super::strip::{Edit, Strip};

/// One branch whose stages can all stream.
#[derive(Debug)]
pub(super) struct Stages {
    /// Stage 2.
    pub(super) retain: Option<Narrow>,
    /// Stage 3.
    pub(super) patches: Option<Strip>,
    /// Stages 4 to 8.
    pub(super) payload: Option<(Route, Payload)>,
}

/// How the payload is found.
#[derive(Debug)]
pub(super) enum Route {
    /// It is the document, or where the path leads.
    Path(Vec<Name>),
    /// It is the document if that is a list, else it is looked for.
    Detect {
        /// The document may be the payload though it has a list.
        scored: bool,
    },
}

impl Stages {
    /// The stages of `branch`; none where one of them needs the tree.
    pub(super) fn new(branch: &Branch, enforcement: Enforcement, limits: Limits, strict: bool) -> Option<Self> {
        // A new stage does not compile until it is said here what becomes of it: one that this path forgets would be
        // left out of the output.
        let Branch {
            // Looked at before a branch is run.
            guard: _,
            // Says something of the stages, and is none.
            allow_list: _,
            passthrough,
            retain,
            patches: operations,
            root,
            // The form in which a document is shown comes after all that streams: `run::finish`.
            detects: _,
            budget: _,
            notice: _,
            compact: _,
            // See `payload`.
            max_items: _,
            select: fields,
            names: _,
            select_multiplies: _,
            exclude: _,
            drop_nulls: _,
            drop_empty: _,
            text,
        } = branch;
        // What has only `text` may not be taken for JSON.
        if *passthrough || (text.is_some() && !branch.is_structural()) {
            return None;
        }
        // What `retain` has kept may go again.
        if enforcement == Enforcement::Enforced && branch.settles() {
            return None;
        }
        let retain = match retain {
            Some(retain) => {
                let enforced = enforcement == Enforcement::Enforced;
                Some(Narrow {
                    paths: Automaton::new(&retain.trie)?,
                    way: root.way().filter(|_| enforced).map(<[Name]>::to_vec),
                    selects: enforced && !fields.is_empty(),
                })
            }
            None => None,
        };
        let patches =
            if operations.is_empty() { None } else { Some(patches(operations, limits, strict, enforcement)?) };
        let route = match root {
            Root::Unused => None,
            Root::Document => Some(Route::Path(Vec::new())),
            Root::Pointer(pointer) => Some(Route::Path(pointer.segments.clone())),
            // Under `Enforced` a document that is no list is a failed stage, which descending finds.
            Root::List if enforcement == Enforcement::Enforced => Some(Route::Path(Vec::new())),
            Root::List => Some(Route::Detect { scored: false }),
            Root::Detect => Some(Route::Detect { scored: true }),
        };
        let payload = match route {
            Some(route) => Some((route, payload(branch, enforcement)?)),
            None => None,
        };
        Some(Self { retain, patches, payload })
    }
}

fn payload(branch: &Branch, enforcement: Enforcement) -> Option<Payload> {
    let Branch {
        // See `Stages::new`.
        guard: _,
        allow_list: _,
        passthrough: _,
        retain,
        patches: _,
        root,
        detects: _,
        max_items,
        select: fields,
        // Of the tree: keys that are looked up by their hash.
        names: _,
        select_multiplies,
        exclude,
        drop_nulls,
        drop_empty,
        text: _,
        budget: _,
        notice: _,
        compact: _,
    } = branch;
    // What `select` gives may be much larger than the output, and each path a step in all of it.
    if *select_multiplies && !exclude.is_plain() {
        return None;
    }
    let advisory = enforcement == Enforcement::Advisory;
    let paths = Automaton::new(&exclude.trie)?;
    let select = if fields.is_empty() { None } else { Some(select(fields, &paths)?) };
    // `dropEmpty` is nulls too.
    let rules = Rules { nulls: *drop_nulls || *drop_empty, empties: *drop_empty };
    Some(Payload {
        max_items: max_items.unwrap_or(usize::MAX),
        select,
        strip: Strip { paths, edits: None, rules },
        siblings: advisory || retain.is_some(),
        list_only: matches!(root, Root::List),
        lists_stay: retain.is_some(),
        advisory,
    })
}

fn select(fields: &[Field], exclude: &Automaton) -> Option<Select> {
    let start = exclude.state(0);
    let outputs = fields.iter().map(|field| {
        let state = start.member(field.name.as_bytes());
        let hidden = state.is_some_and(|state| !exclude.state(state).ends.is_empty());
        Output { prefix: format!("{}:", field.key).into_bytes().into(), hidden, state }
    });
    Some(Select { paths: Paths::new(fields)?, outputs: outputs.collect() })
}

/// The patches as one pass: each only touches a place of its own, and none moves what another names.
fn patches(patches: &[Patch], limits: Limits, strict: bool, enforcement: Enforcement) -> Option<Strip> {
    let mut trie = Trie::default();
    for (id, patch) in patches.iter().enumerate() {
        let path = path(patch)?;
        let apart = patches[..id].iter().all(|other| self::path(other).is_some_and(|other| apart(other, path)));
        if path.is_empty() || !apart || !fits(patch, path, limits) {
            return None;
        }
        let segments: Vec<Segment> = path.iter().cloned().map(Segment::Name).collect();
        trie.insert(&segments, id);
    }
    let paths = Automaton::new(&trie)?;
    let edits = patches.iter().map(|patch| edit(patch, &paths, strict, enforcement)).collect::<Option<_>>()?;
    Some(Strip { paths, edits: Some(edits), rules: Rules::default() })
}

/// Where a patch that can stream works.
pub(super) fn pointer(patch: &Patch) -> Option<&Pointer> {
    match patch {
        Patch::Add { path, .. } | Patch::Remove { path } | Patch::Replace { path, .. } => Some(path),
        Patch::Move { .. } | Patch::Copy { .. } | Patch::Test { .. } => None,
    }
}

fn path(patch: &Patch) -> Option<&[Name]> {
    pointer(patch).map(|pointer| pointer.segments.as_slice())
}

/// Whether the document cannot become nested too deep by the patch.
fn fits(patch: &Patch, path: &[Name], limits: Limits) -> bool {
    let value = match patch {
        Patch::Add { value, .. } | Patch::Replace { value, .. } => value.node().depth(),
        _ => 0,
    };
    path.len() + value <= limits.max_depth.min(DEPTH_CEILING)
}

/// Whether neither of two paths leads through the other's end, or through an array in which the other's end is an
/// element: removing that would renumber what comes behind it.
fn apart(a: &[Name], b: &[Name]) -> bool {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let indexed = |path: &[Name]| path.get(common).is_some_and(|name| name.index != Index::None);
    let last = common + 1 == a.len() || common + 1 == b.len();
    common < a.len() && common < b.len() && !(last && indexed(a) && indexed(b))
}

fn edit(patch: &Patch, paths: &Automaton, strict: bool, enforcement: Enforcement) -> Option<Edit> {
    Some(match patch {
        Patch::Remove { .. } => Edit::Remove { must: strict },
        Patch::Replace { value, .. } => Edit::Replace(constant(value)),
        Patch::Add { path, value } => {
            let (name, above) = path.segments.split_last()?;
            let parent = above.iter().try_fold(0, |state, name| paths.state(state).member(name.text.as_bytes()))?;
            let key = json::encode(&name.text).into_bytes().into();
            Edit::Add { last: enforcement == Enforcement::Enforced, key, value: constant(value), parent }
        }
        Patch::Move { .. } | Patch::Copy { .. } | Patch::Test { .. } => return None,
    })
}

fn constant(value: &JsonText) -> Box<[u8]> {
    let mut out = Vec::new();
    emit::compact(value.as_str().as_bytes(), &mut out);
    out.into()
}
