//! Kubernetes Events: what a person should notice. A pure function derives them from the status before and the status
//! after, so they accompany a write of the status, and a restart of the operator does not repeat them.
//!
//! A pending object causes none: that passes. A problem that many objects share (no gateway of a group is ready) causes
//! one Event, of the group.

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{EventType, Recorder, Reporter};
use serde_json::Value;
use tamis_config::{Condition, Reason};
use tamis_crds::resources::API_VERSION;
use tokio::sync::mpsc;

use crate::object::ObjectKey;
use crate::status::{self, Seen, Truth, message};
use crate::verdict::{PlanCondition, Verdict};

/// The most Events that wait to be published. Further ones are dropped: the status has the same information.
const QUEUE: usize = 1024;
/// The time limit for publishing one Event.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// An Event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `Warning` if a person should act.
    pub type_: EventType,
    /// The reason.
    pub reason: Reason,
    /// What the operator was doing: `Compile`, `Resolve`, `Load` or `Serve`.
    pub action: &'static str,
    /// The message, at most 1 KiB.
    pub note: String,
}

impl Event {
    fn warning(reason: Reason, action: &'static str, note: &str) -> Self {
        Self { type_: EventType::Warning, reason, action, note: message::whole(note) }
    }

    fn normal(reason: Reason, action: &'static str, note: &str) -> Self {
        Self { type_: EventType::Normal, reason, action, note: message::whole(note) }
    }
}

/// Returns the Events that accompany the write of a status. `previous` is the status in the API, `next` the result of
/// [`status::desired`] for `verdict`.
#[must_use]
pub fn events(previous: Option<&Value>, next: &Value, verdict: &Verdict) -> Vec<Event> {
    let pair = |type_| (Seen::find(previous, type_), Seen::find(Some(next), type_));
    let mut events = Vec::new();
    for (condition, action) in [(PlanCondition::Accepted, "Compile"), (PlanCondition::ResolvedRefs, "Resolve")] {
        if let (before, Some(after)) = pair(condition.condition()) {
            of_findings(&mut events, verdict, condition, action, before, after);
        }
    }
    if verdict.exposed.is_some()
        && let (before, Some(after)) = pair(Condition::Programmed)
    {
        of_programmed(&mut events, before, after);
    }
    if let (before, Some(after)) = pair(Condition::Ready) {
        of_ready(&mut events, verdict, before, after);
    }
    events
}

fn of_findings(
    events: &mut Vec<Event>,
    verdict: &Verdict,
    condition: PlanCondition,
    action: &'static str,
    before: Option<Seen<'_>>,
    after: Seen<'_>,
) {
    let failed = before.filter(|before| before.truth() == Some(Truth::False));
    if after.truth() == Some(Truth::False) {
        let same =
            failed.is_some_and(|failed| failed.reason() == after.reason() && failed.message() == after.message());
        if let Some(reason) = after.reason().filter(|_| !same) {
            // The message lists the warnings after the errors.
            events.push(Event::warning(reason, action, after.message()));
        }
        return;
    }
    if let Some(failed) = failed {
        let note = format!("{} is resolved", failed.text("reason").unwrap_or_default());
        events.push(Event::normal(condition.met(), action, &note));
    }
    let said = before.map(Seen::message).unwrap_or_default();
    let mut new: Vec<String> = Vec::new();
    for finding in verdict.findings.iter().filter(|finding| !finding.is_error && finding.condition == condition) {
        let text = status::warning(finding);
        // A warning that does not fit into the message is not remembered there: without this check, each write would
        // report it again.
        if after.message().contains(&text) && !said.contains(&text) && !new.contains(&text) {
            events.push(Event::warning(finding.reason, action, &message::part(&finding.message)));
            new.push(text);
        }
    }
}

/// Only the reason counts: which gateway the message names may change with each pod that is replaced.
fn of_programmed(events: &mut Vec<Event>, before: Option<Seen<'_>>, after: Seen<'_>) {
    let refusal = |seen: Seen<'_>| {
        let is_refusal = |reason: &Reason| matches!(reason, Reason::GatewayTooOld | Reason::GatewayRefused);
        seen.reason().filter(is_refusal).filter(|_| seen.truth() == Some(Truth::False))
    };
    match (before.and_then(refusal), refusal(after)) {
        (was, Some(reason)) if was != Some(reason) => events.push(Event::warning(reason, "Load", after.message())),
        (Some(_), None) if after.truth() == Some(Truth::True) => {
            events.push(Event::normal(Reason::Programmed, "Load", after.message()));
        }
        _ => {}
    }
}

fn of_ready(events: &mut Vec<Event>, verdict: &Verdict, before: Option<Seen<'_>>, after: Seen<'_>) {
    let said = |reason: Reason, seen: Seen<'_>| seen.truth() == Some(Truth::False) && seen.reason() == Some(reason);
    let (unavailable, previous) = (Reason::GatewayUnavailable, Reason::ServingPrevious);
    let is_true = after.truth() == Some(Truth::True);
    if verdict.group.is_some() {
        let was = before.is_some_and(|before| said(unavailable, before));
        if said(unavailable, after) && !was {
            events.push(Event::warning(unavailable, "Serve", after.message()));
        } else if was && is_true {
            events.push(Event::normal(Reason::Ready, "Serve", after.message()));
        }
    }
    // An Event about a finding of the object already gives the cause.
    if events.is_empty() {
        let was = before.filter(|before| said(previous, *before));
        if said(previous, after) && was.is_none_or(|was| was.message() != after.message()) {
            events.push(Event::warning(previous, "Serve", after.message()));
        } else if was.is_some() && is_true {
            events.push(Event::normal(Reason::Ready, "Serve", "What the resources say is served again"));
        }
    }
}

/// The object that an Event concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regarding {
    /// The kind and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`. It separates the Events of different versions: without it, the recorder would count
    /// a new text as a repetition of the old one.
    pub resource_version: String,
}

impl Regarding {
    fn reference(self) -> ObjectReference {
        ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(self.key.kind.as_str().to_owned()),
            namespace: Some(self.key.name.namespace),
            name: Some(self.key.name.name),
            uid: Some(self.uid),
            resource_version: Some(self.resource_version),
            field_path: None,
        }
    }
}

/// Publishes Events one at a time, without blocking the caller. Only the leader publishes any.
#[derive(Debug, Clone)]
pub struct Publisher {
    sender: mpsc::Sender<(ObjectReference, Event)>,
}

impl Publisher {
    /// Starts the task that publishes. It ends when the last clone of the publisher is dropped.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn start(client: Client, reporter: Reporter) -> Self {
        let (sender, mut receiver) = mpsc::channel::<(ObjectReference, Event)>(QUEUE);
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some((object, event)) = receiver.recv().await {
                let event = kube::runtime::events::Event {
                    type_: event.type_,
                    reason: event.reason.to_string(),
                    note: Some(event.note),
                    action: event.action.to_owned(),
                    secondary: None,
                };
                let why = match tokio::time::timeout(PUBLISH_TIMEOUT, recorder.publish(&event, &object)).await {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the API server does not answer".to_owned(),
                };
                tracing::warn!(object = object.name, reason = event.reason, why, "Event not published");
            }
        });
        Self { sender }
    }

    /// Queues the Events of an object for publication.
    pub fn publish(&self, object: Regarding, events: Vec<Event>) {
        let object = object.reference();
        for event in events {
            if let Err(error) = self.sender.try_send((object.clone(), event)) {
                tracing::debug!(object = object.name, %error, "Event dropped");
            }
        }
    }
}
