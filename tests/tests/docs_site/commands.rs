//! `docs/reference/command-line.md`: what `--help` of each command prints.

use std::fmt::Write as _;
use std::process::Command;

use tamis_crds::definitions::custom_resource_definitions;
use tamis_tests::binary;

use crate::same_as_committed;

/// The options of every command, shown once.
const COMMON: &str = "Logging:\n";

/// The names of the commands, in what `tamis --help` prints.
fn commands(help: &str) -> Vec<&str> {
    let commands = subcommands(help);
    assert!(commands.len() > 8, "{commands:?}");
    commands
}

/// The names of the commands of a command, in what its `--help` prints.
fn subcommands(help: &str) -> Vec<&str> {
    let Some((_, commands)) = help.split_once("Commands:\n") else { return Vec::new() };
    commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// What `kubectl explain` shows names no command that is not there.
#[test]
fn definitions_name_commands_that_are_there() {
    let all = help(&[]);
    let commands = commands(&all);
    for definition in custom_resource_definitions() {
        let text = definition.to_string();
        for (place, _) in text.match_indices("`tamis") {
            let quoted = text[place + 1..].split('`').next().unwrap_or_default();
            let mut words = quoted.split_whitespace();
            let known = words.next() != Some("tamis") || words.next().is_some_and(|word| commands.contains(&word));
            assert!(known, "{} speaks of `{quoted}`", definition["metadata"]["name"]);
        }
    }
}

#[test]
fn every_command_has_its_reference() {
    let all = help(&[]);
    let commands = commands(&all);
    let mut page = "# Command line\n\n\
                    <!-- Generated: change the comments in cli/src, then run TAMIS_UPDATE=1 cargo test -p tamis-tests --test \
                    docs_site -->\n\n\
                    What `tamis COMMAND --help` prints; the options for logging, which every command has, are under `tamis` alone.\n"
        .to_owned();
    let _ = write!(page, "\n## tamis\n\n```text\n{all}```\n");
    for command in commands {
        let text = help(&[command]);
        let _ = write!(page, "\n## tamis {command}\n\n```text\n{}```\n", own(&text));
        for below in subcommands(&text) {
            let text = own(&help(&[command, below]));
            let _ = write!(page, "\n### tamis {command} {below}\n\n```text\n{text}```\n");
        }
    }
    same_as_committed("docs/reference/command-line.md", &page);
}

fn help(command: &[&str]) -> String {
    // A variable that stands for an option would be shown with its value.
    let output = Command::new(binary("tamis").expect("is built"))
        .args(command)
        .arg("--help")
        .env_clear()
        .output()
        .expect("runs");
    let text = String::from_utf8(output.stdout).expect("text").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Without the options of every command.
fn own(help: &str) -> String {
    let Some((before, common)) = help.split_once(COMMON) else { return help.to_owned() };
    let next = common.lines().skip_while(|line| line.is_empty() || line.starts_with(' '));
    let after: String = next.flat_map(|line| [line, "\n"]).collect();
    if after.is_empty() { format!("{}\n", before.trim_end()) } else { before.to_owned() + &after }
}
