//! A program that runs beside a test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::StatusCode;

/// A running program with a log; it is killed when dropped.
///
/// A process that the runner kills cannot drop anything: the runner ends the whole process group, which this is in.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    shown: usize,
}

impl Process {
    /// Starts a program; what it says is added to the log, a file, of which a failed test shows so many lines.
    ///
    /// # Errors
    /// The log cannot be written, or the program not started.
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

    /// All that it has logged so far, and those before it that had the same log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The last lines of its log.
    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(self.shown)..].join("\n")
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// It has ended; the message has the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}):\n{}", self.name, self.last_lines()),
        }
    }

    /// Ends it at once, as SIGKILL does, and waits until it is gone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// The process is gone.
    pub fn terminate(&self) -> Result<()> {
        self.signal("TERM")
    }

    /// Sends SIGSTOP: it keeps its connections and does nothing.
    ///
    /// # Errors
    /// The process is gone.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Sends SIGCONT.
    ///
    /// # Errors
    /// The process is gone.
    pub fn resume(&self) -> Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "kill -{name} of {}: {status}", self.name);
        Ok(())
    }

    /// Waits until it answers a GET of `url` with a status that is `good`.
    ///
    /// # Errors
    /// It has ended, or does not in time; the message has its log.
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

    /// Waits for its end.
    ///
    /// # Errors
    /// It still runs.
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

    /// Resident memory in bytes, where the system says so.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        crate::gateway::memory(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Tests fail by returning an error too, which nothing here sees; the runner shows this only where one failed.
        if self.shown > 0 {
            eprintln!("--- {} logged:\n{}", self.name, self.last_lines());
        }
    }
}
