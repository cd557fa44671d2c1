//! The API server of the harness: performs, refuses and loses the writes of the state.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::core::Status;
use serde_json::{Value, json};
use tamis_config::{GatewayConfigSpec, PayloadKind, names};
use tamis_crds::ObjectName;

use super::{Harness, POD, credential};
use crate::cluster_state::{ConfigObject, shard_name};
use crate::group::{self, GatewayPod, GroupOutcome};
use crate::leader::Deposed;
use crate::object::ObjectKey;
use crate::options::Token;
use crate::run::action::{Failure, Fence, Owner, Reconciled, Report, Request, Write};
use crate::watch::Watched;

impl Harness {
    /// Answers the first waiting write whose text begins with `prefix`, and lets the state decide.
    pub(in crate::run::tests) fn answer(&mut self, prefix: &str) {
        let write = self.take(prefix);
        let report = self.perform(write);
        self.report(report);
    }

    /// Answers all waiting writes, and those that follow from them.
    pub(in crate::run::tests) fn answer_all(&mut self) {
        self.run();
        while !self.writes.is_empty() {
            while let Some(write) = self.writes.pop_front() {
                let report = self.perform(write);
                self.state.on_report(report, self.now);
            }
            self.run();
        }
    }

    /// Performs a write as the API server would.
    pub(in crate::run::tests) fn perform(&mut self, write: Write) -> Report {
        let text = describe(&write);
        let fence = write.fence;
        let holds = self.term.map(|term| Fence { term, sleeps: self.sleeps }) == Some(fence);
        let deposed = || Err(Failure::Deposed(Deposed));
        if holds {
            self.log.push(text);
            self.check_credentials(&write);
        }
        match write.request {
            Request::Shard { owner, number, data, seen } => {
                let name = shard_name(&owner.group, number);
                let seen = seen.and_then(|seen| seen.metadata.resource_version.clone());
                let data: BTreeMap<String, String> = data
                    .into_iter()
                    .map(|(handle, value)| {
                        let value = serde_json::to_value(k8s_openapi::ByteString(value)).expect("is text");
                        (handle, value.as_str().unwrap_or_default().to_owned())
                    })
                    .collect();
                let rest = json!({"metadata": owned(&owner), "data": data});
                let result =
                    if holds { self.replace(Watched::GroupSecrets, "Secret", &name, seen, rest) } else { deposed() };
                let secret = |object: DynamicObject| Box::new(object.try_parse::<Secret>().expect("is a Secret"));
                Report::Shard { name, result: result.map(secret) }
            }
            Request::Config { owner, name, spec, seen } => {
                let seen = seen.map(|seen| seen.resource_version.clone());
                let rest = json!({"metadata": owned(&owner), "spec": *spec});
                let result =
                    if holds { self.replace(Watched::Configs, "GatewayConfig", &name, seen, rest) } else { deposed() };
                if let (Ok(_), Some(exposition), true) = (&result, &spec.exposition, self.loads) {
                    self.ack(&exposition.to_string(), spec.digest.clone());
                }
                let config = |object: DynamicObject| Box::new(ConfigObject::read(&object).expect("is a GatewayConfig"));
                Report::Config { name, result: result.map(config) }
            }
            Request::Delete(seen) => {
                let there = self.objects.get(&(Watched::Configs, seen.name.clone()));
                let is_it =
                    there.is_some_and(|there| there.metadata.resource_version.as_ref() == Some(&seen.resource_version));
                if holds && is_it {
                    self.remove(Watched::Configs, &seen.name);
                }
                let result = if holds { Ok(()) } else { Err(Failure::Deposed(Deposed)) };
                Report::Deleted { name: seen.name.clone(), uid: seen.uid.clone(), result }
            }
            Request::Status(status) => {
                let result = if holds {
                    self.write_status(&status.key, &status.resource_version, status.status)
                } else {
                    deposed()
                };
                Report::Status { key: status.key, result: result.map(Box::new) }
            }
            Request::Group { of, input } => {
                let admin = ("127.0.0.1".parse().expect("is an address"), 9090);
                let pod = GatewayPod { name: POD.to_owned(), uid: POD.to_owned(), admin, ready: true };
                let outcome = GroupOutcome { pods: vec![pod], token: Token::new("token"), ..GroupOutcome::default() };
                let outcome = if holds { Ok(outcome) } else { Err(group::Error::Deposed(Deposed)) };
                Report::Group(Box::new(Reconciled { group: input.name, of, fence, took: Duration::ZERO, outcome }))
            }
        }
    }

    fn replace(
        &mut self,
        watched: Watched,
        kind: &str,
        name: &ObjectName,
        seen: Option<String>,
        rest: Value,
    ) -> Result<DynamicObject, Failure> {
        let there = self.objects.get(&(watched.clone(), name.clone()));
        if there.and_then(|there| there.metadata.resource_version.clone()) != seen {
            return Err(Failure::Stale);
        }
        let object = self.object(kind, &name.to_string(), rest);
        self.store(watched, object.clone(), true);
        Ok(object)
    }

