//! Watches as streams of changes: one per source, each of which begins with a list of all objects.

use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Client, ResourceExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::object::Kind;
use crate::watched_object::WatchedObject;
use tamis_config::{GatewayConfig, names, watch_backoff, watch_status};

/// A class of objects that is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Watched {
    /// One of Tamis' kinds.
    Kind(Kind),
    /// GatewayConfigs.
    Configs,
    /// Secrets with the credentials label.
    Secrets,
    /// ConfigMaps with the document label.
    ConfigMaps,
    /// Secrets of a group that the operator wrote: its credential shards, its token and its keys.
    GroupSecrets,
    /// Namespaces, for their labels and whether they are being deleted. Only one if the source names one.
    Namespaces,
}

/// What a watch follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Source {
    /// The class of objects.
    pub(crate) watched: Watched,
    /// The namespace. All namespaces if `None`.
    pub(crate) namespace: Option<String>,
}

impl Source {
    /// Returns whether the operator works without the source. It then reports the missing right where it matters.
    pub(crate) fn may_be_forbidden(&self) -> bool {
        !matches!(self.watched, Watched::Kind(_) | Watched::Configs)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.watched {
            Watched::Kind(kind) => f.write_str(kind.plural())?,
            Watched::Configs => f.write_str("gatewayconfigs")?,
            Watched::Secrets => f.write_str("secrets")?,
            Watched::ConfigMaps => f.write_str("configmaps")?,
            Watched::GroupSecrets => f.write_str("secrets of groups")?,
            Watched::Namespaces => f.write_str("namespaces")?,
        }
        match &self.namespace {
            Some(namespace) => write!(f, " of {namespace}"),
            None => Ok(()),
        }
    }
}

/// A change that a watch delivers. `Debug` shows no content, since it may be that of a Secret.
pub(crate) enum Change {
    /// All objects: at the start, and after a watch was interrupted for too long.
    Listed(Vec<WatchedObject>),
    /// An object was created or has changed.
    Applied(WatchedObject),
    /// An object was deleted.
    Deleted(WatchedObject),
    /// The operator may not watch the source.
    Forbidden,
}

#[cfg(test)]
impl Change {
    pub(crate) fn applied(object: DynamicObject) -> Self {
        Self::Applied(Self::as_watched(object))
    }

    pub(crate) fn deleted(object: DynamicObject) -> Self {
        Self::Deleted(Self::as_watched(object))
    }

    pub(crate) fn listed(objects: Vec<DynamicObject>) -> Self {
        Self::Listed(objects.into_iter().map(Self::as_watched).collect())
    }

    /// Prepares an object as the watch of its kind does.
    fn as_watched(object: DynamicObject) -> WatchedObject {
        let of = |kind: &Kind| object.types.as_ref().is_some_and(|types| types.kind == kind.as_str());
        match Kind::ALL.iter().find(|kind| of(kind)) {
            Some(kind) => trimmed(&Watched::Kind(*kind), object),
            None => WatchedObject::whole(object),
        }
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |object: &WatchedObject| object.metadata.name.clone().unwrap_or_default();
        match self {
            Self::Listed(objects) => write!(f, "Listed({} objects)", objects.len()),
            Self::Applied(object) => write!(f, "Applied({})", name(object)),
            Self::Deleted(object) => write!(f, "Deleted({})", name(object)),
            Self::Forbidden => f.write_str("Forbidden"),
        }
    }
}

/// A change, with the watch that delivered it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) source: Source,
    /// The epoch in which the watch was started: see `run::sources`.
    pub(crate) epoch: u64,
    pub(crate) change: Change,
}

/// The page size of lists of large kinds, whose objects have up to 1.5 MB each: a page is in memory as a whole, and
/// takes six times its length.
const LARGE_PAGE: u32 = 8;
/// The pause before a forbidden watch is tried again.
const FORBIDDEN_RETRY: Duration = Duration::from_secs(10);
/// How often a single namespace is read. Shorter than the delay after which expositions do without a deleted default
/// set, so that by then it is known whether the set goes with its namespace.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Follows a source until the shutdown. Objects are not parsed here, so that a malformed object does not stall the
/// watch.
pub(crate) async fn follow(
    client: Client,
    (source, epoch): (Source, u64),
    out: mpsc::UnboundedSender<Message>,
    shutdown: CancellationToken,
) {
    let (resource, config) = api_of(&source.watched);
    if let (Watched::Namespaces, Some(name)) = (&source.watched, &source.namespace) {
        let api = Api::all_with(client, &resource);
        let send = |change| out.send(Message { source: source.clone(), epoch, change }).is_ok();
        tokio::select! {
            () = poll(&api, name, send) => {}
            () = shutdown.cancelled() => {}
        }
        return;
    }
    let api: Api<DynamicObject> = match &source.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut events = watcher::watcher(api, config).backoff(watch_backoff()).boxed();
    let mut listed = Vec::new();
    let send = |change| out.send(Message { source: source.clone(), epoch, change }).is_ok();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = shutdown.cancelled() => return,
        };
        let alive = match event {
            None => return,
            Some(Ok(Event::Init)) => {
                listed.clear();
                true
            }
            Some(Ok(Event::InitApply(object))) => {
                listed.push(trimmed(&source.watched, object));
                true
            }
            Some(Ok(Event::InitDone)) => send(Change::Listed(std::mem::take(&mut listed))),
            Some(Ok(Event::Apply(object))) => send(Change::Applied(trimmed(&source.watched, object))),
            Some(Ok(Event::Delete(object))) => send(Change::Deleted(trimmed(&source.watched, object))),
            Some(Err(error)) => {
                if is_forbidden(&error) {
                    let alive = send(Change::Forbidden);
                    tokio::select! {
                        () = tokio::time::sleep(FORBIDDEN_RETRY) => {}
                        () = shutdown.cancelled() => return,
                    }
                    alive
                } else {
                    // The watcher retries by itself. Before the first list, `/readyz` reports the source as missing.
                    tracing::debug!(%source, %error, "watch interrupted");
                    true
                }
            }
        };
        if !alive {
            return;
        }
    }
}

