//! The licence texts of crates: one file, each text once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::crates::Crate;

/// The depth below a crate's folder at which vendored code has a licence (`aws-lc/third_party/fiat/LICENSE`).
const DEPTH: u32 = 5;
/// The longest text that is a licence, in bytes.
const LONGEST: u64 = 256 * 1024;

/// Returns the licences of all crates from outside this workspace.
pub(crate) fn report(crates: &[Crate]) -> Result<String> {
    let mut texts = Vec::new();
    for one in crates.iter().filter(|one| one.checksum.is_some()) {
        let title = format!("{} {} ({})", one.key.name, one.key.version, one.license);
        let mut found = Vec::new();
        gather(&one.folder, "", DEPTH, &mut found).with_context(|| title.clone())?;
        if found.is_empty() {
            found = standard(&one.license).with_context(|| title.clone())?;
        }
        texts.extend(found.into_iter().map(|(file, text)| (format!("{title}: {file}"), text)));
    }
    Ok(render(&texts))
}

/// Returns the path and the text of each licence file in a folder and below.
fn gather(folder: &Path, prefix: &str, depth: u32, found: &mut Vec<(String, String)>) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (path, metadata) = (format!("{prefix}{name}"), entry.metadata()?);
        if metadata.is_dir() && depth > 0 && !name.starts_with('.') {
            gather(&entry.path(), &format!("{path}/"), depth - 1, found)?;
        } else if metadata.is_file() && metadata.len() <= LONGEST && is_licence(&name) {
            found.push((path, String::from_utf8_lossy(&fs::read(entry.path())?).into_owned()));
        }
    }
    Ok(())
}

/// Returns whether a file with this name has a licence: `LICENSE-MIT`, `COPYING`, `NOTICE.txt`; not `license.rs`.
fn is_licence(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let begins = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
    let code = [".rs", ".c", ".h", ".go", ".py", ".pl", ".sh", ".json", ".toml", ".yml", ".yaml", ".html"];
    begins.iter().any(|begin| lower.starts_with(begin)) && !code.iter().any(|end| lower.ends_with(end))
}

/// Returns the texts of the licences in an expression, for a crate without licence files.
fn standard(expression: &str) -> Result<Vec<(String, String)>> {
    let parsed = spdx::Expression::parse(expression)?;
    let ids: BTreeSet<_> = parsed.requirements().filter_map(|requirement| requirement.req.license.id()).collect();
    if ids.is_empty() {
        bail!("no text is known for `{expression}`");
    }
    Ok(ids
        .into_iter()
        .map(|id| (format!("brings no text, this is that of {}", id.name), id.text().to_owned()))
        .collect())
}

/// Equal texts are written once, under all crates that they belong to.
fn render(texts: &[(String, String)]) -> String {
    let mut owners: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (owner, text) in texts {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        owners.entry(lines.join("\n").trim_matches('\n').to_owned()).or_default().push(owner);
    }
    let mut groups: Vec<(Vec<&str>, String)> = owners.into_iter().map(|(text, owners)| (owners, text)).collect();
    groups.sort();
    let mut report = String::from("The licences of the crates that tamis is made with.\n");
    for (owners, text) in groups {
        let rule = "=".repeat(100);
        write!(report, "\n{rule}\n{}\n{rule}\n\n{text}\n", owners.join("\n")).expect("a string grows");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::{gather, is_licence, render, standard};

    #[test]
    fn licences_are_recognized_by_their_names() {
        for name in ["LICENSE", "LICENSE-MIT", "license.md", "COPYING", "NOTICE", "UNLICENSE", "Copyright.txt"] {
            assert!(is_licence(name), "{name}");
        }
        for name in ["license.rs", "notice.c", "README.md", "copyrights.yml", "build.rs"] {
            assert!(!is_licence(name), "{name}");
        }
    }

    #[test]
    fn licences_of_code_within_a_crate_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in ["LICENSE", "src/lib.rs", "vendor/part/LICENSE-C", ".github/LICENSE"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("is made");
            std::fs::write(path, "text").expect("is written");
        }
        let mut found = Vec::new();
        gather(folder.path(), "", 2, &mut found).expect("is read");
        assert_eq!(found.into_iter().map(|(path, _)| path).collect::<Vec<_>>(), ["LICENSE", "vendor/part/LICENSE-C"]);
    }

    #[test]
    fn a_crate_without_a_text_gets_that_of_its_licence() {
        let texts = standard("MIT OR Apache-2.0").expect("are known");
        assert_eq!(texts.len(), 2);
        assert!(texts.iter().any(|(title, text)| title.ends_with("MIT") && text.contains("Permission is hereby")));
        standard("LicenseRef-own").expect_err("is not known");
    }

    #[test]
    fn equal_texts_are_written_once() {
        let text = |owner: &str, text: &str| (owner.to_owned(), text.to_owned());
        let report = render(&[text("b", "Y\n"), text("a", "X \r\nx\n"), text("c", "X\nx")]);
        let rule = "=".repeat(100);
        let expected = format!("\n{rule}\na\nc\n{rule}\n\nX\nx\n\n{rule}\nb\n{rule}\n\nY\n");
        assert!(report.ends_with(&expected), "{report}");
    }
}
