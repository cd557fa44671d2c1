//! The fast path: one validating pass over the bytes, which skips the rest and writes the output as it reads.
//!
//! [`Fast::new`] decides once, when a filter is compiled, which branches can run this way; [`Fast::run`] runs them.
//! It gives way ([`Stop`]) wherever a document is out of the ordinary: it is not JSON, a key of interest occurs
//! twice, a key is written with escapes, a stage fails. The tree executor then does the work, so the result never
//! depends on which cases are handled here; only the time does.
//!
//! `retain`, `patches` and the stages on the payload are one pass each, over the output of the pass before. Where the
//! payload has to be detected, or a branch to be chosen, a further pass reads the output first. Memory is that of the
//! output, of the intermediate results, and of the spans of one item.

mod automaton;
mod choose;
mod distinct;
mod edit;
mod emit;
mod item;
mod keys;
mod marks;
mod narrow;
mod payload;
mod place;
mod plan;
mod prune;
mod run;
mod scan;
mod select;
mod shapes;
mod simd;
mod spans;
mod spare;
mod strip;
#[cfg(test)]
mod tests;
mod without;

use std::cell::Cell;

use crate::json::{DEPTH_CEILING, values_allowed};
use crate::program::{Branch, Name, Patch};
use crate::run::Editable;
use crate::work::{Work, stage_steps};
use crate::{Enforcement, Limits};

pub(crate) use item::ItemPaths;
pub(crate) use keys::Keys;
use marks::Marks;
use payload::Facts;
pub(crate) use place::{elements, positions, range, value_at};
use plan::{Route, Stages};
use prune::Rules;
use run::Run;
pub(crate) use scan::Stop;
use scan::Tally;
use select::Paths;
pub(crate) use simd::{equal32, mark32, name16, stop32};
use spans::Reader;
pub(crate) use without::without_members;

/// Bytes of the buffer that a thread keeps for outputs. Smaller outputs are copied from it into memory of their own size.
const SMALL: usize = 16 << 10;

thread_local! {
    static OUTPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The branches of a filter, as far as they stream.
#[derive(Debug)]
pub(crate) struct Fast {
    /// The pointers that branches test, one for each branch that has a test.
    tests: Option<Box<Paths>>,
    /// The stages of each branch of the plan; `None` if the branch does not stream.
    branches: Box<[Option<Stages>]>,
    depth: usize,
}

/// The result of the fast path for one output.
#[derive(Debug)]
pub(crate) struct Outcome<'b> {
    /// The branch that applied.
    pub(crate) branch: &'b Branch,
    /// The compact document after stage 8.
    pub(crate) json: Vec<u8>,
    /// The size of the original output without insignificant whitespace.
    pub(crate) compact_bytes: usize,
    /// Pointers of `retain`, `exclude` and `remove` that resolve nowhere.
    pub(crate) unresolved: Vec<String>,
    /// The `test` of `patches` that does not hold, by its position. The operations after it were left out.
    pub(crate) stopped_at: Option<usize>,
    /// Paths of `select` that resolve in no item.
    pub(crate) partial_miss: Vec<String>,
    /// The list's length before `maxItems`, if `maxItems` shortened it.
    pub(crate) truncated_from: Option<usize>,
    /// The place of the payload, if a stage needed it.
    pub(crate) payload: Option<Payload>,
}

/// The place of the payload in [`Outcome::json`].
#[derive(Debug)]
pub(crate) struct Payload {
    /// The path to it in the original document.
    pub(crate) path: Vec<Name>,
    /// Whether everything outside that path has been removed.
    pub(crate) alone: bool,
    /// The length of the list before `maxItems`, if the payload is a list.
    pub(crate) total: Option<usize>,
}

impl Fast {
    /// Prepares those of `branches` that can stream.
    pub(crate) fn new(branches: &[Branch], enforcement: Enforcement, limits: Limits, strict_patch: bool) -> Self {
        Self {
            tests: choose::tests(branches).map(Box::new),
            branches: branches.iter().map(|branch| Stages::new(branch, enforcement, limits, strict_patch)).collect(),
            depth: limits.max_depth.min(DEPTH_CEILING),
        }
    }

    /// Runs the branch that applies over one output. `branches` are those that were given to [`Fast::new`].
    ///
    /// # Errors [`Stop`] if the tree executor has to do the work.
    pub(crate) fn run<'b>(&self, branches: &'b [Branch], bytes: &[u8], work: &Work<'_>) -> Result<Outcome<'b>, Stop> {
        let chosen = choose::branch(self.tests.as_deref(), branches, bytes, self.depth, work)?;
        let (Some(branch), Some(Some(stages))) = (branches.get(chosen), self.branches.get(chosen)) else {
            return Err(Stop::Bail);
        };
        if choose::is_text_form(bytes, self.depth, work)? {
            return Err(Stop::Bail);
        }
        Pass {
            branch,
            stages,
            depth: self.depth,
            work,
            bound: stage_steps(bytes.len()),
            blanks: None,
            unresolved: Vec::new(),
            stopped_at: None,
        }
        .run(bytes)
    }
}

/// Returns the size of a document without insignificant whitespace; `None` if it is not JSON, or nested too deep.
pub(crate) fn compact_len(bytes: &[u8], depth: usize, work: &Work<'_>) -> Option<usize> {
    let mut unused = Vec::new();
    let mut run = Run::new(bytes, &mut unused, work);
    run.document(|run, pos| run.skip(pos, depth.min(DEPTH_CEILING))).ok()?;
    Some(bytes.len() - run.tally.blanks)
}