/// Polls one object until `send` fails. A Role within a namespace can allow to read that namespace, but not to watch
/// it: for the authoriser that would be a watch of all namespaces.
async fn poll(api: &Api<DynamicObject>, name: &str, send: impl Fn(Change) -> bool) {
    let mut seen: Option<Option<String>> = None;
    loop {
        let (change, pause) = match api.get_opt(name).await {
            Ok(found) => {
                let version = Some(found.as_ref().and_then(|object| object.metadata.resource_version.clone()));
                let is_changed = std::mem::replace(&mut seen, version.clone()) != version;
                (
                    is_changed.then(|| {
                        Change::Listed(found.into_iter().map(|object| trimmed(&Watched::Namespaces, object)).collect())
                    }),
                    POLL_INTERVAL,
                )
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                seen = None;
                (Some(Change::Forbidden), FORBIDDEN_RETRY)
            }
            Err(error) => {
                tracing::debug!(name, %error, "cannot read the namespace");
                (None, POLL_INTERVAL)
            }
        };
        if change.is_some_and(|change| !send(change)) {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Removes the parts of an object that are not needed, and compresses a large `spec`.
fn trimmed(watched: &Watched, mut object: DynamicObject) -> WatchedObject {
    object.managed_fields_mut().clear();
    match watched {
        Watched::Kind(kind) if kind.is_large() => WatchedObject::packed(object),
        Watched::Kind(_)
        | Watched::Configs
        | Watched::Secrets
        | Watched::ConfigMaps
        | Watched::GroupSecrets
        | Watched::Namespaces => WatchedObject::whole(object),
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    watch_status(error).is_some_and(|status| status.code == 403)
}

fn api_of(watched: &Watched) -> (ApiResource, Config) {
    let core = |kind: &str, plural: &str| ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let all = Config::default();
    match watched {
        Watched::Kind(kind) if kind.is_large() => (resource_of(*kind), all.page_size(LARGE_PAGE)),
        Watched::Kind(kind) => (resource_of(*kind), all),
        Watched::Configs => (ApiResource::erase::<GatewayConfig>(&()), all),
        Watched::Secrets => {
            let label = format!("{} in (upstream,callers)", names::CREDENTIALS_LABEL);
            (core("Secret", "secrets"), all.labels(&label))
        }
        Watched::ConfigMaps => {
            (core("ConfigMap", "configmaps"), all.labels(names::DOCUMENT_LABEL).page_size(LARGE_PAGE))
        }
        Watched::GroupSecrets => {
            let label = format!("app.kubernetes.io/managed-by={},{}", names::MANAGED_BY, names::GROUP_LABEL);
            (core("Secret", "secrets"), all.labels(&label))
        }
        Watched::Namespaces => (core("Namespace", "namespaces"), all),
    }
}

/// Returns the API resource of one of Tamis' kinds.
pub(crate) fn resource_of(kind: Kind) -> ApiResource {
    ApiResource {
        group: "tamis.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: tamis_crds::resources::API_VERSION.to_owned(),
        kind: kind.as_str().to_owned(),
        plural: kind.plural().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_config_maps_are_requested_by_their_labels_only() {
        let table = [
            (Watched::Secrets, "secrets", "tamis.dev/credentials in (upstream,callers)"),
            (Watched::ConfigMaps, "configmaps", "tamis.dev/document"),
            (Watched::GroupSecrets, "secrets", "app.kubernetes.io/managed-by=tamis-operator,tamis.dev/gateway-group"),
        ];
        for (watched, plural, selector) in table {
            let (resource, config) = api_of(&watched);
            assert_eq!((resource.plural.as_str(), config.label_selector.as_deref()), (plural, Some(selector)));
        }
    }
}
