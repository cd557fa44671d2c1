//! SIGINT and SIGTERM: the first lets calls under way end, the second does not wait.

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};

/// A runtime on all cores.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("the runtime cannot start")
}

/// Completes at the first signal; a second one ends the process at once.
pub(crate) async fn stop_signal() {
    let name = next().await;
    tracing::info!(signal = name, "stopping; calls under way end first, a second signal does not wait");
    tokio::spawn(async {
        next().await;
        std::process::exit(130);
    });
}

#[cfg(unix)]
async fn next() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            tracing::warn!(%error, "SIGTERM cannot be received");
            let _ = tokio::signal::ctrl_c().await;
            return "SIGINT";
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}

#[cfg(not(unix))]
async fn next() -> &'static str {
    let _ = tokio::signal::ctrl_c().await;
    "Ctrl-C"
}
