//! The election: reads and writes the Lease as [`decide`] decides.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher as _;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tamis_config::{names, watch_backoff};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::clock::Moment;
use super::decide::{Action, Observed, Record, decide};
use super::{Claim, Leadership, LeaseOptions};

/// Takes part in the election until `shutdown`, and then releases the Lease if this candidate holds it. The release
/// waits for the writes in flight, while [`Leadership::may_write`] permits no others.
///
/// Must be called within a Tokio runtime.
#[must_use]
pub fn run(client: Client, options: LeaseOptions, shutdown: CancellationToken) -> Leadership {
    let claim = Arc::new(Mutex::new(None));
    let (leads, changes) = watch::channel(false);
    let writes = TaskTracker::new();
    let elector = Elector {
        api: Api::namespaced(client, &options.namespace),
        options,
        claim: Arc::clone(&claim),
        leads,
        writes: writes.clone(),
        term: 0,
        lease: None,
        observed: None,
        sent: None,
    };
    tokio::spawn(elector.run(shutdown));
    Leadership { claim, changes, writes }
}

/// Returns ten random characters that distinguish an identity from those of earlier processes of the same name.
#[must_use]
pub fn random_suffix() -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:010x}", random & 0xff_ffff_ffff)
}

struct Elector {
    api: Api<Lease>,
    options: LeaseOptions,
    claim: Arc<Mutex<Option<Claim>>>,
    leads: watch::Sender<bool>,
    writes: TaskTracker,
    term: u64,
    /// The Lease as last read or written: its `resourceVersion` goes with the next update.
    lease: Option<Lease>,
    observed: Option<Observed>,
    /// The record that was sent last, and when. The answer may have been lost.
    sent: Option<(Record, Moment)>,
}

/// A panic in the task must not leave a claim behind.
impl Drop for Elector {
    fn drop(&mut self) {
        self.lose("the election has ended");
    }
}

