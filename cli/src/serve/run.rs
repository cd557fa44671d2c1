//! Runs a gateway on a folder, with its listeners and its follower. `serve` and `demo` share it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use tamis_config::{Access, ExpositionId, Snapshot};
use tamis_crds::resources::GatewayGroupSpec;
use tamis_crds::{Bundled, Diagnostic, FolderReader, documents};
use tamis_gateway::upstream::{self, ClientOptions, LocalCredentials};
use tamis_gateway::{AuditLog, Gateway, MissingCredential, Options, Tls, Traces};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::follow::{Fingerprint, Follower};
use super::reload::{Reload, Reloader};
use super::settings;
use crate::logging::{self, LogArgs};
use crate::{connect, note};

/// The source of credentials.
pub(crate) enum Credentials {
    /// A folder and the environment.
    Local(Option<PathBuf>),
    /// A given source.
    Given(Arc<dyn upstream::Credentials>),
}

/// A folder that has been read, before anything listens.
pub(crate) struct Preparation {
    root: PathBuf,
    seen: Fingerprint,
    reader: FolderReader,
    reloader: Reloader,
    first: Reload,
    audit_dir: Option<PathBuf>,
    /// Whether log lines are for people.
    human: bool,
    /// Whether other machines may reach expositions without `access`.
    pub(crate) insecure_public: bool,
    /// The memory for calls. Defaults to that of the group or the system.
    pub(crate) memory: Option<u64>,
    /// Threads that serve connections. Defaults to the cores that the process may use.
    pub(crate) workers: Option<NonZero<usize>>,
    /// How audit records are logged.
    pub(crate) audit_log: AuditLog,
    /// The certificate of the serving port.
    pub(crate) tls: Option<Arc<Tls>>,
    /// The sender of traces.
    pub(crate) traces: Option<Traces>,
}

impl Preparation {
    /// Reads the folder. `human`: whether log lines are for people.
    pub(crate) fn read(root: &Path, audit_dir: Option<PathBuf>, human: bool) -> Self {
        let seen = Fingerprint::of(&documents(root));
        let mut reloader = Reloader::new(audit_dir.is_some());
        let mut reader = FolderReader::default();
        let first = reloader.decide(&reader.load(&[root.to_owned()]).files, Instant::now());
        let root = root.to_owned();
        Self {
            root,
            seen,
            reader,
            reloader,
            first,
            audit_dir,
            human,
            insecure_public: false,
            memory: None,
            workers: None,
            audit_log: AuditLog::default(),
            tls: None,
            traces: None,
        }
    }

    /// Reports the findings on standard error, as `tamis validate` prints them. If log lines are for people, it omits the
    /// finding that the gateway will log.
    pub(crate) fn report(&self, log: &LogArgs) {
        let logged = if self.serves_nothing() || !log.is_human() { None } else { self.first.problem() };
        let is_new =
            |finding: &&Diagnostic| logged.as_ref().is_none_or(|logged| !logged.starts_with(&finding.to_string()));
        log.report(self.first.diagnostics.iter().filter(is_new));
    }

    /// Returns whether there is no exposition to serve.
    pub(crate) fn serves_nothing(&self) -> bool {
        self.first.snapshot.addresses().is_empty()
    }

    /// Explains why there is nothing to serve.
    pub(crate) fn why_nothing(&self) -> String {
        let root = self.root.display();
        match (self.first.snapshot.stopped.is_empty(), self.first.problem().is_none()) {
            (true, true) => {
                format!("{root} has no Exposition; `tamis init DIR` creates an example folder, `tamis demo` serves one")
            }
            _ => format!("no exposition of {root} can be served"),
        }
    }

