//! The meaning of a folder while its files change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::read::{api, config_map, notice, parse_document};
use crate::yaml::Position;
use crate::{Diagnostic, ParsedFile, Resources, Unusable};

/// The last good documents of each file.
///
/// A broken edit, an emptied or a half-written file keeps the file's last good documents. Deleting a file, or removing a
/// document from a valid file, removes the documents.
///
/// The documents are kept as text: parsed, they would take ten times as much memory, and they are needed only while a file is
/// broken.
#[derive(Debug, Clone, Default)]
pub struct FolderState {
    files: BTreeMap<Arc<str>, LastGood>,
}

/// The last good content of a file.
#[derive(Debug, Clone)]
struct LastGood {
    source: Arc<[u8]>,
    /// Whether it holds no document.
    is_empty: bool,
}

/// The current meaning of a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    /// The resources to compile. Broken files without a last good version are among the unusable documents.
    pub resources: Resources,
    /// The findings about the files.
    pub diagnostics: Vec<Diagnostic>,
    /// Files whose last good documents are used in place of their current content.
    pub kept: Vec<Arc<str>>,
    /// What `resources` was read from: each file with its content, or with the error of a file that cannot be used. Equal
    /// sources have equal resources, and take far less memory.
    pub sources: Vec<(Arc<str>, Arc<[u8]>)>,
}

impl FolderState {
    /// Updates the state with the current files. Files that are missing from the list were deleted.
    pub fn update(&mut self, files: &[ParsedFile]) -> Update {
        let mut update = Update::default();
        let mut now = BTreeMap::new();
        let mut parsed: BTreeMap<Arc<str>, Cow<'_, Resources>> = BTreeMap::new();
        let mut kept = Vec::new();
        for file in files {
            update.diagnostics.extend(file.diagnostics.iter().cloned());
            if file.is_broken() {
                // An unreadable path may be a folder, and then its files are unreadable too.
                let below = format!("{}/", file.file.trim_end_matches('/'));
                let lost = |name: &str| *name == *file.file || name.starts_with(&below);
                let last = self.files.iter().filter(|(name, last)| lost(name) && !last.is_empty);
                let before = kept.len();
                kept.extend(last);
                if kept.len() == before {
                    // Only its existence is known, so that whatever may rely on it does not treat it as absent.
                    let unusable = &file.resources.unusable;
                    let error = |unusable: &Arc<Unusable>| (Arc::clone(&file.file), unusable.message.as_bytes().into());
                    update.sources.extend(unusable.iter().map(error));
                    update.resources.unusable.extend(unusable.iter().cloned());
                }
            } else if let Some(last) =
                self.files.get_key_value(&file.file).filter(|(_, last)| file.documents == 0 && !last.is_empty)
            {
                let message = if file.foreign {
                    "the file no longer holds a Tamis document, so its last documents stay in use"
                } else {
                    "the file is empty, so its last documents stay in use"
                };
                let remedy = "delete the file to remove them";
                update.diagnostics.push(Diagnostic::warning(&file.file, Position::START, "", message, remedy));
                kept.push(last);
            } else {
                let ParsedFile { file: name, resources, source, .. } = file;
                now.insert(Arc::clone(name), LastGood { source: Arc::clone(source), is_empty: resources.is_empty() });
                parsed.insert(Arc::clone(name), Cow::Borrowed(resources));
            }
        }
        for (name, last) in kept {
            update.kept.push(Arc::clone(name));
            now.insert(Arc::clone(name), last.clone());
            parsed.insert(Arc::clone(name), Cow::Owned(parse_document(name, &last.source).resources));
        }
        update.diagnostics.extend(notice(files.iter().filter(|file| !update.kept.contains(&file.file))));
        parsed.values().for_each(|resources| update.resources.extend(resources));
        let named = api::named(std::iter::once(&update.resources));
        update.diagnostics.extend(api::unnamed(files.iter().filter(|file| !update.kept.contains(&file.file)), &named));
        update.diagnostics.extend(config_map::notices(&update.resources));
        update.sources.extend(now.iter().map(|(name, last)| (Arc::clone(name), Arc::clone(&last.source))));
        self.files = now;
        update
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: one}
spec: {service: {name: s, version: '1'}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: two}
spec: {service: {name: s, version: '1'}}
";

    fn names(update: &Update) -> Vec<&str> {
        update.resources.expositions.iter().map(|e| e.name.name.as_str()).collect()
    }