impl Elector {
    async fn run(mut self, shutdown: CancellationToken) {
        // Decisions follow from polling. The watch only wakes the loop, so that a released Lease is acquired at once
        // and a stolen one noticed.
        let named = watcher::Config::default().fields(&format!("metadata.name={}", self.options.name));
        let mut changes = pin!(watcher(self.api.clone(), named).backoff(watch_backoff()).touched_objects());
        loop {
            let wait = tokio::select! {
                wait = self.step() => wait,
                () = shutdown.cancelled() => break,
            };
            let wake = Instant::now() + wait;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(wake) => break,
                    Some(change) = changes.next() => {
                        if change.is_ok_and(|lease| self.is_news(&lease)) {
                            self.lease = None;
                            break;
                        }
                    }
                    () = shutdown.cancelled() => break,
                }
            }
            if shutdown.is_cancelled() {
                break;
            }
        }
        self.release().await;
    }

    fn is_news(&self, lease: &Lease) -> bool {
        let record = Record::of(lease.spec.as_ref());
        record.holder.as_deref() != Some(&self.options.identity)
            && self.observed.as_ref().and_then(|seen| seen.record.as_ref()) != Some(&record)
            || lease.metadata.deletion_timestamp.is_some()
    }

    /// Reads the Lease and acts on it. Returns how long to wait before the next step.
    async fn step(&mut self) -> Duration {
        if self.is_leading() && self.claim().is_none_or(|claim| Moment::now() >= claim.begin_until) {
            self.lose("the lease could not be renewed in time");
        }
        // A leader renews the version that it wrote last, and reads the Lease only if that has changed meanwhile.
        if self.lease.is_none() || !self.is_leading() {
            match self.bounded(self.api.get_opt(&self.options.name)).await {
                Ok(lease) => self.see(lease),
                Err(error) => return self.failed("read", &error),
            }
        }
        let Some(observed) = &self.observed else { return self.pause() };
        let now = Moment::now();
        match decide(observed, self.is_leading(), &self.options.identity, self.options.duration, now) {
            Action::Wait(left) => {
                self.lose("another holds the lease");
                left.min(self.pause())
            }
            Action::Create | Action::Take => {
                self.lose("the lease is gone");
                self.hold().await
            }
            Action::Renew => self.hold().await,
        }
    }

    fn see(&mut self, lease: Option<Lease>) {
        let record = lease.as_ref().map(|lease| Record::of(lease.spec.as_ref()));
        self.lease = lease;
        // The answer to the last write was lost, but the write has arrived.
        if let Some((sent, at)) = self.sent.take_if(|(sent, _)| Some(&*sent) == record.as_ref()) {
            self.won(sent, at);
            return;
        }
        self.observed = Some(Observed::then(self.observed.as_ref(), record, Moment::now()));
    }

    /// Acquires or renews the Lease.
    async fn hold(&mut self) -> Duration {
        let before = self.lease.as_ref().map(|lease| Record::of(lease.spec.as_ref()));
        // The API keeps microseconds.
        let time = Timestamp::now().round(Unit::Microsecond).unwrap_or_default();
        let record = match before {
            Some(before) => before.held_by(&self.options.identity, self.options.duration, time),
            None => Record {
                transitions: 0,
                ..Record::default().held_by(&self.options.identity, self.options.duration, time)
            },
        };
        let at = Moment::now();
        self.sent = Some((record.clone(), at));
        match self.write(&record).await {
            Ok(lease) => {
                self.sent = None;
                self.lease = Some(lease);
                self.won(record, at);
                self.until_next()
            }
            // Another writer has changed or deleted the Lease: it is read again at once.
            Err(kube::Error::Api(status)) if status.code == 409 || status.is_not_found() => {
                self.lease = None;
                Duration::from_millis(50).min(self.options.retry)
            }
            Err(error) => self.failed("write", &error),
        }
    }

    async fn write(&self, record: &Record) -> kube::Result<Lease> {
        let parameters = PostParams { field_manager: Some(names::MANAGED_BY.to_owned()), ..PostParams::default() };
        let mut lease = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.options.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        lease.spec = Some(record.spec());
        match &self.lease {
            None => self.bounded(self.api.create(&parameters, &lease)).await,
            Some(_) => self.bounded(self.api.replace(&self.options.name, &parameters, &lease)).await,
        }
    }

    /// Limits the time of a request, so that a missing answer does not use up the whole lease.
    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
        let limit = (self.options.renew / 3).max(Duration::from_millis(500));
        let late = || kube::Error::Service(format!("no answer within {limit:?}").into());
        tokio::time::timeout(limit, request).await.unwrap_or_else(|_| Err(late()))
    }

    fn won(&mut self, record: Record, at: Moment) {
        let ends = at + record.duration.unwrap_or(self.options.duration);
        let begin_until = at + self.options.renew;
        self.observed = Some(Observed { record: Some(record), since: at });
        let led = self.is_leading();
        if !led {
            self.term += 1;
            tracing::info!(identity = %self.options.identity, "leading");
        }
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = Some(Claim { term: self.term, begin_until, ends });
        self.leads.send_if_modified(|leads| !std::mem::replace(leads, true));
    }

    fn lose(&mut self, why: &str) {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.leads.send_if_modified(|leads| std::mem::replace(leads, false)) {
            tracing::warn!(identity = %self.options.identity, "not leading any more: {why}");
            self.lease = None;
        }
    }

    fn claim(&self) -> Option<Claim> {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_leading(&self) -> bool {
        *self.leads.borrow()
    }

    fn failed(&self, operation: &str, error: &kube::Error) -> Duration {
        tracing::warn!(%error, "cannot {operation} the lease");
        self.until_next()
    }

    /// Returns the pause of a leader. It ends with the claim, so that a loss is reported in time.
    fn until_next(&self) -> Duration {
        let left = self.claim().map(|claim| claim.begin_until.since(Moment::now()));
        self.options.retry.min(left.unwrap_or(Duration::MAX))
    }

    /// Returns the pause of a follower, with jitter, so that candidates do not poll in step.
    fn pause(&self) -> Duration {
        let random = RandomState::new().hash_one(0_u8) % 200;
        self.options.retry * (1000 + u32::try_from(random).unwrap_or(0)) / 1000
    }

    /// Releases the Lease. No write begins from here on.
    async fn release(&mut self) {
        let leading = self.is_leading();
        let held = self.lease.clone();
        let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.leads.send_if_modified(|leads| std::mem::replace(leads, false));
        let Some(claim) = claim.filter(|_| leading) else { return };
        // The next leader must not meet a write of this one.
        self.writes.close();
        let left = claim.ends.since(Moment::now());
        if tokio::time::timeout(left, self.writes.wait()).await.is_err() {
            return;
        }
        // A renewal that the shutdown interrupted may have arrived. Then the release conflicts, and the Lease is read
        // again once.
        let mut lease = held;
        for _ in 0..2 {
            if lease.is_none() {
                lease = self.bounded(self.api.get_opt(&self.options.name)).await.unwrap_or_default();
            }
            let Some(lease) = lease.take().filter(|lease| self.is_own(lease)) else { return };
            let record = Record::of(lease.spec.as_ref());
            self.lease = Some(lease);
            match self.write(&record.released()).await {
                Ok(_) => return tracing::info!("lease released"),
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(error) => return tracing::warn!(%error, "cannot release the lease; it expires by itself"),
            }
        }
    }

    fn is_own(&self, lease: &Lease) -> bool {
        Record::of(lease.spec.as_ref()).holder.as_deref() == Some(&self.options.identity)
    }
}
