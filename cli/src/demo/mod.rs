//! `tamis demo`: runs a sample upstream, a gateway that publishes each of its services twice, and a client that calls both.

mod calls;
mod documents;
mod table;
mod tokens;
mod upstream;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::json;
use tamis_config::{CredentialRef, ExpositionId};
use tamis_gateway::upstream::{Credentials, Secret};
use tokio::net::TcpListener;

use self::table::Row;
use self::tokens::Counts;
use self::upstream::{LastAnswer, TOKEN};
use crate::logging::LogArgs;
use crate::serve::{self, Preparation, Server, bind, runtime, stop_signal};
use crate::{connect, output};

/// Run a demo: a sample upstream, its services published twice, and a client's calls side by side.
///
/// Starts an HTTP server on loopback that answers with payloads of GitHub, Notion and Slack, and a gateway that publishes each
/// service for two audiences: `internal` (Advisory) and `partner` (Enforced, fewer fields). Calls all of them with an MCP
/// client, prints the size of each answer, and keeps running: edit a file, and the next call shows the change.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis demo
  tamis demo --once
  tamis demo --dir tamis-demo          keeps the folder and your edits
  tamis demo --once --output json | jq '.rows[] | {tool, exposition, savedOfCompactJson}'

Exit codes:
  0  done, or stopped by SIGINT or SIGTERM
  1  a call failed, or a given address is in use
  2  usage error")]
pub(crate) struct Args {
    /// Exit after printing the table.
    #[arg(long)]
    once: bool,
    /// The address of the MCP endpoints [default: 127.0.0.1:8080, or a free port].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The address of the metrics [default: 127.0.0.1:9090, or a free port].
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// The folder for the documents, which is created if it does not exist. Existing documents are used, except manifests:
    /// they name the port of the sample upstream and are always written [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table for people.
    Table,
    /// One JSON document on standard output.
    Json,
}

/// Runs the demo.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(demo(args, log))
}

async fn demo(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let upstream = bind("127.0.0.1:0", "--listen").await?;
    let upstream_address = upstream.local_addr()?;
    let last = LastAnswer::default();
    tokio::spawn(upstream::serve(upstream, last.clone()));

    // Held until the end: dropping it removes the folder.
    let temporary = args.dir.is_none().then(|| tempfile::Builder::new().prefix("tamis-demo-").tempdir()).transpose()?;
    let dir = match (&args.dir, &temporary) {
        (Some(dir), _) => dir.as_path(),
        (None, Some(dir)) => dir.path(),
        (None, None) => Path::new("tamis-demo"),
    };
    documents::write(dir, upstream_address)?;

    let mut preparation = Preparation::read(dir, None, log.is_human());
    preparation.audit_log = log.audit_log();
    preparation.report(log);
    let listener = bind_or_free(args.listen.as_deref(), "127.0.0.1:8080", "--listen").await?;
    let admin = bind_or_free(args.admin.as_deref(), "127.0.0.1:9090", "--admin").await?;
    let (gateway_address, admin_address) = (listener.local_addr()?, admin.local_addr()?);
    let credentials = serve::Credentials::Given(Arc::new(DemoCredentials));
    let (server, snapshot) = preparation.start(credentials, Some(listener), Some(admin))?;

    let enforcement = |name: &str| {
        let id = ExpositionId { namespace: "default".to_owned(), name: name.to_owned() };
        snapshot.expositions.get(&id).map(|document| format!("{:?}", document.enforcement))
    };
    let counts = Counts::read(dir)?;
    let rows = calls::table(gateway_address, admin_address, &last, &counts, enforcement).await?;
    match args.output {
        Output::Table => {
            output::write(shown(&rows, &server, dir, upstream_address, admin_address, args.once).as_bytes())?;
        }
        Output::Json => print_json(&rows, &server, dir, upstream_address, admin_address)?,
    }
    if !args.once {
        stop_signal().await;
    }
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Whether this program was built with optimisation. Times without it say little.
const IS_OPTIMISED: bool = !cfg!(debug_assertions);

fn shown(rows: &[Row], server: &Server, dir: &Path, upstream: SocketAddr, admin: SocketAddr, once: bool) -> String {
    let mut text = format!(
        "{}\nsaved: against what the upstream sent, which is pretty-printed; of compact: against the same document as\n\
         compact JSON. tokens: of what the model gets, by o200k_base; with auto: in the format with the fewest\n\
         (`output: {{format: auto}}` in a filter). The payloads' sources: examples/payloads/SOURCES.md (Slack's is made, Notion's partly).\n",
        table::render(rows)
    );
    if !IS_OPTIMISED {
        text += "in the filter: of a build without optimisation; `cargo install --path cli` builds the optimised program.\n";
    }
    if once {
        return text;
    }
    let _ = writeln!(text, "\nSample upstream   http://{upstream}");
    for name in calls::expositions() {
        let _ = writeln!(text, "{name:<16}  {}", url(server, &name));
    }
    let _ = writeln!(text, "Metrics           http://{admin}/metrics\n");
    let _ = writeln!(text, "For an MCP client's configuration:\n\n{:#}\n", client_configuration(server));
    let one = calls::expositions().next().map(|name| url(server, &name)).unwrap_or_default();
    let _ = writeln!(text, "Other clients need another format: {}\n", connect::hint(&one));
    let _ = writeln!(text, "Documents         {}", dir.display());
    text += "Edit github-partner.yaml there: the next call shows the change. Press Ctrl-C to stop the demo.\n";
    text
}

fn print_json(
    rows: &[Row],
    server: &Server,
    dir: &Path,
    upstream: SocketAddr,
    admin: SocketAddr,
) -> anyhow::Result<()> {
    let document = json!({
        "rows": rows,
        "optimised": IS_OPTIMISED,
        "upstream": format!("http://{upstream}"),
        "metrics": format!("http://{admin}/metrics"),
        "documents": dir,
        "mcpServers": client_configuration(server)["mcpServers"],
    });
    let text = serde_json::to_string(&document).context("cannot write the result as JSON")?;
    output::write(format!("{text}\n").as_bytes())
}

/// Returns the configuration for MCP clients.
fn client_configuration(server: &Server) -> serde_json::Value {
    let servers: serde_json::Map<_, _> =
        calls::expositions().map(|name| (name.clone(), json!({"type": "http", "url": url(server, &name)}))).collect();
    json!({ "mcpServers": servers })
}

fn url(server: &Server, name: &str) -> String {
    let id = ExpositionId { namespace: "default".to_owned(), name: name.to_owned() };
    server.url(&id).unwrap_or_default()
}

/// Binds the given address. Without one, binds the usual address, or a free port if it is in use.
async fn bind_or_free(asked: Option<&str>, usual: &str, option: &str) -> anyhow::Result<TcpListener> {
    match asked {
        Some(address) => bind(address, option).await,
        None => match bind(usual, option).await {
            Ok(listener) => Ok(listener),
            Err(_) => bind("127.0.0.1:0", option).await,
        },
    }
}

/// Credentials of the sample upstream, which requires a token as the real APIs do. The token is not a secret.
#[derive(Debug)]
struct DemoCredentials;

impl Credentials for DemoCredentials {
    fn get(&self, _namespace: &str, _credential: &CredentialRef) -> Option<Secret> {
        Some(Secret::new(TOKEN))
    }
}
