//! Reconciles the objects of a group.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tamis_config::{Reason, names};

use super::build::children;
use super::child::{Child, ChildKind};
use super::keys::{self, KeysState};
use super::observe::Observed;
use super::own_secret;
use super::pin;
use super::pod::{not_a_quantity, tls_secret};
use super::pods::{GatewayPod, pods};
use super::step::{Ownership, Step, Update, ownership, step};
use super::token::{self, TokenState};
use super::{GroupInput, Settings};
use crate::leader::{Deposed, Permit};
use crate::options::Token;
use crate::verdict::{Finding, PlanCondition};

/// The field manager that owns `replicas` between the operator and an autoscaler.
const HAND_OVER: &str = "tamis-operator-handover";
/// The delay of a retry after a problem that no watch covers: a foreign object of the same name, or a refused write.
const RECHECK: Duration = Duration::from_secs(30);
/// The delay of a retry after a conflict. The watch usually delivers the other write before.
const SOON: Duration = Duration::from_secs(1);

/// The result of reconciling a group.
#[derive(Debug, Clone, Default)]
pub struct GroupOutcome {
    /// The problems that a user has to fix. They go into the group's verdict.
    pub findings: Vec<Finding>,
    /// The group's gateways.
    pub pods: Vec<GatewayPod>,
    /// The token for `/acks` and `/config` of the gateways. `None` if the Secret does not belong to the group.
    pub token: Option<Token>,
    /// The time until the keys have to be rotated.
    pub rotates_in: Option<Duration>,
    /// The number of requests that wrote something. Zero if all objects were current.
    pub writes: usize,
    /// The objects that would have been written if the group were not paused: kinds and names.
    pub waiting: Vec<String>,
    /// The delay after which the group has to be reconciled again, even if no change is seen.
    pub retry: Option<Duration>,
}

/// Why a group could not be reconciled. The objects that could be written have been written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This operator is no longer the leader.
    #[error(transparent)]
    Deposed(#[from] Deposed),
    /// A request failed. It may succeed later.
    #[error("{object}: {error}")]
    Api {
        /// The kind and name of the object.
        object: String,
        /// The error of the request.
        error: kube::Error,
    },
    /// The system's random number generator failed.
    #[error("the system's random number generator failed")]
    Random,
}

impl Error {
    /// Returns the category of the error, for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Deposed(_) => "deposed",
            Self::Api { error: kube::Error::Api(_), .. } => "refused",
            Self::Api { .. } => "unreachable",
            Self::Random => "random",
        }
    }
}

/// Compares a group's objects with their desired state, and writes those that differ: see the module. Must be called
/// again whenever the group changes, when [`super::watch`] reports a change of one of its objects, and after
/// [`GroupOutcome::retry`].
///
/// # Errors
/// The first failure that may pass. The other objects have been tried nevertheless, unless the lease is lost.
pub async fn reconcile(
    client: &Client,
    permit: &Permit,
    group: &GroupInput,
    settings: &Settings,
    observed: &Observed,
) -> Result<GroupOutcome, Error> {
    if group.paused {
        return preview(client, group, settings, observed).await;
    }
    let mut run = Run { client, permit, group, outcome: GroupOutcome::default(), failure: None };
    let desired = desired(group, settings, observed);
    // The token comes before the Deployment: a pod is not ready without it.
    let token = token::ensure(client, permit, group).await;
    run.token(token)?;
    let keys = keys::ensure(client, permit, group).await;
    run.keys(keys)?;
    if let Err(error) = run.tls().await {
        run.record("Secret", tls_secret(group).unwrap_or_default(), Err(error))?;
    }
    let wrong = not_a_quantity(group);
    for child in &desired {
        if let (Some(message), ChildKind::Deployment) = (&wrong, child.kind) {
            run.finding(Reason::InvalidManifest, message.clone(), true);
            continue;
        }
        let seen = observed.get(child.kind, &child.namespace, &child.name);
        let result = run.child(child, seen.as_deref()).await;
        run.record(child.kind.as_str(), &child.name, result)?;
    }
    for (kind, object) in observed.children_of(&group.name) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let is_desired = desired.iter().any(|child| child.kind == kind && child.name == name);
        let going = object.metadata.deletion_timestamp.is_some();
        if !is_desired && !going && ownership(group, &object.metadata) == Ownership::Owned {
            let result = run.delete(kind, &name, &object).await;
            run.record(kind.as_str(), &name, result)?;
        }
    }
    let Run { mut outcome, failure, .. } = run;
    outcome.pods = pods(observed, group);
    failure.map_or(Ok(outcome), Err)
}