    fn write_status(&mut self, key: &ObjectKey, seen: &str, status: Value) -> Result<DynamicObject, Failure> {
        let stored = (Watched::Kind(key.kind), key.name.clone());
        let Some(there) = self.objects.get(&stored) else { return Err(Failure::Stale) };
        if there.metadata.resource_version.as_deref() != Some(seen) {
            return Err(Failure::Stale);
        }
        let mut object = there.clone();
        self.version += 1;
        object.metadata.resource_version = Some(self.version.to_string());
        object.data["status"] = status;
        self.store(Watched::Kind(key.kind), object.clone(), true);
        Ok(object)
    }

    /// Refuses the first waiting write whose text begins with `prefix`.
    pub(in crate::run::tests) fn refuse(&mut self, prefix: &str) {
        let write = self.take(prefix);
        self.report(refused(write.request));
    }

    fn take(&mut self, prefix: &str) -> Write {
        let at = self.writes.iter().position(|write| describe(write).starts_with(prefix));
        let write = at.and_then(|at| self.writes.remove(at));
        write.unwrap_or_else(|| panic!("`{prefix}` does not wait: {:?}", self.waiting()))
    }

    /// Performs a waiting write, and loses the answer.
    pub(in crate::run::tests) fn lose_answer(&mut self, at: usize) {
        let Some(write) = self.writes.remove(at) else { return };
        let report = match self.perform(write) {
            Report::Shard { name, result: Ok(_) } => Report::Shard { name, result: Err(refusal()) },
            Report::Config { name, result: Ok(_) } => Report::Config { name, result: Err(refusal()) },
            Report::Deleted { name, uid, result: Ok(()) } => Report::Deleted { name, uid, result: Err(refusal()) },
            other => other,
        };
        self.report(report);
    }

    /// Refuses a waiting write of configuration, and answers any other.
    pub(in crate::run::tests) fn refuse_at(&mut self, at: usize) {
        let Some(write) = self.writes.remove(at) else { return };
        let report = match write.request {
            Request::Status(_) | Request::Group { .. } => self.perform(write),
            request => refused(request),
        };
        self.report(report);
    }

    /// Answers a waiting write.
    pub(in crate::run::tests) fn answer_at(&mut self, at: usize) {
        let Some(write) = self.writes.remove(at) else { return };
        let report = self.perform(write);
        self.report(report);
    }

    /// Passes a report to the state, and lets it decide.
    pub(in crate::run::tests) fn report(&mut self, report: Report) {
        self.state.on_report(report, self.now);
        self.run();
    }

    /// Fails if a document names a credential whose value is in no shard at the API server.
    pub(super) fn check_credentials(&self, write: &Write) {
        let Request::Config { owner, spec, .. } = &write.request else { return };
        let within = |name: &ObjectName| name.namespace == owner.group.namespace;
        for handle in &spec.credentials {
            let version = handle.0.rsplit('.').nth(1).expect("has a version");
            let is_there = self.objects.iter().any(|((watched, name), shard)| {
                let value = shard.data.get("data").and_then(|data| data.get(&handle.0));
                *watched == Watched::GroupSecrets && within(name) && value == Some(&credential(version))
            });
            assert!(is_there, "{} names {handle:?}, which no gateway can read: {:?}", describe(write), self.log);
        }
    }
}

fn refusal() -> Failure {
    Failure::Api(kube::Error::Api(Status::failure("no", "Forbidden").boxed()))
}

fn refused(request: Request) -> Report {
    match request {
        Request::Shard { owner, number, .. } => {
            Report::Shard { name: shard_name(&owner.group, number), result: Err(refusal()) }
        }
        Request::Config { name, .. } => Report::Config { name, result: Err(refusal()) },
        Request::Delete(seen) => {
            Report::Deleted { name: seen.name.clone(), uid: seen.uid.clone(), result: Err(refusal()) }
        }
        Request::Status(_) | Request::Group { .. } => panic!("not configuration: {request:?}"),
    }
}

/// Describes a write as text.
pub(super) fn describe(write: &Write) -> String {
    let of = |spec: &GatewayConfigSpec| match (&spec.kind, &spec.exposition) {
        (PayloadKind::Exposition, Some(id)) => format!("exposition {id}"),
        _ => "service".to_owned(),
    };
    match &write.request {
        Request::Shard { .. } => "credentials".to_owned(),
        Request::Config { spec, .. } => of(spec),
        Request::Delete(seen) => format!("delete {}", seen.spec.as_ref().map(of).unwrap_or_default()),
        Request::Status(status) => format!("status {}", status.key),
        Request::Group { input, .. } => format!("group {}", input.name),
    }
}

fn owned(owner: &Owner) -> Value {
    let reference = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup", "name": owner.group.name, "uid": owner.uid,
        "controller": true,
    });
    json!({
        "labels": {"app.kubernetes.io/managed-by": names::MANAGED_BY, (names::GROUP_LABEL): owner.group.name},
        "ownerReferences": [reference],
    })
}
