//! The fast path: one validating pass over the bytes, which skips what is not wanted and writes the output as it goes.
//!
//! [`Fast::new`] decides once, when a filter is compiled, which branches can run so; [`Fast::run`] does. It gives
//! way ([`Stop`]) wherever a document is out of the ordinary: it is not JSON, a wanted key occurs twice, a key is
//! written with escapes, a stage fails. The path on a tree then does the work, so the result never depends on what
//! is handled here, only the time does.
//!
//! `retain`, `patches` and the stages on the payload are a pass each, over what the one before has written; where
//! the payload has to be detected, or branches to be chosen, one more pass reads first. Memory is that of the
//! output, of the intermediate results, and of one item's spans.

mod automaton;
mod choose;
mod distinct;
mod emit;
mod keys;
mod narrow;
mod payload;
mod plan;
mod prune;
mod run;
mod scan;
mod select;
mod simd;
mod strip;
#[cfg(test)]
mod tests;
mod without;

use crate::json::{DEPTH_CEILING, values_allowed};
use crate::program::{Branch, Name};
use crate::work::{Work, stage_steps};
use crate::{Enforcement, Limits};

pub(crate) use keys::Keys;
use payload::Facts;
use plan::{Route, Stages};
use prune::Rules;
use run::Run;
pub(crate) use scan::Stop;
use select::Paths;
pub(crate) use simd::stop32;
use strip::Edit;
pub(crate) use without::without;

/// The branches of a filter, as far as they stream.
#[derive(Debug)]
pub(crate) struct Fast {
    /// The pointers that branches test, one a branch that has a test.
    tests: Option<Paths>,
    /// As the branches of the plan.
    branches: Vec<Option<Stages>>,
    depth: usize,
}

/// What the fast path made of one output.
#[derive(Debug)]
pub(crate) struct Outcome<'b> {
    /// The branch that applied.
    pub(crate) branch: &'b Branch,
    /// The document after stage 8, compact.
    pub(crate) json: Vec<u8>,
    /// The size of the output as it came, without insignificant whitespace.
    pub(crate) compact_bytes: usize,
    /// Pointers of `retain` and of `remove` that led nowhere.
    pub(crate) unresolved: Vec<String>,
    /// Paths of `select` that no item had.
    pub(crate) partial_miss: Vec<String>,
    /// The list's length, where it was made shorter.
    pub(crate) truncated_from: Option<usize>,
    /// Where the payload is, if one was looked for.
    pub(crate) payload: Option<Payload>,
}

/// Where the payload is in [`Outcome::json`].
#[derive(Debug)]
pub(crate) struct Payload {
    /// The way to it, as in the document that came.
    pub(crate) path: Vec<Name>,
    /// Whether what was beside that way has gone.
    pub(crate) alone: bool,
    /// Of a list, its length before `maxItems`.
    pub(crate) total: Option<usize>,
}

impl Fast {
    /// What of `branches` can stream.
    pub(crate) fn new(branches: &[Branch], enforcement: Enforcement, limits: Limits, strict_patch: bool) -> Self {
        Self {
            tests: choose::tests(branches),
            branches: branches.iter().map(|branch| Stages::new(branch, enforcement, limits, strict_patch)).collect(),
            depth: limits.max_depth.min(DEPTH_CEILING),
        }
    }

    /// Runs the branch that applies over one output. `branches` is what [`Fast::new`] was given.
    ///
    /// # Errors
    /// [`Stop`] where the other path has to do it.
    pub(crate) fn run<'b>(&self, branches: &'b [Branch], bytes: &[u8], work: &Work<'_>) -> Result<Outcome<'b>, Stop> {
        let chosen = choose::branch(self.tests.as_ref(), branches, bytes, self.depth, work)?;
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
        }
        .run(bytes)
    }
}

/// The size of a document without insignificant whitespace; `None` where it is none, or nested too deep.
pub(crate) fn compact_len(bytes: &[u8], depth: usize, work: &Work<'_>) -> Option<usize> {
    let mut unused = Vec::new();
    let mut run = Run::new(bytes, &mut unused, 0, work);
    run.document(|run, pos| run.skip(pos, depth.min(DEPTH_CEILING))).ok()?;
    Some(bytes.len() - run.tally.blanks)
}

