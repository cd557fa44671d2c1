//! Documentation that is followed word by word.
//!
//! The info string of a fence selects how the test treats it. `sh` is run, all of them in one shell that ends at the
//! first command that fails; `sh fails` must fail; `sh serves` is one command that is stopped two seconds after its
//! first word. `text output` is what the `sh` before it prints: column widths, ages, times and digests aside, and `...`
//! stands for any lines. `yaml` is a document that the page shows; `yaml file=NAME` is saved under that name before the
//! next command. `text` is not for copying: output, forms with placeholders. Commands that need a cluster with nodes
//! are in `sh node`, and their output in `text output`.
//!
//! What no test can run is marked `unrun=REASON` after its language, with one of [`REASONS`]. `docs_site` refuses every other
//! block.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;

use crate::documents::fences;

/// Pages that a test follows on any machine.
pub const WITHOUT_CLUSTER: &[&str] = &[
    "README.md",
    "docs/quickstart.md",
    "docs/editors.md",
    "docs/access.md",
    "docs/connect.md",
    "docs/serve.md",
    "docs/filters/README.md",
    "docs/chunks.md",
    "docs/format.md",
    "docs/mcp-servers.md",
    "docs/bundles.md",
    "docs/prompts-resources.md",
    "docs/mcp-programs.md",
    "docs/programs.md",
    "docs/openapi.md",
    "docs/graphql.md",
    "docs/catalog.md",
    "docs/grpc.md",
];
/// Pages that a test follows with a Kubernetes API server.
pub const OF_CLUSTER: &[&str] = &[
    "docs/quickstart-kubernetes.md",
    "docs/kubectl.md",
    "docs/troubleshooting.md",
    "docs/mcp-servers-kubernetes.md",
    "docs/documents-kubernetes.md",
];
/// Why a block is not run by the tests of the pages.
pub const REASONS: &[(&str, &str)] = &[
    ("build", "builds a program, an image or the tests themselves, which takes minutes"),
    ("cluster", "needs a cluster in a state that the page describes and no other test has"),
    ("helm", "installs a release, as the tests of the charts do with values of their own"),
    ("network", "calls a public API or downloads"),
    ("collector", "needs a collector of traces, as traces.rs starts one"),
    ("program", "is for another program: an editor, Prometheus, Flux, Argo CD"),
    ("part", "is a part of a file and cannot stand alone"),
];

/// The reason in an info string such as `sh unrun=network`.
#[must_use]
pub fn unrun(info: &str) -> Option<&str> {
    info.split(' ').nth(1)?.strip_prefix("unrun=")
}

/// Precedes each block's output.
const MARK: &str = "@@@ block ";

/// Commands, and the output that the page shows for them.
#[derive(Debug, Clone)]
pub struct Block {
    /// Where it begins: page and line.
    pub at: String,
    /// The commands.
    pub commands: String,
    /// The heading above.
    pub section: String,
    /// Whether they must fail.
    pub fails: bool,
    /// Whether it is one command that ends when it is stopped.
    pub serves: bool,
    /// Whether they are for clusters with nodes.
    pub node: bool,
    /// What they print.
    pub shown: Option<String>,
}

/// A parsed page.
#[derive(Debug)]
pub struct Page {
    /// The blocks to run, in order.
    pub blocks: Vec<Block>,
    /// Documents that it shows, each with its place.
    pub documents: Vec<(String, String)>,
}

impl Page {
    /// Parses a page.
    ///
    /// # Errors
    /// An info string is unknown, or an output follows no commands.
    pub fn read(name: &str, text: &str) -> Result<Self> {
        let (mut blocks, mut documents) = (Vec::<Block>::new(), Vec::new());
        for (line, info, body) in fences(text) {
            let at = format!("{name}:{line}");
            match info {
                "sh" | "sh fails" | "sh node" | "sh serves" => {
                    let above = text.lines().take(line).filter_map(|line| line.strip_prefix("## ")).last();
                    let section = above.unwrap_or_default().to_owned();
                    let (fails, node, serves) = (info == "sh fails", info == "sh node", info == "sh serves");
                    blocks.push(Block { at, commands: body, section, fails, serves, node, shown: None });
                }
                "text output" => {
                    let last = blocks.last_mut().filter(|block| block.shown.is_none());
                    last.with_context(|| format!("{at}: nothing prints this"))?.shown = Some(body);
                }
                "yaml" => documents.push((at, body)),
                _ if unrun(info).is_some() => {}
                "json" | "json input" | "json output" | "text" | "yaml filter" => {}
                _ if info.starts_with("yaml file=") => {
                    let file = &info["yaml file=".len()..];
                    let commands = format!("cat > {file} <<'END OF THE DOCUMENT'\n{body}END OF THE DOCUMENT\n");
                    let section = String::new();
                    blocks.push(Block { at, commands, section, fails: false, serves: false, node: false, shown: None });
                }
                _ => bail!("{at}: unknown info string `{info}`"),
            }
        }
        Ok(Self { blocks, documents })
    }

