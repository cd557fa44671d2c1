//! Pages whose commands are run, and whose outputs are compared with what is printed.
//!
//! A fence's info string says what is done with it. `sh` is run, all of them in one shell that ends at the first command
//! that fails; `sh fails` must fail; `sh serves` is one command that runs until it is stopped, two seconds later; `sh unrun`
//! is not run; `sh node` is only for clusters with nodes ([`Page::on_nodes`]). `text output` is what the `sh` before it prints: column widths, ages, times and digests aside, and
//! `...` stands for any lines. Other fences are only read.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;

use crate::documents::fences;
use crate::{Port, binary, root, tool};

/// Begins each block's output.
const MARK: &str = "@@@ block ";
/// Fifteen seconds on an idle machine, twice that on a node; a loaded one has taken many times that.
const PATIENCE: Duration = Duration::from_secs(400);

/// A page, and where it was found.
#[derive(Debug)]
pub struct Page {
    path: &'static str,
    blocks: Vec<Block>,
    documents: Vec<(usize, String)>,
}

/// What is run, and what the page says that it prints.
#[derive(Debug, Clone)]
struct Block {
    at: String,
    /// The heading above.
    section: String,
    commands: String,
    how: How,
    /// Whether it is for clusters with nodes alone.
    node: bool,
    shown: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Succeeds,
    Fails,
    Serves,
}

impl Page {
    /// Reads a page of the repository, as clusters without nodes follow it.
    ///
    /// # Errors
    /// It is not there, or shows an output that nothing prints.
    pub fn read(path: &'static str) -> Result<Self> {
        let text = fs::read_to_string(root().join(path)).context(path)?;
        Ok(Self::of(path, &text)?.without_nodes())
    }

    /// Reads a page of the repository, as clusters with nodes follow it: what is for them alone after the first of the
    /// sections that they share with others, and the last of that at the end. Sections are named by how they begin.
    ///
    /// # Errors
    /// As [`Page::read`]; or nothing is for nodes alone.
    pub fn on_nodes(path: &'static str, shared: &[&str]) -> Result<Self> {
        let text = fs::read_to_string(root().join(path)).context(path)?;
        Self::of(path, &text)?.with_nodes(shared)
    }

    /// The part of a page before a heading, to be run and not compared: what another page begins with.
    ///
    /// # Errors
    /// As [`Page::read`]; or there is no such heading.
    pub fn before(path: &'static str, heading: &str) -> Result<Self> {
        let text = fs::read_to_string(root().join(path)).context(path)?;
        let (part, _) = text.split_once(heading).with_context(|| format!("{path} has no {heading}"))?;
        let mut page = Self::of(path, part)?.without_nodes();
        page.blocks.iter_mut().for_each(|block| block.shown = None);
        Ok(page)
    }

    fn of(path: &'static str, text: &str) -> Result<Self> {
        let (mut blocks, mut documents) = (Vec::<Block>::new(), Vec::new());
        for (line, info, body) in fences(text) {
            let at = format!("{path}:{line}");
            let how = match info {
                "sh" | "sh node" => How::Succeeds,
                "sh fails" => How::Fails,
                "sh serves" => How::Serves,
                "text output" => {
                    let last = blocks.last_mut().filter(|block| block.shown.is_none());
                    last.with_context(|| format!("{at}: nothing prints this"))?.shown = Some(body);
                    continue;
                }
                "yaml" => {
                    documents.push((line, body));
                    continue;
                }
                "sh unrun" | "json" | "text" | "lua" => continue,
                _ => bail!("{at}: what is a fence `{info}`?"),
            };
            let above = text.lines().take(line).filter_map(|line| line.strip_prefix("## ")).last();
            let section = above.unwrap_or_default().to_owned();
            blocks.push(Block { at, section, commands: body, how, node: info == "sh node", shown: None });
        }
        Ok(Self { path, blocks, documents })
    }

    fn without_nodes(mut self) -> Self {
        self.blocks.retain(|block| !block.node);
        self
    }

