//! Leader election: which of several operators writes.
//!
//! Every operator watches the cluster; the one that holds the Lease plans and writes. [`run`] takes part in the
//! election. The [`Leadership`] that it returns is asked before every write:
//!
//! ```no_run
//! # async fn example(leadership: tamis_operator::leader::Leadership) -> anyhow::Result<()> {
//! let Some(permit) = leadership.may_write() else { return Ok(()) };
//! permit.write(async { /* one request */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Only the local clock counts: a claim starts before the request that renewed it was sent, on a clock that advances
//! while the process is stopped. A leader that is paused, cut off or starved therefore gets no permit from
//! [`Leadership::may_write`] by the time the Lease expires for the others, whether or not the task that renews has run
//! since. A write that was sent before and arrives late is rejected because of its `uid` and `resourceVersion`.

mod clock;
mod decide;
mod elect;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

pub use clock::Moment;
pub use elect::{random_suffix, run};

/// The options of an election.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The leader-election identity. It must be unique among candidates.
    pub identity: String,
    /// How long others wait after the last renewal that they saw, in whole seconds.
    pub duration: Duration,
    /// How long after a renewal writes may begin. The rest of `duration` lets writes in flight arrive.
    pub renew: Duration,
    /// How often the holder renews the Lease and others read it.
    pub retry: Duration,
}

impl LeaseOptions {
    /// The default name of the operator's Lease.
    pub const NAME: &str = "tamis-operator";

    /// Creates options with the times that Kubernetes' own controllers use: a lease lasts 15 seconds, writes may begin
    /// within 10 seconds of a renewal, and the lease is renewed every 2 seconds.
    #[must_use]
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: Self::NAME.to_owned(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Whether this operator is the leader. Clones share the state.
#[derive(Debug, Clone)]
pub struct Leadership {
    claim: Arc<Mutex<Option<Claim>>>,
    changes: watch::Receiver<bool>,
    /// The writes in flight. The Lease is released when they have ended.
    writes: TaskTracker,
}

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    /// The number of times that this operator has become the leader.
    term: u64,
    /// When the last write may begin.
    begin_until: Moment,
    /// When others may acquire the Lease.
    ends: Moment,
}

impl Leadership {
    /// Returns a permit to write, if this operator is the leader at this moment.
    #[must_use]
    pub fn may_write(&self) -> Option<Permit> {
        Some(self.permit(self.current()?.term))
    }

    /// Returns the permit of a term. It refuses every write outside of that term.
    pub(crate) fn permit(&self, term: u64) -> Permit {
        Permit { leadership: self.clone(), term }
    }

    /// Returns a channel with whether this operator leads. The value may lag behind [`Self::may_write`], which alone is
    /// decisive. The channel closes when this operator leaves the election, after a shutdown or a panic of the task:
    /// from then on nothing is written.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changes.clone()
    }

    /// Waits until this operator has left the election. After a shutdown, the Lease has been released by then.
    pub async fn ended(&self) {
        let mut changes = self.changes.clone();
        while changes.changed().await.is_ok() {}
    }

    fn current(&self) -> Option<Claim> {
        let claim = *self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        claim.filter(|claim| Moment::now() < claim.begin_until)
    }
}

/// A permit to write, for as long as its term lasts.
#[derive(Debug, Clone)]
pub struct Permit {
    leadership: Leadership,
    term: u64,
}

/// This operator is no longer the leader, so nothing more is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease is lost; another operator may be writing")]
pub struct Deposed;

impl Permit {
    /// Returns the term, which is a different one after each loss of the lease.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns whether a write may begin at this moment.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.claim().is_some()
    }

    /// Runs one request if it may begin at this moment, and abandons it when others may acquire the Lease. Must be
    /// called for each request, since much time may pass between two.
    ///
    /// # Errors
    /// [`Deposed`], before the request or during it. In the second case, the API server may have performed it.
    pub async fn write<F: Future>(&self, request: F) -> Result<F::Output, Deposed> {
        // The token comes before the claim: a release first drops the claim, and then waits for the counted writes.
        let _counted = self.leadership.writes.token();
        let claim = self.claim().ok_or(Deposed)?;
        let left = claim.ends.since(Moment::now());
        tokio::time::timeout(left, request).await.map_err(|_| Deposed)
    }

    fn claim(&self) -> Option<Claim> {
        self.leadership.current().filter(|claim| claim.term == self.term)
    }
}
