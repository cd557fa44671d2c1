//! Runs stages 2 to 8 on a document, and handles failures according to the enforcement.

use super::{Failure, METADATA, Output, Run, cascade, items, patch, paths, root};
use crate::Stage;
use crate::json::{Node, compact_len_within, last_of_each};
use crate::program::{Branch, Root};
use crate::work::{Work, stage_steps};

/// The place of the payload, and its original number of items.
struct Payload {
    place: root::Place,
    /// The length before `maxItems`, if the payload is a list.
    total: Option<usize>,
}

fn too_many_steps(bound: usize) -> String {
    format!("the stage takes more than {bound} steps on this output, which is the limit for its size")
}

/// Returns the metadata members that a command or an upstream adds to its data. They survive `select`, which concerns
/// the data.
fn metadata<'a>(document: &Node<'a>, work: &Work<'_>) -> Node<'a> {
    let members = last_of_each(document.as_object().unwrap_or_default(), work);
    Node::Object(members.filter(|member| METADATA.iter().any(|name| member.key.is(name))).cloned().collect())
}

impl<'p> Run<'p> {
    /// Runs one branch over a document.
    pub(super) fn document(
        &mut self,
        branch: &'p Branch,
        document: Node<'p>,
        bytes: &'p [u8],
    ) -> Result<Output, Failure> {
        // A new stage does not compile until it is listed here.
        let Branch {
            // These select and describe the branch.
            guard: _,
            allow_list: _,
            passthrough: _,
            retain,
            patches,
            // Runs in `locate`.
            root: _,
            // Runs in `items`.
            max_items: _,
            select,
            select_names: _,
            select_multiplies: _,
            exclude: _,
            drop_nulls: _,
            drop_empty: _,
            // Runs on output that is not a document.
            text: _,
            // Runs in `encode`.
            detects_list: _,
            output: _,
            compact: _,
        } = branch;
        let mut document = document;
        let mut retained = false;
        if retain.is_some() {
            let retain = |run: &mut Self| {
                run.retain(branch, &mut document);
                Ok(())
            };
            retained = self.stage(Stage::Retain, retain)?.is_some();
            if !retained {
                self.report.unresolved.clear();
                document = self.rebuild(branch, bytes, (false, false));
            }
        }
        let mut patched = false;
        if !patches.is_empty() {
            patched = self.stage(Stage::Patches, |run| run.patches(branch, &mut document))?.is_some();
            if !patched {
                document = self.rebuild(branch, bytes, (retained, false));
            }
        }
        let mut succeeded = retained || patched;
        let mut payload = self.stage(Stage::Root, |run| run.locate(branch, &mut document))?.flatten();
        if let Some(found) = &payload {
            let unresolved = self.report.unresolved.len();
            let selected = self.stage(Stage::Select, |run| run.items(branch, &mut document, found))?.is_some();
            if !selected && self.exceeded {
                // The stage may have changed a part of the document.
                (self.report.partial_miss, self.report.items_truncated_from) = (Vec::new(), None);
                self.report.unresolved.truncate(unresolved);
                document = self.rebuild(branch, bytes, (retained, patched));
                payload = self.locate(branch, &mut document).ok().flatten();
            }
            succeeded |= selected;
        }
        if let Some(retain) = retain.as_ref().filter(|_| self.enforced() && branch.cascades()) {
            let place = payload.as_mut().map(|payload| payload.place.as_mut_slice());
            self.work.begin_stage(stage_steps(self.report.original_bytes));
            cascade::document(&mut document, &retain.trie, place, !select.is_empty(), self.work);
            if self.work.end_stage() {
                let reason = too_many_steps(stage_steps(self.report.original_bytes));
                return Err(Failure::new(Stage::Retain, reason));
            }
        }
        self.report.applied = succeeded || (self.report.error.is_none() && !branch.is_empty());
        self.report.result_bytes = compact_len_within(&document, self.work);
        self.encode(branch, document, payload.map(|payload| (payload.place, payload.total)).as_ref())
    }

