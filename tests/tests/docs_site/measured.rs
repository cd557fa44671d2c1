//! The tables of `docs/format.md`: exactly as `tamis bench` prints them.
//!
//! A line `<!-- Generated: tamis bench ARGUMENTS: HEADING -->` begins a table, and `<!-- end -->` ends it. What `tamis bench`
//! prints under the heading stands in between. The command is also shown on the page, where `quickstart` runs it.

use std::collections::HashMap;
use std::process::Command;

use tamis_tests::{binary, root};

use crate::same_as_committed;

const PAGE: &str = "docs/format.md";
const BEGIN: &str = "<!-- Generated: tamis bench ";
const END: &str = "<!-- end -->";

#[test]
fn the_tables_of_formats_are_those_of_bench() {
    let text = std::fs::read_to_string(root().join(PAGE)).expect("the page can be read");
    let mut printed = HashMap::new();
    let (mut page, mut tables, mut within) = (String::new(), 0, false);
    for line in text.lines() {
        within &= line != END;
        if !within {
            page += line;
            page.push('\n');
        }
        let Some(of) = line.strip_prefix(BEGIN).and_then(|line| line.strip_suffix(" -->")) else { continue };
        let (arguments, heading) = of.rsplit_once(": ").expect("arguments and a heading");
        assert!(
            text.contains(&format!("tamis bench {arguments}\n")),
            "the page does not show `tamis bench {arguments}`"
        );
        let output = printed.entry(arguments.to_owned()).or_insert_with(|| bench(arguments));
        page += table(output, heading);
        (tables, within) = (tables + 1, true);
    }
    assert!(!within && tables >= 4, "{tables} tables; is one not ended?");
    same_as_committed(PAGE, &page);
}

/// What `tamis bench` prints. The arguments are those that the page shows, with globs.
fn bench(arguments: &str) -> String {
    let program = binary("tamis").expect("is built");
    let command = format!("{} bench {arguments}", program.display());
    let output = Command::new("bash").args(["-c", &command]).current_dir(root()).env_remove("RUST_LOG").output();
    let output = output.expect("bash runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The table below a heading.
fn table<'o>(output: &'o str, heading: &str) -> &'o str {
    let (_, below) =
        output.split_once(&format!("\n## {heading}\n\n")).unwrap_or_else(|| panic!("no {heading}:\n{output}"));
    below.split_once("\n\n").map_or(below, |(table, _)| &below[..=table.len()])
}
