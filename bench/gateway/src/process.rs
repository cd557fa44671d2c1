//! Child processes: started with a known port, measured by `/proc`, killed on drop.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::net::TcpStream;

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Its port on loopback.
    pub(crate) port: u16,
}

impl Server {
    /// Starts this program again with `args` and reads the port it prints.
    pub(crate) fn own(args: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?).args(args).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse().context("the server printed no port")? })
    }

    /// Starts `tamis serve` on a folder, with additional options, and waits until it is ready.
    pub(crate) async fn tamis(binary: &Path, folder: &Path, options: &[&str], patience: Duration) -> Result<Self> {
        let (port, admin) = (free_port()?, free_port()?);
        let mut child = Command::new(binary)
            .arg("serve")
            .arg(folder)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--admin", &format!("127.0.0.1:{admin}")])
            .args(options)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start; build it with `cargo build --release`", binary.display()))?;
        let start = Instant::now();
        while !ready(admin).await {
            if let Some(status) = child.try_wait()? {
                bail!("tamis serve ended with {status}");
            }
            if start.elapsed() > patience {
                let _ = child.kill();
                bail!("tamis serve was not ready after {patience:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { child, port })
    }

    /// Returns the user and system CPU time so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("/proc stat")?.1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        // USER_HZ is 100 on every Linux that Rust supports.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Returns the process's private resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|l| l.starts_with("RssAnon:")).context("RssAnon")?;
        let kb: u64 = line.split_whitespace().nth(1).context("RssAnon")?.parse()?;
        Ok(kb * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

async fn ready(admin: u16) -> bool {
    if TcpStream::connect(("127.0.0.1", admin)).await.is_err() {
        return false;
    }
    match reqwest::get(format!("http://127.0.0.1:{admin}/readyz")).await {
        Ok(response) => response.status().is_success(),
        Err(_) => false,
    }
}
