//! What to do about a Lease. Pure: no client, no clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;

use super::clock::Moment;

/// The longest that a lease of another holder is respected, whatever it says of itself.
const LONGEST: Duration = Duration::from_secs(300);

/// What a Lease says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Who holds it; none where it was released.
    pub(super) holder: Option<String>,
    /// How long it lasts after a renewal.
    pub(super) duration: Option<Duration>,
    /// The holder's own clock: only ever compared for equality.
    pub(super) renewed: Option<Timestamp>,
    /// When the holder took it, by the holder's clock.
    pub(super) acquired: Option<Timestamp>,
    /// How often it went to another holder.
    pub(super) transitions: i32,
}

impl Record {
    /// What a Lease's `spec` says.
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

    /// As `spec` of a Lease.
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

    /// The record by which `identity` takes or renews the lease at `time`.
    pub(super) fn held_by(&self, identity: &str, duration: Duration, time: Timestamp) -> Self {
        let is_renewal = self.holder.as_deref() == Some(identity);
        Self {
            holder: Some(identity.to_owned()),
            duration: Some(duration),
            renewed: Some(time),
            acquired: self.acquired.filter(|_| is_renewal).or(Some(time)),
            // As other implementations count: also from nobody, once the lease has been held.
            transitions: if is_renewal { self.transitions } else { self.transitions.saturating_add(1) },
        }
    }

    /// The record that leaves the lease to whoever comes first.
    pub(super) fn released(&self) -> Self {
        Self { holder: None, duration: Some(Duration::from_secs(1)), ..self.clone() }
    }
}

/// What was read last, and when we first saw it say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// What the Lease says; none where there is no Lease.
    pub(super) record: Option<Record>,
    /// When it was first seen to say so, by our clock: holders' clocks may differ from ours by any amount.
    pub(super) since: Moment,
}

impl Observed {
    /// What is known after reading `record` at `now`.
    pub(super) fn then(previous: Option<&Self>, record: Option<Record>, now: Moment) -> Self {
        let since = previous.filter(|seen| seen.record == record).map_or(now, |seen| seen.since);
        Self { record, since }
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// There is no Lease.
    Create,
    /// Nobody holds it, or the holder has been silent for longer than its lease lasts.
    Take,
    /// It is ours.
    Renew,
    /// Somebody else holds it, for at least so long.
    Wait(Duration),
}

/// What `identity` does about what was observed. `leads`: we hold a claim that has not run out. A lease with our name
/// that we do not know to hold is another's: two processes may have been given one name.
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
