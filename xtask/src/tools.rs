//! The tools that the tests need and cargo does not provide, installed into `.tools/` from the lock files in
//! `tests/clients/`, `tests/servers/`, `tests/toon/`, `tests/graphql/`, `tests/openapi/` and `tests/cluster/`.
//!
//! Each tool has its own folder with a stamp, the text of its lock files. If the stamp is unchanged, the tool is
//! installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use crate::cluster::{API_SERVER, COLLECTOR, GO_SERVER, HELM, NODE};
use crate::run::{quietly, root};
use crate::{definitions, needs, prometheus};

/// The installed tools.
#[derive(Debug)]
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// `.tools/`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a program from the test runner's folder, if it is there.
    pub(crate) fn cargo_tool(&self, name: &str) -> Option<PathBuf> {
        let installed = self.folder.join(CARGO_TOOLS).join("bin").join(name);
        let found = installed.is_file() || quietly(Command::new(name).arg("--version")).is_ok();
        found.then(|| if installed.is_file() { installed } else { name.into() })
    }
}

const STAMP: &str = ".stamp";
const CARGO_TOOLS: &str = "cargo";
/// Folders of Python packages, and their lock files.
const PYTHON: &[(&str, &str)] = &[
    ("python1", "tests/clients/python1.txt"),
    ("python2", "tests/clients/python2.txt"),
    ("strawberry", "tests/graphql/strawberry.txt"),
    ("grpcio", "tests/grpc/grpcio.txt"),
    (CARGO_TOOLS, "tests/clients/cargo-tools.txt"),
];
/// Folders of Node packages, and the folders of their lock files.
const NODE_PACKAGES: &[(&str, &str)] = &[
    ("node", "tests/clients"),
    ("servers", "tests/servers"),
    ("toon", "tests/toon"),
    ("graphql", "tests/graphql"),
    ("openapi", "tests/openapi"),
];
const NODE_FILES: &[&str] = &["package.json", "package-lock.json", ".npmrc"];

/// Installs the agents whose command lines read what `tamis connect` writes: some 860 MB.
pub(crate) fn install_agents(tools: &Tools) -> Result<()> {
    let locks = root().join("tests/clients/agents");
    let stamp = NODE_FILES.iter().map(|file| read(&locks.join(file))).collect::<Result<String>>()?;
    once(&tools.folder.join("agents"), &stamp, |folder| {
        packages(folder, &locks)?;
        // Its postinstall script replaces a placeholder script with the program.
        let claude = folder.join("node_modules/@anthropic-ai/claude-code");
        quietly(Command::new("node").arg("install.cjs").current_dir(claude)).map(drop)
    })
}

/// Installs published OpenAPI documents, some 800 MB, and returns the folder of their packages.
pub(crate) fn install_documents(tools: &Tools) -> Result<PathBuf> {
    let locks = root().join("tests/openapi/documents");
    let stamp = NODE_FILES.iter().map(|file| read(&locks.join(file))).collect::<Result<String>>()?;
    let folder = tools.folder.join("documents");
    once(&folder, &stamp, |folder| packages(folder, &locks))?;
    Ok(folder.join("node_modules"))
}

/// The gateways that `cargo xtask bench gateway` compares with, with lock files in `bench/gateway/peers/`.
const PEERS: &[&str] = &["fastmcp", "mcp-proxy", "contextforge"];

/// Installs published gateways, some 450 MB, and returns their folder.
pub(crate) fn install_peers() -> Result<PathBuf> {
    needs::check_python()?;
    let (peers, locks) = (root().join(".tools/peers"), root().join("bench/gateway/peers"));
    let python = quietly(Command::new("python3").arg("--version"))?;
    for name in PEERS {
        let lock = locks.join(format!("{name}.txt"));
        let stamp = format!("{python}{}", read(&lock)?);
        once(&peers.join(name), &stamp, |folder| environment(folder, &lock))
            .with_context(|| format!("installing {name}; --without-peers leaves it out"))?;
    }
    Ok(peers)
}

