//! Holds the tables of `docs/operator.md` to the code: every name is there, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use tamis_config::{Reason, names};
use tamis_tests::{binary, root};

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).expect("a page")
}

/// The rows of the tables under a heading: their cells.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let begin = page.find(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let section = page[begin..].split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    rows.skip(1).map(|line| line.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands in backticks, before the first space.
fn code(cell: &str) -> Vec<String> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn every_reason_is_explained() {
    let known: BTreeMap<String, String> =
        Reason::ALL.iter().map(|reason| (reason.to_string(), reason.condition().to_string())).collect();
    let shown = rows(&page("operator.md"), "Reasons");
    let count = shown.len();
    let shown: BTreeMap<String, String> =
        shown.iter().map(|row| (code(&row[0]).concat(), code(&row[1]).concat())).collect();
    assert_eq!(shown, known);
    assert_eq!(shown.len(), count, "a reason is there twice");
}

#[test]
fn every_option_is_listed() {
    let help = Command::new(binary("tamis").expect("is built")).args(["operator", "--help"]).output().expect("runs");
    let help = String::from_utf8(help.stdout).expect("text");
    // Those that every command has are explained elsewhere, but for the log.
    let common = ["--help", "--version", "--color"];
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let flags = lines.flat_map(str::split_whitespace).filter(|word| word.starts_with("--"));
    let known: BTreeSet<String> =
        flags.filter(|flag| !common.contains(flag)).map(|flag| flag.trim_end_matches(',').to_owned()).collect();
    let shown = rows(&page("operator.md"), "Options").iter().flat_map(|row| code(&row[0])).collect::<BTreeSet<_>>();
    assert_eq!(shown, known);
}

#[test]
fn every_label_is_listed() {
    let shown: BTreeSet<String> =
        rows(&page("operator.md"), "Labels and annotations").iter().flat_map(|row| code(&row[0])).collect();
    for name in [
        names::GROUP_LABEL,
        names::EXPOSITION_LABEL,
        names::EXPOSITION_NAMESPACE_LABEL,
        names::CREDENTIALS_LABEL,
        names::DOCUMENT_LABEL,
        names::ALLOWED_USE_ANNOTATION,
        names::SHARD_LABEL,
        names::PAUSED_ANNOTATION,
    ] {
        assert!(shown.contains(name), "{name} is not in {shown:?}");
    }
}