/// One application of one branch.
struct Pass<'b, 's, 'w> {
    branch: &'b Branch,
    stages: &'s Stages,
    depth: usize,
    work: &'w Work<'w>,
    /// The steps that a stage may take.
    bound: usize,
    /// The whitespace of the original output, once it has been read.
    blanks: Option<usize>,
    unresolved: Vec<String>,
    stopped_at: Option<usize>,
}

impl<'b> Pass<'b, '_, '_> {
    fn run(mut self, bytes: &[u8]) -> Result<Outcome<'b>, Stop> {
        let kept = self.retain(bytes)?;
        let patched = self.patch(kept.as_deref().unwrap_or(bytes))?;
        let input = patched.as_deref().or(kept.as_deref()).unwrap_or(bytes);
        let mut facts = Facts::default();
        let mut payload = None;
        let json = match &self.stages.payload {
            Some((route, stages)) => {
                let path = match route {
                    Route::Path(path) => path.clone(),
                    Route::Detect { scored } => {
                        choose::payload(self.branch, stages, *scored, input, self.depth, self.work)?
                    }
                };
                if path.is_empty() && stages.attaches(input) {
                    return Err(Stop::Bail);
                }
                facts = Facts::default();
                let exclude = &self.branch.exclude;
                let (json, met) = self.pass(input, stages.capacity(input.len()), |run, pos, room| {
                    let end = stages.descend(run, &path, pos, room, &mut facts)?;
                    facts.take_slots(&mut run.slots);
                    Ok(end)
                })?;
                if !stages.succeeded(&facts) {
                    return Err(Stop::Bail);
                }
                let mut missed = exclude.missed(|entry| met.has(entry)).peekable();
                if missed.peek().is_some() && facts.total != Some(0) {
                    // Whether `select` dropped the member does not show in the output.
                    if stages.select.is_some() {
                        return Err(Stop::Bail);
                    }
                    self.unresolved.extend(missed);
                }
                payload = Some(Payload { path, alone: !stages.siblings, total: facts.total });
                json
            }
            None => match patched.or(kept) {
                Some(done) => done,
                None => self.pass(bytes, bytes.len(), |run, pos, room| run.copy(Rules::default(), pos, room))?.0,
            },
        };
        let missed = self.branch.select.iter().enumerate().filter(|(i, _)| facts.misses(*i));
        Ok(Outcome {
            branch: self.branch,
            json,
            compact_bytes: bytes.len() - self.blanks.unwrap_or(0),
            unresolved: self.unresolved,
            stopped_at: self.stopped_at,
            partial_miss: missed.map(|(_, field)| field.source.to_string()).collect(),
            truncated_from: facts.truncated_from,
            payload,
        })
    }

    /// Makes one pass over `input`. Returns what `walk` writes, about `capacity` bytes, and which paths it met.
    fn pass(
        &mut self,
        input: &[u8],
        capacity: usize,
        walk: impl FnOnce(&mut Run<'_>, usize, usize) -> scan::Scan,
    ) -> Result<(Vec<u8>, Marks), Stop> {
        let mut out = if capacity > SMALL { Vec::new() } else { spare::take(&OUTPUT) };
        out.reserve_exact(capacity.max(SMALL));
        let mut run = Run::new(input, &mut out, self.work);
        let depth = self.depth;
        run.document(|run, pos| walk(run, pos, depth))?;
        self.read(&run.tally, input)?;
        if run.slots.steps > self.bound {
            // The tree fails the same way, and reports it.
            return Err(Stop::Bail);
        }
        let hits = std::mem::take(&mut run.hits);
        drop(run);
        if out.capacity() > SMALL {
            return Ok((out, hits));
        }
        let exact = out.as_slice().to_vec();
        spare::keep(&OUTPUT, spare::emptied(&mut out, SMALL));
        Ok((exact, hits))
    }

    /// Takes over what the first pass has counted in the output.
    fn read(&mut self, tally: &Tally<'_>, input: &[u8]) -> Result<(), Stop> {
        // Passes write compact JSON, so only the first pass meets whitespace.
        if self.blanks.is_none() {
            if tally.values > values_allowed(input.len()) {
                // The parser fails the same way, and reports it.
                return Err(Stop::Bail);
            }
            self.blanks = Some(tally.blanks);
        }
        Ok(())
    }

    fn retain(&mut self, input: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let (Some(narrow), Some(retain)) = (&self.stages.retain, &self.branch.retain) else { return Ok(None) };
        let (out, met) = self.pass(input, 0, |run, pos, room| narrow.document(run, pos, room))?;
        let mut missed = Marks::default();
        retain.trie.ends(&mut |id| {
            if !met.has(id) {
                missed.set(id);
            }
        });
        let missed = retain.paths.iter().enumerate().filter(|(id, _)| missed.has(*id));
        self.unresolved.extend(missed.map(|(_, path)| path.to_string()));
        Ok(Some(out))
    }

    fn patch(&mut self, input: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let Some(edits) = &self.stages.patches else { return Ok(None) };
        let mut reader = Reader::new(input, self.work);
        let mut document = Editable::Untouched(reader.document(self.depth, &edits.paths)?);
        let tally = reader.tally;
        self.read(&tally, input)?;
        let edited = edits.apply(&mut document, self.branch, tally.values, self.bound, self.work)?;
        self.unresolved.extend(edited.absent);
        self.stopped_at = edited.stopped_at;
        let written: usize = self.branch.patches.iter().map(Patch::bytes_written).sum();
        let mut out = Vec::with_capacity(input.len() + written);
        spans::write(&document, input, tally.blanks > 0, &mut out);
        Ok(Some(out))
    }
}
