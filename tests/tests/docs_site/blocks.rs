//! Blocks of code: each that a reader can copy is run by a test, or says in its info string why it is not.
//!
//! What an info string means is described in `tamis_tests::page`. A block that no test runs is still read: shell has to
//! parse, and the commands and options of `tamis` in it have to exist.

use std::collections::BTreeMap;
use std::process::Command;

use tamis_crds::{Loaded, diagnose_part, parse_document};
use tamis_tests::binary;
use tamis_tests::documents::fences;
use tamis_tests::page::{OF_CLUSTER, REASONS, WITHOUT_CLUSTER, unrun};

use crate::{Page, pages, site};

/// Contains errors on purpose; `crds/tests/errors.rs` generates it.
const OF_ERRORS: &str = "docs/errors.md";
/// Examples that `docs.rs` runs, by the second word of their info strings.
const OF_FILTERS: &str = "docs/filters/";
/// Made by `chart_values.rs` for Helm's own readers.
const OF_CHARTS: &str = "charts/";

/// All pages but those whose blocks are not for copying.
fn copied() -> Vec<Page> {
    pages().into_iter().filter(|page| page.path != OF_ERRORS && !page.path.starts_with(OF_CHARTS)).collect()
}

#[test]
fn every_block_is_run_or_says_why_not() {
    let mut wrong = Vec::new();
    let mut count = BTreeMap::new();
    for page in copied() {
        let path = page.path.as_str();
        let walked = WITHOUT_CLUSTER.contains(&path) || OF_CLUSTER.contains(&path);
        for (line, info, _) in fences(&page.text) {
            *count.entry(info.split(' ').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
            let mut words = info.split(' ');
            let (language, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let problem = match (language, rest) {
                (_, rest) if rest.starts_with("unrun") => match unrun(info) {
                    Some(reason) if REASONS.iter().any(|(known, _)| *known == reason) => continue,
                    _ => format!("`{info}` gives no reason; write one of {REASONS:?}"),
                },
                // Output, diagrams and forms with placeholders are not for copying.
                ("text", "" | "output") => continue,
                ("sh", "" | "fails" | "serves" | "node") if walked => continue,
                ("sh", _) => {
                    "no test runs this page: add it to those of `tamis_tests::page`, or write `sh unrun=..`".to_owned()
                }
                // Documents and configurations: the tests below read them.
                ("yaml" | "json", "") => continue,
                ("yaml", file) if file.starts_with("file=") && walked => continue,
                (_, "filter" | "input" | "output" | "notice" | "structured" | "report" | "refused" | "findings")
                    if path.starts_with(OF_FILTERS) =>
                {
                    continue;
                }
                _ => format!("unknown info string `{info}`"),
            };
            wrong.push(format!("{path}:{line}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{count:?}");
    assert!(count["sh"] > 60 && count["yaml"] > 40, "{count:?}");
}

/// An indented block has no info string: it cannot say what it is.
#[test]
fn blocks_are_fenced() {
    let mut wrong = Vec::new();
    for page in copied() {
        let (mut fenced, mut before, mut in_list) = (false, "", false);
        for (index, line) in page.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            let is_text = !line.is_empty() && !line.starts_with(' ');
            if !fenced && is_text {
                let item = line.trim_start_matches(|c: char| c.is_ascii_digit());
                in_list = line.starts_with("- ") || line.starts_with("* ") || item.starts_with(". ") && item != line;
            }
            if !fenced && !in_list && before.is_empty() && line.starts_with("    ") {
                wrong.push(format!("{}:{}: {line}", page.path, index + 1));
            }
            before = line;
        }
    }
    assert!(wrong.is_empty(), "write a fence with an info string:\n{}", wrong.join("\n"));
}

#[test]
fn documents_in_blocks_are_valid() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in copied() {
        for (line, info, body) in fences(&page.text) {
            if info != "yaml" && !info.starts_with("yaml file=") {
                continue;
            }
            let loaded = Loaded::of(vec![parse_document("block.yaml", body.as_bytes())]);
            let resources = loaded.resources.len();
            count += resources;
            // What a document names may be anywhere.
            let found = diagnose_part(&loaded);
            let errors = found.iter().filter(|found| found.is_error());
            wrong.extend(errors.map(|error| format!("{}:{line}: {error}", page.path)));
            if resources == 0 {
                wrong.push(format!(
                    "{}:{line}: no document of Tamis; mark what it is a part of: `yaml unrun=..`",
                    page.path
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 12, "only {count} documents were found");
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

fn shell(page: &Page) -> Vec<(usize, String)> {
    let blocks = fences(&page.text).into_iter().filter(|(_, info, _)| info.split(' ').next() == Some("sh"));
    blocks.map(|(line, _, body)| (line, body)).collect()
}

#[test]
fn shell_in_blocks_is_shell() {
    for page in copied() {
        for (line, body) in shell(&page) {
            let read = Command::new("bash").args(["-n", "-c", &body]).output().expect("bash runs");
            assert!(read.status.success(), "{}:{line}: {}", page.path, String::from_utf8_lossy(&read.stderr));
        }
    }
}

/// Those in blocks that no test runs too.
#[test]
fn commands_in_blocks_exist() {
    let help = |command: &str| {
        let mut tamis = Command::new(binary("tamis").expect("is built"));
        let output = tamis.args(command.split(' ')).arg("--help").output().expect("runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in copied() {
        for (line, body) in shell(&page) {
            let body = body.replace("\\\n", " ");
            for command in body.split(['\n', '|', ';', '&']).map(|part| part.split('#').next().unwrap_or_default()) {
                let mut words =
                    command.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
                if words.next() != Some("tamis") {
                    continue;
                }
                let Some(name) = words.next().filter(|word| !word.starts_with('-')) else { continue };
                count += 1;
                // `import` has commands of its own.
                let below = if name == "import" { words.next().unwrap_or_default() } else { "" };
                let name = format!("{name} {below}");
                let name = name.trim_end();
                let Some(help) = known.entry(name.to_owned()).or_insert_with(|| help(name)) else {
                    wrong.push(format!("{}:{line}: there is no `tamis {name}`", page.path));
                    continue;
                };
                // After `--` come the words of another program.
                for option in words.take_while(|word| *word != "--").filter(|word| word.starts_with("--")) {
                    let option = option.split('=').next().unwrap_or_default();
                    if !help.split_whitespace().any(|word| word.trim_end_matches([',', ':', '.']) == option) {
                        wrong.push(format!("{}:{line}: `tamis {name}` has no {option}", page.path));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 20, "only {count} commands were found");
}
