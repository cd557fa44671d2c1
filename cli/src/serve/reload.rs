//! Decides what to serve from the files of a folder. Pure: parsed files come in, a decision comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use tamis_config::{ExpositionId, Reason, Snapshot};
use tamis_crds::resources::GatewayGroupSpec;
use tamis_crds::{CompileEnv, Conversions, Degraded, Diagnostic, FolderState, ObjectName, ParsedFile, compile};

use super::loosening::{LooseningDelay, hold};

/// The last good state of broken files, and the state of delayed changes.
#[derive(Debug, Default)]
pub(crate) struct Reloader {
    folder: FolderState,
    served: Snapshot,
    full_audit: bool,
    /// What the documents of APIs became.
    conversions: Conversions,
    told: Vec<Diagnostic>,
    problem: Option<String>,
    /// `None` before the first look: the first state that is served loosens nothing.
    delay: Option<LooseningDelay>,
}

/// The decision after a look at the folder.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    /// What to serve.
    pub(crate) snapshot: Snapshot,
    /// All findings.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether anything differs from the last look.
    pub(crate) worthwhile: bool,
    /// The findings that are new since the last look.
    pub(crate) news: Vec<Diagnostic>,
    /// Files whose last good documents are served in place of their content.
    pub(crate) kept: Vec<Arc<str>>,
    /// Expositions that do not match the documents.
    pub(crate) degraded: BTreeMap<ExpositionId, Vec<Degraded>>,
    /// Expositions whose loosening changes are delayed.
    pub(crate) held: Vec<ExpositionId>,
    /// When to decide again even if no file changes.
    pub(crate) again: Option<Instant>,
    /// The settings of the process, from the only GatewayGroup.
    pub(crate) group: Option<GatewayGroupSpec>,
    /// The number of GatewayGroups.
    pub(crate) groups: usize,
}

impl Reloader {
    /// `full_audit`: whether full audit records can be written.
    pub(crate) fn new(full_audit: bool) -> Self {
        Self { full_audit, ..Self::default() }
    }

    /// Decides what to serve, from the current state of all files.
    pub(crate) fn decide(&mut self, files: &[ParsedFile], now: Instant) -> Reload {
        let update = self.folder.update(files);
        let env = CompileEnv {
            previous: Some(&self.served),
            full_audit: self.full_audit,
            conversions: Some(&self.conversions),
            ..CompileEnv::default()
        };
        let mut compiled = compile(&update.resources, &env);
        let (mut held, mut again) = (Vec::new(), None);
        if let Some(delay) = &mut self.delay {
            let due = delay.note(&update, now);
            if now < due {
                let named = |exposition: &ObjectName, id: &ExpositionId| {
                    exposition.namespace == id.namespace && exposition.name == id.name
                };
                let expositions = &update.resources.expositions;
                let names_sets =
                    |id: &ExpositionId| expositions.iter().any(|e| named(&e.name, id) && e.spec.filters.is_some());
                held = hold(&self.served, &mut compiled.snapshot, |set| delay.is_gone(set), names_sets);
                // Nothing is reported yet about expositions that wait.
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
            self.delay = Some(LooseningDelay::new(&update, now));
        }
        let mut diagnostics = update.diagnostics;
        diagnostics.extend(compiled.diagnostics);
        let news = diagnostics.iter().filter(|d| !self.told.contains(d)).cloned().collect();
        self.told.clone_from(&diagnostics);
        // Counted by file: the list may hold both a document and its file.
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
    /// Returns in one line why the documents are not served as they are, or `None` if they are.
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
