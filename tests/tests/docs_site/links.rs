//! Links between pages, and to files of the repository.

use std::path::{Component, Path, PathBuf};

use tamis_tests::root;

use crate::markdown::{anchors, links};
use crate::{Page, pages};

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let count: usize = pages.iter().map(|page| links(&page.text).len()).sum();
    assert!(count > 200, "only {count} links were found");
    let wrong: Vec<String> = pages.iter().flat_map(|page| broken(page, &pages)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn broken(page: &Page, pages: &[Page]) -> Vec<String> {
    let said = |line: usize, target: &str, why: &str| format!("{}:{line}: {target}: {why}", page.path);
    let mut wrong = Vec::new();
    for (line, target) in links(&page.text) {
        if target.starts_with("https://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let Some(path) = resolve(&page.path, file) else {
            wrong.push(said(line, &target, "leads out of the repository"));
            continue;
        };
        if !root().join(&path).exists() {
            wrong.push(said(line, &target, "is not there"));
        } else if root().join(&path).is_dir() && page.path.starts_with("docs/") {
            // The site has no page for a folder.
            wrong.push(said(line, &target, "is a folder, link a file of it"));
        }
        let linked = pages.iter().find(|page| Path::new(&page.path) == path);
        if !anchor.is_empty() && !linked.is_some_and(|page| anchors(&page.text).iter().any(|known| known == anchor)) {
            wrong.push(said(line, &target, "has no such heading"));
        }
    }
    wrong
}

/// A path from the root, of a link in a page.
fn resolve(page: &str, link: &str) -> Option<PathBuf> {
    if link.is_empty() {
        return Some(page.into());
    }
    let mut path = Path::new(page).parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

#[test]
fn links_are_found_from_the_root() {
    let resolved = |page, link| resolve(page, link).map(|path| path.to_string_lossy().into_owned());
    assert_eq!(resolved("docs/filters/README.md", "../access.md").as_deref(), Some("docs/access.md"));
    assert_eq!(resolved("docs/a.md", "").as_deref(), Some("docs/a.md"));
    assert_eq!(resolved("README.md", "../b.md"), None);
    assert_eq!(resolved("README.md", "/b.md"), None);
}