/// Returns the desired objects of a group, with pinned pods as they are.
fn desired(group: &GroupInput, settings: &Settings, observed: &Observed) -> Vec<Child> {
    let mut desired = children(group, settings);
    for child in &mut desired {
        pin::keep(group, child, observed.get(child.kind, &child.namespace, &child.name).as_deref());
    }
    desired
}

/// Returns the gateways of a paused group, and the objects that would be written.
async fn preview(
    client: &Client,
    group: &GroupInput,
    settings: &Settings,
    observed: &Observed,
) -> Result<GroupOutcome, Error> {
    let desired = desired(group, settings, observed);
    let differs = |child: &&Child| {
        let seen = observed.get(child.kind, &child.namespace, &child.name);
        matches!(step(group, child, seen.as_deref()), Step::Create | Step::Update(_))
    };
    let mut waiting: Vec<String> =
        desired.iter().filter(differs).map(|child| format!("{} {}", child.kind.as_str(), child.name)).collect();
    for (kind, object) in observed.children_of(&group.name) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let is_desired = desired.iter().any(|child| child.kind == kind && child.name == name);
        if !is_desired && ownership(group, &object.metadata) == Ownership::Owned {
            waiting.push(format!("{} {name}", kind.as_str()));
        }
    }
    if own_secret::look(client, group, &names::keys_secret(&group.name.name)).await?.is_none() {
        waiting.push(format!("Secret {}", names::keys_secret(&group.name.name)));
    }
    let pods = pods(observed, group);
    let token = match token::look(client, group).await? {
        Some(TokenState::Found(token)) => Some(token),
        Some(_) => None,
        None => {
            waiting.push(format!("Secret {}", names::token_secret(&group.name.name)));
            None
        }
    };
    Ok(GroupOutcome { pods, token, waiting, ..GroupOutcome::default() })
}

/// One reconciliation of a group.
struct Run<'a> {
    client: &'a Client,
    permit: &'a Permit,
    group: &'a GroupInput,
    outcome: GroupOutcome,
    failure: Option<Error>,
}

/// The result of reconciling one object.
enum Done {
    Unchanged,
    Written,
    Waiting,
    Foreign,
}

