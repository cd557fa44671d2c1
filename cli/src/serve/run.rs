//! A folder, a gateway, its listeners and the follower, put together. `serve` and `demo` both run this.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use tamis_config::{ExpositionId, Snapshot};
use tamis_crds::resources::GatewayGroupSpec;
use tamis_crds::{documents, load};
use tamis_gateway::upstream::{self, ClientOptions, LocalCredentials};
use tamis_gateway::{Gateway, Options, Tls, Traces};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::follow::{Fingerprint, Follower};
use super::reload::{Reload, Reloader};
use super::settings;

/// Where credentials come from.
pub(crate) enum Credentials {
    /// A folder and the environment.
    Local(Option<PathBuf>),
    /// Somewhere else.
    Given(Arc<dyn upstream::Credentials>),
}

/// A folder that has been read, before anything listens.
pub(crate) struct Preparation {
    root: PathBuf,
    seen: Fingerprint,
    reloader: Reloader,
    first: Reload,
    audit_dir: Option<PathBuf>,
    /// Whether expositions without `access` may be reached from other machines.
    pub(crate) insecure_public: bool,
    /// The certificate of the serving port.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Where traces of calls go.
    pub(crate) traces: Option<Traces>,
}

impl Preparation {
    /// Reads the folder.
    pub(crate) fn read(root: &Path, audit_dir: Option<PathBuf>) -> Self {
        let seen = Fingerprint::of(&documents(root));
        let mut reloader = Reloader::new(audit_dir.is_some());
        let first = reloader.decide(&load(&[root.to_owned()]).files, Instant::now());
        let root = root.to_owned();
        Self { root, seen, reloader, first, audit_dir, insecure_public: false, tls: None, traces: None }
    }

    /// Prints the findings to standard error, as `tamis validate` does. What the gateway will log is left to it.
    pub(crate) fn report(&self) {
        let logged = if self.serves_nothing() { None } else { self.first.problem() };
        for line in self.first.diagnostics.iter().map(ToString::to_string) {
            if logged.as_ref().is_none_or(|logged| !logged.starts_with(&line)) {
                eprintln!("{line}");
            }
        }
    }

    /// Whether there is no exposition to serve.
    pub(crate) fn serves_nothing(&self) -> bool {
        self.first.snapshot.expositions.is_empty()
    }

    /// What to say then.
    pub(crate) fn why_nothing(&self) -> String {
        let root = self.root.display();
        match (self.first.snapshot.stopped.is_empty(), self.first.diagnostics.is_empty()) {
            (true, true) => format!("{root} holds no Exposition; `tamis demo --dir DIR` writes some to begin with"),
            _ => format!("no exposition of {root} can be served as it is"),
        }
    }

    /// The GatewayGroup document.
    pub(crate) fn group(&self) -> Option<&GatewayGroupSpec> {
        self.first.group.as_ref()
    }

    /// The address to listen on.
    pub(crate) fn listen(&self, argument: Option<&str>) -> String {
        settings::listen(argument, self.first.group.as_ref())
    }

    /// Serves on the listeners, and follows the folder.
    pub(crate) fn start(
        self,
        credentials: Credentials,
        listener: Option<TcpListener>,
        admin: Option<TcpListener>,
    ) -> anyhow::Result<Server> {
        if self.first.groups > 1 {
            bail!("{} GatewayGroups in {}: one process is one group, keep one", self.first.groups, self.root.display());
        }
        let group = self.first.group.as_ref();
        if settings::audits_to_files(group) && self.audit_dir.is_none() {
            bail!("GatewayGroup: spec.audit.sink is File: say where with --audit-dir");
        }
        for (field, reason) in settings::without_effect(group) {
            tracing::warn!("GatewayGroup: spec.{field} has no effect here: {reason}");
        }
        let address = |listener: &Option<TcpListener>| listener.as_ref().map(TcpListener::local_addr).transpose();
        let (listen, admin_address) = (address(&listener)?, address(&admin)?);
        let open = |a: &SocketAddr| !a.ip().is_loopback() && !self.insecure_public;
        if let Some(address) = admin_address.filter(open) {
            bail!(
                "{address} would show metrics and configuration to other machines: keep --admin on loopback, or pass --insecure-public"
            );
        }
        let mut options = Options::new(match credentials {
            Credentials::Local(folder) => Arc::new(LocalCredentials::new(folder)),
            Credentials::Given(credentials) => credentials,
        });
        options.client = ClientOptions { egress: settings::egress(group)?, ..ClientOptions::default() };
        options.audit_dir.clone_from(&self.audit_dir);
        options.require_access = listen.as_ref().is_some_and(open);
        options.hostnames = settings::hostnames(group);
        options.tool_series = settings::tool_series(group);
        let base_url = listen.map(|address| settings::base_url(group, address, self.tls.is_some()));
        options.tls.clone_from(&self.tls);
        options.traces.clone_from(&self.traces);

        let gateway = Gateway::new(options)?;
        if let Some(address) = listen {
            gateway.check_listen(address, &self.first.snapshot, self.insecure_public)?;
        }
        gateway.apply(&self.first.snapshot);
        if let Some(problem) = self.first.problem() {
            gateway.note_reload_error(problem);
        }
        let snapshot = self.first.snapshot.clone();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if let Some(listener) = listener {
            tasks.spawn(Arc::clone(&gateway).serve(listener, shutdown.clone()));
        }
        // The admin port answers until everything else has ended: a drain can be watched.
        let admin_shutdown = CancellationToken::new();
        let admin_task = admin.map(|l| tokio::spawn(Arc::clone(&gateway).serve_admin(l, admin_shutdown.clone())));
        let follower = self.follow(Arc::clone(&gateway)).context("the folder cannot be followed")?;
        Ok(Server {
            gateway,
            snapshot,
            base_url,
            admin: admin_address,
            shutdown,
            tasks,
            admin_shutdown,
            admin_task,
            follower,
        })
    }

