//! Programs that the gateway runs: how they are started, which environment they get, and how they end.
//!
//! A program runs as the user of the gateway, next to everything that this user may read. Only `tamis serve` runs programs
//! (`docs/decisions/0061-programs.md`).

mod group;
mod limits;

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::Pid;
use tamis_config::names::CREDENTIAL_VARIABLES;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use group::Running;
pub use group::{Group, Started};
pub use limits::{Limits, LimitsError, limiter};

use crate::workers;

/// The variables that a program gets from the environment of the gateway without being listed.
const PASSED: [&str; 6] = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "LOGNAME"];
/// What the names of further variables that are passed begin with: the locale.
const LOCALE: &str = "LC_";

/// Returns the environment of a program: the variables of `all` on the allow-list, and those whose names are in `listed`. A name
/// that ends with `*` lists every variable that begins so, but for credentials. Variables that are not set are left out.
pub fn environment(
    all: impl IntoIterator<Item = (OsString, OsString)>,
    listed: &[String],
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsStr| {
        let Some(name) = name.to_str() else { return false };
        let is_listed = |listed: &String| match listed.strip_suffix('*') {
            Some(stem) => name.starts_with(stem) && !name.starts_with(CREDENTIAL_VARIABLES),
            None => listed == name,
        };
        PASSED.contains(&name) || name.starts_with(LOCALE) || listed.iter().any(is_listed)
    };
    all.into_iter().filter(|(name, _)| passes(name)).collect()
}

/// The programs that run. Dropping it ends them.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// The words that execute a program within limits.
    limiter: Vec<OsString>,
    stop: CancellationToken,
    tasks: TaskTracker,
    groups: Arc<Groups>,
}

/// The process groups of programs that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<Vec<Pid>>);

impl Groups {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Pid>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Programs {
    /// Creates the programs of a gateway. `limiter`: the words that execute a program within limits.
    pub(crate) fn new(limiter: Vec<OsString>) -> Self {
        Self { limiter, stop: CancellationToken::new(), tasks: TaskTracker::new(), groups: Arc::default() }
    }

    /// Returns the words that execute a program within limits; empty if this gateway knows none.
    pub(crate) fn limiter(&self) -> &[OsString] {
        &self.limiter
    }

    /// Returns a token that is cancelled when a program should end: by its owner, or because all programs end.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    /// Returns whether all programs end, so that none may be started.
    pub(crate) fn are_ending(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Runs the task that owns a program, on the runtime that outlives the workers. The task ends the program's group. It gets
    /// the group that [`Group::start`] returned within `start`.
    ///
    /// # Errors
    /// The error of `start`.
    pub(crate) fn run<S, F>(
        &self,
        start: impl FnOnce() -> std::io::Result<S>,
        pid: impl FnOnce(&S) -> Pid,
        task: impl FnOnce(S) -> F,
    ) -> std::io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = workers::background();
        let _entered = runtime.enter();
        let started = start()?;
        let pid = pid(&started);
        self.groups.with(|groups| groups.push(pid));
        let (groups, task) = (Arc::clone(&self.groups), task(started));
        self.tasks.spawn(async move {
            task.await;
            groups.with(|groups| groups.retain(|other| *other != pid));
        });
        Ok(())
    }

    /// Ends all programs, and waits until their process groups are gone. None can be started afterwards.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Kills the process groups of all programs at once, for a process that does not wait.
    pub(crate) fn kill(&self) {
        self.stop.cancel();
        self.groups.with(|groups| groups.iter().for_each(|pid| group::kill(*pid)));
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What tests ask of processes.
#[cfg(test)]
pub(crate) mod testing {
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, test_kill_process};

    /// Returns whether a process runs. One that has ended and was not waited for does not.
    pub(crate) fn runs(pid: &str) -> bool {
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = state.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"));
        test_kill_process(pid).is_ok() && !is_zombie
    }

    /// Repeats `test` every 10 ms until it holds, for 20 s at most.
    pub(crate) async fn until(what: &str, mut test: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !test() {
            assert!(Instant::now() < end, "not in time: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_what_is_listed_and_no_credential_of_the_gateway() {
        let all = [
            "PATH",
            "HOME",
            "LANG",
            "LC_ALL",
            "LC_TIME",
            "TMPDIR",
            "USER",
            "LOGNAME",
            "TAMIS_SECRET_A_B",
            "GITHUB_TOKEN",
            "LD_PRELOAD",
            "HOST",
            "AWS_SECRET_ACCESS_KEY",
            "path",
        ];
        let all = || all.map(|name| (OsString::from(name), OsString::from("x")));
        let names = |listed: &[&str]| {
            let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
            let given = environment(all(), &listed).into_iter().map(|(name, _)| name.into_string().unwrap());
            given.collect::<Vec<_>>()
        };
        let always = ["PATH", "HOME", "LANG", "LC_ALL", "LC_TIME", "TMPDIR", "USER", "LOGNAME"];
        assert_eq!(names(&[]), always);
        assert_eq!(names(&["HOST", "MISSING"]), [&always[..], &["HOST"]].concat());
        assert_eq!(names(&["GITHUB_*"]), [&always[..], &["GITHUB_TOKEN"]].concat());
        assert_eq!(names(&["T*"]), always, "no pattern passes a credential of the gateway");
    }
}
