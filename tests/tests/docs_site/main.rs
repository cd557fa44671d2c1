//! Holds the documentation together: every link leads somewhere, every page is in the table of contents, every block is
//! run or says why not, and the generated pages match the code. `docs.rs`, `docs_operator.rs` and
//! `cluster_quickstart.rs` run what the pages show.

mod blocks;
mod commands;
mod contents;
mod filters;
mod kinds;
mod links;
mod markdown;
mod measured;
mod quickstart;

use std::path::{Path, PathBuf};

use tamis_tests::root;

/// Folders that have pages for readers, and folders below them that do not.
const FOLDERS: &[&str] = &["docs", "examples", "bench", "catalog", "charts", "deploy", "e2e", "tests"];
const PASSED_OVER: &[&str] = &["node_modules", "target"];

/// A page: its path from the root of the repository, and its text.
struct Page {
    path: String,
    text: String,
}

/// Every Markdown file that readers may come to.
fn pages() -> Vec<Page> {
    let mut files = Vec::new();
    collect(root(), false, &mut files);
    FOLDERS.iter().for_each(|folder| collect(&root().join(folder), true, &mut files));
    files.sort();
    let page = |file: PathBuf| Page {
        path: file.strip_prefix(root()).expect("is below the root").to_string_lossy().into_owned(),
        text: std::fs::read_to_string(&file).expect("a page can be read"),
    };
    files.into_iter().map(page).collect()
}

/// The pages of the site.
fn site() -> Vec<Page> {
    pages().into_iter().filter(|page| page.path.starts_with("docs/")).collect()
}

fn collect(folder: &Path, deep: bool, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // Does not follow symbolic links, which may lead to installed files.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && deep && !name.starts_with('.') && !PASSED_OVER.contains(&&*name) {
            collect(&path, deep, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}

/// Compares a generated page; `TAMIS_UPDATE=1` writes it.
fn same_as_committed(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().expect("a page is in a folder")).expect("a folder can be made");
        std::fs::write(&file, text).expect("a page can be written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is stale: run cargo test -p tamis-tests --test docs_site with TAMIS_UPDATE=1");
}
