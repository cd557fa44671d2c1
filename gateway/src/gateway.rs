//! The public interface of the gateway: create it with options, then apply snapshots, then serve listeners.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tamis_config::{Access, ExpositionId, Snapshot};
use tokio_util::task::TaskTracker;

use crate::acks::Acks;
use crate::audit::Auditor;
use crate::compute::Compute;
use crate::descriptors;
use crate::feeds::Feeds;
use crate::memory;
use crate::metrics::Metrics;
use crate::offload::Offload;
use crate::options::Options;
use crate::refusals::Refusals;
use crate::registry::{ListKind, Registry, Shared};
use crate::sampler::Sampler;
use crate::seal::Keyring;
use crate::sealed::Book;
use crate::serve::Index;
use crate::service::Service;
use crate::session::{InFlight, Levels, Listeners};
use crate::shares::{self, Share, Shares};
use crate::upstream::{Client, ClientError};
use crate::watch::{self, Watch, Watches};

/// A gateway. Shared by the tasks that serve it and by the task that applies configurations.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    /// Counts tokens of a sample of outputs.
    pub(crate) sampler: Sampler,
    pub(crate) auditor: Auditor,
    pub(crate) keyring: Arc<Keyring>,
    /// Memory, calls and streams, shared by the expositions.
    pub(crate) shares: Shares,
    /// The share of requests that no exposition admitted.
    pub(crate) unauthenticated: Arc<Share>,
    /// The share of what runs in the background.
    pub(crate) background: Arc<Share>,
    /// The MCP servers whose lists are read in the background.
    pub(crate) watches: Watches,
    /// What MCP servers announce to single callers.
    pub(crate) feeds: Feeds,
    /// Streams by caller.
    pub(crate) listeners: Listeners,
    /// Maximum number of connections, given memory and descriptors.
    pub(crate) connections: usize,
    /// Bytes that are reserved for connections.
    pub(crate) set_aside: u64,
    /// Calls that outlive their connection, waited for when the gateway stops.
    pub(crate) detached: TaskTracker,
    pub(crate) draining: AtomicBool,
    /// Legacy calls over HTTP that their clients may cancel by id.
    pub(crate) in_flight: Arc<InFlight>,
    /// The levels of log messages that legacy clients have set over HTTP.
    pub(crate) levels: Levels,
    /// What is remembered of legacy sessions with MCP servers.
    pub(crate) book: Book,
    pub(crate) client: Arc<Client>,
    /// Runs work that would block a serving thread.
    pub(crate) compute: Arc<Compute>,
    /// Locked while a configuration is applied, so that only one is applied at a time.
    pub(crate) shared: Mutex<Shared>,
    pub(crate) status: Mutex<ReloadStatus>,
    pub(crate) acks: Acks,
    /// Log lines for refused requests.
    pub(crate) refusals: Refusals,
    /// The answer to `GET /`.
    pub(crate) index: Index,
    readiness: Mutex<Option<Readiness>>,
}

/// The results of the last configurations, for `/config` and `/readyz`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReloadStatus {
    /// The number of configurations that were applied.
    pub(crate) applied: u64,
    /// The error of the newest configuration, if it has one.
    pub(crate) error: Option<String>,
    /// Expositions whose newest document could not be loaded, and why.
    pub(crate) failed: BTreeMap<ExpositionId, String>,
}

/// Whether the gateway is ready for traffic, as decided by the task that applies configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It is not ready, because this is missing.
    WaitsFor(String),
    /// It is ready; the text is a warning for `/readyz`.
    Ready(Option<String>),
}

/// The gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The HTTP client towards upstreams.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The metrics.
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The folder of the audit records.
    #[error("the audit folder {} cannot be used ({}); name a folder that the gateway may write", .folder.display(), .error.kind())]
    Audit {
        /// Which folder.
        folder: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The thread that writes audit records.
    #[error("the thread that writes audit records cannot be started ({0}); allow the process more threads")]
    AuditThread(std::io::Error),
    /// No key for sealed cursors.
    #[error("the system has no source of random numbers")]
    Randomness,
}

/// The listener's address is reachable from other machines, but an exposition has no `access`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} is reachable from other machines and exposition {exposition} has no access: \
     listen on loopback, give it `access`, or pass --insecure-public"
)]
pub struct Exposed {
    /// The requested address.
    pub address: SocketAddr,
    /// The first exposition that anyone could call.
    pub exposition: ExpositionId,
}

