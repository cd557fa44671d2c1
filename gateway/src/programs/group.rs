//! A program in a process group of its own, which ends as a whole.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{self, SignalKind};

/// How long a program may take to end by itself after its standard input has ended (MCP, "Shutdown").
const AFTER_INPUT: Duration = Duration::from_millis(500);
/// How long a program may take to end after SIGTERM.
const AFTER_TERM: Duration = Duration::from_secs(3);

/// A program that was started, with its pipes.
#[derive(Debug)]
pub struct Started {
    /// The program's standard input. Dropping it is the first step of ending the program.
    pub stdin: ChildStdin,
    /// The program's standard output.
    pub stdout: ChildStdout,
    /// The program's standard error.
    pub stderr: ChildStderr,
    /// The program and its children.
    pub group: Group,
}

/// A program that was started without a conversation: it reads nothing, or one input.
#[derive(Debug)]
pub(crate) struct Running {
    /// The program's standard input, if it has one.
    pub(crate) stdin: Option<ChildStdin>,
    /// The program's standard output.
    pub(crate) stdout: ChildStdout,
    /// The program's standard error.
    pub(crate) stderr: ChildStderr,
    /// The program and its children.
    pub(crate) group: Group,
}

/// The process group of a program: the program, and the children that have not left the group. Dropping it kills the group.
#[derive(Debug)]
pub struct Group {
    child: Child,
    pid: Pid,
    /// Signals that a child of this process has changed its state.
    changes: unix::Signal,
}

impl Group {
    /// Starts a program in a group of its own, with this environment and no other. No shell reads `command`, which is the
    /// program and its arguments. A program without a slash is searched for in the `PATH` of `environment`.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::InvalidInput`] for a command without a program.
    pub fn start(command: &[String], environment: Vec<(OsString, OsString)>) -> io::Result<Started> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut program = Command::new(program);
        program.args(arguments).env_clear().envs(environment).stdin(Stdio::piped());
        let Running { stdin, stdout, stderr, group } = Self::run(program)?;
        let stdin = stdin.ok_or_else(|| io::Error::other("the program has no pipes"))?;
        Ok(Started { stdin, stdout, stderr, group })
    }

    /// Starts a program in a group of its own, with pipes for its output.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn run(mut command: Command) -> io::Result<Running> {
        let changes = unix::signal(SignalKind::child())?;
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let (stdin, pipes) = (child.stdin.take(), (child.stdout.take(), child.stderr.take()));
        let (Some(pid), (Some(stdout), Some(stderr))) = (pid, pipes) else {
            return Err(io::Error::other("the program has no pipes"));
        };
        Ok(Running { stdin, stdout, stderr, group: Self { child, pid, changes } })
    }

    /// Returns the id of the group, which is that of the program.
    #[must_use]
    pub fn id(&self) -> Pid {
        self.pid
    }

    /// Waits until the program has ended. The program stays known to the system until [`Group::end`], so that no other process
    /// gets its id. Cancel safe.
    pub async fn exited(&mut self) {
        while !self.has_exited() {
            // Signals that arrive together count as one, so the state is read after each.
            if self.changes.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(status) => status.is_some(),
            Err(rustix::io::Errno::INTR) => false,
            // The system does not know the program any more.
            Err(_) => true,
        }
    }

    /// Ends the group: waits a moment for the program to end by itself, then sends SIGTERM to the group, and at last SIGKILL.
    /// The caller drops the program's standard input before. Returns how the program ended, if the system knows.
    pub async fn end(mut self) -> Option<ExitStatus> {
        match tokio::time::timeout(AFTER_INPUT, self.exited()).await {
            Ok(()) => self.finish().await,
            Err(_) => self.stop().await,
        }
    }

    /// Ends the group: sends SIGTERM, and SIGKILL after a while. Returns how the program ended, if the system knows.
    pub(crate) async fn stop(mut self) -> Option<ExitStatus> {
        // An error says that the group is gone.
        let _ = kill_process_group(self.pid, Signal::TERM);
        let _ = tokio::time::timeout(AFTER_TERM, self.exited()).await;
        self.finish().await
    }

    async fn finish(mut self) -> Option<ExitStatus> {
        // Children of the program that outlive it. The id is the group's as long as the program has not been waited for.
        kill(self.pid);
        self.child.wait().await.ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // After `end` the id may belong to another process.
        if self.child.id().is_some() {
            kill(self.pid);
        }
    }
}

/// Sends SIGKILL to a process group whose program has not been waited for.
pub(super) fn kill(pid: Pid) {
    let _ = kill_process_group(pid, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::process::test_kill_process;
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;

    fn shell(script: &str) -> Started {
        let environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())];
        Group::start(&["sh".to_owned(), "-c".to_owned(), script.to_owned()], environment).unwrap()
    }

    /// Returns the process that the program names in its first line.
    async fn named(stdout: ChildStdout) -> Pid {
        let line = BufReader::new(stdout).lines().next_line().await.unwrap().unwrap();
        Pid::from_raw(line.parse().unwrap()).unwrap()
    }

    async fn is_gone(pid: Pid) -> bool {
        for _ in 0..200 {
            // An orphan stays a zombie until its new parent waits for it.
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if test_kill_process(pid).is_err() || state.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    #[tokio::test]
    async fn a_group_ends_with_its_children_however_stubborn() {
        // The script, the least and the most time that its end takes.
        for (script, least, most) in [
            // Ends by itself, with a child that ignores SIGTERM.
            ("(trap '' TERM; exec sleep 60) & echo $!; read line", Duration::ZERO, AFTER_INPUT),
            // Ends at SIGTERM.
            ("sleep 60 & echo $!; wait", AFTER_INPUT, AFTER_TERM),
            // Ends at SIGKILL only.
            ("trap '' TERM; sleep 60 & echo $!; while :; do sleep 1; done", AFTER_TERM, 3 * AFTER_TERM),
        ] {
            let Started { stdin, stdout, stderr: _stderr, group } = shell(script);
            let (program, child) = (group.id(), named(stdout).await);
            assert!(test_kill_process(child).is_ok(), "{script}");
            let begun = Instant::now();
            drop(stdin);
            group.end().await;
            let took = begun.elapsed();
            assert!(took >= least && took < most, "{script}: {took:?}");
            assert!(test_kill_process(program).is_err(), "{script}: not waited for");
            assert!(is_gone(child).await, "{script}");
        }
    }

    #[tokio::test]
    async fn an_exit_is_noticed_and_a_group_that_is_dropped_is_killed() {
        let mut ended = shell("exit 3").group;
        tokio::time::timeout(Duration::from_secs(10), ended.exited()).await.unwrap();
        ended.end().await;
        let Started { stdout, group, .. } = shell("sleep 60 & echo $!; wait");
        let child = named(stdout).await;
        drop(group);
        assert!(is_gone(child).await);
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_is_an_error() {
        for command in [&["/nonexistent/program".to_owned()][..], &[]] {
            assert!(Group::start(command, Vec::new()).is_err(), "{command:?}");
        }
    }
}