    /// Appends another page.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.blocks.extend(other.blocks);
        self.documents.extend(other.documents);
        self
    }

    /// Runs all blocks in one shell, in a folder; what they printed, to both streams.
    ///
    /// # Errors
    /// A command failed that must not, or took too long; the message has what was printed.
    pub async fn run(
        &self,
        folder: &Path,
        programs: &[&Path],
        kubeconfig: &Path,
        patience: Duration,
    ) -> Result<String> {
        let file = folder.join("commands.sh");
        std::fs::write(&file, self.script())?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = programs.iter().map(|&program| program.to_owned()).chain(std::env::split_paths(&path));
        let mut command = Command::new("bash");
        command.arg("-c").arg("exec 2>&1; source \"$0\"").arg(&file).current_dir(folder);
        command.env("PATH", std::env::join_paths(path)?).env("KUBECONFIG", kubeconfig).env("HOME", folder);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = tokio::time::timeout(patience, child.wait_with_output()).await;
        let output = output.context("the page takes too long")??;
        let printed = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{}: the commands printed\n{printed}", output.status);
        ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(printed)
    }

    fn script(&self) -> String {
        // Background processes end with the shell.
        let mut script = "set -eu -o pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
        for Block { at, commands, fails, serves, .. } in &self.blocks {
            script += &format!("printf '\\n{MARK}%s, after %s s\\n' {at} $SECONDS\n");
            if *fails {
                script += &format!("if {{\n{commands}}}; then\necho 'did not fail'\nexit 1\nfi\n");
            } else if *serves {
                // The program has started once it prints something.
                let command = commands.trim_end();
                script += &format!("{command} > served 2>&1 &\nSERVES=$!\n");
                script += "for _ in $(seq 600); do if [ -s served ]; then break; fi; sleep 0.1; done\nsleep 2\n";
                script += "kill $SERVES\nwait $SERVES\ncat served\n";
            } else {
                script += commands;
            }
        }
        script
    }

    /// Returns the differences between the printed output and the page.
    #[must_use]
    pub fn differences(&self, printed: &str) -> Vec<String> {
        let outputs: Vec<&str> = printed.split(MARK).skip(1).collect();
        let blocks = self.blocks.iter().enumerate();
        blocks.filter_map(|(index, block)| wrong(block, outputs.get(index).copied())).collect()
    }
}

fn wrong(block: &Block, printed: Option<&str>) -> Option<String> {
    let (_mark, printed) = printed.and_then(|printed| printed.split_once('\n')).unwrap_or_default();
    let shown = block.shown.as_deref()?;
    let lines = |text: &str| text.trim_end().lines().map(comparable).collect::<Vec<_>>();
    let same = matches(&lines(shown), &lines(printed));
    (!same).then(|| format!("{}: prints\n{}\nand not\n{shown}", block.at, printed.trim_end()))
}

/// Which block began when, in what was printed.
pub fn times(printed: &str) -> impl Iterator<Item = &str> {
    printed.lines().filter(|line| line.starts_with(MARK))
}

/// Whether lines are as shown, where `...` stands for any number of lines.
fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((first, rest)) => printed.split_first().is_some_and(|(line, after)| line == first && matches(rest, after)),
    }
}

/// Normalizes the parts of a line that differ from run to run.
fn comparable(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        if is_age(word) {
            return "AGE".to_owned();
        }
        if word.parse::<jiff::Timestamp>().is_ok() {
            return "TIME".to_owned();
        }
        let parts = word.split('-').map(|part| if is_digest(part) { "DIGEST" } else { part });
        parts.collect::<Vec<_>>().join("-")
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `3s`, `2m10s`, `5m`.
fn is_age(word: &str) -> bool {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    matches!(shape.replace("00", "0").replace("00", "0").as_str(), "0s" | "0m" | "0m0s")
}

/// Returns whether a text is a document's digest, which depends on the port of the upstream.
fn is_digest(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::{Page, comparable, matches};

    #[test]
    fn what_differs_from_run_to_run_is_not_compared() {
        let line = |text: &str| comparable(text);
        assert_eq!(line("a   True    3s"), line("a True  2m10s"));
        assert_eq!(line("a 2026-11-22T09:00:00Z"), line("a  2026-11-22T10:31:07Z"));
        assert_eq!(line(&format!("a-{}-0", "1f".repeat(20))), line(&format!("a-{}-0", "e0".repeat(20))));
        assert_ne!(line("a True 3s"), line("a False 3s"));
        let lines = |text: &str| text.lines().map(comparable).collect::<Vec<_>>();
        assert!(matches(&lines("a\n...\nd"), &lines("a\nb\nc\nd")) && matches(&lines("a\n..."), &lines("a")));
        assert!(!matches(&lines("a\n...\nd"), &lines("a\nb\nc")) && !matches(&lines("a"), &lines("a\nb")));
    }

    #[test]
    fn info_strings_select_the_blocks_to_run() {
        let text = "```sh\na\n```\n```text output\nb\n```\n```sh unrun=network\nc\n```\n```yaml\nd: 1\n```\n";
        let page = Page::read("p.md", text).expect("is a page");
        let page = page.then(Page::read("q.md", "```sh\ne\n```\n").expect("is a page"));
        assert_eq!(page.blocks.iter().map(|block| block.at.as_str()).collect::<Vec<_>>(), ["p.md:1", "q.md:1"]);
        assert_eq!(page.documents, [("p.md:10".to_owned(), "d: 1\n".to_owned())]);
        let page = Page::read("p.md", "```yaml file=a.yaml\nb: $c\n```\n").expect("is a page");
        assert_eq!(page.blocks[0].commands, "cat > a.yaml <<'END OF THE DOCUMENT'\nb: $c\nEND OF THE DOCUMENT\n");
        for bad in ["```text output\nb\n```\n", "```sh now\na\n```\n", "```sh unrun\na\n```\n"] {
            Page::read("p.md", bad).expect_err(bad);
        }
    }
}