impl Gateway {
    /// Creates a gateway that serves nothing yet.
    ///
    /// # Errors
    /// [`StartError`] if the client, the metrics, the audit folder or the source of random numbers cannot be used.
    pub fn new(mut options: Options) -> Result<Arc<Self>, StartError> {
        let limits = options.limits;
        let (workers, descriptors) = descriptors::workers(descriptors::limit(), options.workers);
        if workers < options.workers {
            tracing::warn!(
                workers,
                wanted = options.workers,
                "fewer workers are started than wanted: raise the limit of open files (ulimit -n)"
            );
            options.workers = workers;
        }
        let wanted = descriptors::connections(descriptors, limits.connections);
        let (connections, set_aside) = memory::connection_part(limits.memory, wanted, options.tls.is_some());
        let shares = Shares::new(shares::Limits {
            bytes: limits.memory.saturating_sub(set_aside),
            floor: 4 * memory::STEP,
            calls: limits.calls as u64,
            streams: limits.streams as u64,
        });
        options.client.idle = descriptors::idle(descriptors, options.client.idle);
        let keyring = match &options.keyring {
            Some(keyring) => Arc::clone(keyring),
            None => Arc::new(Keyring::of_the_process().ok_or(StartError::Randomness)?),
        };
        let metrics = Metrics::new()?;
        Ok(Arc::new(Self {
            unauthenticated: shares.of(&ExpositionId { namespace: String::new(), name: String::new() }),
            background: shares.of(&watch::background()),
            watches: Watches::default(),
            feeds: Feeds::default(),
            shares,
            listeners: Listeners::default(),
            connections,
            set_aside,
            client: Arc::new(Client::new(options.client.clone(), options.workers)?),
            registry: Registry::default(),
            sampler: Sampler::new(metrics.sample.clone()),
            metrics,
            auditor: Auditor::new(options.audit_log, &keyring, options.audit_dir.clone())?,
            keyring,
            detached: TaskTracker::new(),
            draining: AtomicBool::new(false),
            in_flight: Arc::default(),
            levels: Levels::default(),
            book: Book::default(),
            compute: Arc::default(),
            shared: Mutex::default(),
            status: Mutex::default(),
            acks: Acks::new().ok_or(StartError::Randomness)?,
            refusals: Refusals::default(),
            index: Index::default(),
            readiness: Mutex::default(),
            options,
        }))
    }

    /// Returns whether an exposition is served, rather than stopped or unknown.
    pub(crate) fn serves(&self, id: &ExpositionId) -> bool {
        self.registry.find(&id.to_string()).is_some_and(|slot| slot.state().is_served())
    }

    /// Updates the lists and reports of the expositions of a service after its upstream has withheld other tools than before, or
    /// can be reached, or can no longer be reached.
    pub(crate) fn note_withheld(&self, service: &Arc<Service>) {
        let store = self.options.credentials.as_ref();
        let mut touched = Vec::new();
        for slot in self.registry.all().values() {
            let state = slot.state();
            let Some(exposition) = state.serving().filter(|exposition| exposition.is_of_server(service)) else {
                continue;
            };
            // A tool that a followed server has changed is published again in a moment: hiding it until then would only notify
            // callers twice.
            if exposition.followed.is_none() && exposition.update_withheld(store) {
                self.registry.notify(slot, &[ListKind::Tools]);
            }
            touched.push(ExpositionId::clone(&slot.id));
        }
        self.acks.touch(touched);
    }

    /// Notifies the callers of the expositions of a watched server that the server's prompts or resources have changed, where they
    /// are published.
    pub(crate) fn note_announced(&self, watch: &Arc<Watch>, lists: &[ListKind]) {
        for slot in self.registry.all().values() {
            let state = slot.state();
            let Some(exposition) = state.serving().filter(|exposition| exposition.is_watched_by(watch)) else {
                continue;
            };
            let passes = |list: &ListKind| exposition.content().is_some_and(|content| content.passes(*list));
            let lists: Vec<_> = lists.iter().copied().filter(passes).collect();
            if !lists.is_empty() {
                self.registry.notify(slot, &lists);
            }
        }
    }

    /// Returns the runner for an exposition's work that would block a serving thread.
    pub(crate) fn offload<'a>(&'a self, exposition: &'a ExpositionId) -> Offload<'a> {
        Offload::new(&self.compute, &self.metrics, exposition)
    }

    /// Sets the answer of `/readyz`. Until this is called, the gateway is ready once a configuration was applied.
    pub fn set_readiness(&self, readiness: Readiness) {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner) = Some(readiness);
    }

    pub(crate) fn readiness(&self) -> Option<Readiness> {
        self.readiness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to drain. From now on `/readyz` fails, and kept connections are closed after their answer, so that
    /// traffic goes elsewhere. Requests that still arrive are served. [`Gateway::serve`] calls this itself at shutdown.
    pub fn begin_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Sends the remaining spans, for five seconds at most. Call this last: no span is sent afterwards. Does nothing if
    /// calls are not traced.
    pub async fn end_traces(&self) {
        if let Some(traces) = self.options.traces.clone() {
            traces.shut_down().await;
        }
    }

    /// Ends all programs that are upstreams, and waits until their process groups are gone. None is started afterwards. Call this
    /// when nothing is served any more.
    pub async fn end_programs(&self) {
        if let Some(programs) = self.client.programs() {
            programs.end().await;
        }
    }

    /// Kills all programs that are upstreams at once, for a process that ends without waiting.
    pub fn kill_programs(&self) {
        if let Some(programs) = self.client.programs() {
            programs.kill();
        }
    }

    pub(crate) fn reload_status(&self) -> ReloadStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that `snapshot` may be served at `address`. Beyond loopback, every exposition must have `access`.
    ///
    /// # Errors
    /// [`Exposed`] names the first exposition without `access`.
    pub fn check_listen(&self, address: SocketAddr, snapshot: &Snapshot, insecure_public: bool) -> Result<(), Exposed> {
        if address.ip().is_loopback() || insecure_public {
            return Ok(());
        }
        let is_open = |access: &Option<Access>| match access {
            None => true,
            // Anonymous on purpose, authenticated, or without an address.
            Some(Access::Anonymous | Access::ApiKeys { .. } | Access::BundleOnly) => false,
        };
        let expositions = snapshot.expositions.values().map(|document| (&document.id, &document.access));
        let bundles = snapshot.bundles.values().map(|document| (&document.id, &document.access));
        match expositions.chain(bundles).find(|(_, access)| is_open(access)) {
            None => Ok(()),
            Some((id, _)) => Err(Exposed { address, exposition: id.clone() }),
        }
    }
}
