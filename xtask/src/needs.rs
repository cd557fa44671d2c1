//! The programs that must already be installed.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run::quietly;

struct Need {
    what: &'static str,
    command: &'static [&'static str],
    /// The lowest supported version. The installed version is the first number in the command's output.
    least: Option<(u32, u32)>,
    remedy: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler",
        command: &["cc", "--version"],
        least: None,
        remedy: "install gcc or clang (Debian: build-essential; macOS: xcode-select --install)",
    },
    Need {
        what: "Python 3.10 or later",
        command: &["python3", "--version"],
        least: Some((3, 10)),
        remedy: "install Python (Debian: python3)",
    },
    Need {
        what: "Python's venv and pip",
        command: &["python3", "-c", "import venv, ensurepip"],
        least: None,
        remedy: "install them (Debian: python3-venv)",
    },
    Need {
        what: "Node 20 or later",
        command: &["node", "--version"],
        least: Some((20, 0)),
        remedy: "install Node.js from your package manager",
    },
    Need { what: "npm", command: &["npm", "--version"], least: None, remedy: "install npm (Debian: npm)" },
];

const GO: Need = Need {
    what: "Go 1.25 or later, to build a Kubernetes API server and Prometheus,",
    command: &["go", "version"],
    least: Some((1, 25)),
    remedy: "install Go (https://go.dev/dl); KUBEBUILDER_ASSETS may name a folder with etcd, kube-apiserver and kubectl",
};

/// Fails with a list of everything that is missing and how to install it.
pub(crate) fn check(cluster: bool) -> Result<()> {
    require("the tests need", NEEDS.iter().chain(cluster.then_some(&GO)))
}

/// Fails with a list of what is missing to install Python packages.
pub(crate) fn check_python() -> Result<()> {
    require("Python packages need", NEEDS.iter().filter(|need| need.command[0] == "python3"))
}

fn require(what: &str, needs: impl Iterator<Item = &'static Need>) -> Result<()> {
    let missing: Vec<String> = needs.filter_map(|need| unmet(need, &printed(need))).collect();
    if !missing.is_empty() {
        bail!("{what} more than Rust:\n{}", missing.join("\n"));
    }
    Ok(())
}

fn printed(need: &Need) -> Result<String> {
    quietly(Command::new(need.command[0]).args(&need.command[1..]))
}

/// Returns a line for an unmet need.
fn unmet(need: &Need, printed: &Result<String>) -> Option<String> {
    let Need { what, remedy, .. } = need;
    match (printed, need.least) {
        (Err(_), _) => Some(format!("  {what} is missing: {remedy}")),
        (Ok(_), None) => None,
        (Ok(text), Some(least)) => match version(text) {
            Some(found) if found >= least => None,
            Some((major, minor)) => Some(format!("  {what} is needed, this is {major}.{minor}: {remedy}")),
            None => Some(format!("  {what} is needed, `{}` names no version: {remedy}", need.command.join(" "))),
        },
    }
}

/// Returns major and minor of the first `1.2` in a text.
pub(crate) fn version(text: &str) -> Option<(u32, u32)> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let mut parts = text[from..].split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::{NEEDS, unmet, version};

    #[test]
    fn versions_are_read_as_the_programs_print_them() {
        assert_eq!(version("v20.20.2\n"), Some((20, 20)));
        assert_eq!(version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(version("Python"), None);
    }

    #[test]
    fn an_unmet_need_names_what_to_install() {
        let python = NEEDS.iter().find(|need| need.command == ["python3", "--version"]).expect("is listed");
        assert_eq!(unmet(python, &Ok("Python 3.11.7".to_owned())), None);
        let old = unmet(python, &Ok("Python 3.9.2".to_owned())).expect("is too old");
        assert!(old.contains("this is 3.9") && old.contains("install Python"), "{old}");
        let missing = unmet(python, &Err(anyhow!("not found"))).expect("is missing");
        assert!(missing.contains("is missing: install Python"), "{missing}");
    }
}
