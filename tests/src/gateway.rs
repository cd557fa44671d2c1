//! The real binary, `tamis serve`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Era, Port, Rpc, Target};

/// A program of this workspace, built by the command that built the tests.
///
/// # Errors
/// It is not built.
pub fn binary(name: &str) -> Result<PathBuf> {
    // The tests lie in `target/<profile>/deps/`, programs one above.
    let test = std::env::current_exe()?;
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is not built: run `cargo build --workspace --bins`"))
}

/// The options of a gateway.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Further arguments of `serve`.
    pub arguments: Vec<String>,
    /// Words before the command, which finally execute it.
    pub wrapper: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
}

/// A running `tamis serve`; it is killed when dropped.
#[derive(Debug)]
pub struct Gateway {
    process: Child,
    /// `http://127.0.0.1:PORT` of the serving port.
    pub url: String,
    /// `http://127.0.0.1:PORT` of the admin port.
    pub admin: String,
    log: PathBuf,
    _folder: TempDir,
    _ports: [Port; 2],
}

impl Gateway {
    /// Serves a folder on free ports of loopback and waits until it is ready.
    ///
    /// # Errors
    /// It ended, or is not ready in time; the message has its log.
    pub async fn start(documents: &Path) -> Result<Self> {
        Self::with(documents, &Options::default()).await
    }

    /// [`Gateway::start`] with options.
    ///
    /// # Errors
    /// It ended, or is not ready in time; the message has its log.
    pub async fn with(documents: &Path, options: &Options) -> Result<Self> {
        let folder = TempDir::new()?;
        let log = folder.path().join("log");
        let ports = [Port::reserve()?, Port::reserve()?];
        let [serving, admin] = [ports[0].address(), ports[1].address()];
        let tamis = binary("tamis")?;
        let mut command = match options.wrapper.split_first() {
            None => Command::new(tamis),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(tamis);
                command
            }
        };
        let process = command
            .arg("serve")
            .arg(documents)
            .args(["--listen", &serving, "--admin", &admin])
            .args(&options.arguments)
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(&log)?)
            .spawn()
            .context("starting tamis")?;
        let mut gateway = Self {
            process,
            url: format!("http://{serving}"),
            admin: format!("http://{admin}"),
            log,
            _folder: folder,
            _ports: ports,
        };
        gateway.ready().await?;
        Ok(gateway)
    }

    async fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(30);
        let mut said = String::new();
        while Instant::now() < until {
            if let Some(status) = self.process.try_wait()? {
                bail!("tamis ended ({status}):\n{}", self.log());
            }
            match reqwest::get(format!("{}/readyz", self.admin)).await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => said = answer.text().await?,
                Err(error) => said = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("tamis is not ready ({said}):\n{}", self.log())
    }

    /// The endpoint of an exposition in the `default` namespace.
    #[must_use]
    pub fn endpoint(&self, exposition: &str) -> String {
        format!("{}/mcp/default/{exposition}", self.url)
    }

    /// Requests to [`Gateway::endpoint`] in the modern era.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn rpc(&self, exposition: &str) -> Result<Rpc> {
        Rpc::new(&self.endpoint(exposition), Era::Modern)
    }

    /// [`Gateway::endpoint`], to connect a client to.
    #[must_use]
    pub fn target(&self, exposition: &str) -> Target {
        Target::Url(self.endpoint(exposition))
    }

    /// Returns the admin port's response to a GET of a path.
    ///
    /// # Errors
    /// The response is not a success.
    pub async fn admin(&self, path: &str) -> Result<String> {
        let answer = reqwest::get(format!("{}{path}", self.admin)).await?;
        Ok(answer.error_for_status()?.text().await?)
    }

    /// Returns the sum of a metric over all series whose labels contain each of these texts.
    ///
    /// # Errors
    /// The admin port does not answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        Ok(sum(&self.admin("/metrics").await?, name, labels))
    }

    /// `/config`.
    ///
    /// # Errors
    /// It is not there or no JSON.
    pub async fn config(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.admin("/config").await?)?)
    }

    /// Returns the log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the number of threads whose names begin with this.
    ///
    /// # Errors
    /// The process is gone.
    pub fn threads(&self, name: &str) -> Result<usize> {
        let mut count = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            count += usize::from(std::fs::read_to_string(thread?.path().join("comm"))?.starts_with(name));
        }
        Ok(count)
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// The process is gone.
    pub fn terminate(&self) -> Result<()> {
        let status = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status()?;
        anyhow::ensure!(status.success(), "kill: {status}");
        Ok(())
    }

    /// Waits until the process exits.
    ///
    /// # Errors
    /// It still runs.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("tamis still runs after {within:?}:\n{}", self.log())
    }

    /// Returns the peak resident memory in bytes, if the operating system reports it.
    #[must_use]
    pub fn memory_peak(&self) -> Option<u64> {
        field(self.process.id(), "VmHWM:")
    }

    /// Resident memory in bytes, where the system says so.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        memory(self.process.id())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- tamis logged:\n{}", self.log());
        }
    }
}

/// The sum of a metric over the series whose labels hold all of these texts, in the text of `/metrics`.
pub(crate) fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let series = text.lines().filter_map(|line| line.strip_prefix(name));
    series
        .filter(|rest| rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label)))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Resident memory of a process in bytes, where the system says so.
pub(crate) fn memory(process: u32) -> Option<u64> {
    field(process, "VmRSS:")
}

fn field(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}
