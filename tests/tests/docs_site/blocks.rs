//! Blocks of code: documents of ours can be read, JSON is JSON, shell is shell, and what a quickstart shows is run.

use std::process::Command;

use tamis_crds::{Severity, parse_document};
use tamis_tests::documents::fences;

use crate::{Page, site};

/// Pages whose `sh` blocks are all run, or marked `sh unrun`: by `quickstart.rs` and by `cluster_quickstart.rs`.
const RUN: &[&str] = &[
    "docs/editors.md",
    "docs/kubectl.md",
    "docs/quickstart-kubernetes.md",
    "docs/quickstart.md",
    "docs/troubleshooting.md",
];
/// Shows what is wrong on purpose; `crds/tests/errors.rs` makes it.
const OF_ERRORS: &str = "docs/errors.md";

#[test]
fn documents_in_blocks_are_read() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in site().iter().filter(|page| page.path != OF_ERRORS) {
        for (line, info, body) in fences(&page.text) {
            // `docs.rs` runs those with a second word.
            if info != "yaml" {
                continue;
            }
            for document in body.split("---\n").filter(|text| text.contains("apiVersion: reshapr.io/")) {
                count += 1;
                let parsed = parse_document("block.yaml", document.as_bytes());
                let errors = parsed.diagnostics.iter().filter(|found| found.severity == Severity::Error);
                wrong.extend(errors.map(|error| format!("{}:{line}: {error}", page.path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 10, "only {count} documents were found");
}

#[test]
fn json_in_blocks_is_json() {
    for page in site().iter().filter(|page| page.path != OF_ERRORS) {
        for (line, _, body) in fences(&page.text).iter().filter(|(_, info, _)| *info == "json") {
            let read = serde_json::from_str::<serde_json::Value>(body);
            assert!(read.is_ok(), "{}:{line}: {}", page.path, read.unwrap_err());
        }
    }
}

#[test]
fn shell_in_blocks_is_shell() {
    for page in site() {
        for (line, _, body) in fences(&page.text).iter().filter(|(_, info, _)| info.split(' ').next() == Some("sh")) {
            let read = Command::new("bash").args(["-n", "-c", body]).output().expect("bash runs");
            assert!(read.status.success(), "{}:{line}: {}", page.path, String::from_utf8_lossy(&read.stderr));
        }
    }
}

#[test]
fn what_a_quickstart_shows_is_run() {
    let is_quickstart = |page: &Page| page.path.starts_with("docs/quickstart");
    for page in site().iter().filter(|page| is_quickstart(page)) {
        assert!(RUN.contains(&page.path.as_str()), "{} is not run by any test", page.path);
    }
    for page in site().iter().filter(|page| RUN.contains(&page.path.as_str())) {
        let unclear =
            fences(&page.text).into_iter().find(|(_, info, _)| matches!(*info, "" | "bash" | "shell" | "console"));
        assert!(unclear.is_none(), "{}: {unclear:?}: write `sh`, or `sh unrun`", page.path);
    }
}
