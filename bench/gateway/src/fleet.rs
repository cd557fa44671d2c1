//! The servers of a run. All run at the same time, so that a slowdown of the machine affects all of them.

use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

use crate::call::{Call, Era};
use crate::cores::Cores;
use crate::documents::{self, KEY};
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
    /// The documents and Secrets, deleted at the end.
    _folders: [TempDir; 2],
}

impl Fleet {
    /// Starts every server: the upstream on this thread's cores, the others on the target's core.
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
        let quiet = ["--log-level", "warn", "--secrets", &secrets];
        let collector = format!("http://127.0.0.1:{port}");
        let [mut to_collector, mut loud] = [quiet.to_vec(), quiet.to_vec()];
        to_collector.extend(["--otlp-endpoint", &collector]);
        loud[1] = "info";
        Ok(Self {
            tamis: Server::tamis(cores, tamis, folder, &quiet).await?,
            traced: Server::tamis(cores, tamis, folder, &to_collector).await?,
            logged: Server::tamis(cores, tamis, folder, &loud).await?,
            upstream,
            proxy,
            per_core,
            _folders: folders,
        })
    }

    /// Returns the server of a row.
    pub(crate) fn server(&self, target: Target) -> &Server {
        match target {
            Target::Upstream => &self.upstream,
            Target::Proxy => &self.proxy,
            Target::PerCoreProxy => &self.per_core,
            Target::Plain | Target::Select | Target::Enforced | Target::Key => &self.tamis,
            Target::Traced => &self.traced,
            Target::Logged => &self.logged,
        }
    }

    /// Returns the call of a row for an answer of `kb` kB by the upstream.
    pub(crate) fn call(row: Row, kb: usize) -> Result<Call> {
        let exposition = match row.target {
            Target::Upstream | Target::Proxy | Target::PerCoreProxy => return Ok(Call::get(format!("/items/{kb}"))),
            Target::Plain => "plain",
            Target::Select | Target::Traced | Target::Logged => "select",
            Target::Enforced => "enforced",
            Target::Key => "key",
        };
        let call = tool(exposition, kb, row.era)?;
        if row.target == Target::Key { call.with_key(KEY) } else { Ok(call) }
    }
}

fn tool(exposition: &str, kb: usize, era: Era) -> Result<Call> {
    Call::tool(format!("/mcp/default/{exposition}"), &format!("items-{kb}"), era)
}