    /// Returns the configuration that would be served.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.first.snapshot
    }

    /// Returns the spec of the GatewayGroup document.
    pub(crate) fn group(&self) -> Option<&GatewayGroupSpec> {
        self.first.group.as_ref()
    }

    /// Returns the address to listen on.
    pub(crate) fn listen(&self, argument: Option<&str>) -> String {
        settings::listen(argument, self.first.group.as_ref())
    }

    /// Starts serving on the listeners, and follows the folder. Also returns the first configuration. The caller drops it
    /// once it has been announced: after a reload, nothing else would hold its documents.
    pub(crate) fn start(
        self,
        credentials: Credentials,
        listener: Option<TcpListener>,
        admin: Option<TcpListener>,
    ) -> anyhow::Result<(Server, Snapshot)> {
        if self.first.groups > 1 {
            bail!(
                "found {} GatewayGroups in {}; keep one, because a process serves one group",
                self.first.groups,
                self.root.display()
            );
        }
        let group = self.first.group.as_ref();
        if settings::audits_to_files(group) && self.audit_dir.is_none() {
            bail!("GatewayGroup: spec.audit.sink File requires a folder; set --audit-dir");
        }
        for (field, reason) in settings::without_effect(group) {
            tracing::warn!("GatewayGroup: spec.{field} has no effect here: {reason}");
        }
        let address = |listener: &Option<TcpListener>| listener.as_ref().map(TcpListener::local_addr).transpose();
        let (listen, admin_address) = (address(&listener)?, address(&admin)?);
        let open = |a: &SocketAddr| !a.ip().is_loopback() && !self.insecure_public;
        if let Some(address) = admin_address.filter(open) {
            bail!(
                "{address} would expose metrics and configuration to other machines; keep --admin on loopback, or pass --insecure-public"
            );
        }
        let mut options = Options::new(match credentials {
            Credentials::Local(folder) => Arc::new(LocalCredentials::new(folder)),
            Credentials::Given(credentials) => credentials,
        });
        // An exposition of a program is compiled only if the group enables programs.
        options.client = ClientOptions {
            egress: settings::egress(group)?,
            programs: true,
            limiter: tamis_gateway::programs::limiter(),
            ..ClientOptions::default()
        };
        options.limits = settings::limits(group, self.memory);
        options.workers = settings::workers(group, self.workers);
        options.audit_log = self.audit_log;
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
        match self.first.problem() {
            None => gateway.apply(&self.first.snapshot),
            Some(problem) => gateway.apply_in_part(&self.first.snapshot, problem),
        };
        let mut reported = Lacking::new();
        report_lacking(&gateway, &mut reported, listen.is_some());
        let snapshot = self.first.snapshot.clone();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if let Some(listener) = listener {
            tasks.spawn(Arc::clone(&gateway).serve(listener, shutdown.clone()));
        }
        // The admin port answers until everything else has ended, so that a drain can be observed.
        let admin_shutdown = CancellationToken::new();
        let admin_task = admin.map(|l| tokio::spawn(Arc::clone(&gateway).serve_admin(l, admin_shutdown.clone())));
        let follower =
            self.follow(Arc::clone(&gateway), reported, listen.is_some()).context("cannot watch the folder")?;
        let server =
            Server { gateway, base_url, admin: admin_address, shutdown, tasks, admin_shutdown, admin_task, follower };
        Ok((server, snapshot))
    }

    fn follow(self, gateway: Arc<Gateway>, mut reported: Lacking, listens: bool) -> std::io::Result<Follower> {
        let Self { root, seen, mut reader, mut reloader, first, human, .. } = self;
        let started = first.group;
        let mut told = false;
        let folder = root.clone();
        let runtime = tokio::runtime::Handle::current();
        Follower::start(&root, documents, seen, move || {
            let _runtime = runtime.enter();
            let reload = reloader.decide(&reader.load(std::slice::from_ref(&folder)).files, Instant::now());
            let restart = settings::needs_restart(started.as_ref(), reload.group.as_ref());
            if !restart.is_empty() && !told {
                tracing::warn!("GatewayGroup: {} changed, restart to apply it", restart.join(", "));
            }
            told = !restart.is_empty();
            apply(&gateway, &reload, human);
            report_lacking(&gateway, &mut reported, listens);
            reload.again
        })
    }
}

/// Applies the result of a reload, and logs the changes.
fn apply(gateway: &Gateway, reload: &Reload, human: bool) {
    let problem = reload.problem();
    for finding in &reload.news {
        // The gateway logs the first error, which it also shows at /config. Programs read its fields here.
        let logged = problem.as_ref().is_some_and(|problem| problem.starts_with(&finding.to_string()));
        match (human, finding.is_error()) {
            (true, _) if logged => {}
            (true, true) => tracing::error!("{finding}"),
            (true, false) => tracing::warn!("{finding}"),
            (false, _) => logging::event(finding),
        }
    }
    for id in &reload.held {
        tracing::info!(exposition = %id, "loosening waits until the folder is quiet");
    }
    if !reload.worthwhile {
        return;
    }
    let report = match problem {
        None => gateway.apply(&reload.snapshot),
        Some(problem) => gateway.apply_in_part(&reload.snapshot, problem),
    };
    for (what, ids) in [("added", &report.added), ("changed", &report.changed), ("removed", &report.removed)] {
        for id in ids {
            tracing::info!(exposition = %id, "exposition {what}");
        }
    }
    for (id, degraded) in &reload.degraded {
        let degraded = degraded.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        tracing::warn!(exposition = %id, degraded, "exposition does not match its documents");
    }
}

/// The credentials that each exposition lacks.
type Lacking = BTreeSet<(ExpositionId, MissingCredential)>;

