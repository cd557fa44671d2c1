//! The resources that a run takes from the machine and releases: a folder, a network namespace, control groups and
//! processes.
//!
//! Everything has one name, so that a run finds and removes the leftovers of an earlier one, however that ended.

mod cgroups;
mod network;
mod sweep;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use network::{HOST, NODE, PODS};

use cgroups::Cgroups;

/// The name of all resources.
pub(crate) const NAME: &str = "tamis-e2e";
/// The path is short, because the folder holds sockets, whose paths are limited. It is not in memory, because it holds
/// images.
const FOLDER: &str = "/var/tmp/tamis-e2e";
/// System programs and their Debian packages.
const NEEDED: &[(&str, &str)] = &[
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("tar", "tar"),
    ("ldd", "libc-bin"),
    ("strip", "binutils"),
];
/// The folders of CNI plugins: Debian's and the usual one.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// Exclusive use of the machine. On drop, everything is restored.
pub(crate) struct Machine {
    cgroups: Cgroups,
    plugins: PathBuf,
    /// The lock, held until the end.
    _lock: File,
}

impl Machine {
    /// Takes the machine, after removing the leftovers of earlier runs.
    pub(crate) fn claim() -> Result<Self> {
        let lock = lock()?;
        let plugins = check()?;
        let cgroups = Cgroups::find(NAME)?;
        sweep::sweep(&cgroups);
        let machine = Self { cgroups, plugins, _lock: lock };
        fs::create_dir_all(FOLDER).context(FOLDER)?;
        machine.cgroups.create()?;
        network::create()?;
        Ok(machine)
    }

    /// Removes the leftovers of a run that could not do so itself.
    pub(crate) fn clean() -> Result<()> {
        let _lock = lock()?;
        ensure!(is_root(), "run as root: a node is made of mounts, namespaces and control groups");
        sweep::sweep(&Cgroups::find(NAME)?);
        Ok(())
    }

    /// Returns the folder for all files of the run.
    #[expect(clippy::unused_self, reason = "there is no folder before the machine is claimed")]
    pub(crate) fn folder(&self) -> &'static Path {
        Path::new(FOLDER)
    }

    /// Returns the folder of CNI plugins.
    pub(crate) fn plugins(&self) -> &Path {
        &self.plugins
    }

    /// Returns a command that runs a program in the node's network namespace.
    pub(crate) fn on_node(program: &Path) -> Command {
        // Not `ip netns exec`, which mounts a new /sys without control groups.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{NAME}")).arg("--").arg(program);
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        sweep::sweep(&self.cgroups);
    }
}

/// Runs a system program and returns its output.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String> {
    output(Command::new(program).args(args))
}

/// Runs a command and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| shown.clone())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown}: {}: {}", output.status, said.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn lock() -> Result<File> {
    let path = PathBuf::from(format!("{FOLDER}.lock"));
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => bail!("another run is under way: it holds {}", path.display()),
        Err(fs::TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Fails with a list of everything that is missing. Returns the folder of CNI plugins.
fn check() -> Result<PathBuf> {
    ensure!(is_root(), "run as root: a node is made of mounts, namespaces and control groups");
    let missing = missing();
    ensure!(missing.is_empty(), "a node needs more: apt-get install --no-install-recommends {}", missing.join(" "));
    plugins().context("no CNI plugins")
}

/// Returns the required Debian packages that are not installed.
pub(crate) fn missing() -> Vec<&'static str> {
    let absent = NEEDED.iter().filter(|(program, _)| !is_on_path(program)).map(|&(_, package)| package);
    let mut missing: Vec<_> = absent.chain(plugins().is_none().then_some("containernetworking-plugins")).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

fn plugins() -> Option<PathBuf> {
    PLUGINS.iter().map(PathBuf::from).find(|folder| folder.join("ptp").is_file())
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
    })
}
