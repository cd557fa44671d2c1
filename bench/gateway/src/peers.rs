//! Published gateways with the same upstream, from the environments that `cargo xtask bench gateway` installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::call::{Call, Era};
use crate::client::once;
use crate::cores::Cores;
use crate::process::{Server, free_port};

/// A published gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// `FastMCP.from_openapi`: the upstream's API as tools.
    FastMcp,
    /// `mcp-proxy`: an MCP server over standard input and output, published over HTTP.
    McpProxy,
    /// ContextForge: the upstream's API as a registered tool.
    ContextForge,
}

const FASTMCP: &str = include_str!("../peers/fastmcp.py");
/// ContextForge demands secrets with many different characters.
const NO_SECRET: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

impl Peer {
    /// Returns the folder of its environment.
    fn folder(self) -> &'static str {
        match self {
            Self::FastMcp => "fastmcp",
            Self::McpProxy => "mcp-proxy",
            Self::ContextForge => "contextforge",
        }
    }

    /// Returns the name of its package.
    fn package(self) -> &'static str {
        match self {
            Self::FastMcp => "fastmcp",
            Self::McpProxy => "mcp-proxy",
            Self::ContextForge => "mcp-contextforge-gateway",
        }
    }

    /// Returns the call that is measured.
    pub(crate) fn call(self, kb: usize) -> Result<Call> {
        let tool = match self {
            // It makes names of tools from operations, without hyphens.
            Self::FastMcp => format!("items_{kb}"),
            Self::McpProxy | Self::ContextForge => format!("items-{kb}"),
        };
        Call::tool("/mcp".to_owned(), &tool, Era::Legacy)
    }
}

/// The running gateways.
pub(crate) struct Peers {
    fastmcp: Server,
    mcp_proxy: Server,
    contextforge: Server,
    /// Package and version of each.
    pub(crate) versions: Vec<String>,
    /// The database of ContextForge, deleted at the end.
    _folder: TempDir,
}

impl Peers {
    /// Starts each on the target's core, with a tool that returns `kb` kB.
    pub(crate) async fn start(cores: &Cores, environments: &Path, upstream: u16, kb: usize) -> Result<Self> {
        let environments = std::path::absolute(environments)?;
        let python = |peer: Peer| environments.join(peer.folder()).join("bin/python");
        let mut versions = Vec::new();
        for peer in [Peer::FastMcp, Peer::McpProxy, Peer::ContextForge] {
            versions.push(format!("{} {}", peer.package(), version(&python(peer), peer.package())?));
        }
        let folder = tempfile::tempdir()?;
        Ok(Self {
            fastmcp: fastmcp(cores, python(Peer::FastMcp), upstream, kb).await?,
            mcp_proxy: mcp_proxy(cores, python(Peer::McpProxy), kb).await?,
            contextforge: contextforge(cores, &python(Peer::ContextForge), folder.path(), upstream, kb).await?,
            versions,
            _folder: folder,
        })
    }

    pub(crate) fn server(&self, peer: Peer) -> &Server {
        match peer {
            Peer::FastMcp => &self.fastmcp,
            Peer::McpProxy => &self.mcp_proxy,
            Peer::ContextForge => &self.contextforge,
        }
    }
}

fn version(python: &Path, package: &str) -> Result<String> {
    let script = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";
    printed(Command::new(python).args(["-c", script, package]))
}

/// Returns the last line that a program prints.
fn printed(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().last().unwrap_or_default().to_owned())
}

async fn fastmcp(cores: &Cores, python: PathBuf, upstream: u16, kb: usize) -> Result<Server> {
    let port = free_port()?;
    let mut command = Command::new(python);
    command.args(["-c", FASTMCP]).args([upstream.to_string(), port.to_string(), kb.to_string()]);
    Server::started(cores, command, port, (port, &Peer::FastMcp.call(kb)?)).await
}

async fn mcp_proxy(cores: &Cores, python: PathBuf, kb: usize) -> Result<Server> {
    let port = free_port()?;
    let mut command = Command::new(python);
    command.args(["-m", "mcp_proxy", "--stateless", "--log-level", "ERROR", "--port", &port.to_string(), "--"]);
    command.arg(std::env::current_exe()?).args(["mcp", &kb.to_string()]);
    Server::started(cores, command, port, (port, &Peer::McpProxy.call(kb)?)).await
}

/// Starts ContextForge with a new database, and registers the tool. Its users may call without a key.
async fn contextforge(cores: &Cores, python: &Path, folder: &Path, upstream: u16, kb: usize) -> Result<Server> {
    let port = free_port()?;
    let configured = |arguments: &[&str]| {
        let mut command = Command::new(python);
        command.args(arguments).current_dir(folder).envs([
            ("DATABASE_URL", format!("sqlite:///{}/mcp.db", folder.display()).as_str()),
            ("JWT_SECRET_KEY", NO_SECRET),
            ("AUTH_ENCRYPTION_SECRET", NO_SECRET),
            ("PLATFORM_ADMIN_PASSWORD", NO_SECRET),
            ("AUTH_REQUIRED", "true"),
            ("MCP_REQUIRE_AUTH", "false"),
            ("SSRF_PROTECTION_ENABLED", "false"),
            ("RATE_LIMITING_ENABLED", "false"),
            ("MCPGATEWAY_UI_ENABLED", "false"),
            ("LOG_LEVEL", "ERROR"),
        ]);
        command
    };
    let token = ["-m", "mcpgateway.utils.create_jwt_token", "--username", "admin@example.com", "--admin"];
    let token = printed(&mut configured(&token))?;
    let serve = ["-m", "uvicorn", "mcpgateway.main:app", "--log-level", "warning", "--port", &port.to_string()];
    let health = Call::get("/health".to_owned());
    let server = Server::started(cores, configured(&serve), port, (port, &health)).await?;
    let tool = json!({"tool": {
        "name": format!("items-{kb}"),
        "visibility": "public",
        "url": format!("http://127.0.0.1:{upstream}/items/{kb}"),
        "integration_type": "REST",
        "request_type": "GET",
        "input_schema": {"type": "object", "properties": {}},
    }});
    let register = Call::post("/tools".to_owned(), tool.to_string().into()).with_key(&token)?;
    let (status, body) = once(port, &register).await?;
    ensure!(status.is_success(), "ContextForge refuses the tool: {status} {}", String::from_utf8_lossy(&body));
    Ok(server)
}
