//! The commit of an image, and its time, which is the only timestamp in an image.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run::{quietly, root};

/// The state of the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision {
    /// The commit, with the suffix `-dirty` if tracked files differ. `None` without git.
    pub(crate) commit: Option<String>,
    /// Seconds since 1970.
    pub(crate) time: u64,
}

impl Revision {
    /// Of the workspace. `TAMIS_REVISION` and `SOURCE_DATE_EPOCH` come first: a build without the repository's history
    /// sets them.
    pub(crate) fn read() -> Result<Self> {
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(set) => set.trim().to_owned(),
            Err(_) => git(&["log", "-1", "--format=%ct"])
                .context("an image carries the time of the commit: set SOURCE_DATE_EPOCH where there is no git")?,
        };
        let commit = match std::env::var("TAMIS_REVISION") {
            Ok(set) if set.is_empty() => None,
            Ok(set) => Some(set),
            Err(_) => commit(),
        };
        Ok(Self { commit, time: seconds(&time)? })
    }

    /// Returns the time in RFC 3339.
    pub(crate) fn created(&self) -> Result<String> {
        Ok(jiff::Timestamp::from_second(self.time.try_into()?)?.to_string())
    }
}

/// Parses a time that a tar archive and a date can represent.
fn seconds(text: &str) -> Result<u64> {
    let seconds = text.parse().with_context(|| format!("SOURCE_DATE_EPOCH: `{text}` is no number of seconds"))?;
    ensure!(seconds < 1 << 33, "SOURCE_DATE_EPOCH: {seconds} lies beyond what a tar archive can say");
    Ok(seconds)
}

/// Returns the commit, with the suffix `-dirty` if tracked files differ. `None` without git.
pub(crate) fn commit() -> Option<String> {
    let head = git(&["rev-parse", "HEAD"]).ok()?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).ok()?;
    Some(if changed.is_empty() { head } else { format!("{head}-dirty") })
}

fn git(arguments: &[&str]) -> Result<String> {
    Ok(quietly(Command::new("git").args(arguments).current_dir(root()))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Revision, seconds};

    #[test]
    fn the_time_is_printed_in_utc() {
        let revision = Revision { commit: None, time: 1_700_000_000 };
        assert_eq!(revision.created().expect("is a time"), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn invalid_times_are_rejected() {
        assert_eq!(seconds("0").expect("is one"), 0);
        for text in ["", "-1", "now", "99999999999"] {
            let error = seconds(text).expect_err(text).to_string();
            assert!(error.contains("SOURCE_DATE_EPOCH"), "{error}");
        }
    }
}
