//! The measured processes: started on the target's core with a known port, measured by `/proc`, killed on drop.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpStream;

use crate::call::Call;
use crate::client::once;
use crate::cores::{Cores, ticks};

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Its port on loopback.
    pub(crate) port: u16,
    /// The admin port of a `tamis serve`.
    pub(crate) admin: Option<u16>,
}

impl Server {
    /// Starts this program again with `args` where this thread runs, and reads the port that it prints.
    pub(crate) fn own(args: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?).args(args).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse().context("the server printed no port")?, admin: None })
    }

    /// Starts `tamis serve` on a folder and waits until it is ready.
    pub(crate) async fn tamis(cores: &Cores, binary: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        let (port, admin) = (free_port()?, free_port()?);
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg(folder)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--admin", &format!("127.0.0.1:{admin}")])
            .args(options)
            .env_remove("RUST_LOG");
        let ready = Call::get("/readyz".to_owned());
        let mut server = Self::started(cores, command, port, (admin, &ready)).await?;
        server.admin = Some(admin);
        Ok(server)
    }

    /// Starts a program on the target's core and waits until a call of another port succeeds.
    pub(crate) async fn started(
        cores: &Cores,
        mut command: Command,
        port: u16,
        (ready_port, ready): (u16, &Call),
    ) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = cores.on_target(|| command.spawn())?.with_context(|| format!("{name} does not start"))?;
        let mut server = Self { child, port, admin: None };
        let (start, patience) = (Instant::now(), Duration::from_secs(300));
        while !answers(ready_port, ready).await {
            if let Some(status) = server.child.try_wait()? {
                bail!("{name} ended with {status}");
            }
            if start.elapsed() > patience {
                bail!("{name} was not ready after {patience:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }

    /// Returns the user and system CPU time so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("/proc stat")?.1.split_whitespace().collect();
        Ok(ticks(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?))
    }

    /// Returns the id of the first thread of this name.
    pub(crate) fn thread(&self, name: &str) -> Result<i32> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let thread = thread?;
            if std::fs::read_to_string(thread.path().join("comm"))?.trim_end() == name {
                return Ok(thread.file_name().to_string_lossy().parse()?);
            }
        }
        bail!("no thread is named {name}");
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

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

async fn answers(port: u16, call: &Call) -> bool {
    // A connection that is refused costs less than a client's error.
    TcpStream::connect(("127.0.0.1", port)).await.is_ok()
        && once(port, call).await.is_ok_and(|(status, _)| status.is_success())
}
