//! A control group with a memory limit, v1 or v2, if this process may create one.

use std::fs;
use std::path::{Path, PathBuf};

/// A group that is removed on drop, once its processes have exited.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    unified: bool,
}

impl ControlGroup {
    /// Creates a group. Returns `None` if that is not possible, without root or a memory controller.
    #[must_use]
    pub fn create(name: &str, limit: u64) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |wanted: &str| {
            let path = groups.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(wanted))?;
            Some(path.trim_start_matches('/').to_owned())
        };
        let name = format!("{name}-{}", std::process::id());
        let v1 = own("memory:").map(|path| (Path::new("/sys/fs/cgroup/memory").join(path), false));
        let v2 = own(":").map(|path| (Path::new("/sys/fs/cgroup").join(path), true));
        // Under v2, a group with processes cannot have subgroups with limits: use the root, or the parent of the
        // current group.
        let above = |(path, unified): (PathBuf, bool)| match unified {
            true => (
                path.parent().filter(|above| above.starts_with("/sys/fs/cgroup")).map_or(path.clone(), Path::to_owned),
                true,
            ),
            false => (path, false),
        };
        v1.into_iter().chain(v2.map(above)).find_map(|(parent, unified)| {
            let group = Self { folder: parent.join(&name), unified };
            fs::create_dir(&group.folder).ok()?;
            let file = if unified { "memory.max" } else { "memory.limit_in_bytes" };
            // Dropping it removes the folder again.
            fs::write(group.folder.join(file), limit.to_string()).ok().map(|()| group)
        })
    }

    /// Returns the words to put before a command so that it runs in the group.
    #[must_use]
    pub fn wrapper(&self) -> Vec<String> {
        let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", self.folder.display());
        ["sh", "-c", &enter, "sh"].map(str::to_owned).to_vec()
    }

    fn read(&self, v1: &str, v2: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(if self.unified { v2 } else { v1 })).ok()
    }

    /// Returns the peak memory of the group in bytes.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        self.read("memory.max_usage_in_bytes", "memory.peak")?.trim().parse().ok()
    }

    /// Returns the number of processes killed by the memory limit.
    #[must_use]
    pub fn killed(&self) -> Option<u64> {
        let events = self.read("memory.oom_control", "memory.events")?;
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A process that exits takes a moment to leave the group.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