/// One application of one branch.
struct Pass<'b, 's, 'w> {
    branch: &'b Branch,
    stages: &'s Stages,
    depth: usize,
    work: &'w Work<'w>,
    /// Steps that a stage may take.
    bound: usize,
    /// Whitespace of the output as it came, once it has been read.
    blanks: Option<usize>,
    unresolved: Vec<String>,
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
                facts = Facts::new(stages);
                let exclude = &self.branch.exclude;
                let (json, mut met) =
                    self.pass(input, stages.capacity(input.len()), exclude.entries.len(), |run, pos, room| {
                        let end = stages.descend(run, &path, pos, room, &mut facts)?;
                        facts.settle(&mut run.slots);
                        Ok(end)
                    })?;
                if !stages.succeeded(&facts) {
                    return Err(Stop::Bail);
                }
                met.iter_mut().zip(exclude.unmissable()).for_each(|(met, unmissable)| *met |= unmissable);
                if met.contains(&false) && facts.total != Some(0) {
                    // Whether `select` has dropped it is seen in what was not written.
                    if stages.select.is_some() {
                        return Err(Stop::Bail);
                    }
                    self.unresolved.extend(exclude.missed(&met));
                }
                payload = Some(Payload { path, alone: !stages.siblings, total: facts.total });
                json
            }
            None => match patched.or(kept) {
                Some(done) => done,
                None => self.pass(bytes, bytes.len(), 0, |run, pos, room| run.copy(Rules::default(), pos, room))?.0,
            },
        };
        let missed = self.branch.select.iter().enumerate().filter(|(i, _)| facts.misses(*i));
        Ok(Outcome {
            branch: self.branch,
            json,
            compact_bytes: bytes.len() - self.blanks.unwrap_or(0),
            unresolved: self.unresolved,
            partial_miss: missed.map(|(_, field)| field.source.to_string()).collect(),
            truncated_from: facts.truncated_from,
            payload,
        })
    }

    /// One pass over `input`: what `walk` writes, about `capacity` bytes, and which of `paths` it met.
    fn pass(
        &mut self,
        input: &[u8],
        capacity: usize,
        paths: usize,
        walk: impl FnOnce(&mut Run<'_>, usize, usize) -> scan::Scan,
    ) -> Result<(Vec<u8>, Vec<bool>), Stop> {
        let mut out = Vec::with_capacity(capacity);
        let mut run = Run::new(input, &mut out, paths, self.work);
        let depth = self.depth;
        run.document(|run, pos| walk(run, pos, depth))?;
        // Whatever is written is compact, so only the first pass meets any whitespace.
        if self.blanks.is_none() {
            if run.tally.values > values_allowed(input.len()) {
                // The parser says so too.
                return Err(Stop::Bail);
            }
            self.blanks = Some(run.tally.blanks);
        }
        if run.slots.steps > self.bound {
            // The tree says so too.
            return Err(Stop::Bail);
        }
        let hits = std::mem::take(&mut run.hits);
        Ok((out, hits))
    }

    fn retain(&mut self, input: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let (Some(narrow), Some(retain)) = (&self.stages.retain, &self.branch.retain) else { return Ok(None) };
        let (out, met) = self.pass(input, 0, retain.paths.len(), |run, pos, room| narrow.document(run, pos, room))?;
        let mut missed = vec![false; retain.paths.len()];
        retain.trie.ends(&mut |id| missed[id] = !met[id]);
        let missed = retain.paths.iter().zip(missed).filter(|(_, missed)| *missed);
        self.unresolved.extend(missed.map(|(path, _)| path.to_string()));
        Ok(Some(out))
    }

    fn patch(&mut self, input: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let Some(strip) = &self.stages.patches else { return Ok(None) };
        let edits = strip.edits.as_deref().unwrap_or_default();
        let (out, met) =
            self.pass(input, input.len(), edits.len(), |run, pos, room| strip.value(run, Some(0), pos, room, 0))?;
        for ((edit, patch), _) in edits.iter().zip(&self.branch.patches).zip(met).filter(|(_, met)| !met) {
            match (edit, plan::pointer(patch)) {
                (Edit::Remove { must: false }, Some(pointer)) => self.unresolved.push(pointer.text.to_string()),
                _ => return Err(Stop::Bail),
            }
        }
        Ok(Some(out))
    }
}
