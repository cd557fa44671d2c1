//! From the files of a folder to what is served next. Pure: files come in read, a decision comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use tamis_config::{ExpositionId, Reason, Snapshot};
use tamis_crds::resources::GatewayGroupSpec;
use tamis_crds::{CompileEnv, Degraded, Diagnostic, FolderState, ObjectName, ParsedFile, compile};

use super::loosening::{Patience, hold};

/// Remembers what broken edits would lose, and what is served.
#[derive(Debug, Default)]
pub(crate) struct Reloader {
    folder: FolderState,
    served: Snapshot,
    full_audit: bool,
    told: Vec<Diagnostic>,
    problem: Option<String>,
    /// None before the first look: what is served first loosens nothing.
    patience: Option<Patience>,
}

/// What to do after a look at the folder.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    /// What to serve.
    pub(crate) snapshot: Snapshot,
    /// Everything that there is to say.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether anything differs from what the last look brought.
    pub(crate) worthwhile: bool,
    /// What was not said after the last look.
    pub(crate) news: Vec<Diagnostic>,
    /// Files whose last good documents are served instead of what they hold.
    pub(crate) kept: Vec<Arc<str>>,
    /// Expositions that do not serve what the documents say.
    pub(crate) degraded: BTreeMap<ExpositionId, Vec<Degraded>>,
    /// Expositions that are not as loose yet as the documents say, and when to look again.
    pub(crate) held: Vec<ExpositionId>,
    /// When to decide again although no file has changed.
    pub(crate) again: Option<Instant>,
    /// The settings of the process, by the one GatewayGroup.
    pub(crate) group: Option<GatewayGroupSpec>,
    /// How many GatewayGroups there are.
    pub(crate) groups: usize,
}

impl Reloader {
    /// `full_audit`: whether there is a place for full audit records.
    pub(crate) fn new(full_audit: bool) -> Self {
        Self { full_audit, ..Self::default() }
    }

    /// Decides what the files mean, all of them as they are now.
    pub(crate) fn decide(&mut self, files: &[ParsedFile], now: Instant) -> Reload {
        let update = self.folder.update(files);
        let env = CompileEnv { previous: Some(&self.served), full_audit: self.full_audit, ..CompileEnv::default() };
        let mut compiled = compile(&update.resources, &env);
        let (mut held, mut again) = (Vec::new(), None);
        if let Some(patience) = &mut self.patience {
            let due = patience.note(&update.resources, now);
            if now < due {
                let named = |exposition: &ObjectName, id: &ExpositionId| {
                    exposition.namespace == id.namespace && exposition.name == id.name
                };
                let expositions = &update.resources.expositions;
                let names_sets =
                    |id: &ExpositionId| expositions.iter().any(|e| named(&e.name, id) && e.spec.filters.is_some());
                held = hold(&self.served, &mut compiled.snapshot, |set| patience.is_gone(set), names_sets);
                // Of those that wait nothing is said yet.
                let waiting = |d: &Diagnostic| {
                    d.reason == Reason::FilterSetNotFound
                        && expositions
                            .iter()
                            .any(|e| e.origin.is_filters_of(d) && held.iter().any(|id| named(&e.name, id)))
                };
                compiled.diagnostics.retain(|d| !waiting(d));
                again = (!held.is_empty()).then_some(due);
            }
        } else {
            self.patience = Some(Patience::new(&update.resources, now));
        }
        let mut diagnostics = update.diagnostics;
        diagnostics.extend(compiled.diagnostics);
        let news = diagnostics.iter().filter(|d| !self.told.contains(d)).cloned().collect();
        self.told.clone_from(&diagnostics);
        // By their files: a document and the file that it is in may both be named.
        let broken_groups: BTreeSet<_> = update
            .resources
            .unusable
            .iter()
            .filter(|u| u.kind.as_deref() == Some("GatewayGroup"))
            .map(|u| &u.file)
            .collect();
        let mut reload = Reload {
            worthwhile: self.served != compiled.snapshot,
            snapshot: compiled.snapshot,
            diagnostics,
            news,
            kept: update.kept,
            held,
            again,
            degraded: compiled.degraded,
            group: compiled.group.map(|group| group.spec.clone()),
            groups: update.resources.groups.len() + broken_groups.len(),
        };
        let problem = reload.problem();
        reload.worthwhile |= problem != self.problem;
        self.problem = problem;
        self.served.clone_from(&reload.snapshot);
        reload
    }
}

impl Reload {
    /// Why the documents are not served as they are, in a line; none where they are.
    pub(crate) fn problem(&self) -> Option<String> {
        let mut errors = self.diagnostics.iter().filter(|d| d.is_error());
        let kept = |file: &Arc<str>| format!("{file}: its last good documents are served");
        let first = errors.next().map(ToString::to_string).or_else(|| self.kept.first().map(kept))?;
        Some(match errors.count() {
            0 => first,
            more => format!("{first} (and {more} more)"),
        })
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
