//! Watches as changes: one stream a source, each of which begins with everything that is there.

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

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Watched {
    /// One of our kinds.
    Kind(Kind),
    /// GatewayConfigs.
    Configs,
    /// Secrets that take part.
    Secrets,
    /// Secrets of a group, which we wrote: its credential shards, and its token.
    GroupSecrets,
    /// Namespaces, for their labels and whether they are being deleted; of one, where the source names one.
    Namespaces,
}

/// One watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Source {
    /// What.
    pub(crate) watched: Watched,
    /// Where; everywhere if none.
    pub(crate) namespace: Option<String>,
}

impl Source {
    /// Whether the operator can do without: it then says so where it matters.
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
            Watched::GroupSecrets => f.write_str("secrets of groups")?,
            Watched::Namespaces => f.write_str("namespaces")?,
        }
        match &self.namespace {
            Some(namespace) => write!(f, " of {namespace}"),
            None => Ok(()),
        }
    }
}

/// What a watch tells. Its `Debug` shows no content: that of Secrets would be among it.
pub(crate) enum Change {
    /// Everything that is there: at the start, and when a watch was cut for too long.
    Listed(Vec<WatchedObject>),
    /// New, or other than before.
    Applied(WatchedObject),
    /// Gone.
    Deleted(WatchedObject),
    /// It may not be watched.
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

    /// An object as the watch of its kind tells it.
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

/// What a source tells.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) source: Source,
    /// Which time of following it this is from.
    pub(crate) epoch: u64,
    pub(crate) change: Change,
}

/// Objects in a page of a list of those that can be large, up to 1.5 MB each: a page is in memory as a whole, and takes six
/// times its length.
const LARGE_PAGE: u32 = 8;
/// How often a watch that is forbidden is tried again.
const FORBIDDEN: Duration = Duration::from_secs(10);
/// How often a single namespace is looked at: sooner than a default set that is gone is done without, so that one that
/// goes with its namespace is known to.
const LOOK: Duration = Duration::from_secs(3);

/// Follows a source until told to stop. Objects of any content come through: what they say is judged later, so that one
/// malformed object holds nobody up.
pub(crate) async fn follow(
    client: Client,
    (source, epoch): (Source, u64),
    out: mpsc::UnboundedSender<Message>,
    shutdown: CancellationToken,
) {
    let (resource, config) = described(&source.watched);
    if let (Watched::Namespaces, Some(name)) = (&source.watched, &source.namespace) {
        let api = Api::all_with(client, &resource);
        let tell = |change| out.send(Message { source: source.clone(), epoch, change }).is_ok();
        tokio::select! {
            () = look_at(&api, name, tell) => {}
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
    let tell = |change| out.send(Message { source: source.clone(), epoch, change }).is_ok();
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
            Some(Ok(Event::InitDone)) => tell(Change::Listed(std::mem::take(&mut listed))),
            Some(Ok(Event::Apply(object))) => tell(Change::Applied(trimmed(&source.watched, object))),
            Some(Ok(Event::Delete(object))) => tell(Change::Deleted(trimmed(&source.watched, object))),
            Some(Err(error)) => {
                if is_forbidden(&error) {
                    let alive = tell(Change::Forbidden);
                    tokio::select! {
                        () = tokio::time::sleep(FORBIDDEN) => {}
                        () = shutdown.cancelled() => return,
                    }
                    alive
                } else {
                    // The client has tried again by itself; an outage is seen at /readyz only before the first list.
                    tracing::debug!(%source, "watch interrupted: {error}");
                    true
                }
            }
        };
        if !alive {
            return;
        }
    }
}

/// Asks for one object again and again, until nobody listens. A Role can let a namespace be read from within it, but not
/// be watched: to the authoriser that would be a watch of all of them.
async fn look_at(api: &Api<DynamicObject>, name: &str, tell: impl Fn(Change) -> bool) {
    let mut seen: Option<Option<String>> = None;
    loop {
        let (news, pause) = match api.get_opt(name).await {
            Ok(found) => {
                let version = Some(found.as_ref().and_then(|object| object.metadata.resource_version.clone()));
                let is_news = std::mem::replace(&mut seen, version.clone()) != version;
                (
                    is_news.then(|| {
                        Change::Listed(found.into_iter().map(|object| trimmed(&Watched::Namespaces, object)).collect())
                    }),
                    LOOK,
                )
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                seen = None;
                (Some(Change::Forbidden), FORBIDDEN)
            }
            Err(error) => {
                tracing::debug!(name, "not read: {error}");
                (None, LOOK)
            }
        };
        if news.is_some_and(|news| !tell(news)) {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// What is kept of an object until it is read.
fn trimmed(watched: &Watched, mut object: DynamicObject) -> WatchedObject {
    object.managed_fields_mut().clear();
    match watched {
        Watched::Kind(kind) if kind.is_large() => WatchedObject::packed(object),
        Watched::Kind(_) | Watched::Configs | Watched::Secrets | Watched::GroupSecrets | Watched::Namespaces => {
            WatchedObject::whole(object)
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    watch_status(error).is_some_and(|status| status.code == 403)
}

fn described(watched: &Watched) -> (ApiResource, Config) {
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
        Watched::GroupSecrets => {
            let label = format!("app.kubernetes.io/managed-by={},{}", names::MANAGED_BY, names::GROUP_LABEL);
            (core("Secret", "secrets"), all.labels(&label))
        }
        Watched::Namespaces => (core("Namespace", "namespaces"), all),
    }
}

/// The API of one of our kinds.
pub(crate) fn resource_of(kind: Kind) -> ApiResource {
    ApiResource {
        group: "tamis.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: tamis_crds::resources::API_VERSION.to_owned(),
        kind: kind.as_str().to_owned(),
        plural: kind.plural().to_owned(),
    }
}
