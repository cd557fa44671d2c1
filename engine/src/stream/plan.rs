//! Which stages can stream, and what they are made into. Everything here happens once, when a filter is compiled.

use crate::json::{self, JsonText};
use crate::program::{Branch, Exclude, Field, Guard, Index, Name, Patch, Plan, Retain, Root, Segment, Trie};
use crate::{Enforcement, Limits};

use super::automaton::Automaton;
use super::emit;
use super::payload::{Output, Payload, Select};
use super::prune::Rules;
use super::select::Paths;
use super::strip::{Edit, Strip};

/// One branch whose stages can all stream.
#[derive(Debug)]
pub(super) struct Stages {
    /// Stage 2.
    pub(super) retain: Option<Automaton>,
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
    Detect,
}

impl Stages {
    /// The stages of `branch`; none where one of them needs the tree.
    pub(super) fn new(branch: &Branch, plan: &Plan) -> Option<Self> {
        if branch.passthrough || branch.compact.is_some() {
            return None;
        }
        let retain = match &branch.retain {
            Some(retain) => Some(Automaton::new(&retain.trie)?),
            None => None,
        };
        let patches = if branch.patches.is_empty() { None } else { Some(patches(&branch.patches)?) };
        let route = match &branch.root {
            Root::Unused => None,
            Root::Document => Some(Route::Path(Vec::new())),
            Root::Pointer(pointer) => Some(Route::Path(pointer.segments.clone())),
            Root::List | Root::Detect => Some(Route::Detect),
        };
        let payload = match route {
            Some(route) => Some((route, payload(branch, plan)?)),
            None => None,
        };
        Some(Self { retain, patches, payload })
    }
}

fn payload(branch: &Branch, plan: &Plan) -> Option<Payload> {
    let advisory = plan.enforcement == Enforcement::Advisory;
    let paths = exclude(&branch.exclude)?;
    let select = if branch.select.is_empty() { None } else { Some(select(&branch.select, &paths)) };
    // `dropEmpty` is nulls too.
    let rules = Rules { nulls: branch.drop_nulls || branch.drop_empty, empties: branch.drop_empty };
    Some(Payload {
        max_items: branch.max_items.unwrap_or(usize::MAX),
        select,
        strip: Strip { paths, edits: None, rules },
        siblings: advisory || branch.retain.is_some(),
        others_pass: advisory,
    })
}

fn select(fields: &[Field], exclude: &Automaton) -> Select {
    let start = exclude.state(0);
    let outputs = fields.iter().map(|field| {
        let state = start.member(json::decode_lossy(&field.key).as_bytes());
        let hidden = state.is_some_and(|state| !exclude.state(state).ends.is_empty());
        Output { prefix: format!("{}:", field.key).into_bytes().into(), hidden, state }
    });
    Select { paths: Paths::new(fields), outputs: outputs.collect() }
}

fn exclude(exclude: &Exclude) -> Option<Automaton> {
    let mut trie = exclude.deep.clone();
    for name in &exclude.names {
        // A name is never an index here, whatever it looks like.
        let name = Name { text: name.clone(), index: Index::None };
        trie.names.push((name, Trie { end: Some(0), ..Trie::default() }));
    }
    Automaton::new(&trie)
}

/// The patches as one pass: each only touches a place of its own, and none moves what another names.
fn patches(patches: &[Patch]) -> Option<Strip> {
    let mut trie = Trie::default();
    for (id, patch) in patches.iter().enumerate() {
        let path = path(patch)?;
        let apart = patches[..id].iter().all(|other| self::path(other).is_some_and(|other| apart(other, path)));
        if path.is_empty() || !apart {
            return None;
        }
        let segments: Vec<Segment> = path.iter().cloned().map(Segment::Name).collect();
        trie.insert(&segments, id);
    }
    let paths = Automaton::new(&trie)?;
    let edits = patches.iter().map(|patch| edit(patch, &paths)).collect::<Option<_>>()?;
    Some(Strip { paths, edits: Some(edits), rules: Rules::default() })
}

/// Where a patch that can stream works.
fn path(patch: &Patch) -> Option<&[Name]> {
    match patch {
        Patch::Add { path, .. } | Patch::Remove { path } | Patch::Replace { path, .. } => Some(&path.segments),
        Patch::Move { .. } | Patch::Copy { .. } | Patch::Test { .. } => None,
    }
}

/// Whether neither of two paths leads through the other's end, or through an array in which the other's end is an
/// element: removing that would renumber what comes behind it.
fn apart(a: &[Name], b: &[Name]) -> bool {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let indexed = |path: &[Name]| path.get(common).is_some_and(|name| name.index != Index::None);
    let last = common + 1 == a.len() || common + 1 == b.len();
    common < a.len() && common < b.len() && !(last && indexed(a) && indexed(b))
}

fn edit(patch: &Patch, paths: &Automaton) -> Option<Edit> {
    Some(match patch {
        Patch::Remove { .. } => Edit::Remove,
        Patch::Replace { value, .. } => Edit::Replace(constant(value)),
        Patch::Add { path, value } => {
            let (name, above) = path.segments.split_last()?;
            let parent = above.iter().try_fold(0, |state, name| paths.state(state).member(name.text.as_bytes()))?;
            Edit::Add { key: json::encode(&name.text).into_bytes().into(), value: constant(value), parent }
        }
        Patch::Move { .. } | Patch::Copy { .. } | Patch::Test { .. } => return None,
    })
}

fn constant(value: &JsonText) -> Box<[u8]> {
    let mut out = Vec::new();
    emit::compact(value.as_str().as_bytes(), &mut out);
    out.into()
}
