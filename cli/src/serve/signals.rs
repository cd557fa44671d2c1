//! SIGINT and SIGTERM: the first one drains calls in flight, the second one ends the process.

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};

/// Creates a runtime that uses all cores.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("the runtime cannot start")
}

/// Completes at SIGINT and SIGTERM.
pub(crate) async fn interrupted() {
    next().await;
}

/// Completes at the first signal. A second one ends the process at once.
pub(crate) async fn stop_signal() {
    stop_signal_with(|| ()).await;
}

/// Completes at the first signal. A second one calls `at_once` and ends the process.
pub(crate) async fn stop_signal_with(at_once: impl FnOnce() + Send + 'static) {
    let name = next().await;
    tracing::info!(signal = name, "stopping; waiting for calls in flight, a second signal stops at once");
    tokio::spawn(async {
        next().await;
        at_once();
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
