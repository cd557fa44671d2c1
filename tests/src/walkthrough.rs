//! A folder in which a page is followed, with its own ports, since several tests run at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::documents::copy_folder;
use crate::page::{self, Page};
use crate::{Port, binary, root, tool};

/// Fifteen seconds on an idle machine; a loaded one has taken four times that.
const PATIENCE: Duration = Duration::from_secs(240);

/// Reads a page of the repository.
///
/// # Errors
/// It is not there; or as [`Page::read`].
pub fn page(path: &str) -> Result<Page> {
    Page::read(path, &fs::read_to_string(root().join(path)).context(path.to_owned())?)
}

/// Returns the part of a page before a heading, to run without comparing its output, as the start of another page.
///
/// # Errors
/// As [`page()`]; or there is no such heading.
pub fn before(path: &str, heading: &str) -> Result<Page> {
    let text = fs::read_to_string(root().join(path)).context(path.to_owned())?;
    let (part, _) = text.split_once(heading).with_context(|| format!("{path} has no {heading}"))?;
    let mut page = Page::read(path, part)?;
    page.blocks.iter_mut().for_each(|block| block.shown = None);
    Ok(page)
}

/// The folder in which a page is followed. Only port numbers are changed.
#[derive(Debug)]
pub struct Walkthrough {
    folder: TempDir,
    ports: Vec<(&'static str, Port)>,
}

impl Walkthrough {
    /// With a free port for each that the page uses, and copies of folders of the repository.
    ///
    /// # Errors
    /// The system's.
    pub fn new(ports: &[&'static str], folders: &[&str]) -> Result<Self> {
        let ports = ports.iter().map(|shown| Ok((*shown, Port::reserve()?))).collect::<Result<_>>()?;
        let walkthrough = Self { folder: tempfile::tempdir()?, ports };
        folders.iter().try_for_each(|part| {
            copy_folder(&root().join(part), &walkthrough.folder.path().join(part), &|text| walkthrough.with_ports(text))
        })?;
        Ok(walkthrough)
    }

    fn with_ports(&self, text: &str) -> String {
        let ports = self.ports.iter();
        ports.fold(text.to_owned(), |text, (shown, free)| text.replace(shown, &free.number().to_string()))
    }

    /// Runs the page, with more programs than `tamis` and Python, and says where it prints something else than it shows.
    ///
    /// # Errors
    /// As [`Page::run`]; with what operator and gateway have logged.
    pub async fn follow(&self, mut page: Page, programs: &[&Path], kubeconfig: &Path) -> Result<Vec<String>> {
        // Blocks for clusters with nodes are followed by the end-to-end run.
        page.blocks.retain(|block| !block.node);
        page.blocks.iter_mut().for_each(|block| block.commands = self.with_ports(&block.commands));
        let (tamis, python) = (binary("tamis")?, tool("python2/bin/python3")?);
        let own = [tamis.parent(), python.parent()].into_iter().flatten();
        let programs: Vec<&Path> = programs.iter().copied().chain(own).collect();
        let ran = page.run(self.folder.path(), &programs, kubeconfig, PATIENCE).await;
        let printed = ran.with_context(|| self.logs())?;
        // Prints the duration of each command, which is shown if the test fails.
        page::times(&printed).for_each(|mark| println!("{mark}"));
        let printed = self.ports.iter().fold(printed, |text, (shown, free)| {
            text.replace(&format!("127.0.0.1:{}", free.number()), &format!("127.0.0.1:{shown}"))
        });
        Ok(page.differences(&printed))
    }

    fn logs(&self) -> String {
        let logs = ["operator", "gateway"].map(|name| {
            let file: PathBuf = self.folder.path().join(format!("tamis-quickstart/{name}.log"));
            format!("--- {name} logged:\n{}", fs::read_to_string(file).unwrap_or_default())
        });
        logs.join("\n")
    }
}