    #[test]
    fn what_a_broken_file_said_stays() {
        let one = &TWO[..TWO.find("---").unwrap()];
        let half = &TWO[..TWO.len() - 5];
        let foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
        // The next content of the file, the documents that are then served, and whether they are kept from before.
        let table: &[(&str, Option<&str>, &[&str], bool)] = &[
            ("unchanged", Some(TWO), &["one", "two"], false),
            ("a document gone", Some(one), &["one"], false),
            ("half-written", Some(half), &["one", "two"], true),
            ("emptied", Some(""), &["one", "two"], true),
            ("nothing but a comment", Some("# later\n"), &["one", "two"], true),
            (
                "a value gone",
                Some("apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata:\n"),
                &["one", "two"],
                true,
            ),
            ("something else saved under its name", Some("name: a\nversion: '1'\n"), &["one", "two"], true),
            ("not UTF-8", Some("\u{0}"), &["one", "two"], true),
            ("another program's", Some(foreign), &[], false),
            ("deleted", None, &[], false),
        ];
        for (what, next, expected, kept) in table {
            let mut state = FolderState::default();
            state.update(&[parse_document("dir/a.yaml", TWO.as_bytes())]);
            let files: Vec<_> = next.iter().map(|text| parse_document("dir/a.yaml", text.as_bytes())).collect();
            let update = state.update(&files);
            assert_eq!(names(&update), *expected, "{what}");
            assert_eq!(!update.kept.is_empty(), *kept, "{what}");
            assert_eq!(update.diagnostics.is_empty(), !kept && *what != "another program's", "{what}");
            let repaired = state.update(&[parse_document("dir/a.yaml", one.as_bytes())]);
            assert_eq!((names(&repaired), repaired.kept.len()), (vec!["one"], 0), "{what}, repaired");
        }
    }

    #[test]
    fn a_broken_file_of_which_nothing_is_known_is_not_absent() {
        let named = format!("{TWO}---\napiVersion: tamis.dev/v1alpha1\nkind: Expositoin\nmetadata: {{name: three}}\n");
        // The content of the file, and the documents that may be in it.
        let table: &[(&str, &[&str])] = &[
            (&TWO[..TWO.len() - 5], &["-"]),
            ("kind: [GatewayGroup\n", &["-", "GatewayGroup"]),
            (&named, &["Exposition", "Exposition", "Expositoin"]),
            ("", &[]),
            (TWO, &[]),
        ];
        for (text, expected) in table {
            let mut state = FolderState::default();
            // An empty file has no last good form either.
            for before in [None, Some("")] {
                state.update(
                    &before.map(|before| parse_document("a.yaml", before.as_bytes())).into_iter().collect::<Vec<_>>(),
                );
                let update = state.clone().update(&[parse_document("a.yaml", text.as_bytes())]);
                let kinds = update.resources.unusable.iter().map(|u| u.kind.as_deref().unwrap_or("-"));
                assert_eq!(kinds.collect::<Vec<_>>(), *expected, "{text}");
                assert!(update.kept.is_empty(), "{text}");
            }
            state.update(&[parse_document("a.yaml", TWO.as_bytes())]);
            let update = state.update(&[parse_document("a.yaml", text.as_bytes())]);
            assert!(update.resources.unusable.is_empty(), "its last good documents stand for it: {text}");
        }
    }

    #[test]
    fn sources_change_with_what_is_used() {
        let mut state = FolderState::default();
        let mut sources = |text: &str| state.update(&[parse_document("dir/a.yaml", text.as_bytes())]).sources;
        let one = &TWO[..TWO.find("---").unwrap()];
        let first = sources(TWO);
        assert_eq!(first, [("dir/a.yaml".into(), TWO.as_bytes().into())]);
        assert_eq!(sources(&TWO[..TWO.len() - 5]), first, "the last good documents are used");
        assert_eq!(sources(TWO), first);
        assert_ne!(sources(one), first);
        let broken = |text: &str| FolderState::default().update(&[parse_document("a.yaml", text.as_bytes())]).sources;
        assert_eq!(broken("a: ["), broken("a: ["));
        assert_ne!(broken("a: ["), broken("kind: Nothing"));
    }

    #[test]
    fn a_folder_that_cannot_be_read_keeps_its_files() {
        let mut state = FolderState::default();
        state.update(&[parse_document("dir/sub/a.yaml", TWO.as_bytes())]);
        let folder = crate::load(&["dir/sub-that-is-not-there".into()]).files;
        assert_eq!(names(&state.clone().update(&folder)), Vec::<&str>::new());
        let mut unreadable = folder[0].clone();
        unreadable.file = "dir/sub".into();
        assert_eq!(names(&state.update(&[unreadable])), ["one", "two"]);
    }
}
