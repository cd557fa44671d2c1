//! The Debian packages of the libraries: for their licences, and for scanners that warn of vulnerable versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::layer::Tree;
use super::libraries::Library;
use super::oci::hex;
use crate::run::quietly;

/// A package, and its files in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) architecture: String,
    /// The source package and its version, which security advisories name.
    pub(crate) source: (String, String),
    /// `debian-12`.
    pub(crate) distribution: String,
    /// Paths in the image, and SHA-256.
    pub(crate) files: Vec<(String, String)>,
}

impl Package {
    /// Where it comes from, as a [package URL](https://github.com/package-url/purl-spec).
    pub(crate) fn purl(&self) -> String {
        let distributor = self.distribution.split('-').next().unwrap_or_default();
        let (name, version) = (encoded(&self.name), encoded(&self.version));
        let (source, source_version) = (encoded(&self.source.0), encoded(&self.source.1));
        format!(
            "pkg:deb/{distributor}/{name}@{version}?arch={}&distro={}&upstream={source}%40{source_version}",
            self.architecture, self.distribution
        )
    }

    /// Returns the licence of its libraries, if it is a known one. The file `copyright` has the full text.
    pub(crate) fn license(&self) -> Option<&'static str> {
        match self.source.0.as_str() {
            "glibc" => Some("LGPL-2.1-or-later"),
            source if source.starts_with("gcc-") => Some("GPL-3.0-or-later WITH GCC-exception-3.1"),
            _ => None,
        }
    }
}

/// Encodes a version for a URL: Debian's versions contain `+`, `~` and `:`.
fn encoded(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    text.chars().map(|c| if plain(c) { c.to_string() } else { format!("%{:02X}", u32::from(c)) }).collect()
}

/// Returns the packages of libraries, ordered by name.
pub(crate) fn of(libraries: &[Library]) -> Result<Vec<Package>> {
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    if libraries.is_empty() {
        return Ok(Vec::new());
    }
    let distribution = distribution(&fs::read_to_string("/etc/os-release")?)?;
    for library in libraries {
        let owner = owner(&library.from)?;
        if !packages.contains_key(&owner) {
            packages.insert(owner.clone(), package(&owner, &distribution)?);
        }
        packages.get_mut(&owner).expect("was put there").files.push((library.to.clone(), hex(&library.bytes)));
    }
    Ok(packages.into_values().collect())
}

/// Returns the package of a file, as `name:architecture`.
fn owner(file: &Path) -> Result<String> {
    let shown = file.to_string_lossy();
    // dpkg knows a file by its path in the package, with or without /usr.
    let canonical = fs::canonicalize(file)?;
    let other = match shown.strip_prefix("/usr") {
        Some(short) => short.to_owned(),
        None => format!("/usr{shown}"),
    };
    for path in [&*shown, &other, &canonical.to_string_lossy()] {
        if let Ok(text) = quietly(Command::new("dpkg-query").args(["--search", path]))
            && let Some(package) = owner_in(&text, path)
        {
            return Ok(package.to_owned());
        }
    }
    bail!(
        "dpkg does not know which package {shown} is of: an image names its libraries' packages and licences; build it on \
         Debian or Ubuntu, or with the Dockerfile"
    )
}

/// Parses `libc6:amd64: /lib/..`, one package a line.
fn owner_in<'a>(text: &'a str, path: &str) -> Option<&'a str> {
    let mut owners = text.lines().filter_map(|line| line.strip_suffix(path)?.strip_suffix(": ")?.split(", ").next());
    // A line on a diversion is a sentence.
    owners.find(|owner| !owner.contains(' '))
}

fn package(owner: &str, distribution: &str) -> Result<Package> {
    const FORMAT: &str = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n";
    let text = quietly(Command::new("dpkg-query").args(["--show", &format!("--showformat={FORMAT}"), owner]))?;
    let fields: Vec<&str> = text.trim_end().split('\t').collect();
    let [name, version, architecture, source, source_version] = fields[..] else {
        bail!("dpkg-query --show {owner} says `{}`", text.trim_end());
    };
    Ok(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        architecture: architecture.to_owned(),
        source: (source.to_owned(), source_version.to_owned()),
        distribution: distribution.to_owned(),
        files: Vec::new(),
    })
}

