//! Which cores the processes run on, and how idle a core was.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// The division of the machine's cores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cores {
    /// Cores of the load generator and of the upstream.
    pub(crate) load: Vec<usize>,
    /// The core of the measured server.
    pub(crate) target: usize,
}

impl Cores {
    /// Gives the last core to the measured server and the others to everything else. Cores that are threads of the
    /// target's physical core stay unused, unless no others exist.
    fn divide(available: &[usize], siblings: &[usize]) -> Result<Self> {
        let (&target, others) = available.split_last().context("this process may use no core")?;
        let apart: Vec<usize> = others.iter().copied().filter(|core| !siblings.contains(core)).collect();
        let load = match (apart.is_empty(), others.is_empty()) {
            (false, _) => apart,
            (true, false) => others.to_vec(),
            (true, true) => vec![target],
        };
        Ok(Self { load, target })
    }

    /// Divides the cores that this process may use.
    pub(crate) fn of_this_machine() -> Result<Self> {
        let available = system::allowed()?;
        let last = available.last().context("this process may use no core")?;
        let path = format!("/sys/devices/system/cpu/cpu{last}/topology/thread_siblings_list");
        let siblings = std::fs::read_to_string(path).map_or_else(|_| Vec::new(), |text| list(&text));
        Self::divide(&available, &siblings)
    }

    /// Moves this thread to the cores of the load generator.
    pub(crate) fn stay(&self) -> Result<()> {
        system::pin(&self.load)
    }

    /// Runs `spawn` on the target's core: the process that it starts inherits the core.
    pub(crate) fn on_target<T>(&self, spawn: impl FnOnce() -> T) -> Result<T> {
        system::pin(&[self.target])?;
        let spawned = spawn();
        self.stay()?;
        Ok(spawned)
    }

    /// Says which processes share which cores.
    pub(crate) fn description(&self) -> String {
        let load: Vec<String> = self.load.iter().map(ToString::to_string).collect();
        let target = self.target;
        if self.load == [target] {
            return format!("everything shares core {target}");
        }
        let shared = if self.load.len() == 1 { " share core " } else { " on cores " };
        format!(
            "the load generator and the upstream{shared}{}, the measured server alone on core {target}",
            load.join(", ")
        )
    }
}

/// Reads a list such as `0-2,8`.
fn list(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last);
        }
    }
    cores
}

/// The time that a core has spent so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CoreTime {
    /// Without work.
    pub(crate) idle: Duration,
    /// In processes, user and system.
    pub(crate) processes: Duration,
}

impl CoreTime {
    /// Reads the time of one core from `/proc/stat`.
    pub(crate) fn now(core: usize) -> Result<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat")?, core)
    }

    fn read(stat: &str, core: usize) -> Result<Self> {
        let name = format!("cpu{core}");
        let mut words = stat
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut words| (words.next() == Some(&name)).then_some(words))
            .with_context(|| format!("/proc/stat does not list core {core}"))?;
        let mut times = [Duration::ZERO; 5];
        for time in &mut times {
            *time = ticks(words.next().context("/proc/stat ends early")?.parse()?);
        }
        let [user, nice, system, idle, waiting] = times;
        Ok(Self { idle: idle + waiting, processes: user + nice + system })
    }
}

/// Converts ticks of the kernel. Their rate is 100 a second on every Linux that Rust supports.
pub(crate) fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 10)
}

#[cfg(target_os = "linux")]
mod system {
    use anyhow::Result;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> Result<Vec<usize>> {
        let set = sched_getaffinity(None)?;
        Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
    }

    pub(super) fn pin(cores: &[usize]) -> Result<()> {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use anyhow::{Result, bail};

    pub(super) fn allowed() -> Result<Vec<usize>> {
        bail!("this benchmark needs Linux: it pins processes to cores and reads /proc");
    }

    pub(super) fn pin(_: &[usize]) -> Result<()> {
        allowed().map(drop)
    }
}

/// Fails if the limit of open files does not allow `connections` of this process.
pub(crate) fn files_allow(limits: &str, connections: usize) -> Result<()> {
    let allowed = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|rest| rest.split_whitespace().next())
        .context("/proc/self/limits does not list open files")?;
    let enough = allowed == "unlimited" || allowed.parse::<usize>()? >= connections;
    ensure!(enough, "needs {connections} open files, the limit is {allowed}; raise it with `ulimit -n`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CoreTime, Cores, files_allow, list};

    #[test]
    fn the_target_has_a_core_of_its_own_where_there_are_two() {
        for (available, siblings, load, target, says) in [
            (&[0, 1][..], &[1][..], &[0][..], 1, "share core 0, the measured server alone on core 1"),
            (&[0, 1], &[0, 1], &[0], 1, "share core 0,"),
            (&[0, 1, 2, 3], &[2, 3], &[0, 1], 3, "on cores 0, 1, the measured server alone on core 3"),
            (&[5], &[5], &[5], 5, "everything shares core 5"),
        ] {
            let cores = Cores::divide(available, siblings).expect("there are cores");
            assert_eq!((cores.load.as_slice(), cores.target), (load, target), "{available:?}");
            assert!(cores.description().contains(says), "{}", cores.description());
        }
        Cores::divide(&[], &[]).expect_err("no core");
    }

    #[test]
    fn lists_of_cores_have_ranges() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(list("\n"), [0; 0]);
    }

    #[test]
    fn waiting_counts_as_idle_and_interrupts_count_as_neither() {
        let stat = "cpu  9 9 9 9 9 9 9\ncpu1 10 2 3 400 50 6 7 8 0 0\ncpu10 1 1 1 1 1 1 1 1 0 0\n";
        let time = CoreTime::read(stat, 1).expect("is listed");
        assert_eq!(time.idle, Duration::from_millis(4500));
        assert_eq!(time.processes, Duration::from_millis(150));
        CoreTime::read(stat, 2).expect_err("is not listed");
    }

    #[test]
    fn a_low_limit_of_open_files_is_named() {
        let limits = "Limit Soft Hard\nMax open files            1024                 20000                files\n";
        files_allow(limits, 1000).expect("allows");
        let error = files_allow(limits, 10_000).expect_err("does not allow").to_string();
        assert!(error.contains("the limit is 1024") && error.contains("ulimit -n"), "{error}");
    }
}
