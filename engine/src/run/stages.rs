//! Stages 2 to 8 on a document, and what a failure means in each posture.

use super::{Failure, METADATA, Output, Run, items, patch, paths, root, settle};
use crate::Stage;
use crate::json::{Node, compact_len, last_of_each};
use crate::program::{Branch, Root};
use crate::work::stage_steps;

/// Where the payload is, and how many items it had.
struct Payload {
    place: root::Place,
    /// Of a list, before `maxItems`.
    total: Option<usize>,
}

fn too_many_steps(bound: usize) -> String {
    format!("the stage takes more than {bound} steps on this output, which is the limit for its size")
}

/// What a command or an upstream says beside its data. It survives `select`, which is about the data.
fn metadata<'a>(document: &Node<'a>) -> Node<'a> {
    let members = last_of_each(document.as_object().unwrap_or_default());
    Node::Object(members.filter(|member| METADATA.iter().any(|name| member.key.is(name))).cloned().collect())
}

impl<'p> Run<'p> {
    /// Runs one branch over a document.
    pub(super) fn document(&mut self, branch: &'p Branch, document: Node<'p>) -> Result<Output, Failure> {
        let mut document = self.retain(branch, document);
        let mut succeeded = branch.retain.is_some();
        if !branch.patches.is_empty() {
            succeeded |= self.stage(Stage::Patches, |run| run.patches(branch, &mut document))?.is_some();
        }
        let mut payload = self.stage(Stage::Root, |run| run.locate(branch, &mut document))?.flatten();
        if let Some(payload) = &payload {
            succeeded |= self.stage(Stage::Select, |run| run.items(branch, &mut document, payload))?.is_some();
        }
        if let Some(retain) = branch.retain.as_ref().filter(|_| self.enforced() && branch.settles()) {
            let place = payload.as_mut().map(|payload| payload.place.as_mut_slice());
            settle::document(&mut document, &retain.trie, place, !branch.select.is_empty());
        }
        self.report.applied = succeeded || (self.report.error.is_none() && !branch.is_empty());
        self.report.result_bytes = compact_len(&document);
        self.encode(branch, document, payload.map(|payload| (payload.place, payload.total)).as_ref())
    }

    /// Runs one stage. Under `Advisory` its failure is noted, and gives `None`.
    fn stage<T>(
        &mut self,
        stage: Stage,
        body: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let bound = stage_steps(self.report.original_bytes);
        self.work.stage(bound);
        let done = body(self);
        let done = if self.work.exceeded() { Err(too_many_steps(bound)) } else { done };
        match done {
            Ok(value) => Ok(Some(value)),
            Err(reason) if self.enforced() => Err(Failure::new(stage, reason)),
            Err(reason) => {
                self.failed(stage, reason);
                Ok(None)
            }
        }
    }

    fn retain(&mut self, branch: &Branch, document: Node<'p>) -> Node<'p> {
        let Some(retain) = &branch.retain else { return document };
        // What another path covers is in no trie, and never missed.
        let mut found = vec![true; retain.paths.len()];
        retain.trie.ends(&mut |id| found[id] = false);
        let stays = if self.enforced() {
            paths::Stays { way: branch.root.way(), selects: !branch.select.is_empty() }
        } else {
            paths::Stays::default()
        };
        let document = paths::retain(document, &retain.trie, stays, &mut found);
        let missed = retain.paths.iter().zip(found).filter(|(_, found)| !found);
        self.report.unresolved.extend(missed.map(|(path, _)| path.to_string()));
        document
    }

    /// Stage 3. A failing operation undoes those before it; a failing `test` only stops the sequence.
    fn patches(&mut self, branch: &'p Branch, document: &mut Node<'p>) -> Result<(), String> {
        let strict = self.plan.strict_patch;
        let empty_is_absent = self.enforced() && branch.drop_empty && !strict;
        let limits = self.plan.limits;
        let rules = patch::Rules { strict, empty_is_absent, set_is_last: self.enforced(), limits };
        let mut done = patch::Done::default();
        let mut patches = branch.patches.as_slice();
        // Under `Enforced` a failure gives nothing at all: there is nothing to go back to.
        let before = (!self.enforced()).then(|| document.clone());
        let result = loop {
            match patch::apply(document, patches, rules, &mut done) {
                Err(failed) if self.enforced() && !strict && patch::is_moot(patches, failed.at) => {
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
                *document = before.unwrap_or(Node::NULL);
                return Err(format!("{}: the test does not hold", operation(at)));
            }
            Ok(patch::Ended::TestFailed(at)) => {
                let message =
                    format!("{}: the test does not hold, so the operations after it were left out", operation(at));
                self.warn(Stage::Patches, message);
            }
            Err(failed) => {
                *document = before.unwrap_or(Node::NULL);
                return Err(format!("{}: {}", operation(failed.at), failed.reason));
            }
        }
        self.report.unresolved.append(&mut done.absent);
        Ok(())
    }

    /// Stage 4. Under `Enforced` what is beside the payload goes, unless `retain` has said what stays.
    fn locate(&mut self, branch: &Branch, document: &mut Node<'_>) -> Result<Option<Payload>, String> {
        let Some(mut place) = root::locate(document, branch, self.enforced())? else { return Ok(None) };
        if self.enforced() && branch.retain.is_none() && matches!(branch.root, Root::Pointer(_)) {
            place = root::isolate(document, &place);
        }
        let total = root::at(document, &place).and_then(|payload| payload.as_array().map(<[_]>::len));
        Ok(Some(Payload { place, total }))
    }

    /// Stages 5 to 8.
    fn items(&mut self, branch: &'p Branch, document: &mut Node<'p>, payload: &Payload) -> Result<(), String> {
        let kept = branch.retain.as_ref().filter(|_| self.enforced() && branch.settles());
        let kept = kept.map(|retain| settle::kept_at(document, &retain.trie, &payload.place));
        let is_document = payload.place.is_empty();
        let payload = root::at(document, &payload.place).ok_or("the payload is gone")?;
        let metadata = (is_document && !self.enforced() && !branch.select.is_empty()).then(|| metadata(payload));
        items::apply(payload, branch, self.plan, kept.as_deref(), &mut self.report)?;
        if let (Some(Node::Object(mut metadata)), Node::Object(members)) = (metadata, payload) {
            metadata.retain(|member| !members.iter().any(|other| other.key.same(&member.key)));
            let mut metadata = Node::Object(metadata);
            paths::exclude(&mut metadata, &branch.exclude);
            if let Node::Object(metadata) = metadata {
                members.extend(metadata);
            }
        }
        Ok(())
    }
}
