//! Compiles the stages that can stream. Everything here happens once, when a filter is compiled.

use crate::program::{Branch, Field, Name, Root};
use crate::{Enforcement, Limits};

use super::automaton::Automaton;
use super::edit::Edits;
use super::narrow::Narrow;
use super::payload::{Output, Payload, Select};
use super::prune::Rules;
use super::select::Paths;
use super::strip::Strip;

/// The stages of a branch that can stream in full.
#[derive(Debug)]
pub(super) struct Stages {
    /// Stage 2.
    pub(super) retain: Option<Narrow>,
    /// Stage 3.
    pub(super) patches: Option<Box<Edits>>,
    /// Stages 4 to 8.
    pub(super) payload: Option<(Route, Payload)>,
}

/// How the payload is found.
#[derive(Debug)]
pub(super) enum Route {
    /// The payload is the document, or at this path.
    Path(Vec<Name>),
    /// The payload is the document if that is a list; otherwise it is detected.
    Detect {
        /// Whether the document may be the payload although it contains a list.
        scored: bool,
    },
}

impl Stages {
    /// Returns the stages of `branch`; `None` if one of them needs the tree.
    pub(super) fn new(branch: &Branch, enforcement: Enforcement, limits: Limits, strict: bool) -> Option<Self> {
        // A new stage does not compile until it is listed here: a stage that the fast path forgets would be missing
        // from the output.
        let Branch {
            // Evaluated before a branch runs.
            guard: _,
            // Describes the stages, and is not one itself.
            allow_list: _,
            passthrough,
            retain,
            patches: operations,
            root,
            // How a document is shown is decided after all that streams, in `run::finish`.
            detects_list: _,
            output: _,
            compact: _,
            // See `payload`.
            max_items: _,
            select: fields,
            select_names: _,
            select_multiplies: _,
            exclude: _,
            drop_nulls: _,
            drop_empty: _,
            text,
        } = branch;
        // An output for which only `text` is declared must not be treated as JSON.
        if *passthrough || (text.is_some() && !branch.is_structural()) {
            return None;
        }
        // What `retain` has kept may be removed again. For operations alone, see `Edits`.
        if enforcement == Enforcement::Enforced && branch.cascades() && operations.is_empty() {
            return None;
        }
        let retain = match retain {
            Some(retain) => {
                let enforced = enforcement == Enforcement::Enforced;
                Some(Narrow {
                    paths: Automaton::new(&retain.trie)?,
                    way: root.way().filter(|_| enforced).map(<[Name]>::to_vec),
                    selects: enforced && !fields.is_empty(),
                    scalars: false,
                })
            }
            None => None,
        };
        let patches =
            if operations.is_empty() { None } else { Some(Box::new(Edits::new(branch, enforcement, limits, strict)?)) };
        let route = match root {
            Root::Unused => None,
            Root::Document => Some(Route::Path(Vec::new())),
            Root::Pointer(pointer) => Some(Route::Path(pointer.segments.clone())),
            // Under `Enforced` a document that is not a list fails the stage, which descending finds.
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
        detects_list: _,
        max_items,
        select: fields,
        // Only the tree looks keys up by hash.
        select_names: _,
        select_multiplies,
        exclude,
        drop_nulls,
        drop_empty,
        text: _,
        output: _,
        compact: _,
    } = branch;
    // The result of `select` may be much larger than the output, and each path takes a step in all of it.
    if *select_multiplies && !exclude.is_plain() {
        return None;
    }
    let advisory = enforcement == Enforcement::Advisory;
    let paths = Automaton::new(&exclude.trie)?;
    let select = if fields.is_empty() { None } else { Some(select(fields, &paths)?) };
    // `dropEmpty` includes nulls.
    let rules = Rules { nulls: *drop_nulls || *drop_empty, empties: *drop_empty };
    Some(Payload {
        max_items: max_items.unwrap_or(usize::MAX),
        select,
        strip: Strip { paths, rules },
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
        Output { prefix: format!(",{}:", field.key).into_bytes().into(), hidden, state }
    });
    Some(Select { paths: Paths::new(fields)?, outputs: outputs.collect() })
}
