//! The files of an image as one tar archive. The same files produce the same bytes. Pure.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use tar::{Builder, EntryType, Header};

/// A tree of files, owned by root, with one timestamp.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// By path, without a slash at the start or the end. A folder comes before its contents.
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    /// `None` for a folder.
    bytes: Option<Vec<u8>>,
}

impl Tree {
    /// Adds a folder and its parents.
    pub(crate) fn folder(&mut self, path: &str, mode: u32) -> Result<()> {
        self.insert(path, Entry { mode, bytes: None })
    }

    /// Adds a file and its parents.
    pub(crate) fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Result<()> {
        self.insert(path, Entry { mode, bytes: Some(bytes.into()) })
    }

    fn insert(&mut self, path: &str, entry: Entry) -> Result<()> {
        let path = path.trim_start_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        ensure!(
            parts.iter().all(|part| !matches!(*part, "" | "." | "..")),
            "`{path}` is no path of a file in an image"
        );
        for end in 1..parts.len() {
            let above = self.entries.entry(parts[..end].join("/")).or_insert(Entry { mode: 0o755, bytes: None });
            ensure!(above.bytes.is_none(), "`{path}` lies in a file");
        }
        if self.entries.insert(path.to_owned(), entry).is_some() {
            bail!("`{path}` is there twice");
        }
        Ok(())
    }

    /// Returns the archive. `time` is in seconds since 1970.
    pub(crate) fn archive(&self, time: u64) -> Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            match &entry.bytes {
                None => append(&mut builder, &format!("{path}/"), entry.mode, time, &[])?,
                Some(bytes) => append(&mut builder, path, entry.mode, time, bytes)?,
            }
        }
        Ok(builder.into_inner()?)
    }
}

/// Appends an entry without traces of the machine or the time of writing. A folder's path ends with a slash.
pub(crate) fn append(builder: &mut Builder<Vec<u8>>, path: &str, mode: u32, time: u64, bytes: &[u8]) -> Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_entry_type(if path.ends_with('/') { EntryType::Directory } else { EntryType::Regular });
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(bytes.len().try_into()?);
    header.set_cksum();
    builder.append(&header, bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::Tree;

    /// Path, mode, owner, time and content of each entry.
    fn listed(archive: &[u8]) -> Vec<(String, u32, u64, u64, String)> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().expect("an archive");
        let read = entries.map(|entry| {
            let mut entry = entry.expect("an entry");
            let mut content = String::new();
            entry.read_to_string(&mut content).expect("text");
            let header = entry.header();
            let path = String::from_utf8(entry.path_bytes().into_owned()).expect("text");
            let numbers = (header.mode(), header.uid(), header.mtime());
            (path, numbers.0.expect("mode"), numbers.1.expect("owner"), numbers.2.expect("time"), content)
        });
        read.collect()
    }

    #[test]
    fn an_archive_holds_folders_before_files_in_the_order_of_names() {
        let mut tree = Tree::default();
        tree.file("/usr/bin/tamis", 0o755, "program").expect("fits");
        tree.file("etc/passwd", 0o644, "root").expect("fits");
        tree.folder("/tmp", 0o1777).expect("fits");
        let entry = |path: &str, mode, content: &str| (path.to_owned(), mode, 0, 1_700_000_000, content.to_owned());
        assert_eq!(
            listed(&tree.archive(1_700_000_000).expect("is written")),
            [
                entry("etc/", 0o755, ""),
                entry("etc/passwd", 0o644, "root"),
                entry("tmp/", 0o1777, ""),
                entry("usr/", 0o755, ""),
                entry("usr/bin/", 0o755, ""),
                entry("usr/bin/tamis", 0o755, "program"),
            ]
        );
    }

    #[test]
    fn the_order_of_writing_does_not_matter() {
        let archive = |paths: &[&str]| {
            let mut tree = Tree::default();
            for path in paths {
                tree.file(path, 0o644, *path).expect("fits");
            }
            tree.archive(0).expect("is written")
        };
        assert_eq!(archive(&["/a/b", "/a/c", "/b"]), archive(&["/b", "/a/c", "/a/b"]));
    }

    #[test]
    fn invalid_and_duplicate_paths_are_rejected() {
        let cases = [
            (&["/a/../b"][..], "no path"),
            (&["/a//b"], "no path"),
            (&["/"], "no path"),
            (&["/a", "/a"], "twice"),
            (&["/a", "/a/b"], "in a file"),
            (&["/a/b", "/a"], "twice"),
        ];
        for (paths, expected) in cases {
            let mut tree = Tree::default();
            let error = paths.iter().find_map(|path| tree.file(path, 0o644, "").err()).expect("is refused").to_string();
            assert!(error.contains(expected), "{paths:?}: {error}");
        }
    }
}