/// Returns `debian-12` for an os-release file.
fn distribution(text: &str) -> Result<String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let id = value("ID").context("/etc/os-release has no ID")?;
    // Debian's unstable branch has no number.
    Ok(value("VERSION_ID").map_or(id.clone(), |version| format!("{id}-{version}")))
}

/// Adds the packages' licences at Debian's paths, with the texts that they refer to.
pub(crate) fn licences(packages: &[Package], tree: &mut Tree) -> Result<()> {
    let mut texts = BTreeSet::new();
    for package in packages {
        let path = format!("/usr/share/doc/{}/copyright", package.name);
        let copyright = fs::read(&path).with_context(|| format!("the licence of {}: {path}", package.name))?;
        texts.extend(common(&String::from_utf8_lossy(&copyright)));
        tree.file(&path, 0o644, copyright)?;
    }
    for path in texts {
        let text = fs::read(&path).with_context(|| path.clone())?;
        tree.file(&path, 0o644, text)?;
    }
    Ok(())
}

/// Returns the paths of the licences that a `copyright` file refers to.
fn common(copyright: &str) -> impl Iterator<Item = String> {
    const FOLDER: &str = "/usr/share/common-licenses/";
    copyright.split(FOLDER).skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c))).unwrap_or(rest.len());
        // The name may be the end of a sentence.
        let name = rest[..end].trim_end_matches('.');
        (!name.is_empty()).then(|| format!("{FOLDER}{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::{Package, common, distribution, owner_in};

    #[test]
    fn the_owner_of_a_file_is_read_as_dpkg_prints_it() {
        let path = "/lib/x86_64-linux-gnu/libc.so.6";
        for (printed, owner) in [
            ("libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6\n", Some("libc6:amd64")),
            (
                "diversion by x from: /lib/x86_64-linux-gnu/libc.so.6\nlibc6:amd64: /lib/x86_64-linux-gnu/libc.so.6",
                Some("libc6:amd64"),
            ),
            ("libc6:amd64, libc6-x:amd64: /lib/x86_64-linux-gnu/libc.so.6", Some("libc6:amd64")),
            ("libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6.1", None),
            ("", None),
        ] {
            assert_eq!(owner_in(printed, path), owner, "{printed}");
        }
    }

    #[test]
    fn a_distribution_is_named_with_its_release() {
        assert_eq!(distribution("NAME=\"Debian\"\nVERSION_ID=\"12\"\nID=debian\n").expect("is one"), "debian-12");
        assert_eq!(distribution("ID=debian\n").expect("is one"), "debian");
        distribution("NAME=x\n").expect_err("has no ID");
    }

    #[test]
    fn texts_that_a_licence_refers_to_are_found() {
        let copyright = "see /usr/share/common-licenses/LGPL-2.1 and\n`/usr/share/common-licenses/GPL'.\n\
                         In /usr/share/common-licenses/GPL-3.\n/usr/share/common-licenses/\n";
        let found: Vec<String> = common(copyright).collect();
        assert_eq!(found, ["LGPL-2.1", "GPL", "GPL-3"].map(|name| format!("/usr/share/common-licenses/{name}")));
    }

    #[test]
    fn a_package_url_is_encoded() {
        let package = Package {
            name: "libc6".to_owned(),
            version: "1:2.36-9+deb12u14".to_owned(),
            architecture: "amd64".to_owned(),
            source: ("glibc".to_owned(), "2.36-9+deb12u14".to_owned()),
            distribution: "debian-12".to_owned(),
            files: Vec::new(),
        };
        assert_eq!(
            package.purl(),
            "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12&upstream=glibc%402.36-9%2Bdeb12u14"
        );
    }
}