impl Run<'_> {
    async fn child(&mut self, child: &Child, seen: Option<&DynamicObject>) -> Result<Done, Error> {
        match step(self.group, child, seen) {
            Step::Keep => Ok(Done::Unchanged),
            Step::Wait => Ok(Done::Waiting),
            Step::Foreign => Ok(Done::Foreign),
            Step::Update(update) => self.update(child, &update).await,
            Step::Create => {
                let made = self.create(child).await?;
                if made {
                    return Ok(Done::Written);
                }
                // It exists: without the operator's labels, or it was created since the last event.
                let there = self.api(child.kind).get_opt(&child.name).await.map_err(|error| failed(child, error))?;
                match step(self.group, child, there.as_ref()) {
                    Step::Keep => Ok(Done::Unchanged),
                    Step::Foreign => Ok(Done::Foreign),
                    Step::Update(update) => self.update(child, &update).await,
                    Step::Wait | Step::Create => Ok(Done::Waiting),
                }
            }
        }
    }

    /// Creates an object. Returns `false` if an object of the name exists.
    async fn create(&self, child: &Child) -> Result<bool, Error> {
        let parameters = PostParams { field_manager: Some(names::MANAGED_BY.to_owned()), ..PostParams::default() };
        let object: DynamicObject = serde_json::from_value(child.body.clone())
            .map_err(|error| failed(child, kube::Error::SerdeError(error)))?;
        match self.permit.write(self.api(child.kind).create(&parameters, &object)).await? {
            Ok(_) => {
                tracing::info!(object = %child, "created");
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
            Err(error) => Err(failed(child, error)),
        }
    }

    async fn update(&mut self, child: &Child, update: &Update) -> Result<Done, Error> {
        let mut version = update.resource_version.clone();
        if let Some(entries) = &update.managed_fields {
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": update.uid},
                {"op": "replace", "path": "/metadata/managedFields", "value": entries},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            ]);
            let patch: Patch<Value> = Patch::Json(
                serde_json::from_value(patch).map_err(|error| failed(child, kube::Error::SerdeError(error)))?,
            );
            version = self.patch(child, &PatchParams::default(), &patch).await?;
        }
        let precondition = |body: &mut Value, version: &str| {
            body["metadata"]["uid"] = json!(update.uid);
            body["metadata"]["resourceVersion"] = json!(version);
        };
        if let Some(replicas) = update.hand_over {
            let mut body = json!({
                "apiVersion": child.body["apiVersion"],
                "kind": child.body["kind"],
                "metadata": {"name": child.name, "namespace": child.namespace},
                "spec": {"replicas": replicas},
            });
            precondition(&mut body, &version);
            let parameters = PatchParams::apply(HAND_OVER).force();
            version = self.patch(child, &parameters, &Patch::Apply(body)).await?;
        }
        let mut body = child.body.clone();
        precondition(&mut body, &version);
        let parameters = PatchParams::apply(names::MANAGED_BY).force();
        self.patch(child, &parameters, &Patch::Apply(body)).await?;
        tracing::info!(object = %child, "updated");
        Ok(Done::Written)
    }

    /// Patches an object. Returns its new `resourceVersion`.
    async fn patch(&mut self, child: &Child, how: &PatchParams, patch: &Patch<Value>) -> Result<String, Error> {
        let api = self.api(child.kind);
        let written = self.permit.write(api.patch(&child.name, how, patch)).await?;
        let written = written.map_err(|error| failed(child, error))?;
        Ok(written.metadata.resource_version.unwrap_or_default())
    }

    async fn delete(&self, kind: ChildKind, name: &str, object: &DynamicObject) -> Result<Done, Error> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: object.metadata.resource_version.clone(),
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.permit.write(self.api(kind).delete(name, &parameters)).await? {
            Ok(_) => {
                tracing::info!(kind = kind.as_str(), namespace = self.group.name.namespace, name, "deleted");
                Ok(Done::Written)
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Done::Unchanged),
            Err(error) => {
                let object = format!("{} {}/{name}", kind.as_str(), self.group.name.namespace);
                Err(Error::Api { object, error })
            }
        }
    }

    /// Reports problems of the Secret with the serving port's certificate that show without reading it. The pods wait
    /// for the Secret by themselves.
    async fn tls(&mut self) -> Result<(), Error> {
        let Some(name) = tls_secret(self.group) else { return Ok(()) };
        let namespace = &self.group.name.namespace;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let failed = |error| Error::Api { object: format!("Secret {namespace}/{name}"), error };
        let fields = format!("metadata.name={name},type=kubernetes.io/tls");
        let found = api.list_metadata(&ListParams::default().fields(&fields)).await.map_err(failed)?;
        if !found.items.is_empty() {
            return Ok(());
        }
        let there = api.get_metadata_opt(name).await.map_err(failed)?.is_some();
        let (reason, what) = match there {
            false => {
                (Reason::SecretNotFound, "does not exist: add it, of type kubernetes.io/tls with tls.crt and tls.key")
            }
            true => (Reason::InvalidManifest, "is not of type kubernetes.io/tls: name one that is"),
        };
        let message = format!("spec.listener.tls.secretRef: Secret {namespace}/{name} {what}");
        self.outcome.findings.push(Finding::error(reason, message));
        self.retry_after(RECHECK);
        Ok(())
    }

    fn token(&mut self, token: Result<(TokenState, bool), Error>) -> Result<(), Error> {
        let name = names::token_secret(&self.group.name.name);
        let done = match token {
            Ok((TokenState::Found(token), made)) => {
                self.outcome.token = Some(token);
                Ok(if made { Done::Written } else { Done::Unchanged })
            }
            Ok((TokenState::Wait, _)) => Ok(Done::Waiting),
            Ok((TokenState::Foreign, _)) => Ok(Done::Foreign),
            Ok((TokenState::Empty, _)) => {
                let message = format!(
                    "Secret {}/{name} has no usable `{}`: delete it, and the operator creates a new one",
                    self.group.name.namespace,
                    names::TOKEN_KEY
                );
                self.finding(Reason::InvalidManifest, message, true);
                Ok(Done::Unchanged)
            }
            Err(error) => Err(error),
        };
        self.record("Secret", &name, done)
    }

    fn keys(&mut self, keys: Result<(KeysState, bool), Error>) -> Result<(), Error> {
        let name = names::keys_secret(&self.group.name.name);
        let done = match keys {
            Ok((KeysState::Found(due), written)) => {
                self.outcome.rotates_in = Some(due);
                Ok(if written { Done::Written } else { Done::Unchanged })
            }
            Ok((KeysState::Wait, _)) => Ok(Done::Waiting),
            Ok((KeysState::Foreign, _)) => Ok(Done::Foreign),
            Ok((KeysState::Malformed, _)) => {
                let namespace = &self.group.name.namespace;
                let message = format!(
                    "Secret {namespace}/{name} holds no usable keys: delete it, and the operator creates new ones"
                );
                self.finding(Reason::InvalidManifest, message, true);
                Ok(Done::Unchanged)
            }
            Err(error) => Err(error),
        };
        self.record("Secret", &name, done)
    }

    /// Records the result for one object. Only a lost lease stops the reconciliation of the others.
    fn record(&mut self, kind: &str, name: &str, result: Result<Done, Error>) -> Result<(), Error> {
        let namespace = &self.group.name.namespace;
        match result {
            Ok(Done::Unchanged) => {}
            Ok(Done::Written) => self.outcome.writes += 1,
            // A deletion ends with an event only if the object has the operator's labels, so a retry follows.
            Ok(Done::Waiting) => self.retry_after(SOON * 5),
            Ok(Done::Foreign) => {
                let message =
                    format!("{kind} {namespace}/{name} exists and does not belong to this group; delete or rename it");
                self.finding(Reason::Conflict, message, true);
            }
            Err(Error::Deposed(deposed)) => return Err(deposed.into()),
            Err(Error::Api { error: kube::Error::Api(status), .. }) if status.code == 409 || status.code == 404 => {
                self.retry_after(SOON);
            }
            Err(Error::Api { error: kube::Error::Api(status), .. }) if status.is_invalid() || status.code == 400 => {
                let field = match kind {
                    "Service" => "listener",
                    "PodDisruptionBudget" => "disruptionBudget",
                    "HorizontalPodAutoscaler" => "autoscaling",
                    _ => "pod",
                };
                let message =
                    format!("{kind} {namespace}/{name} is refused, see `{field}`: {}", brief(&status.message));
                self.finding(Reason::InvalidManifest, message, true);
            }
            // A quota, an admission policy or a missing right of the operator.
            Err(Error::Api { error: kube::Error::Api(status), .. }) if status.is_forbidden() => {
                let message = format!(
                    "{kind} {namespace}/{name} may not be written; grant the operator the right (docs/rbac.md): {}",
                    brief(&status.message)
                );
                self.finding(Reason::RefNotPermitted, message, false);
            }
            Err(error) => {
                tracing::warn!(%error, kind, namespace, name, "not written");
                self.failure.get_or_insert(error);
            }
        }
        Ok(())
    }

    fn finding(&mut self, reason: Reason, message: String, is_error: bool) {
        let finding = Finding { is_error, ..Finding::error(reason, message) };
        self.outcome.findings.push(finding.under(PlanCondition::Accepted));
        self.retry_after(RECHECK);
    }

    fn retry_after(&mut self, after: Duration) {
        let soonest = self.outcome.retry.map_or(after, |retry| retry.min(after));
        self.outcome.retry = Some(soonest);
    }

    fn api(&self, kind: ChildKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.group.name.namespace, &kind.api_resource())
    }
}

fn failed(child: &Child, error: kube::Error) -> Error {
    Error::Api { object: child.to_string(), error }
}

/// Cuts a message of the API server to a length that fits into a condition.
fn brief(message: &str) -> String {
    let mut text: String = message.chars().take(500).collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}
