//! A program that runs during a test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::StatusCode;

/// A running program with a log. It is killed on drop.
///
/// If the test runner kills a test, nothing is dropped, but the runner ends the whole process group, which includes
/// this program.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    shown: usize,
}

impl Process {
    /// Starts a program and appends its output to the file `log`, of which a failed test shows the last `shown` lines.
    ///
    /// # Errors
    /// The log cannot be written, or the program cannot be started.
    pub fn spawn(name: &str, command: &mut Command, log: &Path, shown: usize) -> Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned(), shown })
    }

    /// Returns the whole log, including that of earlier processes with the same file.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the last lines of the log.
    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(self.shown)..].join("\n")
    }

    /// Checks that the process is still running.
    ///
    /// # Errors
    /// The process has exited; the message contains the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}):\n{}", self.name, self.last_lines()),
        }
    }

    /// Kills the process with SIGKILL and waits until it has exited.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// The process has exited.
    pub fn terminate(&self) -> Result<()> {
        self.signal("TERM")
    }

    /// Sends SIGSTOP: the process keeps its connections and does nothing.
    ///
    /// # Errors
    /// The process has exited.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Sends SIGCONT.
    ///
    /// # Errors
    /// The process has exited.
    pub fn resume(&self) -> Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "kill -{name} of {}: {status}", self.name);
        Ok(())
    }

    /// Waits until a GET of `url` is answered with a status that satisfies `good`.
    ///
    /// # Errors
    /// The process has exited, or does not answer in time; the message contains its log.
    pub async fn answers(&mut self, url: &str, within: Duration, good: impl Fn(StatusCode) -> bool) -> Result<()> {
        let until = Instant::now() + within;
        let mut said = String::new();
        while Instant::now() < until {
            self.check()?;
            match reqwest::get(url).await {
                Ok(answer) if good(answer.status()) => return Ok(()),
                Ok(answer) => said = answer.text().await?,
                Err(error) => said = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("{} is not ready: {said}\n{}", self.name, self.log())
    }

    /// Waits until the process exits.
    ///
    /// # Errors
    /// The process is still running after `within`.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("{} still runs after {within:?}:\n{}", self.name, self.last_lines())
    }

    /// Returns the resident memory in bytes, if the operating system reports it.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        crate::gateway::memory(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A test may also fail by returning an error, which this cannot detect. The runner shows this output only for
        // failed tests.
        if self.shown > 0 {
            eprintln!("--- {} logged:\n{}", self.name, self.last_lines());
        }
    }
}