    fn follow(self, gateway: Arc<Gateway>) -> std::io::Result<Follower> {
        let Self { root, seen, mut reloader, first, .. } = self;
        let started = first.group;
        let mut told = false;
        let folder = root.clone();
        let runtime = tokio::runtime::Handle::current();
        Follower::start(&root, documents, seen, move || {
            let _runtime = runtime.enter();
            let reload = reloader.decide(&load(std::slice::from_ref(&folder)).files, Instant::now());
            let restart = settings::needs_restart(started.as_ref(), reload.group.as_ref());
            if !restart.is_empty() && !told {
                tracing::warn!("GatewayGroup: {} changed, restart to apply it", restart.join(", "));
            }
            told = !restart.is_empty();
            apply(&gateway, &reload);
            reload.again
        })
    }
}

/// Serves what a reload decided, and says what it did.
fn apply(gateway: &Gateway, reload: &Reload) {
    let problem = reload.problem();
    // The first error is said by the gateway, which shows it at /config too.
    for diagnostic in reload.news.iter().filter(|d| problem.as_ref().is_none_or(|p| !p.starts_with(&d.to_string()))) {
        if diagnostic.is_error() {
            tracing::error!("{diagnostic}");
        } else {
            tracing::warn!("{diagnostic}");
        }
    }
    for id in &reload.held {
        tracing::info!(exposition = %id, "what would loosen it waits until the folder is quiet");
    }
    if !reload.worthwhile {
        return;
    }
    let report = gateway.apply(&reload.snapshot);
    for (what, ids) in [("added", &report.added), ("changed", &report.changed), ("removed", &report.removed)] {
        for id in ids {
            tracing::info!(exposition = %id, "exposition {what}");
        }
    }
    for (id, degraded) in &reload.degraded {
        tracing::warn!(exposition = %id, ?degraded, "exposition does not serve what its documents say");
    }
    if let Some(problem) = problem {
        gateway.note_reload_error(problem);
    }
}

/// A gateway that serves.
pub(crate) struct Server {
    gateway: Arc<Gateway>,
    snapshot: Snapshot,
    base_url: Option<String>,
    admin: Option<SocketAddr>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
    admin_shutdown: CancellationToken,
    admin_task: Option<tokio::task::JoinHandle<()>>,
    follower: Follower,
}

impl Server {
    /// The gateway itself.
    pub(crate) fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway)
    }

    /// What was served at the start.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Ends everything that serves.
    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// The URL of an exposition.
    pub(crate) fn url(&self, id: &ExpositionId) -> Option<String> {
        self.base_url.as_ref().map(|base| format!("{base}/mcp/{id}"))
    }

    /// The exposition that a user named, or the only one.
    pub(crate) fn choose(&self, named: Option<&ExpositionId>) -> anyhow::Result<ExpositionId> {
        let names = || self.snapshot.expositions.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if let Some(id) = named {
            if let Some(stopped) = self.snapshot.stopped.get(id) {
                bail!("exposition {id} cannot be served: {}: {}", stopped.reason, stopped.message);
            }
            if !self.snapshot.expositions.contains_key(id) {
                bail!("there is no exposition {id}, give --exposition one of: {}", names());
            }
            return Ok(id.clone());
        }
        let mut all = self.snapshot.expositions.keys();
        match (all.next(), all.next()) {
            (Some(id), None) => Ok(id.clone()),
            _ => bail!("--exposition must say which: {}", names()),
        }
    }

    /// Says on standard error what is served where.
    pub(crate) fn announce(&self, human: bool) {
        for (id, document) in &self.snapshot.expositions {
            let (url, tools) = (self.url(id).unwrap_or_default(), document.tools.len());
            if human {
                let plural = if tools == 1 { "" } else { "s" };
                eprintln!("{url}  {tools} tool{plural}  {:?}", document.enforcement);
            } else {
                tracing::info!(exposition = %id, url, tools, enforcement = ?document.enforcement, "serving");
            }
        }
        for (id, stopped) in &self.snapshot.stopped {
            let url = self.url(id).unwrap_or_default();
            if human {
                eprintln!("{url}  answers 503: {}: {}", stopped.reason, stopped.message);
            } else {
                tracing::warn!(exposition = %id, url, reason = %stopped.reason, message = stopped.message, "stopped");
            }
        }
        if let Some(admin) = self.admin {
            if human {
                eprintln!("http://{admin}/metrics  and /livez, /readyz, /config");
            } else {
                tracing::info!(url = format!("http://{admin}"), "admin");
            }
        }
    }

    /// Stops accepting, lets calls under way end, sends the last traces, and stops.
    pub(crate) async fn stop(mut self) {
        drop(self.follower);
        self.shutdown.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.gateway.end_traces().await;
        self.admin_shutdown.cancel();
        if let Some(task) = self.admin_task {
            let _ = task.await;
        }
    }
}
