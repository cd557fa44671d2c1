//! Watches the MCP servers of loaded expositions: reads their lists before a call needs them, and notices changes.
//!
//! ```text
//! mod      which servers are watched: one watch for each service and credential, as long as an exposition holds it
//! task     one watch: reads the list, and listens for announcements
//! follow   the tools of a followed server become those of its expositions
//! backoff  when to ask again                                                                                        pure
//! report   what the operator learns                                                                                 pure
//! ```
//!
//! A failure here concerns nothing but what the watch knows: calls ask for themselves where nothing is known.

mod backoff;
mod follow;
mod report;
mod task;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sha2::{Digest as _, Sha256};
use tamis_config::ExpositionId;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::service::Service;
use crate::upstream::{CredentialScope, Credentials, Handles};

pub(crate) use follow::{Derived, effective};
pub(crate) use report::report;
pub(crate) use task::background;

/// The most lists that are read at once.
const READS: usize = 64;
/// How many of them may be of servers that failed before, so that those do not hold up the others.
const RETRIES: usize = 32;
/// The most streams of announcements. The lists of further servers are read as their time says.
const STREAMS: usize = 512;

/// The watches of a gateway.
#[derive(Debug)]
pub(crate) struct Watches {
    table: Mutex<Table>,
    /// Wakes the driver when a watch is added.
    added: Notify,
    reads: Semaphore,
    retries: Semaphore,
    streams: Semaphore,
    /// Locked by the driver: several listeners may be served, and one of them drives.
    driving: tokio::sync::Mutex<()>,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            table: Mutex::default(),
            added: Notify::new(),
            reads: Semaphore::new(READS),
            retries: Semaphore::new(RETRIES),
            streams: Semaphore::new(STREAMS),
            driving: tokio::sync::Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    /// By service and credential.
    watches: HashMap<[u8; 32], Weak<Lease>>,
    /// Watches that have no task yet.
    waiting: Vec<Weak<Lease>>,
    /// The number of watches above which those that ended are removed.
    prune_above: usize,
}

/// Keeps a watch going. Expositions of one service with one credential share it, and the last one ends it.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Watch>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.ended.cancel();
    }
}

impl Lease {
    /// Returns whether it keeps this watch going.
    pub(crate) fn is(&self, watch: &Arc<Watch>) -> bool {
        Arc::ptr_eq(&self.0, watch)
    }
}

impl std::ops::Deref for Lease {
    type Target = Watch;

    fn deref(&self) -> &Watch {
        &self.0
    }
}

/// One server as one credential sees it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The service.
    pub(crate) service: Arc<Service>,
    /// The exposition that began the watch. Its namespace and its handles give the credential.
    id: ExpositionId,
    handles: Handles,
    reach: Mutex<Reach>,
    /// The tools of a followed server, and the service of them.
    derived: Mutex<Option<Derived>>,
    /// Wakes the task: a call has read another list.
    listed: Notify,
    ended: CancellationToken,
}

/// Whether a server answers, as far as the watch knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It has not been asked yet.
    #[default]
    Unknown,
    /// Its list could be read.
    Reachable,
    /// Its list could not be read.
    Unreachable(Problem),
}

/// Why a list could not be read, in words of the gateway: no text of the server, no address, no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// An HTTP status.
    Status(u16),
    /// A JSON-RPC error.
    Rpc(i64),
    /// What failed, in one word: [`crate::upstream::UpstreamError::category`].
    Failed(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Status(status) => return write!(f, "it answers with status {status}"),
            Self::Rpc(code) => return write!(f, "it answers with the JSON-RPC error {code}"),
            Self::Failed(category) => match *category {
                "connect" => "no connection can be made",
                "dns" => "its name cannot be resolved",
                "tls" => "TLS cannot be set up with it",
                "reset" => "the connection breaks",
                "redirect" => "it answers with a redirect, which is not followed",
                "egress" => "the egress policy forbids its address",
                "timeout" => "it does not answer in time",
                "too_large" => "its answer is too large",
                "malformed" => "its answer is not valid",
                "credential" => "the credential is missing",
                "credential_use" => "the credential may not be used for it",
                "credential_returned" => "its answer contains the credential",
                "stream_flooded" => "its stream has too much that is no answer",
                "exhausted" => "the gateway has no memory for its list",
                other => other,
            },
        };
        f.write_str(text)
    }
}

impl Watch {
    /// Returns whether the server answers.
    pub(crate) fn reach(&self) -> Reach {
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether the server answers. Returns what was known before.
    fn set_reach(&self, reach: Reach) -> Reach {
        std::mem::replace(&mut *self.reach.lock().unwrap_or_else(PoisonError::into_inner), reach)
    }

    fn credentials<'a>(&'a self, store: &'a dyn Credentials) -> CredentialScope<'a> {
        CredentialScope { store, namespace: &self.id.namespace, handles: &self.handles }
    }
}

impl Watches {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the watch of a service with the credentials of an exposition; none for a service that is not watched.
    pub(crate) fn of(&self, service: &Arc<Service>, id: &ExpositionId, handles: &Handles) -> Option<Arc<Lease>> {
        if !service.upstream.is_watched() {
            return None;
        }
        // Without handles, the namespace decides what a credential's name means.
        let key = Sha256::digest(format!("{}\n{}\n{handles:?}", service.digest, id.namespace)).into();
        let mut table = self.table();
        if let Some(lease) = table.watches.get(&key).and_then(Weak::upgrade) {
            return Some(lease);
        }
        let lease = Arc::new(Lease(Arc::new(Watch {
            service: Arc::clone(service),
            id: id.clone(),
            handles: handles.clone(),
            reach: Mutex::default(),
            derived: Mutex::default(),
            listed: Notify::new(),
            ended: CancellationToken::new(),
        })));
        table.watches.insert(key, Arc::downgrade(&lease));
        table.waiting.push(Arc::downgrade(&lease));
        if table.watches.len().max(table.waiting.len()) > table.prune_above {
            table.watches.retain(|_, lease| lease.strong_count() > 0);
            table.waiting.retain(|lease| lease.strong_count() > 0);
            table.prune_above = 64 + 2 * table.watches.len();
        }
        drop(table);
        self.added.notify_one();
        Some(lease)
    }

    /// Returns the watches that wait for a task.
    fn waiting(&self) -> Vec<Arc<Watch>> {
        let waiting = std::mem::take(&mut self.table().waiting);
        waiting.iter().filter_map(Weak::upgrade).map(|lease| Arc::clone(&lease.0)).collect()
    }

    /// Lets every watch wait for a task.
    fn all_wait(&self) {
        let mut table = self.table();
        table.waiting = table.watches.values().filter(|lease| lease.strong_count() > 0).cloned().collect();
    }
}

impl Gateway {
    /// Runs the watches until `shutdown`. Of several callers one runs them, and the next one when that one ends.
    pub(crate) async fn watch_upstreams(self: &Arc<Self>, shutdown: &CancellationToken) {
        let driving = tokio::select! {
            driving = self.watches.driving.lock() => driving,
            () = shutdown.cancelled() => return,
        };
        // Those of a driver that ended before have no task any more.
        self.watches.all_wait();
        let mut tasks = JoinSet::new();
        loop {
            for watch in self.watches.waiting() {
                tasks.spawn(task::run(Arc::clone(self), watch));
            }
            tokio::select! {
                () = self.watches.added.notified() => {}
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the watch of an MCP server failed; its list is read at calls only");
                    }
                }
                () = shutdown.cancelled() => break,
            }
        }
        tasks.shutdown().await;
        drop(driving);
    }
}
