//! Decides what to do about a Lease. Pure: no client, no clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;

use super::clock::Moment;

/// The longest time for which another holder's lease is respected, whatever its duration.
const LONGEST: Duration = Duration::from_secs(300);

/// The content of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The identity of the holder. `None` if the Lease was released.
    pub(super) holder: Option<String>,
    /// How long the lease lasts after a renewal.
    pub(super) duration: Option<Duration>,
    /// The time of the renewal by the holder's clock. It is only compared for equality.
    pub(super) renewed: Option<Timestamp>,
    /// When the holder acquired the lease, by the holder's clock.
    pub(super) acquired: Option<Timestamp>,
    /// How often the lease went to another holder.
    pub(super) transitions: i32,
}

impl Record {
    /// Reads the `spec` of a Lease.
    pub(super) fn of(spec: Option<&LeaseSpec>) -> Self {
        let Some(spec) = spec else { return Self::default() };
        Self {
            holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
            duration: spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or(0),
        }
    }

    /// Returns the `spec` of a Lease with this content.
    pub(super) fn spec(&self) -> LeaseSpec {
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
        LeaseSpec {
            holder_identity: self.holder.clone(),
            lease_duration_seconds: self.duration.and_then(|d| i32::try_from(d.as_secs()).ok()),
            renew_time: self.renewed.map(MicroTime),
            acquire_time: self.acquired.map(MicroTime),
            lease_transitions: Some(self.transitions),
            ..LeaseSpec::default()
        }
    }

    /// Returns the record with which `identity` acquires or renews the lease at `time`.
    pub(super) fn held_by(&self, identity: &str, duration: Duration, time: Timestamp) -> Self {
        let is_renewal = self.holder.as_deref() == Some(identity);
        Self {
            holder: Some(identity.to_owned()),
            duration: Some(duration),
            renewed: Some(time),
            acquired: self.acquired.filter(|_| is_renewal).or(Some(time)),
            // Counted as other implementations do: acquiring a released lease is a transition too.
            transitions: if is_renewal { self.transitions } else { self.transitions.saturating_add(1) },
        }
    }

    /// Returns the record that releases the lease.
    pub(super) fn released(&self) -> Self {
        Self { holder: None, duration: Some(Duration::from_secs(1)), ..self.clone() }
    }
}

/// The last content that was read, and when it was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// The content of the Lease. `None` if there is no Lease.
    pub(super) record: Option<Record>,
    /// When this content was first seen, by this machine's clock: the holder's clock may differ by any amount.
    pub(super) since: Moment,
}

impl Observed {
    /// Returns the observation after reading `record` at `now`.
    pub(super) fn then(previous: Option<&Self>, record: Option<Record>, now: Moment) -> Self {
        let since = previous.filter(|seen| seen.record == record).map_or(now, |seen| seen.since);
        Self { record, since }
    }
}

/// What to do about the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Create the Lease: there is none.
    Create,
    /// Acquire the lease: it was released, or its holder has not renewed it for longer than it lasts.
    Take,
    /// Renew the lease, which this candidate holds.
    Renew,
    /// Wait: another candidate holds the lease for at least this time.
    Wait(Duration),
}

/// Decides what the candidate `identity` does. `leads`: it holds a claim that has not expired. A lease with its own
/// identity that it does not know to hold counts as another's: two processes may have been given one identity.
pub(super) fn decide(observed: &Observed, leads: bool, identity: &str, own: Duration, now: Moment) -> Action {
    let Some(record) = &observed.record else { return Action::Create };
    match record.holder.as_deref() {
        None => Action::Take,
        Some(holder) if leads && holder == identity => Action::Renew,
        Some(_) => {
            let lasts = record.duration.unwrap_or(own).min(LONGEST);
            match lasts.checked_sub(now.since(observed.since)).filter(|left| !left.is_zero()) {
                Some(left) => Action::Wait(left),
                None => Action::Take,
            }
        }
    }
}
