//! The gateway as whoever embeds it sees it: give it options, then snapshots, then listeners.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tamis_config::{Access, ExpositionDocument, ExpositionId, Snapshot};
use tokio_util::task::TaskTracker;

use crate::acks::Acks;
use crate::audit::Auditor;
use crate::compute::Compute;
use crate::descriptors;
use crate::memory;
use crate::metrics::Metrics;
use crate::offload::Offload;
use crate::options::Options;
use crate::refusals::Refusals;
use crate::registry::{Registry, Shared};
use crate::seal::Keyring;
use crate::serve::Index;
use crate::session::{InFlight, Listeners};
use crate::shares::{self, Share, Shares};
use crate::upstream::{Client, ClientError};

/// A gateway. Shared by the tasks that serve it and by whoever gives it configurations.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) auditor: Auditor,
    pub(crate) keyring: Arc<Keyring>,
    /// Memory, calls and streams, as the expositions share them.
    pub(crate) shares: Shares,
    /// The share of requests that no exposition admitted.
    pub(crate) unauthenticated: Arc<Share>,
    /// Streams by caller.
    pub(crate) listeners: Listeners,
    /// Connections at once, as far as memory and descriptors allow them.
    pub(crate) connections: usize,
    /// Bytes that are set aside for them.
    pub(crate) set_aside: u64,
    /// Calls that outlive their connection, waited for when the gateway stops.
    pub(crate) detached: TaskTracker,
    pub(crate) draining: AtomicBool,
    /// Legacy calls over HTTP that their clients may cancel by id.
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) client: Arc<Client>,
    /// Where work runs that would hold up a serving thread.
    pub(crate) compute: Arc<Compute>,
    /// Held while a configuration is applied: one at a time.
    pub(crate) shared: Mutex<Shared>,
    pub(crate) status: Mutex<ReloadStatus>,
    pub(crate) acks: Acks,
    /// Log lines for requests that are refused.
    pub(crate) refusals: Refusals,
    /// What `GET /` answers.
    pub(crate) index: Index,
    readiness: Mutex<Option<Readiness>>,
}

/// How the last configurations fared, for `/config` and `/readyz`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReloadStatus {
    /// Configurations that were applied.
    pub(crate) applied: u64,
    /// What is wrong with the newest one; none once a good one came.
    pub(crate) error: Option<String>,
    /// Expositions whose newest document could not be loaded, and why.
    pub(crate) failed: BTreeMap<ExpositionId, String>,
}

/// Whether the gateway may be given traffic, as whoever gives it configurations sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It may not: this is not there yet.
    WaitsFor(String),
    /// It may; the text says what is unusual.
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
        /// What the system says.
        error: std::io::Error,
    },
    /// No key for sealed cursors.
    #[error("the system gives no random numbers")]
    Randomness,
}

/// The address may not be listened on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} is reachable from other machines and exposition {exposition} has no access: \
     listen on loopback, give it `access`, or pass --insecure-public"
)]
pub struct Exposed {
    /// The address asked for.
    pub address: SocketAddr,
    /// The first exposition that anyone could call.
    pub exposition: ExpositionId,
}

impl Gateway {
    /// Makes a gateway that serves nothing yet.
    ///
    /// # Errors
    /// [`StartError`] where the client, the audit folder or the random numbers cannot be had.
    pub fn new(mut options: Options) -> Result<Arc<Self>, StartError> {
        let limits = options.limits;
        let descriptors = descriptors::limit();
        let wanted = descriptors::connections(descriptors, limits.connections);
        let (connections, set_aside) = memory::connection_part(limits.memory, wanted, options.tls.is_some());
        let shares = Shares::new(shares::Limits {
            bytes: limits.memory.saturating_sub(set_aside),
            floor: 4 * memory::STEP,
            calls: limits.calls as u64,
            streams: limits.streams as u64,
        });
        let idle = &mut options.client.max_idle_per_host;
        *idle = descriptors::idle_per_host(descriptors, *idle);
        Ok(Arc::new(Self {
            unauthenticated: shares.of(&ExpositionId { namespace: String::new(), name: String::new() }),
            shares,
            listeners: Listeners::default(),
            connections,
            set_aside,
            client: Arc::new(Client::new(options.client.clone())?),
            registry: Registry::default(),
            metrics: Metrics::new()?,
            auditor: Auditor::new(options.audit_dir.clone()).map_err(|error| {
                let folder = options.audit_dir.clone().unwrap_or_default();
                StartError::Audit { folder, error }
            })?,
            keyring: match &options.keyring {
                Some(keyring) => Arc::clone(keyring),
                None => Arc::new(Keyring::of_the_process().ok_or(StartError::Randomness)?),
            },
            detached: TaskTracker::new(),
            draining: AtomicBool::new(false),
            in_flight: Arc::default(),
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

    /// Whether an exposition is served, rather than stopped or unknown.
    pub(crate) fn serves(&self, id: &ExpositionId) -> bool {
        self.registry.find(&id.to_string()).is_some_and(|slot| slot.state().serving().is_some())
    }

    /// Where the work of an exposition's calls runs that would hold up a serving thread.
    pub(crate) fn offload<'a>(&'a self, exposition: &'a ExpositionId) -> Offload<'a> {
        Offload::new(&self.compute, &self.metrics, exposition)
    }

    /// Says what `/readyz` answers. Until this is called, readiness is to have been given a configuration.
    pub fn set_readiness(&self, readiness: Readiness) {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner) = Some(readiness);
    }

    pub(crate) fn readiness(&self) -> Option<Readiness> {
        self.readiness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on `/readyz` fails and kept connections are closed after their answer, so that traffic goes elsewhere,
    /// while everything that still comes is served. [`Gateway::serve`] does so itself when it is told to stop.
    pub fn begin_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Sends the spans that wait, for five seconds at most: the last thing to do, since none is sent afterwards. Nothing to
    /// do where calls are not traced.
    pub async fn end_traces(&self) {
        if let Some(traces) = self.options.traces.clone() {
            traces.shut_down().await;
        }
    }

    pub(crate) fn reload_status(&self) -> ReloadStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether `address` may be listened on with `snapshot`: beyond loopback only if every exposition says who may
    /// call.
    ///
    /// # Errors
    /// [`Exposed`] names the first exposition that says nothing.
    pub fn check_listen(&self, address: SocketAddr, snapshot: &Snapshot, insecure_public: bool) -> Result<(), Exposed> {
        if address.ip().is_loopback() || insecure_public {
            return Ok(());
        }
        let open = |document: &ExpositionDocument| match &document.access {
            None => true,
            // Said on purpose, or with a proof of who calls.
            Some(Access::Anonymous | Access::ApiKeys { .. }) => false,
        };
        match snapshot.expositions.values().find(|document| open(document)) {
            None => Ok(()),
            Some(document) => Err(Exposed { address, exposition: document.id.clone() }),
        }
    }
}
