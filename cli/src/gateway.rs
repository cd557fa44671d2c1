//! `tamis gateway`: serves the expositions of a GatewayGroup in a cluster.

use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use tamis_crds::resources::{Memory, Quantity};
use tamis_gateway::cluster::Source;
use tamis_gateway::upstream::{ClientOptions, Destination, EgressPolicy};
use tamis_gateway::{AuditLog, Gateway, GatewayLimits, MemoryLimit, Options, Tls, TlsFiles, available_cores};
use tokio_util::sync::CancellationToken;

use crate::kubernetes;
use crate::logging::LogArgs;
use crate::serve::{bind, runtime, stop_signal};
use crate::traces::TraceArgs;

/// Serve the expositions of a GatewayGroup in a Kubernetes cluster.
///
/// Watches the group's GatewayConfigs, which the operator writes, and the Secrets with the group's credentials. Each changed
/// exposition is replaced on its own, without a restart and without failing a call. The operator runs this command; run it
/// yourself to try a group from outside the cluster. The credentials for the API server are those of the pod's
/// ServiceAccount, or those of KUBECONFIG.
///
/// The gateway listens once it has processed all existing configuration. During an outage of the API server it keeps serving
/// what it has loaded; a restart then needs --cache. On SIGTERM, /readyz fails at once, calls are accepted for
/// --drain-delay, calls in flight finish, and streams are closed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis gateway --group public --namespace tamis-public
  tamis gateway --group public --namespace tamis-public \\
    --cache /var/cache/tamis --egress-allow 10.20.0.0/16
  KUBECONFIG=~/.kube/config tamis gateway --group default --namespace team-a \\
    --listen 127.0.0.1:8080 --admin 127.0.0.1:9090

Exit codes:
  0  stopped by SIGINT or SIGTERM, after calls in flight have finished
  1  no credentials for an API server, an address is in use, or the cache cannot be used
  2  usage error")]
pub(crate) struct Args {
    /// The name of the GatewayGroup.
    #[arg(long, env = "GROUP", value_name = "NAME")]
    group: String,
    /// The namespace of the GatewayGroup.
    #[arg(long, env = "NAMESPACE", value_name = "NS")]
    namespace: String,
    /// The address of the MCP endpoints.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    listen: String,
    /// The address of /metrics, /livez and /readyz, and of /config and /acks, which require the group's token.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9090")]
    admin: String,
    /// The folder for the last known good configuration, for starting while the API server is unreachable. It holds
    /// credentials in clear text: use a volume in memory.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// How long to accept calls after SIGTERM, until clients use other gateways: 5s, 500ms.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    drain_delay: Duration,
    /// A network or host that may be called although it is not public: 10.0.0.0/8, api.internal, *.corp.example. May be
    /// repeated.
    #[arg(long, value_name = "DESTINATION")]
    egress_allow: Vec<Destination>,
    /// A network or host that must never be called. Takes precedence over --egress-allow. May be repeated.
    #[arg(long, value_name = "DESTINATION")]
    egress_deny: Vec<Destination>,
    /// Whether metrics have one series per tool or one per exposition.
    #[arg(long, value_enum, value_name = "DETAIL", default_value = "Tool")]
    metrics_detail: MetricsDetail,
    /// The memory for calls, their answers and connections: 300Mi, 2Gi [default: 60 % of the control group's memory limit,
    /// or of the machine's memory if there is no limit].
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// Threads that serve connections, each with connections to upstreams of its own [default: the cores that the process may
    /// use, by its affinity and the CPU limit of its control group].
    #[arg(long, value_name = "N", value_parser = workers)]
    workers: Option<NonZero<usize>>,
    /// The largest answer of an upstream, whatever an exposition allows.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "64Mi")]
    max_response_bytes: u64,
    /// The longest time for a call, whatever an exposition allows: 30s, 5m.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    max_timeout: Duration,
    /// A host name under which browsers reach the gateway, to check `Origin`. May be repeated.
    #[arg(long, value_name = "NAME")]
    hostname: Vec<String>,
    /// The certificate of the MCP endpoints in PEM, with its intermediate certificates; serves them over TLS. The file is
    /// checked every two seconds, and a new certificate is used without a restart.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The folder for full audit records (`audit: {mode: Full}`): one file per call, with the output before filtering.
    #[arg(long, value_name = "DIR")]
    audit_dir: Option<PathBuf>,
    #[command(flatten)]
    traces: TraceArgs,
}

/// The granularity of metrics, with the values of a GatewayGroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum MetricsDetail {
    /// One series per tool.
    Tool,
    /// One series per exposition.
    Exposition,
}

/// Parses a number of bytes with an optional unit.
fn bytes(text: &str) -> Result<u64, String> {
    Quantity(text.to_owned())
        .bytes()
        .ok_or_else(|| "must be a number, optionally with k, M, G, Ki, Mi or Gi".to_owned())
}

/// Parses the memory of a gateway.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let memory = Memory(Quantity(text.to_owned()));
    memory
        .bytes()
        .ok_or_else(|| "must be a number from 16Mi to 1024Gi, optionally with k, M, G, Ki, Mi or Gi".to_owned())
}

/// Parses a number of workers. Each is a thread with four file descriptors and some hundred kilobytes.
pub(crate) fn workers(text: &str) -> Result<NonZero<usize>, String> {
    let number = text.parse::<NonZero<usize>>().ok().filter(|number| number.get() <= 1024);
    number.ok_or_else(|| "must be a number from 1 to 1024".to_owned())
}

