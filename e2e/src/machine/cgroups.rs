//! A control group that contains all processes of the run and all pods, so that all of them can be killed without
//! knowing how they were started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const MOUNT: &str = "/sys/fs/cgroup";
/// A subgroup for the run's own processes, next to those of pods: in version 2, only leaves contain processes.
const OURS: &str = "run";

/// The run's group in each hierarchy.
pub(crate) struct Cgroups {
    /// The hierarchy that identifies the run's processes, followed by the others (version 1 has one for each
    /// controller).
    groups: Vec<PathBuf>,
}

impl Cgroups {
    /// Finds the hierarchies without creating anything.
    pub(crate) fn find(name: &str) -> Result<Self> {
        let mount = Path::new(MOUNT);
        let mut hierarchies = Vec::new();
        if mount.join("cgroup.controllers").exists() {
            hierarchies.push(mount.to_owned());
        } else {
            let entries = fs::read_dir(mount).context("no control groups")?;
            hierarchies.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
            // Symbolic links are aliases.
            hierarchies.retain(|path| path.join("cgroup.procs").exists() && !path.is_symlink());
            hierarchies.sort_by_key(|path| (!path.ends_with("pids"), path.clone()));
        }
        let groups: Vec<_> = hierarchies.into_iter().map(|path| path.join(name)).collect();
        anyhow::ensure!(!groups.is_empty(), "no control groups under {MOUNT}");
        Ok(Self { groups })
    }

    /// Creates the groups and moves this process into them. Child processes inherit them.
    pub(crate) fn create(&self) -> Result<()> {
        for group in &self.groups {
            fs::create_dir_all(group).with_context(|| group.display().to_string())?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                // Version 1 starts with an empty set, and rejects processes.
                if let Some(text) = group.parent().and_then(|above| fs::read_to_string(above.join(file)).ok()) {
                    fs::write(group.join(file), text).with_context(|| group.join(file).display().to_string())?;
                }
            }
        }
        let ours = self.groups[0].join(OURS);
        fs::create_dir_all(&ours)?;
        enter(&ours)
    }

    /// Kills every process in the groups except this one, and removes the groups.
    pub(crate) fn remove(&self) -> Result<()> {
        let first = &self.groups[0];
        if !first.exists() {
            return Ok(());
        }
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let processes = processes(first);
            if processes.is_empty() {
                break;
            }
            anyhow::ensure!(Instant::now() < until, "processes do not end: {processes:?}");
            // A process may have exited already.
            let _ = Command::new("kill").arg("-KILL").args(&processes).output();
            std::thread::sleep(Duration::from_millis(50));
        }
        enter(first.parent().context("no hierarchy")?)?;
        self.groups.iter().filter(|group| group.exists()).try_for_each(|group| remove(group))
    }
}

fn enter(group: &Path) -> Result<()> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string()).with_context(|| file.display().to_string())
}

/// Returns the processes in a group and its subgroups, except this one.
fn processes(group: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found: Vec<String> =
        fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines().map(str::to_owned).collect();
    found.extend(below(group).iter().flat_map(|path| processes(path)));
    found.retain(|process| *process != own);
    found
}

fn below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Removes a group and its subgroups. A group whose last process has just exited is busy for a moment.
fn remove(group: &Path) -> Result<()> {
    below(group).iter().try_for_each(|path| remove(path))?;
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match fs::remove_dir(group) {
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            other => return other.with_context(|| group.display().to_string()),
        }
    }
}
