//! `tamis init`: creates a folder with example documents.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::output;

/// The documents of the folder. Each one explains itself in comments, and all can be served as they are.
const FILES: [(&str, &str); 3] = [
    ("service.yaml", include_str!("service.yaml")),
    ("filters.yaml", include_str!("filters.yaml")),
    ("exposition.yaml", include_str!("exposition.yaml")),
];

/// Create a folder with a service, a filter set and an exposition, each with comments.
///
/// `tamis serve` can serve the folder as it is: it publishes two tools of GitHub's public API, which needs no token. Existing
/// files are never overwritten: if one of the files exists, none is written.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis init
  tamis init my-api && tamis validate my-api && tamis serve my-api

Exit codes:
  0  created
  1  one of the files exists, or the folder cannot be written
  2  usage error")]
pub(crate) struct Args {
    /// The folder, which is created if it does not exist.
    #[arg(value_name = "DIR", default_value = "tamis")]
    dir: PathBuf,
}

/// Creates the folder, and prints the next steps.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = args.dir.display();
    write(&args.dir)?;
    let files: String = FILES.iter().map(|(name, _)| format!("  {}\n", args.dir.join(name).display())).collect();
    let next = format!(
        "wrote\n{files}\nNext:\n  tamis validate {dir}\n  tamis serve {dir}\n  tamis connect claude-code {dir} --write\n"
    );
    output::write(next.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all files, or none.
fn write(dir: &Path) -> anyhow::Result<()> {
    if let Some((name, _)) = FILES.iter().find(|(name, _)| fs::symlink_metadata(dir.join(name)).is_ok()) {
        bail!("{} exists, so nothing was written; name another folder", dir.join(name).display());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (name, text) in FILES {
        let path = dir.join(name);
        let written = OpenOptions::new().write(true).create_new(true).open(&path);
        match written.and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("another program has just written {}", path.display());
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_in_order_and_every_file_has_comments() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("new/tamis");
        write(&folder).expect("writes");
        let loaded = tamis_crds::load(&[folder]);
        assert!(tamis_crds::diagnose(&loaded).is_empty(), "{:#?}", tamis_crds::diagnose(&loaded));
        let resources = &loaded.resources;
        assert_eq!((resources.manifests.len(), resources.filters.len(), resources.expositions.len()), (1, 1, 1));
        for (name, text) in FILES {
            assert!(text.lines().filter(|line| line.contains("# ")).count() >= 5, "{name}");
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        for (name, _) in FILES {
            let dir = tempfile::tempdir().expect("a folder");
            fs::write(dir.path().join(name), "mine").expect("writes");
            let error = write(dir.path()).expect_err("it is there").to_string();
            assert!(error.contains(name) && error.contains("name another folder"), "{error}");
            assert_eq!(fs::read_to_string(dir.path().join(name)).expect("reads"), "mine");
            assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 1, "nothing else is written");
        }
    }
}