/// Logs newly missing credentials with the remedy, and reports when none is missing any more. Over standard input and output
/// there are no callers with keys.
fn report_lacking(gateway: &Gateway, reported: &mut Lacking, listens: bool) {
    let missing = gateway.missing_credentials();
    let now: Lacking =
        missing.into_iter().flat_map(|(id, all)| all.into_iter().map(move |one| (id.clone(), one))).collect();
    let now: Lacking =
        now.into_iter().filter(|(_, one)| listens || !matches!(one, MissingCredential::Callers { .. })).collect();
    for (id, missing) in now.difference(reported) {
        tracing::warn!(exposition = %id, remedy = missing.remedy(), "{missing}");
    }
    if now.is_empty() && !reported.is_empty() {
        tracing::info!("all missing credentials are available now");
    }
    *reported = now;
}

/// A running gateway.
pub(crate) struct Server {
    gateway: Arc<Gateway>,
    base_url: Option<String>,
    admin: Option<SocketAddr>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
    admin_shutdown: CancellationToken,
    admin_task: Option<tokio::task::JoinHandle<()>>,
    follower: Follower,
}

impl Server {
    /// Returns the gateway.
    pub(crate) fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway)
    }

    /// Returns the token that stops serving.
    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Returns the URL of an exposition.
    pub(crate) fn url(&self, id: &ExpositionId) -> Option<String> {
        self.base_url.as_ref().map(|base| format!("{base}/mcp/{id}"))
    }

    /// Returns the exposition that the user named, or the only one.
    pub(crate) fn choose(snapshot: &Snapshot, named: Option<&ExpositionId>) -> anyhow::Result<ExpositionId> {
        let addresses = snapshot.addresses();
        let names = || addresses.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if let Some(id) = named {
            if let Some(stopped) = snapshot.stopped.get(id) {
                bail!("exposition {id} cannot be served: {}: {}", stopped.reason, stopped.message);
            }
            if !addresses.contains_key(id) {
                bail!("exposition {id} does not exist; set --exposition to one of: {}", names());
            }
            return Ok(id.clone());
        }
        let mut all = addresses.keys();
        match (all.next(), all.next()) {
            (Some(id), None) => Ok(ExpositionId::clone(id)),
            _ => bail!("there are several expositions; choose one with --exposition: {}", names()),
        }
    }

    /// Prints to standard error which expositions are served, and where.
    pub(crate) fn announce(&self, snapshot: &Snapshot, human: bool) {
        let missing = self.gateway.missing_credentials();
        for (id, document) in &snapshot.expositions {
            let tools = document.tools.len();
            let url = match document.access {
                Some(Access::BundleOnly) => format!("{id} (through bundles only)"),
                None | Some(Access::Anonymous | Access::ApiKeys { .. }) => self.url(id).unwrap_or_default(),
            };
            let unfiltered = document.unfiltered();
            if human && document.follow.is_some() {
                let lacks = if missing.contains_key(id) { ", credentials missing" } else { "" };
                note!("{url}  follows the tools of its MCP server  {:?}{lacks}", document.enforcement);
            } else if human {
                let plural = if tools == 1 { "" } else { "s" };
                let lacks = if missing.contains_key(id) { ", credentials missing" } else { "" };
                let bare = if unfiltered > 0 { format!(", {unfiltered} unfiltered") } else { String::new() };
                note!("{url}  {tools} tool{plural}{bare}  {:?}{lacks}", document.enforcement);
            } else {
                tracing::info!(exposition = %id, url, tools, unfiltered, enforcement = ?document.enforcement, "serving");
            }
        }
        for (id, document) in &snapshot.bundles {
            let Bundled { tools, unfiltered, .. } = Bundled::of(document, snapshot);
            let (url, parts) = (self.url(id).unwrap_or_default(), document.parts.len());
            if human {
                let plural = |count: usize| if count == 1 { "" } else { "s" };
                let lacks = if missing.contains_key(id) { ", credentials missing" } else { "" };
                note!("{url}  {tools} tool{} of {parts} exposition{}{lacks}", plural(tools), plural(parts));
            } else {
                tracing::info!(exposition = %id, url, tools, unfiltered, parts, "serving a bundle");
            }
        }
        for (id, stopped) in &snapshot.stopped {
            let url = self.url(id).unwrap_or_default();
            if human {
                note!("{url}  answers 503: {}: {}", stopped.reason, stopped.message);
            } else {
                tracing::warn!(exposition = %id, url, reason = %stopped.reason, message = stopped.message, "stopped");
            }
        }
        if let Some(admin) = self.admin {
            if human {
                note!("http://{admin}/metrics  and /livez, /readyz, /config");
            } else {
                tracing::info!(url = format!("http://{admin}"), "admin");
            }
        }
        if let Some(url) = snapshot.addresses().keys().next().and_then(|id| self.url(id))
            && human
        {
            note!("{}", connect::hint(&url));
        }
    }

    /// Stops accepting calls, waits for calls in flight, sends the last traces, and stops.
    pub(crate) async fn stop(mut self) {
        drop(self.follower);
        self.shutdown.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.gateway.end_programs().await;
        self.gateway.end_traces().await;
        self.admin_shutdown.cancel();
        if let Some(task) = self.admin_task {
            let _ = task.await;
        }
    }
}
