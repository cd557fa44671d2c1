//! Makes a group's objects what they should be.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tamis_config::names;

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
use crate::verdict::{ConditionType, Finding};

/// The field manager that holds `replicas` between us and an autoscaler.
const HAND_OVER: &str = "tamis-operator-handover";
/// When to look again at what no watch tells of: foreign objects in our way, and what the API would not let us write.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// When to look again at what another wrote at the same time: usually the watch tells of it before.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What came of reconciling a group.
#[derive(Debug, Clone, Default)]
pub struct GroupOutcome {
    /// What a person has to do something about; they go into the group's verdict.
    pub findings: Vec<Finding>,
    /// Its gateways.
    pub pods: Vec<GatewayPod>,
    /// What its gateways want to hear at `/acks` and `/config`; none where that Secret is not ours.
    pub token: Option<Token>,
    /// When its keys are to be rotated.
    pub rotates_in: Option<Duration>,
    /// How many requests wrote something; none where all was as it should be.
    pub writes: usize,
    /// What would have been written, were the group not paused: kinds and names.
    pub waiting: Vec<String>,
    /// Come again after so long, even if nothing is seen to change.
    pub retry: Option<Duration>,
}

/// Why a group could not be reconciled. What could be done has been done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another operator writes now.
    #[error(transparent)]
    Deposed(#[from] Deposed),
    /// The API did not do what it was asked; it may later.
    #[error("{object}: {error}")]
    Api {
        /// The object.
        object: String,
        /// What the API said.
        error: kube::Error,
    },
    /// There is no randomness to be had.
    #[error("no random bytes can be had")]
    Random,
}

impl Error {
    /// A word for metrics and events.
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

/// Compares what a group should have with what it has, and writes what differs: see the module. To be called again
/// whenever the group or, by [`super::watch`], one of its objects changes, and after [`GroupOutcome::retry`].
///
/// # Errors
/// The first failure that may pass. The other objects have been tried all the same, unless the lease is lost.
pub async fn reconcile(
    client: &Client,
    permit: &Permit,
    group: &GroupInput,
    settings: &Settings,
    observed: &Observed,
) -> Result<GroupOutcome, Error> {
    if group.paused {
        return look(client, group, settings, observed).await;
    }
    let mut run = Run { client, permit, group, outcome: GroupOutcome::default(), failure: None };
    let wanted = wanted(group, settings, observed);
    // A pod needs its token to be ready: before the Deployment.
    let token = token::ensure(client, permit, group).await;
    run.token(token)?;
    let keys = keys::ensure(client, permit, group).await;
    run.keys(keys)?;
    if let Err(error) = run.tls().await {
        run.settle("Secret", tls_secret(group).unwrap_or_default(), Err(error))?;
    }
    let wrong = not_a_quantity(group);
    for child in &wanted {
        if let (Some(message), ChildKind::Deployment) = (&wrong, child.kind) {
            run.finding("InvalidManifest", message.clone(), true);
            continue;
        }
        let seen = observed.get(child.kind, &child.namespace, &child.name);
        let result = run.child(child, seen.as_deref()).await;
        run.settle(child.kind.as_str(), &child.name, result)?;
    }
    for (kind, object) in observed.children_of(&group.name) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let is_wanted = wanted.iter().any(|child| child.kind == kind && child.name == name);
        let going = object.metadata.deletion_timestamp.is_some();
        if !is_wanted && !going && ownership(group, &object.metadata) == Ownership::Owned {
            let result = run.delete(kind, &name, &object).await;
            run.settle(kind.as_str(), &name, result)?;
        }
    }
    let Run { mut outcome, failure, .. } = run;
    outcome.pods = pods(observed, group);
    failure.map_or(Ok(outcome), Err)
}

/// What a group should have, its pods as they were pinned.
fn wanted(group: &GroupInput, settings: &Settings, observed: &Observed) -> Vec<Child> {
    let mut wanted = children(group, settings);
    for child in &mut wanted {
        pin::keep(group, child, observed.get(child.kind, &child.namespace, &child.name).as_deref());
    }
    wanted
}

