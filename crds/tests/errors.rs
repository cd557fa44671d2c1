//! Compares `docs/errors.md` with a table of invalid inputs and the findings that each of them causes.
//!
//! `TAMIS_UPDATE=1 cargo test -p tamis-crds --test errors` rewrites the page.

mod bad_inputs;

use std::fmt::Write as _;
use std::path::Path;

use bad_inputs::{Case, SECTIONS, printable};
use tamis_crds::{Loaded, diagnose, parse_document};

const HEAD: &str = "# Validation messages

`crds/tests/errors.rs` generates this page from a table of invalid inputs: each block shows what `tamis validate` prints. Each
finding is one line, `FILE:LINE:COLUMN: error|warning: FIELD: problem; remedy`. All findings of all files are printed together.
";

/// Everything that `tamis validate` would print about one file, and the one next to it.
fn printed(case: &Case) -> Vec<String> {
    let files = std::iter::once((case.file, case.input)).chain(case.beside);
    let loaded = Loaded::of(files.map(|(name, input)| parse_document(name, input)).collect());
    diagnose(&loaded).iter().map(ToString::to_string).collect()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (section, cases) in SECTIONS {
        let _ = write!(page, "\n## {section}\n");
        for case in *cases {
            let lines = printed(case);
            assert!(!lines.is_empty(), "{}: nothing is said", case.title);
            let syntax = if case.file.ends_with(".json") { "json" } else { "yaml" };
            let _ = write!(page, "\n### {}\n\n```{syntax}\n{}\n```\n", case.title, printable(case.input).trim_end());
            if let Some((name, input)) = case.beside {
                let _ = write!(page, "`{name}`:\n\n```text\n{}\n```\n", printable(input).trim_end());
            }
            let _ = write!(page, "```text\n{}\n```\n", lines.join("\n"));
        }
    }
    page
}

#[test]
fn the_page_shows_what_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let page = page();
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("docs can be written");
    }
    let stored = std::fs::read_to_string(&path).expect("docs/errors.md is there");
    for (line, (stored, printed)) in stored.lines().zip(page.lines()).enumerate() {
        assert_eq!(stored, printed, "docs/errors.md:{}, run with TAMIS_UPDATE=1", line + 1);
    }
    assert_eq!(stored.lines().count(), page.lines().count());
}

#[test]
fn every_finding_has_a_place_and_a_remedy() {
    for (_, cases) in SECTIONS {
        for case in *cases {
            for diagnostic in parse_document(case.file, case.input).diagnostics {
                assert!(diagnostic.line > 0 && diagnostic.column > 0, "{}", case.title);
                assert!(!diagnostic.remedy.is_empty(), "{}: {diagnostic}", case.title);
                assert!(!diagnostic.to_string().contains('\n'), "{}: {diagnostic}", case.title);
            }
        }
    }
}
