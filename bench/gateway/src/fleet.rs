//! The servers of a run. All run at the same time, so that a slowdown of the machine affects all of them.

use std::path::Path;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::call::{Call, Era};
use crate::cores::Cores;
use crate::documents::{self, KEY};
use crate::peers::{Peer, Peers};
use crate::plan::{Row, Target};
use crate::process::Server;

/// The running servers.
pub(crate) struct Fleet {
    upstream: Server,
    proxy: Server,
    per_core: Server,
    tamis: Server,
    traced: Server,
    logged: Server,
    peers: Option<Peers>,
    /// The documents and Secrets, deleted at the end.
    _folders: [TempDir; 2],
}

impl Fleet {
    /// Starts every server but the published gateways: the upstream on this thread's cores, the others on the target's
    /// core.
    pub(crate) async fn start(cores: &Cores, tamis: &Path, sizes: &[usize]) -> Result<Self> {
        let list = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let upstream = Server::own(&["upstream", &list])?;
        let port = upstream.port.to_string();
        let proxy = cores.on_target(|| Server::own(&["proxy", &port]))??;
        let per_core = cores.on_target(|| Server::own(&["per-core-proxy", &port]))??;
        let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
        let [folder, secrets] = [folders[0].path(), folders[1].path()];
        documents::calls(folder, secrets, upstream.port, sizes)?;
        let secrets = secrets.to_string_lossy();
        let quiet = ["--log-level", "warn", "--workers", "1", "--secrets", &secrets];
        let collector = format!("http://127.0.0.1:{port}");
        let [mut to_collector, mut loud] = [quiet.to_vec(), quiet.to_vec()];
        to_collector.extend(["--otlp-endpoint", &collector]);
        loud[1] = "info";
        Ok(Self {
            peers: None,
            tamis: Server::tamis(cores, tamis, folder, &quiet).await?,
            traced: Server::tamis(cores, tamis, folder, &to_collector).await?,
            logged: Server::tamis(cores, tamis, folder, &loud).await?,
            upstream,
            proxy,
            per_core,
            _folders: folders,
        })
    }

    /// Starts the published gateways, and returns the package and version of each. They come last, because some of them
    /// keep the target's core busy without a call.
    pub(crate) async fn start_peers(&mut self, cores: &Cores, environments: &Path, kb: usize) -> Result<Vec<String>> {
        let peers = Peers::start(cores, environments, self.upstream.port, kb).await?;
        Ok(self.peers.insert(peers).versions.clone())
    }

    /// Returns the server of a row. Fails for a published gateway that was not started.
    pub(crate) fn server(&self, target: Target) -> Result<&Server> {
        let peer = |peer| {
            let peers = self.peers.as_ref();
            Ok(peers.context("published gateways are not running")?.server(peer))
        };
        Ok(match target {
            Target::Upstream | Target::Mcp | Target::Graphql | Target::Grpc | Target::Command => &self.upstream,
            Target::Proxy => &self.proxy,
            Target::PerCoreProxy | Target::McpPerCoreProxy => &self.per_core,
            Target::Plain | Target::Select | Target::Enforced | Target::Key => &self.tamis,
            Target::McpPlain | Target::McpSelect | Target::OpenapiSelect => &self.tamis,
            Target::GraphqlSelect | Target::GrpcSelect | Target::CommandSelect => &self.tamis,
            Target::Traced => &self.traced,
            Target::Logged => &self.logged,
            Target::Fastmcp => return peer(Peer::FastMcp),
            Target::McpProxy => return peer(Peer::McpProxy),
            Target::Contextforge => return peer(Peer::ContextForge),
        })
    }

    /// Returns the call of a row for an answer of `kb` kB by the upstream.
    pub(crate) fn call(row: Row, kb: usize) -> Result<Call> {
        let exposition = match row.target {
            Target::Upstream | Target::Proxy | Target::PerCoreProxy => return Ok(Call::get(format!("/items/{kb}"))),
            Target::Plain => "plain",
            Target::Select | Target::Traced | Target::Logged => "select",
            Target::Enforced => "enforced",
            Target::Key => "key",
            Target::Fastmcp => return Peer::FastMcp.call(kb),
            Target::McpProxy => return Peer::McpProxy.call(kb),
            Target::Contextforge => return Peer::ContextForge.call(kb),
            Target::Mcp | Target::McpPerCoreProxy => {
                return Call::tool("/mcp".to_owned(), &format!("items-{kb}"), row.era);
            }
            Target::McpPlain => "mcp-plain",
            Target::McpSelect => "mcp-select",
            Target::OpenapiSelect => "openapi-select",
            Target::Graphql => return Ok(Call::graphql(kb)),
            Target::GraphqlSelect => {
                return Call::tool("/mcp/default/graphql-select".to_owned(), &format!("items{kb}"), row.era);
            }
            Target::Grpc => return Ok(Call::grpc(kb)),
            Target::GrpcSelect => {
                return Call::tool("/mcp/default/grpc-select".to_owned(), &format!("Items_List{kb}"), row.era);
            }
            Target::Command => return Ok(Call::get(format!("/run/{kb}"))),
            Target::CommandSelect => "command-select",
        };
        let call = tool(exposition, kb, row.era)?;
        if row.target == Target::Key { call.with_key(KEY) } else { Ok(call) }
    }
}

fn tool(exposition: &str, kb: usize, era: Era) -> Result<Call> {
    Call::tool(format!("/mcp/default/{exposition}"), &format!("items-{kb}"), era)
}