    /// Parses the document again, and repeats `retain` and `patches` if they succeeded: the state before a failed
    /// stage, which is not kept in memory.
    fn rebuild(&mut self, branch: &'p Branch, bytes: &'p [u8], (retained, patched): (bool, bool)) -> Node<'p> {
        // It parsed before, so it parses again; an interrupted run has no result anyway.
        let mut document = super::document(bytes, self.plan, false, self.work).map_or(Node::NULL, |read| read.node);
        let said = self.report.clone();
        if retained {
            self.retain(branch, &mut document);
        }
        if patched {
            // The operations succeeded once, so they succeed again.
            let _ = self.patches(branch, &mut document);
        }
        self.report = said;
        document
    }

    /// Runs one stage. Under `Advisory` a failure is recorded, and the result is `None`.
    fn stage<T>(
        &mut self,
        stage: Stage,
        body: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let bound = stage_steps(self.report.original_bytes);
        self.work.begin_stage(bound);
        let done = body(self);
        self.exceeded = self.work.end_stage();
        let done = if self.exceeded { Err(too_many_steps(bound)) } else { done };
        match done {
            Ok(value) => Ok(Some(value)),
            Err(reason) if self.enforced() => Err(Failure::new(stage, reason)),
            Err(reason) => {
                self.failed(stage, reason);
                Ok(None)
            }
        }
    }

    fn retain(&mut self, branch: &Branch, document: &mut Node<'p>) {
        let Some(retain) = &branch.retain else { return };
        // A path that another one covers is not in the trie, and is never missed.
        let mut found = vec![true; retain.paths.len()];
        retain.trie.ends(&mut |id| found[id] = false);
        let stays = if self.enforced() {
            paths::Stays { way: branch.root.way(), selects: !branch.select.is_empty(), scalars: false }
        } else {
            paths::Stays::default()
        };
        let whole = std::mem::replace(document, Node::NULL);
        *document = paths::retain(whole, &retain.trie, stays, &mut found, self.work);
        let missed = retain.paths.iter().zip(found).filter(|(_, found)| !found);
        self.report.unresolved.extend(missed.map(|(path, _)| path.to_string()));
    }

    /// Stage 3. If an operation fails the document is lost, see [`Run::rebuild`]. A failing `test` only stops the
    /// sequence.
    fn patches(&mut self, branch: &'p Branch, document: &mut Node<'p>) -> Result<(), String> {
        let strict = self.plan.strict_patch;
        let empty_is_absent = self.enforced() && branch.drop_empty && !strict;
        let limits = self.plan.limits;
        let rules = patch::Rules { strict, empty_is_absent, set_is_last: self.enforced(), limits };
        let mut patches = branch.patches.as_slice();
        let whole = std::mem::replace(document, Node::NULL);
        let mut patching = patch::Patching::new(whole, patches, rules, self.work);
        let result = loop {
            match patching.apply(patches) {
                Err(failed)
                    if self.enforced() && !strict && !self.work.exceeded() && patch::is_moot(patches, failed.at) =>
                {
                    patches = &patches[failed.at + 1..];
                }
                other => break other,
            }
        };
        let offset = branch.patches.len() - patches.len();
        let operation = |at: usize| format!("patches[{}]", offset + at);
        match result {
            Ok(patch::Ended::Done) => {}
            Ok(patch::Ended::TestFailed(at)) if strict || self.enforced() => {
                return Err(format!("{}: the test does not hold", operation(at)));
            }
            Ok(patch::Ended::TestFailed(at)) => self.stopped(offset + at),
            Err(failed) => return Err(format!("{}: {}", operation(failed.at), failed.reason)),
        }
        let (patched, mut absent) = patching.finish();
        *document = patched;
        self.report.unresolved.append(&mut absent);
        Ok(())
    }

    /// Reports that the `test` at position `at` of the operations does not hold.
    pub(super) fn stopped(&mut self, at: usize) {
        let message = format!("patches[{at}]: the test does not hold, so the operations after it were left out");
        self.warn(Stage::Patches, message);
    }

    /// Stage 4. Under `Enforced` everything outside the payload goes, unless `retain` has decided what stays.
    fn locate(&mut self, branch: &Branch, document: &mut Node<'_>) -> Result<Option<Payload>, String> {
        let Some(mut place) = root::locate(document, branch, self.enforced(), self.work)? else { return Ok(None) };
        if self.enforced() && branch.retain.is_none() && matches!(branch.root, Root::Pointer(_)) {
            place = root::isolate(document, &place);
        }
        let total = root::at(document, &place).and_then(|payload| payload.as_array().map(<[_]>::len));
        Ok(Some(Payload { place, total }))
    }

    /// Stages 5 to 8.
    fn items(&mut self, branch: &'p Branch, document: &mut Node<'p>, payload: &Payload) -> Result<(), String> {
        let kept = branch.retain.as_ref().filter(|_| self.enforced() && branch.cascades());
        let kept = kept.map(|retain| cascade::kept_at(document, &retain.trie, &payload.place, self.work));
        let is_document = payload.place.is_empty();
        let payload = root::at(document, &payload.place).ok_or("the payload is gone")?;
        let work = self.work;
        let metadata = (is_document && !self.enforced() && !branch.select.is_empty()).then(|| metadata(payload, work));
        items::apply(payload, branch, self.plan, kept.as_deref(), &mut self.report, work)?;
        if let (Some(Node::Object(mut metadata)), Node::Object(members)) = (metadata, payload) {
            metadata.retain(|member| !members.iter().any(|other| other.key.same(&member.key)));
            let mut metadata = Node::Object(metadata);
            paths::exclude(&mut metadata, &branch.exclude, work);
            if let Node::Object(metadata) = metadata {
                members.extend(metadata);
            }
        }
        Ok(())
    }
}
