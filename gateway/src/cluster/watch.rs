//! The watches of a gateway: its GatewayConfigs by label, and each of its Secrets by name. A Role that lists these
//! names is therefore sufficient.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use tamis_config::group_keys::GroupKeys;
use tamis_config::names::{self, CREDENTIAL_SHARDS};
use tamis_config::{
    CredentialHandle, Digest, ExpositionId, GatewayConfig, GatewayConfigSpec, watch_backoff, watch_status,
};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::assemble::{Event, Malformed, Object};
use crate::upstream::Secret;

/// Maximum characters of a message about an object's content.
const MESSAGE: usize = 300;

/// A message from a watch.
#[derive(Debug)]
pub(super) enum Message {
    /// GatewayConfigs.
    Config(Event),
    /// The current content of a shard.
    Shard(usize, HashMap<CredentialHandle, Secret>),
    /// The group's token; none if its Secret does not exist.
    Token(Option<Secret>),
    /// The group's keys; none if their Secret does not exist or is malformed.
    Keys(Option<GroupKeys>),
    /// The watched resource, and the error of its watch, which is retried.
    Failed(String, String),
    /// The time to wait for the first lists is over.
    InitialListTimeout,
}

/// Starts all watches of a group. They end with the set, or when the receiver of `messages` is dropped.
pub(super) fn start(client: &kube::Client, namespace: &str, group: &str, messages: &Sender<Message>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let resource = ApiResource::erase::<GatewayConfig>(&());
    let configs: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let selector = format!("{}={group}", names::GROUP_LABEL);
    let stream = watcher(configs, watcher::Config::default().labels(&selector)).backoff(watch_backoff());
    watches.spawn(forward("GatewayConfigs".to_owned(), stream, messages.clone(), config));
    for shard in 0..CREDENTIAL_SHARDS {
        let name = names::credentials_secret(group, shard);
        watch_secret(client, namespace, &name, messages, &mut watches, move |data| Message::Shard(shard, values(data)));
    }
    let token = |data: Option<Data>| {
        let token = data.and_then(|mut data| data.remove(names::TOKEN_KEY));
        Message::Token(token.and_then(|bytes| text(&bytes)))
    };
    watch_secret(client, namespace, &names::token_secret(group), messages, &mut watches, token);
    let keys = |data: Option<Data>| Message::Keys(data.and_then(|data| keys(&data)));
    watch_secret(client, namespace, &names::keys_secret(group), messages, &mut watches, keys);
    watches
}

type Data = std::collections::BTreeMap<String, ByteString>;

fn watch_secret(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    messages: &Sender<Message>,
    watches: &mut JoinSet<()>,
    message: impl Fn(Option<Data>) -> Message + Send + 'static,
) {
    let api: Api<SecretObject> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut listed = None;
    let each = move |event| match event {
        watcher::Event::Init => {
            listed = None;
            None
        }
        watcher::Event::InitApply(secret) => {
            listed = Some(secret);
            None
        }
        watcher::Event::InitDone => Some(message(listed.take().map(content))),
        watcher::Event::Apply(secret) => Some(message(Some(content(secret)))),
        watcher::Event::Delete(_) => Some(message(None)),
    };
    watches.spawn(forward(
        format!("Secret {name}"),
        watcher(api, config).backoff(watch_backoff()),
        messages.clone(),
        each,
    ));
}

/// Returns why a watch failed: the message of the API server if there is one, since the library's text repeats it.
fn error_message(error: &watcher::Error) -> String {
    watch_status(error).map_or_else(|| error.to_string(), |status| status.message.clone())
}

fn content(secret: SecretObject) -> Data {
    secret.data.unwrap_or_default()
}

fn text(bytes: &ByteString) -> Option<Secret> {
    std::str::from_utf8(&bytes.0).ok().map(Secret::new)
}

fn values(data: Option<Data>) -> HashMap<CredentialHandle, Secret> {
    let each = |(key, bytes): (String, ByteString)| {
        let value = text(&bytes);
        if value.is_none() {
            tracing::warn!(handle = key, "credential ignored: its value is not UTF-8 text");
        }
        value.map(|value| (CredentialHandle(key), value))
    };
    data.unwrap_or_default().into_iter().filter_map(each).collect()
}

fn keys(data: &Data) -> Option<GroupKeys> {
    let keys = GroupKeys::read(|name| data.get(name).map(|bytes| bytes.0.as_slice()));
    if keys.is_none() {
        tracing::error!("the Secret with the group's keys is malformed; delete it, and the operator writes a new one");
    }
    keys
}

/// Forwards the events of a watch until the receiver is dropped.
async fn forward<K>(
    watched: String,
    stream: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    messages: Sender<Message>,
    mut message: impl FnMut(watcher::Event<K>) -> Option<Message>,
) {
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        let message = match event {
            Ok(event) => message(event),
            Err(error) => Some(Message::Failed(watched.clone(), error_message(&error))),
        };
        if let Some(message) = message
            && messages.send(message).await.is_err()
        {
            return;
        }
    }
}

fn config(event: watcher::Event<DynamicObject>) -> Option<Message> {
    let event = match event {
        watcher::Event::Init => Event::ListBegins,
        watcher::Event::InitDone => Event::ListEnds,
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => Event::Applied(read(object)),
        watcher::Event::Delete(object) => Event::Deleted(object.metadata.name.unwrap_or_default()),
    };
    Some(Message::Config(event))
}

/// Reads an object field by field, so that a malformed object does not stop the watch of the others.
fn read(mut object: DynamicObject) -> Object {
    let spec = object.data["spec"].take();
    let digest = spec["digest"].as_str().map(|digest| Digest(digest.to_owned()));
    let spec = serde_json::from_value::<GatewayConfigSpec>(spec).map(Into::into).map_err(|error| {
        let labels = object.metadata.labels.as_ref();
        let label = |name| labels.and_then(|labels| labels.get(name)).cloned();
        let id = label(names::EXPOSITION_NAMESPACE_LABEL)
            .zip(label(names::EXPOSITION_LABEL))
            .map(|(namespace, name)| ExpositionId { namespace, name });
        let message = format!("spec: {error}").chars().take(MESSAGE).collect();
        Malformed { id, digest, message }
    });
    Object { name: object.metadata.name.unwrap_or_default(), spec }
}

/// Sends [`Message::InitialListTimeout`] after a delay.
pub(super) async fn initial_list_timeout(after: Duration, messages: Sender<Message>) {
    tokio::time::sleep(after).await;
    // The receiver is gone if the gateway is stopping.
    let _ = messages.send(Message::InitialListTimeout).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_message_of_the_api_server_once() {
        let forbidden = || kube::core::Status {
            message: "secrets \"tamis-public-token\" is forbidden".to_owned(),
            code: 403,
            ..kube::core::Status::default()
        };
        for error in [
            watcher::Error::InitialListFailed(kube::Error::Api(forbidden().into())),
            watcher::Error::WatchStartFailed(kube::Error::Api(forbidden().into())),
            watcher::Error::WatchError(forbidden().into()),
        ] {
            assert_eq!(error_message(&error), forbidden().message);
        }
        assert_eq!(error_message(&watcher::Error::NoResourceVersion), watcher::Error::NoResourceVersion.to_string());
    }
}
