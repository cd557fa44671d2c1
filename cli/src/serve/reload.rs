//! From the files of a folder to what is served next. Pure: files come in read, a decision comes out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamis_config::{ExpositionId, Snapshot};
use tamis_crds::resources::GatewayGroupSpec;
use tamis_crds::{CompileEnv, Degraded, Diagnostic, FolderState, ParsedFile, compile, is_document};

/// Folders below the given one that the loader still searches.
const MAX_FOLDER_DEPTH: usize = 16;

/// Remembers what broken edits would lose, and what is served.
#[derive(Debug, Default)]
pub(crate) struct Reloader {
    folder: FolderState,
    served: Snapshot,
    full_audit: bool,
    told: Vec<Diagnostic>,
    problem: Option<String>,
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
    pub(crate) fn decide(&mut self, files: &[ParsedFile]) -> Reload {
        let update = self.folder.update(files);
        let env = CompileEnv { previous: Some(&self.served), full_audit: self.full_audit };
        let compiled = compile(&update.resources, &env);
        let mut diagnostics = update.diagnostics;
        diagnostics.extend(compiled.diagnostics);
        let news = diagnostics.iter().filter(|d| !self.told.contains(d)).cloned().collect();
        self.told.clone_from(&diagnostics);
        let mut reload = Reload {
            worthwhile: self.served != compiled.snapshot,
            snapshot: compiled.snapshot,
            diagnostics,
            news,
            kept: update.kept,
            degraded: compiled.degraded,
            group: compiled.group.map(|group| group.spec.clone()),
            groups: update.resources.groups.len(),
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

/// The documents in a folder, as the loader finds them; a file is one itself.
pub(crate) fn documents(root: &Path) -> Vec<PathBuf> {
    if !root.is_dir() {
        return vec![root.to_owned()];
    }
    let mut found = Vec::new();
    walk(root, 0, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // Follows links, as the loader does.
        if path.is_dir() {
            if !name.starts_with('.') && depth < MAX_FOLDER_DEPTH {
                walk(&path, depth + 1, found);
            }
        } else if is_document(&name) {
            found.push(path);
        }
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
