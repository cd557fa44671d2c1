//! `tamis import catalog`: copies services that are ready to use.

mod entries;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use self::entries::{ENTRIES, Entry};
use super::api::{Content, write_all};
use crate::output;

/// Copy a service that is ready to use, or list those that there are
///
/// Writes the folder NAME: a ServiceManifest, its documents, a filter set for your own agents and one for partners, an Exposition of
/// each, and README.md, which says which credential the service needs and where to get one. The files are part of this program;
/// nothing is downloaded. A file that exists and differs is not overwritten without --force; then nothing is written. Prints for
/// each file whether it was written, replaced or unchanged.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # list the services
  tamis import catalog
  tamis import catalog github -o services
  tamis validate services/github
  TAMIS_SECRET_GITHUB_TOKEN=your-token tamis serve services

Exit codes:
  0  written, or listed
  1  a file exists or cannot be written
  2  usage error")]
pub(crate) struct Args {
    /// The service. Without it, prints the services with their tools and credentials.
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(ENTRIES.iter().map(|entry| entry.name)))]
    name: Option<String>,
    /// The folder in which the folder NAME is written.
    #[arg(short = 'o', long, value_name = "DIR", default_value = ".", requires = "name")]
    directory: PathBuf,
    /// Replace files that exist.
    #[arg(long, requires = "name")]
    force: bool,
}

/// Writes the files of an entry, or lists the entries.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { name, directory, force } = args;
    let text = match name.as_deref().and_then(|name| ENTRIES.iter().find(|entry| entry.name == name)) {
        Some(entry) => copy(entry, directory, *force)?,
        None => list(),
    };
    output::write(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Written,
    Replaced,
    Unchanged,
}

impl Change {
    /// Compares a file with what it is to hold, and reads no more of it than it takes.
    fn of(file: &Path, content: &[u8]) -> anyhow::Result<Self> {
        if file.symlink_metadata().is_err() {
            return Ok(Self::Written);
        }
        let mut there = Vec::new();
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        anyhow::ensure!(is_file, "{} exists and is no file", file.display());
        File::open(file)
            .and_then(|file| file.take(content.len() as u64 + 1).read_to_end(&mut there))
            .with_context(|| format!("cannot read {}", file.display()))?;
        Ok(if there == content { Self::Unchanged } else { Self::Replaced })
    }
}

/// Writes the folder of an entry. Returns what became of each file, and what to do next.
fn copy(entry: &Entry, directory: &Path, force: bool) -> anyhow::Result<String> {
    let folder = directory.join(entry.name);
    let files: Vec<(PathBuf, &[u8])> =
        entry.files.iter().map(|(name, text)| (folder.join(name), text.as_bytes())).collect();
    let mut changes = Vec::with_capacity(files.len());
    for (file, content) in &files {
        changes.push(Change::of(file, content)?);
    }
    if let Some(at) = changes.iter().position(|change| !force && *change == Change::Replaced) {
        bail!("{} exists and differs, so nothing was written; --force replaces it", files[at].0.display());
    }
    let differing = files.iter().zip(&changes).filter(|(_, change)| **change != Change::Unchanged);
    let differing: Vec<Content<'_>> = differing.map(|((file, content), _)| (&**file, *content)).collect();
    write_all(&folder, &differing, force)?;
    let mut said = String::new();
    for ((file, _), change) in files.iter().zip(&changes) {
        let change = match change {
            Change::Written => "wrote",
            Change::Replaced => "replaced",
            Change::Unchanged => "unchanged",
        };
        let _ = writeln!(said, "{change:9} {}", file.display());
    }
    let (credential, shown, served) = (entry.credential, folder.display(), directory.display());
    let _ = write!(
        said,
        "{} tools; {} says which credential they need\n\nNext:\n  tamis validate {shown}\n  {credential}=your-token tamis serve {served}\n",
        entry.tools.len(),
        folder.join("README.md").display(),
    );
    Ok(said)
}

/// Returns the entries with their tools and credentials.
fn list() -> String {
    let mut said = String::new();
    for entry in ENTRIES {
        let Entry { name, about, credential, tools, .. } = entry;
        let _ = writeln!(
            said,
            "{name}: {about}\n  credential: {credential}\n  {} tools: {}",
            tools.len(),
            tools.join(", ")
        );
    }
    said.push_str("\nCopy one: tamis import catalog NAME -o DIR\n");
    said
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    fn github() -> &'static Entry {
        ENTRIES.iter().find(|entry| entry.name == "github").expect("is there")
    }

    /// The program holds exactly the files of `catalog/`.
    #[test]
    fn all_files_of_the_catalog_are_embedded() {
        let catalog = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../catalog"));
        let names = |folder: &Path| -> BTreeSet<String> {
            let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
            entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
        };
        let folders = names(catalog).into_iter().filter(|name| name != "payloads" && catalog.join(name).is_dir());
        assert_eq!(folders.collect::<Vec<_>>(), ENTRIES.iter().map(|entry| entry.name).collect::<Vec<_>>());
        for entry in ENTRIES {
            let embedded: BTreeSet<String> = entry.files.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(embedded, names(&catalog.join(entry.name)), "{}", entry.name);
            assert_eq!(
                entry.files.last().map(|(name, _)| *name),
                Some(&*format!("{}.yaml", entry.name)),
                "the manifest is last"
            );
            for needed in ["README.md", "internal.yaml", "partner.yaml"] {
                assert!(embedded.contains(needed), "{}: {needed}", entry.name);
            }
        }
    }

    #[test]
    fn only_what_differs_is_written_and_only_by_force() {
        let dir = tempfile::tempdir().expect("a folder");
        let read = |name: &str| fs::read_to_string(dir.path().join("github").join(name)).expect("is there");
        let said = copy(github(), dir.path(), false).expect("is written");
        assert_eq!(said.matches("wrote ").count(), github().files.len(), "{said}");
        assert!(said.contains("TAMIS_SECRET_GITHUB_TOKEN=your-token tamis serve "), "{said}");
        let again = copy(github(), dir.path(), false).expect("nothing differs");
        assert_eq!(again.matches("unchanged ").count(), github().files.len(), "{again}");

        let original = read("partner.yaml");
        fs::write(dir.path().join("github/partner.yaml"), "# my own").expect("writes");
        fs::remove_file(dir.path().join("github/README.md")).expect("is removed");
        let error = copy(github(), dir.path(), false).expect_err("differs").to_string();
        assert!(
            error.ends_with("partner.yaml exists and differs, so nothing was written; --force replaces it"),
            "{error}"
        );
        assert_eq!(read("partner.yaml"), "# my own");
        assert!(!dir.path().join("github/README.md").exists(), "nothing is written");
        let forced = copy(github(), dir.path(), true).expect("is replaced");
        let count = |word: &str| forced.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!(
            (count("wrote"), count("replaced"), count("unchanged")),
            (1, 1, github().files.len() - 2),
            "{forced}"
        );
        assert_eq!(read("partner.yaml"), original);
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("github/README.md")).expect("a folder");
        let error = copy(github(), dir.path(), true).expect_err("is a folder").to_string();
        assert!(error.ends_with("README.md exists and is no file"), "{error}");
        assert!(!dir.path().join("github/github.yaml").exists(), "nothing is written");
    }

    #[test]
    fn the_list_names_tools_and_credentials() {
        let said = list();
        for entry in ENTRIES {
            assert!(said.contains(entry.name) && said.contains(entry.credential), "{said}");
            assert!(entry.tools.iter().all(|tool| said.contains(tool)), "{said}");
        }
    }
}
