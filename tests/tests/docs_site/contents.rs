//! `docs/SUMMARY.md`, the table of contents of the site.

use std::collections::BTreeSet;

use crate::markdown::{anchors, links};
use crate::site;

#[test]
fn every_page_is_in_the_contents_once() {
    let pages = site();
    let contents = pages.iter().find(|page| page.path == "docs/SUMMARY.md").expect("there is a table of contents");
    let listed: Vec<String> = links(&contents.text).into_iter().map(|(_, target)| format!("docs/{target}")).collect();
    let unique: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(listed.len(), unique.len(), "a page is there twice");
    let there: BTreeSet<&str> =
        pages.iter().map(|page| page.path.as_str()).filter(|path| *path != "docs/SUMMARY.md").collect();
    let missing: Vec<_> = there.difference(&unique).collect();
    assert!(missing.is_empty(), "add to docs/SUMMARY.md: {missing:?}");
}

#[test]
fn every_page_begins_with_its_title() {
    for page in site() {
        assert!(page.text.starts_with("# "), "{}", page.path);
        assert!(anchors(&page.text).first().is_some_and(|anchor| !anchor.is_empty()), "{}", page.path);
    }
}
