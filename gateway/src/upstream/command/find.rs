//! Where a program is, decided once: an absolute path, or the first folder of `PATH` that has it. Never the current folder.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Returns the file of a program; `None` if there is none that can be executed.
pub(super) fn find(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    locate(name, path, is_executable)
}

fn locate(name: &str, path: Option<&OsStr>, is_executable: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|file| is_executable(file));
    }
    if name.is_empty() || name.contains('/') {
        return None;
    }
    // An empty entry of PATH stands for the current folder.
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_absolute_or_in_an_absolute_folder_of_path() {
        let there = ["/b/git", "/c/git", "/opt/x", "./git", "git", "rel/git"];
        let found = |name: &str, path: Option<&str>| {
            let is_there = |file: &Path| there.contains(&file.to_str().unwrap());
            locate(name, path.map(OsStr::new), is_there).map(|file| file.to_str().unwrap().to_owned())
        };
        for (name, path, expected) in [
            ("git", Some("/a:/b:/c"), Some("/b/git")),
            ("git", Some("::.:rel:/c"), Some("/c/git")),
            ("git", Some(":."), None),
            ("git", Some(""), None),
            ("git", None, None),
            ("/opt/x", None, Some("/opt/x")),
            ("/opt/y", Some("/b"), None),
            ("./git", Some("/b"), None),
            ("rel/git", Some("/b"), None),
            ("", Some("/b"), None),
        ] {
            assert_eq!(found(name, path).as_deref(), expected, "{name} in {path:?}");
        }
        assert!(is_executable(Path::new("/bin/sh")));
        for file in ["/bin", "/etc/passwd", "/nonexistent"] {
            assert!(!is_executable(Path::new(file)), "{file}");
        }
    }
}