/// Installs all missing tools in parallel.
pub(crate) fn install() -> Result<Tools> {
    let tools = root().join(".tools");
    let (cluster, helm) = (API_SERVER.is_needed(&tools)?, HELM.is_needed(&tools)?);
    // Always built from the module: it contains exactly the components that the tests configure.
    let (collector, server) = (!COLLECTOR.is_built(&tools)?, !GO_SERVER.is_built(&tools)?);
    let (prometheus, definitions) = (prometheus::is_needed(&tools)?, definitions::is_needed(&tools)?);
    needs::check(cluster || helm || collector || server || prometheus || definitions)?;
    let python = quietly(Command::new("python3").arg("--version"))?;
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for &(name, lock) in PYTHON {
            let (tools, python) = (&tools, &python);
            running.push(scope.spawn(move || {
                let lock = root().join(lock);
                let stamp = format!("{python}{}", read(&lock)?);
                once(&tools.join(name), &stamp, |folder| environment(folder, &lock))
            }));
        }
        for (name, locks) in NODE_PACKAGES {
            let tools = &tools;
            running.push(scope.spawn(move || {
                let locks = root().join(locks);
                let stamp = NODE_FILES.iter().map(|file| read(&locks.join(file))).collect::<Result<String>>()?;
                once(&tools.join(name), &stamp, |folder| packages(folder, &locks))
            }));
        }
        // Built one after the other, since each build keeps all cores busy.
        running.push(scope.spawn(|| {
            let needed = [(cluster, &API_SERVER), (helm, &HELM), (collector, &COLLECTOR), (server, &GO_SERVER)];
            needed.into_iter().filter(|(needed, _)| *needed).try_for_each(|(_, set)| set.install(&tools))?;
            if prometheus {
                prometheus::install(&tools)?;
            }
            if definitions { definitions::install(&tools) } else { Ok(()) }
        }));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
    });
    results.into_iter().collect::<Result<()>>().context("installing what the tests need into .tools/")?;
    for (name, locks) in NODE_PACKAGES {
        link_packages(&tools.join(name).join("node_modules"), &root().join(locks).join("node_modules"))?;
    }
    Ok(Tools { folder: tools })
}

/// Builds the programs of a node, unless they are already there.
pub(crate) fn install_node() -> Result<()> {
    let tools = root().join(".tools");
    if !NODE.is_needed(&tools)? {
        return Ok(());
    }
    needs::check(true)?;
    NODE.install(&tools).context("building what a node needs into .tools/")
}

/// Returns whether a folder has this stamp.
pub(crate) fn is_stamped(folder: &Path, stamp: &str) -> bool {
    fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == stamp)
}

/// Empties and refills a folder, unless it has this stamp.
pub(crate) fn once(folder: &Path, stamp: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if is_stamped(folder, stamp) {
        return Ok(());
    }
    let began = Instant::now();
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fill(folder)?;
    fs::write(folder.join(STAMP), stamp)?;
    eprintln!("    installed {}: {:.1} s", folder.display(), began.elapsed().as_secs_f64());
    Ok(())
}

fn environment(folder: &Path, lock: &Path) -> Result<()> {
    quietly(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let pip = folder.join("bin/python");
    quietly(Command::new(pip).args(["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]).arg(lock))
        .map(drop)
}

fn packages(folder: &Path, locks: &Path) -> Result<()> {
    for file in NODE_FILES {
        fs::copy(locks.join(file), folder.join(file))?;
    }
    quietly(Command::new("npm").args(["ci", "--ignore-scripts", "--no-fund", "--no-audit"]).current_dir(folder))
        .map(drop)
}

/// Node searches for packages in the folder of the importing program.
fn link_packages(from: &Path, to: &Path) -> Result<()> {
    match fs::symlink_metadata(to) {
        Ok(found) if found.is_symlink() => fs::remove_file(to)?,
        Ok(_) => bail!("{} is in the way: remove it", to.display()),
        Err(_) => {}
    }
    std::os::unix::fs::symlink(from, to).with_context(|| format!("linking {}", to.display()))
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::once;

    #[test]
    fn a_folder_is_filled_once_for_each_stamp() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("tool");
        let mut filled = 0;
        for stamp in ["a", "a", "b"] {
            once(&folder, stamp, |_| {
                filled += 1;
                Ok(())
            })
            .expect("is filled");
        }
        assert_eq!(filled, 2);
    }

    #[test]
    fn a_failed_installation_is_tried_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("tool");
        once(&folder, "a", |_| anyhow::bail!("no network")).expect_err("fails");
        let mut filled = false;
        once(&folder, "a", |_| {
            filled = true;
            Ok(())
        })
        .expect("is filled");
        assert!(filled);
    }
}