/// Returns the configured memory, or the memory that the system allows, which is logged.
pub(crate) fn budget(given: Option<u64>) -> u64 {
    match given {
        Some(bytes) => bytes,
        None => {
            let limit = MemoryLimit::detect();
            tracing::info!(bytes = limit.bytes, "memory for calls: {limit}");
            limit.bytes
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "must be a duration such as 5s".to_owned())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(|| "is too long".to_owned()),
        _ => Err("must end with ms, s or m".to_owned()),
    }
}

/// Serves until a signal.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve(args, log.audit_log()));
    // Do not wait for watches and retries of calls to an unreachable API server.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn serve(args: &Args, audit_log: AuditLog) -> anyhow::Result<()> {
    let listener = bind(&args.listen, "--listen").await?;
    let admin = bind(&args.admin, "--admin").await?;
    let config = kubernetes::config().await?;
    let api_server = api_server(&config);
    let client = kube::Client::try_from(config).context("cannot connect to the API server as configured")?;
    let source = Source::new(&args.namespace, &args.group, args.cache.clone());
    let mut options = options(args, &source, api_server);
    options.audit_log = audit_log;
    options.tls = tls(args.tls_cert.clone().zip(args.tls_key.clone()))?;
    let place = vec![("k8s.namespace.name", args.namespace.clone()), ("tamis.gateway_group", args.group.clone())];
    options.traces = args.traces.traces(None, place)?;
    let gateway = Gateway::new(options)?;

    let (shutdown, admin_shutdown) = (CancellationToken::new(), CancellationToken::new());
    let mut stop = std::pin::pin!(stop_signal());
    let mut following =
        source.follow(&client, Arc::clone(&gateway), shutdown.clone()).context("cannot use the folder of --cache")?;
    // The admin port answers from start to end, so that a start and a drain can be observed.
    let admin = tokio::spawn(Arc::clone(&gateway).serve_admin(admin, admin_shutdown.clone()));
    tracing::info!(group = args.group, namespace = args.namespace, "waiting for the configuration");
    let loaded = tokio::select! {
        loaded = following.loaded() => loaded,
        () = stop.as_mut() => {
            shutdown.cancel();
            following.ended().await;
            return Ok(());
        }
    };
    if !loaded {
        bail!("watching the configuration failed");
    }
    tracing::info!(address = %listener.local_addr()?, "serving");
    let serving = tokio::spawn(Arc::clone(&gateway).serve(listener, shutdown.clone()));
    let broken = tokio::select! {
        () = stop => false,
        () = following.broken() => true,
    };
    gateway.begin_draining();
    if !broken {
        tokio::time::sleep(args.drain_delay).await;
    }
    shutdown.cancel();
    serving.await?;
    following.ended().await;
    gateway.end_traces().await;
    admin_shutdown.cancel();
    admin.await?;
    if broken {
        bail!("watching the configuration failed");
    }
    Ok(())
}

/// Loads the certificate of the MCP endpoints from its file and the file of its key.
pub(crate) fn tls(files: Option<(PathBuf, PathBuf)>) -> anyhow::Result<Option<Arc<Tls>>> {
    let files = files.map(|(certificate, key)| TlsFiles { certificate, key });
    files.map(Tls::load).transpose().context("cannot serve the MCP endpoints over TLS")
}

fn options(args: &Args, source: &Source, api_server: Vec<IpAddr>) -> Options {
    let egress = EgressPolicy::cluster(args.egress_allow.clone(), args.egress_deny.clone(), api_server);
    let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    Options {
        client: ClientOptions { egress: egress.with_resolv_conf(&resolv_conf), ..ClientOptions::default() },
        limits: GatewayLimits {
            memory: budget(args.memory),
            max_response_bytes: args.max_response_bytes,
            max_timeout: args.max_timeout,
            ..GatewayLimits::default()
        },
        workers: args.workers.unwrap_or_else(available_cores),
        audit_dir: args.audit_dir.clone(),
        require_access: true,
        tool_series: args.metrics_detail == MetricsDetail::Tool,
        hostnames: args.hostname.clone(),
        admin_token: Some(source.admin_token()),
        keyring: Some(source.keyring()),
        ..Options::new(source.credentials())
    }
}

/// Returns the addresses of the API server, which upstreams must not have.
fn api_server(config: &kube::Config) -> Vec<IpAddr> {
    let told = std::env::var("KUBERNETES_SERVICE_HOST").ok();
    let host = config.cluster_url.host().map(str::to_owned);
    let address = |host: String| host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    told.into_iter().chain(host).filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_least_size() {
        assert_eq!(memory("16Mi"), Ok(16 << 20));
        assert_eq!(memory("300000000"), Ok(300_000_000));
        for bad in ["", "16M", "1", "2Ti", "1025Gi", "-1", "300 Mi"] {
            assert!(memory(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes("1Ki"), Ok(1_024));
        assert!(bytes("1Kb").is_err());
    }

    #[test]
    fn there_are_1_to_1024_workers() {
        assert_eq!(workers("1").map(NonZero::get), Ok(1));
        assert_eq!(workers("1024").map(NonZero::get), Ok(1024));
        for bad in ["0", "-1", "1025", "two", ""] {
            assert!(workers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "5", "s", "-5s", "5h", "1.5s", "99999999999999999999s", "18446744073709551615m"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
