//! The crates in the program, as Cargo lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};
use serde::Deserialize;

use super::platform::Platform;
use crate::run::{cargo, quietly, root};

/// One version of one crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// A crate that is linked into the program.
#[derive(Debug, Clone)]
pub(crate) struct Crate {
    pub(crate) key: Key,
    /// The SPDX expression.
    pub(crate) license: String,
    /// The SHA-256 of its archive, from Cargo.lock. `None` for a crate of this workspace.
    pub(crate) checksum: Option<String>,
    pub(crate) repository: Option<String>,
    /// The folder of its sources.
    pub(crate) folder: PathBuf,
    /// The crates in the same list that it depends on.
    pub(crate) dependencies: BTreeSet<Key>,
}

/// Returns all crates in the program, including those of this workspace, and the crates in `data`, ordered by name.
pub(crate) fn of(platform: Platform, data: &[&str]) -> Result<Vec<Crate>> {
    let triple = platform.triple();
    let tree = ["tree", "--locked", "--package", "tamis", "--target", triple, "--prefix", "none", "--format", "{p}"];
    // Without the dependencies of build scripts and macros, which are not in the program.
    let linked = quietly(cargo(tree).args(["--edges", "normal,no-proc-macro"]).env("CARGO_TERM_QUIET", "true"))?;
    let mut command = MetadataCommand::new();
    command.current_dir(root()).other_options(["--locked", "--filter-platform", triple].map(str::to_owned));
    let metadata = command.exec()?;
    let mut keys = linked_in(&linked);
    keys.extend(metadata.packages.iter().filter(|package| data.contains(&package.name.as_str())).map(key));
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    select(&keys, &metadata, &checksums(&lock)?)
}

/// Adds licences, checksums and sources to the list of crates.
fn select(linked: &BTreeSet<Key>, metadata: &Metadata, checksums: &BTreeMap<Key, String>) -> Result<Vec<Crate>> {
    let keys: BTreeMap<_, Key> = metadata.packages.iter().map(|package| (&package.id, key(package))).collect();
    let resolve = metadata.resolve.as_ref().context("cargo metadata without dependencies")?;
    let edges: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, &node.dependencies)).collect();
    let mut crates = Vec::new();
    for package in &metadata.packages {
        let key = key(package);
        if !linked.contains(&key) {
            continue;
        }
        let license = license(package).with_context(|| format!("{} says no licence", key.name))?;
        let license = spdx::Expression::canonicalize(&license)?.unwrap_or(license);
        let dependencies = edges.get(&package.id).copied().into_iter().flatten().filter_map(|id| keys.get(id));
        crates.push(Crate {
            license,
            checksum: checksums.get(&key).cloned(),
            repository: package.repository.clone(),
            folder: package.manifest_path.parent().context("a manifest in a folder")?.into(),
            dependencies: dependencies.filter(|key| linked.contains(key)).cloned().collect(),
            key,
        });
    }
    let missing: Vec<_> = linked.iter().filter(|key| !crates.iter().any(|found| found.key == **key)).collect();
    anyhow::ensure!(missing.is_empty(), "cargo metadata does not know {missing:?}");
    crates.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(crates)
}

/// Returns the SPDX expression of a package; for one that names a file instead, what the title of the file says.
fn license(package: &cargo_metadata::Package) -> Option<String> {
    package.license.clone().or_else(|| {
        let text = fs::read_to_string(package.license_file()?).ok()?;
        (text.lines().next()?.trim() == "MIT License").then(|| "MIT".to_owned())
    })
}

fn key(package: &cargo_metadata::Package) -> Key {
    Key { name: package.name.to_string(), version: package.version.to_string() }
}

/// Parses the lines of `cargo tree`: `name v1.2.3`, with more text after it.
fn linked_in(tree: &str) -> BTreeSet<Key> {
    let key = |line: &str| {
        let mut words = line.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some(Key { name: name.to_owned(), version: version.to_owned() })
    };
    tree.lines().filter_map(key).collect()
}

/// From Cargo.lock.
fn checksums(lock: &str) -> Result<BTreeMap<Key, String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).context("Cargo.lock")?;
    let locked = lock.package.into_iter();
    Ok(locked.filter_map(|Locked { name, version, checksum }| Some((Key { name, version }, checksum?))).collect())
}

#[cfg(test)]
mod tests {
    use super::{Key, checksums, linked_in, of};
    use crate::image::platform::Platform;

    fn key(name: &str, version: &str) -> Key {
        Key { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn the_lines_of_cargo_tree_are_read() {
        let tree = "tamis v0.1.0 (/src/cli)\nanyhow v1.0.100\nserde v1.0.2 (*)\nanyhow v1.0.100 (*)\n\n";
        let linked: Vec<Key> = linked_in(tree).into_iter().collect();
        assert_eq!(linked, [key("anyhow", "1.0.100"), key("serde", "1.0.2"), key("tamis", "0.1.0")]);
    }

    #[test]
    fn checksums_are_those_of_the_lock_file() {
        let lock = "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"0a\"\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let sums = checksums(lock).expect("is read");
        assert_eq!(sums.into_iter().collect::<Vec<_>>(), [(key("a", "1.0.0"), "0a".to_owned())]);
    }

    #[test]
    fn the_crates_of_the_program_are_known_with_licence_and_checksum() {
        let crates = of(Platform::Amd64, &["webpki-root-certs"]).expect("are known");
        let find = |name: &str| crates.iter().find(|one| one.key.name == name);
        let tamis = find("tamis").expect("itself");
        assert!(tamis.checksum.is_none() && tamis.dependencies.iter().any(|key| key.name == "tamis-engine"));
        assert_eq!(find("tokio").expect("is linked").checksum.as_ref().map(String::len), Some(64));
        assert!(find("webpki-root-certs").is_some_and(|found| found.checksum.is_some()));
        // Of a macro, of a build script, of the tests.
        for other in ["serde_derive", "cc", "proptest", "xtask"] {
            assert!(find(other).is_none(), "{other} is not linked");
        }
    }
}
