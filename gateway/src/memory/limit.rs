//! Finds how much memory the process may use: the limit of its control group (v1 or v2), or else the machine's memory.

use std::fmt;
use std::path::{Path, PathBuf};

/// The part of the memory that calls may hold, in percent. The rest is for configuration, the kernel's buffers for
/// connections and the allocator's overhead.
const PERCENT: u64 = 60;
/// The budget if the amount of memory is unknown.
const UNKNOWN: u64 = 1 << 30;

/// The source of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The limit of the control group, or of one above it.
    ControlGroup(u64),
    /// The memory of the machine, if there is no limit.
    Machine(u64),
    /// A fixed size, if the system reports neither.
    Unknown,
}

/// The bytes that calls may hold, and where that number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The budget.
    pub bytes: u64,
    /// Where it comes from.
    pub basis: Basis,
}

impl MemoryLimit {
    /// Returns 60 % of the memory that this process may use.
    #[must_use]
    pub fn detect() -> Self {
        Self::below(Path::new("/"))
    }

    /// [`MemoryLimit::detect`], with the files of `/proc` and `/sys` below `root`.
    fn below(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path.trim_start_matches('/'))).ok();
        let groups = read("/proc/self/cgroup").zip(read("/proc/self/mountinfo"));
        let files = groups.map(|(groups, mounts)| files(&groups, &mounts)).unwrap_or_default();
        let limits = files.iter().filter_map(|file| limit(&read(file.to_str()?)?));
        let machine = || total(&read("/proc/meminfo")?);
        // A limit above the machine's memory has no effect.
        match (limits.min(), machine()) {
            (Some(limit), machine) if machine.is_none_or(|machine| limit < machine) => {
                Self { bytes: part(limit), basis: Basis::ControlGroup(limit) }
            }
            (_, Some(machine)) => Self { bytes: part(machine), basis: Basis::Machine(machine) },
            (_, None) => Self { bytes: UNKNOWN, basis: Basis::Unknown },
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.basis {
            Basis::ControlGroup(limit) => write!(f, "{PERCENT} % of the control group's limit of {limit} bytes"),
            Basis::Machine(total) => {
                write!(f, "no control group limits memory: {PERCENT} % of the machine's {total} bytes")
            }
            Basis::Unknown => f.write_str("this system does not report how much memory it has"),
        }
    }
}

fn part(bytes: u64) -> u64 {
    bytes / 100 * PERCENT
}

/// Parses a limit in bytes. Returns none for `max`, and for more than any machine has.
fn limit(text: &str) -> Option<u64> {
    // v1 says "unlimited" as the largest number of whole pages.
    text.trim().parse().ok().filter(|limit| *limit > 0 && *limit < 1 << 60)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kilobytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the files that may hold a limit: those of the process's control group and of its visible ancestors.
fn files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let file = match controllers {
            "" => "memory.max",
            _ if controllers.split(',').any(|controller| controller == "memory") => "memory.limit_in_bytes",
            _ => continue,
        };
        let Some((root, point)) = mounts.lines().find_map(|line| mount(line, controllers.is_empty())) else { continue };
        // In a container, the group's path may be the host's. The mount then begins at that group, or has it as its
        // root.
        let inside = Path::new(group).strip_prefix(&root).unwrap_or(Path::new(""));
        let mut folder = point.join(inside);
        while folder.starts_with(&point) {
            files.push(folder.join(file));
            if !folder.pop() {
                break;
            }
        }
    }
    files
}

/// Returns the root and mount point of the hierarchy with the memory controller, from a line of `/proc/self/mountinfo`.
fn mount(line: &str, unified: bool) -> Option<(PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let mut fields = after.split(' ');
    let (kind, _, options) = (fields.next()?, fields.next()?, fields.next()?);
    let wanted = match unified {
        true => kind == "cgroup2",
        false => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    wanted.then(|| (root.into(), point.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw,nsdelegate\n";
    const V1: &str = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const MACHINE: u64 = 16_000_000 * 1024;

    /// A machine with these files of limits.
    fn machine(groups: &str, mounts: &str, limits: &[(&str, &str)]) -> MemoryLimit {
        let root = tempfile::tempdir().unwrap();
        let memory = "MemFree: 1 kB\nMemTotal:       16000000 kB\n";
        let fixed = [("proc/self/cgroup", groups), ("proc/self/mountinfo", mounts), ("proc/meminfo", memory)];
        for (path, text) in fixed.iter().chain(limits) {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        MemoryLimit::below(root.path())
    }

    #[test]
    fn the_smallest_limit_above_the_process_holds() {
        let half = 512 << 20;
        let text = half.to_string();
        let v1 = "11:memory:/kubepods/pod1/c1\n4:cpu,cpuacct:/\n0::/\n";
        let unlimited = "9223372036854771712\n";
        // The process's groups, its mounts, files by path, and the limit that follows.
        type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Basis);
        let cases: [Case<'_>; 9] = [
            ("0::/a/b\n", V2, &[("sys/fs/cgroup/a/b/memory.max", &text)], Basis::ControlGroup(half)),
            // Nested: the group above is smaller.
            (
                "0::/a/b\n",
                V2,
                &[("sys/fs/cgroup/a/b/memory.max", "9000000000"), ("sys/fs/cgroup/a/memory.max", &text)],
                Basis::ControlGroup(half),
            ),
            ("0::/a/b\n", V2, &[("sys/fs/cgroup/a/b/memory.max", "max\n")], Basis::Machine(MACHINE)),
            // A container of v2: the group is the root of what it sees.
            ("0::/\n", V2, &[("sys/fs/cgroup/memory.max", &text)], Basis::ControlGroup(half)),
            (
                v1,
                V1,
                &[("sys/fs/cgroup/memory/kubepods/pod1/c1/memory.limit_in_bytes", &text)],
                Basis::ControlGroup(half),
            ),
            (
                v1,
                V1,
                &[
                    ("sys/fs/cgroup/memory/kubepods/pod1/c1/memory.limit_in_bytes", unlimited),
                    ("sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes", &text),
                ],
                Basis::ControlGroup(half),
            ),
            // A container of v1: the path is the host's, the mount begins at the group.
            (
                v1,
                "32 23 0:28 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
                &[("sys/fs/cgroup/memory/memory.limit_in_bytes", &text)],
                Basis::ControlGroup(half),
            ),
            (v1, V1, &[("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited)], Basis::Machine(MACHINE)),
            ("", "", &[], Basis::Machine(MACHINE)),
        ];
        for (groups, mounts, limits, basis) in cases {
            assert_eq!(machine(groups, mounts, limits).basis, basis, "{groups} {limits:?}");
        }
        let found = machine("0::/a\n", V2, &[("sys/fs/cgroup/a/memory.max", "1000000000")]);
        assert_eq!(found.bytes, 600_000_000);
        assert_eq!(found.to_string(), "60 % of the control group's limit of 1000000000 bytes");
        let unknown = MemoryLimit::below(Path::new("/nowhere"));
        assert_eq!(unknown, MemoryLimit { bytes: UNKNOWN, basis: Basis::Unknown });
    }
}
