//! Which of several operators writes.
//!
//! All of them watch and plan; one holds the Lease and writes. [`run`] takes part in the election; what it gives is asked
//! before every write:
//!
//! ```no_run
//! # async fn example(leadership: tamis_operator::leader::Leadership) -> anyhow::Result<()> {
//! let Some(permit) = leadership.may_write() else { return Ok(()) };
//! permit.write(async { /* one request */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Time is our own: a claim counts from before the request that renewed it was sent, on a clock that goes on while the
//! process is stopped. So a leader that is paused, cut off or starved finds [`Leadership::may_write`] closed before the
//! Lease has run out for anybody else, whether or not the task that renews has run since. A write that was sent before
//! and arrives late is caught by its `uid` and `resourceVersion`.

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

/// How an election is held.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; no two candidates may have one identity.
    pub identity: String,
    /// How long others wait after the last renewal that they saw; whole seconds.
    pub duration: Duration,
    /// How long after a renewal writes may begin. What is left of `duration` is for those under way to arrive.
    pub renew: Duration,
    /// How often the holder renews and others look.
    pub retry: Duration,
}

impl LeaseOptions {
    /// The name of the operator's Lease, where it is given none.
    pub const NAME: &str = "tamis-operator";

    /// 15 seconds, of which 10 for writes to begin, renewed every 2: what Kubernetes' own controllers use.
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

/// Whether we are the leader. Clones tell the same.
#[derive(Debug, Clone)]
pub struct Leadership {
    claim: Arc<Mutex<Option<Claim>>>,
    changes: watch::Receiver<bool>,
    /// Writes under way: the Lease is released when they have ended.
    writes: TaskTracker,
}

/// What a renewal gave us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    /// Counts how often we became the leader.
    term: u64,
    /// When the last write may begin.
    begin_until: Moment,
    /// When others may take the Lease.
    ends: Moment,
}

impl Leadership {
    /// Leave to write, if we are the leader at this moment.
    #[must_use]
    pub fn may_write(&self) -> Option<Permit> {
        Some(self.permit(self.current()?.term))
    }

    /// The permit of a term. It refuses every write outside of that term.
    pub(crate) fn permit(&self, term: u64) -> Permit {
        Permit { leadership: self.clone(), term }
    }

    /// Whether we lead. The value may lag behind [`Self::may_write`], which alone decides. Closed once the election is
    /// over for us: after a shutdown, or where its task died; then nothing is written any more.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changes.clone()
    }

    /// Completes once the election is over for us, after a shutdown with the Lease released.
    pub async fn ended(&self) {
        let mut changes = self.changes.clone();
        while changes.changed().await.is_ok() {}
    }

    fn current(&self) -> Option<Claim> {
        let claim = *self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        claim.filter(|claim| Moment::now() < claim.begin_until)
    }
}

/// Leave to write, as long as the term in which it was given goes on.
#[derive(Debug, Clone)]
pub struct Permit {
    leadership: Leadership,
    term: u64,
}

/// We are not the leader any more: nothing more is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease is lost, another operator may be writing")]
pub struct Deposed;

impl Permit {
    /// Which time of leading this is: another after each loss.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether a write may begin at this moment.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.claim().is_some()
    }

    /// Runs one request, if it may begin at this moment, and lets go of it when others may take the Lease. To be asked
    /// for each request: it may be a while between two.
    ///
    /// # Errors
    /// [`Deposed`], before the request or during it: then the API may have carried it out.
    pub async fn write<F: Future>(&self, request: F) -> Result<F::Output, Deposed> {
        // In this order: a release waits for those that are counted, and lets no other begin.
        let _counted = self.leadership.writes.token();
        let claim = self.claim().ok_or(Deposed)?;
        let left = claim.ends.since(Moment::now());
        tokio::time::timeout(left, request).await.map_err(|_| Deposed)
    }

    fn claim(&self) -> Option<Claim> {
        self.leadership.current().filter(|claim| claim.term == self.term)
    }
}
