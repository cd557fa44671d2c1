//! Sets of paths as a deterministic automaton: one state for one place in a document, however many paths lead through
//! it.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, LazyLock};

use crate::program::{Index, Trie};

use super::keys::Keys;

/// More states than any filter that people write needs; `*` in many places can require exponentially many.
const MAX_STATES: usize = 2000;

/// The paths that may lead through one place. More are left to the tree, which counts them as steps: an output that
/// streams never reaches the bound of a stage, see [`crate::stage_steps`].
const MAX_PLACES: usize = 16;

/// A deterministic automaton over a set of paths. State 0 is the value at which the paths begin.
#[derive(Debug)]
pub(super) struct Automaton {
    states: Arc<[State]>,
}

/// The only state of the automaton without paths, which most programs have for a stage that they lack.
static NO_PATHS: LazyLock<Arc<[State]>> = LazyLock::new(|| Arc::new([State::default()]));

/// What a set of paths says about one place in a document.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The numbers of the paths that end here.
    pub(super) ends: Box<[usize]>,
    /// Whether a path continues below.
    pub(super) inner: bool,
    /// The keys of an object that have a state.
    pub(super) keys: Keys,
    named: Box<[usize]>,
    other: Option<usize>,
    /// The indices of an array that have a state.
    indexed: Box<[(usize, usize)]>,
    each: Option<usize>,
    /// The paths that resolve vacuously in an empty array: they map over its elements.
    pub(super) vacuous: Box<[usize]>,
}

/// A node of the tree of paths, and whether it was reached by mapping over an array: its indices and `*` then do not
/// apply.
type Place<'t> = (&'t Trie, bool);

impl Automaton {
    /// Returns the automaton of the paths in `trie`. `None` if it would be too large, or would have to match
    /// patterns.
    pub(super) fn new(trie: &Trie) -> Option<Self> {
        if trie.is_empty() {
            return Some(Self { states: Arc::clone(&NO_PATHS) });
        }
        if trie.has_globs() {
            return None;
        }
        let mut builder = Builder { states: Vec::new(), known: HashMap::new() };
        builder.state(vec![(trie, false)])?;
        Some(Self { states: builder.states.into() })
    }

    pub(super) fn state(&self, number: usize) -> &State {
        &self.states[number]
    }
}

impl State {
    /// Returns the state of the member `key`.
    #[inline(always)]
    pub(super) fn member(&self, key: &[u8]) -> Option<usize> {
        self.keys.find(key).map(|i| self.named[i]).or(self.other)
    }

    /// Returns whether every element of an array has a state, not single ones.
    pub(super) fn every(&self) -> bool {
        self.each.is_some()
    }

    /// Returns the state of element `index`.
    #[inline(always)]
    pub(super) fn element(&self, index: usize) -> Option<usize> {
        if self.indexed.is_empty() {
            return self.each;
        }
        self.indexed.iter().find(|(i, _)| *i == index).map(|(_, state)| *state).or(self.each)
    }
}

/// Adds the paths of `trie` that continue in every element of an array.
fn vacuous(trie: &Trie, out: &mut Vec<usize>) {
    let names = trie.names.iter().filter(|(name, _)| !matches!(name.index, Index::At(_))).map(|(_, below)| below);
    names.chain(trie.any.as_deref()).for_each(|below| below.ends(&mut |id| out.push(id)));
}

struct Builder {
    states: Vec<State>,
    known: HashMap<Vec<(usize, bool)>, usize>,
}

impl Builder {
    /// Returns the number of the state that stands for all of `places`.
    fn state(&mut self, mut places: Vec<Place<'_>>) -> Option<usize> {
        let id = |place: &Place<'_>| (ptr::from_ref(place.0).addr(), place.1);
        places.sort_by_key(id);
        places.dedup_by_key(|place| id(place));
        let set: Vec<_> = places.iter().map(id).collect();
        if let Some(&state) = self.known.get(&set) {
            return Some(state);
        }
        if self.states.len() >= MAX_STATES || set.len() > MAX_PLACES {
            return None;
        }
        let number = self.states.len();
        self.known.insert(set, number);
        self.states.push(State::default());
        self.states[number] = self.make(&places)?;
        Some(number)
    }

    fn some(&mut self, places: Vec<Place<'_>>) -> Option<Option<usize>> {
        if places.is_empty() { Some(None) } else { self.state(places).map(Some) }
    }

    fn make(&mut self, places: &[Place<'_>]) -> Option<State> {
        let mut names: Vec<&str> = Vec::new();
        let mut indices: Vec<usize> = Vec::new();
        let (mut ends, mut empty) = (Vec::new(), Vec::new());
        let (mut any, mut mapped) = (Vec::new(), Vec::new());
        for &(trie, in_map) in places {
            if !in_map {
                ends.extend(trie.end);
                any.extend(trie.any.as_deref().map(|below| (below, false)));
            }
            if trie.maps() {
                mapped.push((trie, true));
            }
            if trie.maps() || trie.any.is_some() {
                vacuous(trie, &mut empty);
            }
            for (name, _) in &trie.names {
                match name.index {
                    Index::At(index) if !in_map => {
                        indices.push(index);
                        names.push(&name.text);
                    }
                    Index::At(_) => {}
                    _ => names.push(&name.text),
                }
            }
        }
        ends.sort_unstable();
        names.sort_unstable();
        names.dedup();
        indices.sort_unstable();
        indices.dedup();
        let inner = !names.is_empty() || !any.is_empty();

        let other = self.some(any.clone())?;
        let mut named = Vec::with_capacity(names.len());
        for name in &names {
            let mut below = any.clone();
            for (trie, in_map) in places {
                let here = trie.named(name.as_bytes());
                below.extend(
                    here.filter(|(n, _)| !(*in_map && matches!(n.index, Index::At(_)))).map(|(_, t)| (t, false)),
                );
            }
            named.push(self.state(below)?);
        }
        let keys = Keys::new(names);
        let each: Vec<_> = any.iter().copied().chain(mapped).collect();
        let mut indexed = Vec::with_capacity(indices.len());
        for index in indices {
            let mut below = each.clone();
            below.extend(
                places.iter().filter(|(_, in_map)| !in_map).filter_map(|(t, _)| t.at(index)).map(|t| (t, false)),
            );
            indexed.push((index, self.state(below)?));
        }
        Some(State {
            ends: ends.into(),
            inner,
            keys,
            named: named.into(),
            other,
            indexed: indexed.into(),
            each: self.some(each)?,
            vacuous: empty.into(),
        })
    }
}
