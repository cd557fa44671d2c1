//! `tamis serve`: publishes the expositions of a folder, and reloads it when its files change.

mod debounce;
mod follow;
mod loosening;
mod reload;
mod run;
mod settings;
mod signals;

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tamis_config::ExpositionId;
use tokio::net::TcpListener;

use crate::logging::LogArgs;
use crate::traces::TraceArgs;

pub(crate) use run::{Credentials, Preparation, Server};
pub(crate) use settings::{base_url, listen};
use signals::stop_signal_with;
pub(crate) use signals::{interrupted, runtime, stop_signal};

/// Serve the expositions of a folder over MCP, and reload it when its files change.
///
/// Reads ServiceManifest, ToolsFilters and Exposition documents (YAML or JSON, several per file) from the folder and its
/// subfolders. A saved file is loaded at once and replaces the expositions that it changes. A broken edit keeps what was
/// served; the error appears in the log, at /config and in a metric. A change that would show a model more than before, such
/// as a deleted filter or set, waits until no more files change, so that a checkout opens no gap.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis serve examples/quickstart
  tamis serve config/ --listen 127.0.0.1:8000 --secrets /run/secrets
  TAMIS_SECRET_NOTION_TOKEN=.. tamis serve examples/notion
  tamis serve examples/quickstart --stdio --exposition github-internal
  # how to configure clients: tamis connect --help

Exit codes:
  0  stopped by SIGINT or SIGTERM after calls in flight have finished, or the input of --stdio ended
  1  nothing can be served, an address is in use, or the gateway would be open to everyone
  2  usage error")]
pub(crate) struct Args {
    /// The folder with the documents, or one file.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The address of the MCP endpoints [default: 127.0.0.1:8080, or the port of the GatewayGroup document].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "stdio")]
    listen: Option<String>,
    /// The address of /metrics, /livez, /readyz and /config [default: 127.0.0.1:9090; with --stdio: none].
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// The folder with credentials, as Kubernetes mounts Secrets: DIR2/NAME/KEY. Without it, TAMIS_SECRET_NAME_KEY.
    #[arg(long, value_name = "DIR2")]
    secrets: Option<PathBuf>,
    /// The certificate of the MCP endpoints in PEM, with its intermediate certificates; serves them over TLS. A new
    /// certificate is used without a restart [default: the one that the GatewayGroup document names, below --secrets].
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "stdio")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The folder for full audit records (`audit: {mode: Full}`): one file per call, with the output before filtering.
    #[arg(long, value_name = "DIR3")]
    audit_dir: Option<PathBuf>,
    /// The memory for calls, their answers and connections: 300Mi, 2Gi [default: the GatewayGroup's `memory`, else 60 % of
    /// the control group's memory limit, or of the machine's memory if there is no limit].
    #[arg(long, value_name = "BYTES", value_parser = crate::gateway::memory)]
    memory: Option<u64>,
    /// Threads that serve connections, each with connections to upstreams of its own [default: the cores that the process may
    /// use, by its affinity and the CPU limit of its control group].
    #[arg(long, value_name = "N", value_parser = crate::gateway::workers, conflicts_with = "stdio")]
    workers: Option<NonZero<usize>>,
    /// Listen beyond loopback although everyone who reaches the address may call expositions without `access`.
    #[arg(long)]
    insecure_public: bool,
    /// Serve one exposition over standard input and output, for clients that start their servers.
    #[arg(long)]
    stdio: bool,
    /// The exposition for --stdio: NAMESPACE/NAME, or NAME in the namespace `default`. Optional if there is only one.
    #[arg(long, value_name = "NAME", requires = "stdio", value_parser = exposition)]
    exposition: Option<ExpositionId>,
    #[command(flatten)]
    traces: TraceArgs,
}

/// Parses NAME or NAMESPACE/NAME.
pub(crate) fn exposition(text: &str) -> Result<ExpositionId, String> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("must be NAME or NAMESPACE/NAME".to_owned());
    }
    Ok(ExpositionId { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Serves until a signal.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve(args, log));
    // A read of standard input cannot be cancelled, and waiting for it would wait for the client.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let mut preparation = Preparation::read(&args.dir, args.audit_dir.clone(), log.is_human());
    preparation.report(log);
    if preparation.serves_nothing() {
        bail!("{}", preparation.why_nothing());
    }
    let listener =
        if args.stdio { None } else { Some(bind(&preparation.listen(args.listen.as_deref()), "--listen").await?) };
    let admin = match (&args.admin, args.stdio) {
        (None, true) => None,
        (address, _) => {
            let default = format!("127.0.0.1:{}", settings::ADMIN_PORT);
            Some(bind(address.as_ref().unwrap_or(&default), "--admin").await?)
        }
    };
    preparation.insecure_public = args.insecure_public;
    preparation.memory = args.memory;
    preparation.workers = args.workers;
    preparation.audit_log = log.audit_log();
    if !args.stdio {
        let named = args.tls_cert.clone().zip(args.tls_key.clone());
        preparation.tls = settings::tls(named, preparation.group(), args.secrets.as_deref())?;
    }
    let group = preparation.group().and_then(|group| group.tracing.as_ref());
    preparation.traces = args.traces.traces(group, Vec::new())?;
    let (server, snapshot) = preparation.start(Credentials::Local(args.secrets.clone()), listener, admin)?;
    let gateway = server.gateway();
    let stop = stop_signal_with(move || gateway.kill_programs());
    if !args.stdio {
        server.announce(&snapshot, log.is_human());
        drop(snapshot);
        stop.await;
    } else {
        let exposition = Server::choose(&snapshot, args.exposition.as_ref())?;
        drop(snapshot);
        let shutdown = server.shutdown_token();
        let stdio =
            server.gateway().serve_stdio(&exposition, tokio::io::stdin(), tokio::io::stdout(), shutdown.clone());
        tokio::pin!(stdio);
        tokio::select! {
            ended = &mut stdio => ended?,
            () = stop => {
                shutdown.cancel();
                stdio.await?;
            }
        }
    }
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Binds a listener. The error names the option that sets the address.
pub(crate) async fn bind(address: &str, option: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another address with {option}"))
}

#[cfg(test)]
mod tests {
    use super::exposition;

    #[test]
    fn expositions_are_named_with_or_without_namespace() {
        let name = |text| exposition(text).map(|id| id.to_string());
        assert_eq!(name("a").as_deref(), Ok("default/a"));
        assert_eq!(name("n/a").as_deref(), Ok("n/a"));
        for bad in ["", "/a", "n/", "a/b/c"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