/// What there is of a paused group, and what would be written.
async fn look(
    client: &Client,
    group: &GroupInput,
    settings: &Settings,
    observed: &Observed,
) -> Result<GroupOutcome, Error> {
    let wanted = wanted(group, settings, observed);
    let differs = |child: &&Child| {
        let seen = observed.get(child.kind, &child.namespace, &child.name);
        matches!(step(group, child, seen.as_deref()), Step::Create | Step::Update(_))
    };
    let mut waiting: Vec<String> =
        wanted.iter().filter(differs).map(|child| format!("{} {}", child.kind.as_str(), child.name)).collect();
    for (kind, object) in observed.children_of(&group.name) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let is_wanted = wanted.iter().any(|child| child.kind == kind && child.name == name);
        if !is_wanted && ownership(group, &object.metadata) == Ownership::Owned {
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

struct Run<'a> {
    client: &'a Client,
    permit: &'a Permit,
    group: &'a GroupInput,
    outcome: GroupOutcome,
    failure: Option<Error>,
}

/// How writing one object ended, where the API answered.
enum Done {
    Kept,
    Written,
    Waits,
    Foreign,
}

impl Run<'_> {
    async fn child(&mut self, child: &Child, seen: Option<&DynamicObject>) -> Result<Done, Error> {
        match step(self.group, child, seen) {
            Step::Keep => Ok(Done::Kept),
            Step::Wait => Ok(Done::Waits),
            Step::Foreign => Ok(Done::Foreign),
            Step::Update(update) => self.update(child, &update).await,
            Step::Create => {
                let made = self.create(child).await?;
                if made {
                    return Ok(Done::Written);
                }
                // It is there, without our labels, or since the last event.
                let there = self.api(child.kind).get_opt(&child.name).await.map_err(|error| failed(child, error))?;
                match step(self.group, child, there.as_ref()) {
                    Step::Keep => Ok(Done::Kept),
                    Step::Foreign => Ok(Done::Foreign),
                    Step::Update(update) => self.update(child, &update).await,
                    Step::Wait | Step::Create => Ok(Done::Waits),
                }
            }
        }
    }

    /// Whether it was made; false where something of this name is there.
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

    /// Writes, and gives the `resourceVersion` that came of it.
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
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Done::Kept),
            Err(error) => {
                let object = format!("{} {}/{name}", kind.as_str(), self.group.name.namespace);
                Err(Error::Api { object, error })
            }
        }
    }

    /// Says what is wrong with the Secret of the serving port's certificate, as far as that shows without reading it. Its
    /// pods wait for it by themselves.
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
            false => ("SecretNotFound", "is not there: add it, of type kubernetes.io/tls with tls.crt and tls.key"),
            true => ("InvalidManifest", "is not of type kubernetes.io/tls: name one that is"),
        };
        let condition = if there { ConditionType::Accepted } else { ConditionType::ResolvedRefs };
        let message = format!("spec.listener.tls.secretRef: Secret {namespace}/{name} {what}");
        self.outcome.findings.push(Finding { condition, reason, message, is_error: true });
        self.again(LOOK_AGAIN);
        Ok(())
    }

    fn token(&mut self, token: Result<(TokenState, bool), Error>) -> Result<(), Error> {
        let name = names::token_secret(&self.group.name.name);
        let done = match token {
            Ok((TokenState::Found(token), made)) => {
                self.outcome.token = Some(token);
                Ok(if made { Done::Written } else { Done::Kept })
            }
            Ok((TokenState::Wait, _)) => Ok(Done::Waits),
            Ok((TokenState::Foreign, _)) => Ok(Done::Foreign),
            Ok((TokenState::Empty, _)) => {
                let message = format!(
                    "Secret {}/{name} has no usable `{}`: delete it, it is made anew",
                    self.group.name.namespace,
                    names::TOKEN_KEY
                );
                self.finding("InvalidManifest", message, true);
                Ok(Done::Kept)
            }
            Err(error) => Err(error),
        };
        self.settle("Secret", &name, done)
    }

    fn keys(&mut self, keys: Result<(KeysState, bool), Error>) -> Result<(), Error> {
        let name = names::keys_secret(&self.group.name.name);
        let done = match keys {
            Ok((KeysState::Found(due), written)) => {
                self.outcome.rotates_in = Some(due);
                Ok(if written { Done::Written } else { Done::Kept })
            }
            Ok((KeysState::Wait, _)) => Ok(Done::Waits),
            Ok((KeysState::Foreign, _)) => Ok(Done::Foreign),
            Ok((KeysState::Malformed, _)) => {
                let namespace = &self.group.name.namespace;
                let message =
                    format!("Secret {namespace}/{name} holds no usable keys: delete it, and it is made again");
                self.finding("InvalidManifest", message, true);
                Ok(Done::Kept)
            }
            Err(error) => Err(error),
        };
        self.settle("Secret", &name, done)
    }

    /// Takes note of how an object ended. Only a lost lease keeps the others from being tried.
    fn settle(&mut self, kind: &str, name: &str, result: Result<Done, Error>) -> Result<(), Error> {
        let namespace = &self.group.name.namespace;
        match result {
            Ok(Done::Kept) => {}
            Ok(Done::Written) => self.outcome.writes += 1,
            // Deleting and collecting end with an event, where the object has our labels.
            Ok(Done::Waits) => self.again(AT_ONCE * 5),
            Ok(Done::Foreign) => {
                let message = format!(
                    "{kind} {namespace}/{name} is in the way: it was not made for this group, and is left alone; \
                     delete or rename it"
                );
                self.finding("Conflict", message, true);
            }
            Err(Error::Deposed(deposed)) => return Err(deposed.into()),
            Err(Error::Api { error: kube::Error::Api(status), .. }) if status.code == 409 || status.code == 404 => {
                self.again(AT_ONCE);
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
                self.finding("InvalidManifest", message, true);
            }
            // A quota, an admission policy, or a right that the operator lacks.
            Err(Error::Api { error: kube::Error::Api(status), .. }) if status.is_forbidden() => {
                let message = format!(
                    "{kind} {namespace}/{name} may not be written, let the operator (docs/rbac.md): {}",
                    brief(&status.message)
                );
                self.finding("RefNotPermitted", message, false);
            }
            Err(error) => {
                tracing::warn!(%error, kind, namespace, name, "not written");
                self.failure.get_or_insert(error);
            }
        }
        Ok(())
    }

    fn finding(&mut self, reason: &'static str, message: String, is_error: bool) {
        self.outcome.findings.push(Finding { condition: ConditionType::Accepted, reason, message, is_error });
        self.again(LOOK_AGAIN);
    }

    fn again(&mut self, after: Duration) {
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

/// As much of the API's message as fits a condition.
fn brief(message: &str) -> String {
    let mut text: String = message.chars().take(500).collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}