    fn with_nodes(mut self, shared: &[&str]) -> Result<Self> {
        let (mut own, others): (Vec<_>, Vec<_>) = self.blocks.drain(..).partition(|block| block.node);
        let last = own.pop().with_context(|| format!("{}: nothing is for clusters with nodes", self.path))?;
        for heading in shared {
            self.blocks.extend(others.iter().filter(|block| block.section.starts_with(heading)).cloned());
            self.blocks.append(&mut own);
        }
        self.blocks.push(last);
        Ok(self)
    }

    /// How many blocks are run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether nothing is run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The YAML documents that it shows, each with its place.
    pub fn documents(&self) -> impl Iterator<Item = (String, &str)> {
        self.documents.iter().map(|(line, text)| (format!("{}:{line}", self.path), text.as_str()))
    }
}

/// Follows pages in one shell, in a folder of their own. Nothing is changed on the way but port numbers, since several
/// tests run at once.
#[derive(Debug)]
pub struct Walk {
    folder: tempfile::TempDir,
    ports: Vec<(&'static str, Port)>,
    replaced: Vec<(&'static str, String)>,
    path: Vec<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
}

impl Walk {
    /// With a free port for each that the pages use.
    ///
    /// # Errors
    /// The system's.
    pub fn new(ports: &[&'static str]) -> Result<Self> {
        let ports = ports.iter().map(|ours| Ok((*ours, Port::reserve()?))).collect::<Result<_>>()?;
        let tamis = binary("tamis")?;
        let python = tool("python2/bin/python3")?;
        let path = [tamis.parent(), python.parent()].into_iter().flatten().map(Path::to_owned).collect();
        Ok(Self { folder: tempfile::tempdir()?, ports, replaced: Vec::new(), path, variables: Vec::new() })
    }

    /// With a text in the place of another: in commands, in what they show and in YAML files.
    #[must_use]
    pub fn replace(mut self, from: &'static str, to: impl Into<String>) -> Self {
        self.replaced.push((from, to.into()));
        self
    }

    /// With programs of a folder.
    #[must_use]
    pub fn with_programs(mut self, folder: &Path) -> Self {
        self.path.insert(0, folder.to_owned());
        self
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Copies a folder of the repository; ports are replaced in its YAML files.
    ///
    /// # Errors
    /// The file system's.
    pub fn copy(&self, part: &str) -> Result<()> {
        self.copy_folder(&root().join(part), &self.folder.path().join(part))
    }

    fn copy_folder(&self, from: &Path, to: &Path) -> Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.copy_folder(&entry.path(), &target)?;
            } else if entry.path().extension().is_some_and(|extension| extension == "yaml") {
                fs::write(target, self.replaced(&fs::read_to_string(entry.path())?))?;
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    }

    fn replaced(&self, text: &str) -> String {
        let text = self.replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        self.ports.iter().fold(text, |text, (ours, free)| text.replace(ours, &free.number().to_string()))
    }

    /// Runs the pages one after the other, and says where they print something else than they show.
    ///
    /// # Errors
    /// A command fails that should not, or does not end; the message has what was printed, and the files `*.log` of the
    /// folder.
    pub async fn follow(&self, pages: &[Page]) -> Result<Vec<String>> {
        let blocks: Vec<&Block> = pages.iter().flat_map(|page| &page.blocks).collect();
        let printed = self.run(&self.script(&blocks)).await?;
        // Which command took how long: shown where the test fails.
        for mark in printed.lines().filter(|line| line.starts_with(MARK)) {
            println!("{mark}");
        }
        let printed = self.ports.iter().fold(printed, |text, (ours, free)| {
            text.replace(&format!("127.0.0.1:{}", free.number()), &format!("127.0.0.1:{ours}"))
        });
        let printed = self.replaced.iter().fold(printed, |text, (from, to)| text.replace(to, from));
        let outputs: Vec<&str> = printed.split(MARK).skip(1).collect();
        Ok(blocks.iter().enumerate().filter_map(|(index, block)| wrong(block, outputs.get(index))).collect())
    }

    fn script(&self, blocks: &[&Block]) -> String {
        // What runs in the background ends with the shell.
        let mut script = "set -eu -o pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
        for block in blocks {
            let commands = self.replaced(&block.commands);
            script += &format!("printf '\\n{MARK}%s, after %s s\\n' {} $SECONDS\n", block.at);
            script += &match block.how {
                How::Succeeds => commands,
                How::Fails => format!("if {{\n{commands}}}; then\necho 'did not fail'\nexit 1\nfi\n"),
                How::Serves => {
                    format!("{} &\nSERVES=$!\nsleep 2\nkill $SERVES\nwait $SERVES\n", commands.trim_end())
                }
            };
        }
        script
    }

    /// What the script prints, to both streams.
    async fn run(&self, script: &str) -> Result<String> {
        let folder = self.folder.path();
        let file = folder.join("commands.sh");
        fs::write(&file, script)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(self.path.iter().cloned().chain(std::env::split_paths(&path)))?;
        let mut command = Command::new("bash");
        command.arg("-c").arg("exec 2>&1; source \"$0\"").arg(&file).current_dir(folder);
        command.env("PATH", path).env("HOME", folder).envs(self.variables.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output =
            tokio::time::timeout(PATIENCE, child.wait_with_output()).await.context("the pages take too long")??;
        let printed = String::from_utf8(output.stdout)?;
        if !output.status.success() {
            bail!("{}: the commands printed\n{printed}\n{}", output.status, logs(folder));
        }
        ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(printed)
    }
}

/// The files `*.log` one folder down.
fn logs(folder: &Path) -> String {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().map(|entry| entry.path());
    let logs = files.filter(|file| file.extension().is_some_and(|extension| extension == "log"));
    logs.map(|file| format!("--- {}:\n{}", file.display(), fs::read_to_string(&file).unwrap_or_default())).collect()
}

/// How what was printed differs from what the page shows.
fn wrong(block: &Block, printed: Option<&&str>) -> Option<String> {
    let (_line, printed) = printed.and_then(|printed| printed.split_once('\n')).unwrap_or_default();
    let shown = block.shown.as_deref()?;
    let lines = |text: &str| text.trim_end().lines().map(comparable).collect::<Vec<_>>();
    let same = matches(&lines(shown), &lines(printed));
    (!same).then(|| format!("{}: prints\n{}\nand not\n{shown}", block.at, printed.trim_end()))
}

/// Whether lines are as shown, where `...` stands for any number of lines.
fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((first, rest)) => printed.split_first().is_some_and(|(line, after)| line == first && matches(rest, after)),
    }
}

/// A line without what differs from run to run.
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

/// What a document is called by; it differs with the port of the upstream.
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
    fn clusters_with_nodes_follow_what_is_for_them() {
        let page = "## 1. A\n```sh\na\n```\n## 2. B\n```sh\nb\n```\n## 3. C\n```sh\nc\n```\n## N\n```sh node\nd\n```\n```sh node\ne\n```\n";
        let commands = |page: Page| page.blocks.iter().map(|block| block.commands.trim().to_owned()).collect::<Vec<_>>();
        let page = || Page::of("p.md", page).expect("is a page");
        assert_eq!(commands(page().without_nodes()), ["a", "b", "c"]);
        assert_eq!(commands(page().with_nodes(&["1. ", "3. "]).expect("has some")), ["a", "d", "c", "e"]);
        Page::of("p.md", "```sh\na\n```\n").expect("is a page").with_nodes(&[]).expect_err("has none");
    }

    #[test]
    fn a_page_says_what_is_run() {
        let page = "```sh\na\n```\n```text output\nb\n```\n```sh unrun\nc\n```\n```yaml\nd: 1\n```\n";
        let page = Page::of("p.md", page).expect("is a page");
        assert_eq!((page.len(), page.documents().count()), (1, 1));
        assert_eq!(page.documents().next(), Some(("p.md:10".to_owned(), "d: 1\n")));
        for bad in ["```text output\nb\n```\n", "```sh now\na\n```\n"] {
            Page::of("p.md", bad).expect_err(bad);
        }
    }
}
