//! Follows the `/acks` streams of gateways: one task per endpoint, which forwards each event and reconnects when the
//! stream ends.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use serde::Deserialize;
use tamis_config::acks::AckEvent;
use tamis_config::proof::{Question, SCHEME};
use tamis_crds::ObjectName;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::StreamEvent;
use super::sse::Parser;
use crate::options::Token;

/// The largest event in bytes: a snapshot of 100,000 expositions takes a third of it.
const MAX_EVENT_BYTES: usize = 64 << 20;
/// The longest time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time until a gateway answers the request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A stream is dead after this time without a byte. A gateway sends something, if only a comment, three times as often.
const SILENCE: Duration = Duration::from_secs(45);
/// The first and the longest pause between attempts. Short, since a gateway whose stream is closed for five seconds
/// counts as lost.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A gateway whose `/acks` stream is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The gateway's group.
    pub group: ObjectName,
    /// The name in the table and in messages: the pod's name, or the URL of a gateway that is not a pod.
    pub name: String,
    /// The base URL of the admin port, as in `http://10.0.0.7:9090`.
    pub url: String,
    /// The group's token, which both sides must know.
    pub token: Token,
    /// Whether the token may be sent to the endpoint.
    pub trust: Trust,
}

/// How an endpoint was found, and so whether the token may be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// By its owner references, which everyone who may create pods in the group's namespace can write: the endpoint has
    /// to prove that it knows the token, which is never sent to it.
    Proven,
    /// By the operator's command line: the token is sent.
    Named,
}

/// An event of a gateway's stream, with the gateway. `Table::on_stream_event` takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayEvent {
    /// The group of the endpoint.
    pub group: ObjectName,
    /// The name of the endpoint.
    pub endpoint: String,
    /// The event.
    pub event: StreamEvent,
}

/// The gateways whose streams are followed.
#[derive(Debug)]
pub struct Endpoints {
    listener: Listener,
    running: HashMap<(ObjectName, String), (Endpoint, AbortOnDropHandle<()>)>,
}

impl Endpoints {
    /// Creates a set without endpoints. Events go to `sender`; while the channel is full, streams are not read.
    ///
    /// # Errors
    /// The HTTP client cannot be created: there is no TLS provider.
    pub fn new(sender: mpsc::Sender<GatewayEvent>) -> Result<Self, reqwest::Error> {
        Self::with_limit(sender, MAX_EVENT_BYTES)
    }

    fn with_limit(sender: mpsc::Sender<GatewayEvent>, max_event_bytes: usize) -> Result<Self, reqwest::Error> {
        // The token goes to the endpoint's address and nowhere else: no proxy, no redirect.
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE)
            .tcp_keepalive(SILENCE / 3)
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { listener: Listener { client, sender, max_event_bytes }, running: HashMap::new() })
    }

    /// Follows these endpoints and no others. An endpoint whose address or token has changed is reconnected. Must be
    /// called within a Tokio runtime.
    pub fn set(&mut self, endpoints: impl IntoIterator<Item = Endpoint>) {
        let mut before = std::mem::take(&mut self.running);
        for endpoint in endpoints {
            let key = (endpoint.group.clone(), endpoint.name.clone());
            let kept = before.remove(&key).filter(|(running, task)| *running == endpoint && !task.is_finished());
            let entry = kept.unwrap_or_else(|| {
                let task = tokio::spawn(self.listener.clone().listen(endpoint.clone()));
                (endpoint, AbortOnDropHandle::new(task))
            });
            self.running.insert(key, entry);
        }
    }
}

#[derive(Debug, Clone)]
struct Listener {
    client: reqwest::Client,
    sender: mpsc::Sender<GatewayEvent>,
    max_event_bytes: usize,
}

/// Why a stream has ended. The message follows the name of the gateway.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{}", chain(.0))]
    Http(reqwest::Error),
    #[error("it does not answer")]
    NoAnswer,
    #[error("it refuses the group's token")]
    Token,
    #[error("it does not prove that it knows the group's token")]
    Unproven,
    #[error("no random numbers, or its URL has no address")]
    NoQuestion,
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("an event is larger than {0} bytes")]
    TooLarge(usize),
    #[error("an event cannot be read: {0}")]
    Unreadable(serde_json::Error),
    #[error("its first event is no snapshot")]
    NoSnapshot,
    #[error("it has ended the stream")]
    Closed,
    /// The receiver of the events is gone.
    #[error("the operator stops")]
    Stopping,
}

impl From<reqwest::Error> for Ended {
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error.without_url())
    }
}

impl Listener {
    async fn listen(self, endpoint: Endpoint) {
        let mut pause = FIRST_PAUSE;
        let mut last = None;
        loop {
            let mut synced = false;
            let ended = self.stream(&endpoint, &mut synced).await;
            // Sent once after a stream, and once at the start: another task may have followed an endpoint of this name.
            if (synced || last.is_none()) && self.send(&endpoint, StreamEvent::Disconnected).await.is_err() {
                return;
            }
            if matches!(ended, Ended::Stopping) {
                return;
            }
            if synced {
                pause = FIRST_PAUSE;
            }
            let why = ended.to_string();
            let Endpoint { group, name, .. } = &endpoint;
            if last.as_ref() == Some(&why) {
                tracing::debug!(%group, gateway = name, why, "cannot listen to a gateway");
            } else {
                tracing::info!(%group, gateway = name, why, "cannot listen to a gateway");
                last = Some(why);
            }
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Follows one stream, from its request to its end. Sets `synced` when the snapshot has arrived.
    async fn stream(&self, endpoint: &Endpoint, synced: &mut bool) -> Ended {
        match self.try_stream(endpoint, synced).await {
            Ok(()) => Ended::Closed,
            Err(ended) => ended,
        }
    }

    async fn try_stream(&self, endpoint: &Endpoint, synced: &mut bool) -> Result<(), Ended> {
        let url = format!("{}/acks", endpoint.url.trim_end_matches('/'));
        let request = self.client.get(url).header("accept", "text/event-stream");
        let (request, proof) = match endpoint.trust {
            Trust::Named => (request.bearer_auth(endpoint.token.expose()), None),
            Trust::Proven => {
                let (question, proof) = prove(endpoint).ok_or(Ended::NoQuestion)?;
                (request.header("authorization", question.to_string()), Some(proof))
            }
        };
        let mut response =
            tokio::time::timeout(ANSWER_TIMEOUT, request.send()).await.map_err(|_| Ended::NoAnswer)??;
        match response.status().as_u16() {
            200 => {}
            401 | 403 => return Err(Ended::Token),
            status => return Err(Ended::Status(status)),
        }
        if let Some(proof) = proof {
            let given = response.headers().get(SCHEME).map_or(&[][..], |value| value.as_bytes());
            verify_slices_are_equal(proof.as_bytes(), given).map_err(|_| Ended::Unproven)?;
        }
        let mut parser = Parser::new(self.max_event_bytes);
        while let Some(bytes) = response.chunk().await? {
            let events = parser.push(&bytes).map_err(|_| Ended::TooLarge(self.max_event_bytes))?;
            for data in events {
                let Some(event) = parse(&data)? else { continue };
                if !*synced {
                    if !matches!(event, AckEvent::Snapshot { .. }) {
                        return Err(Ended::NoSnapshot);
                    }
                    *synced = true;
                    tracing::debug!(group = %endpoint.group, gateway = endpoint.name, "listening to a gateway");
                }
                self.send(endpoint, StreamEvent::Ack(event)).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, endpoint: &Endpoint, event: StreamEvent) -> Result<(), Ended> {
        let event = GatewayEvent { group: endpoint.group.clone(), endpoint: endpoint.name.clone(), event };
        self.sender.send(event).await.map_err(|_| Ended::Stopping)
    }
}

/// Creates a challenge for a gateway, and the proof that the answer must contain.
fn prove(endpoint: &Endpoint) -> Option<(Question, String)> {
    let mut nonce = [0; 16];
    aws_lc_rs::rand::fill(&mut nonce).ok()?;
    let nonce = hex(&nonce);
    let address = endpoint.url.strip_prefix("http://")?.trim_end_matches('/').to_owned();
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let key = digest(&SHA256, endpoint.token.expose().as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    let sign = |text: String| hex(hmac::sign(&key, text.as_bytes()).as_ref());
    let signature = sign(Question::signed(&nonce, &address, time));
    let proof = sign(Question::answered(&nonce));
    Some((Question { nonce, address, time, signature }, proof))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses an event. Returns `None` for a type of event that only newer gateways send.
fn parse(data: &[u8]) -> Result<Option<AckEvent>, Ended> {
    #[derive(Deserialize)]
    struct Sort {
        event: String,
    }
    match serde_json::from_slice(data) {
        Ok(event) => Ok(Some(event)),
        Err(error) => match serde_json::from_slice::<Sort>(data) {
            Ok(Sort { event }) if !matches!(event.as_str(), "snapshot" | "changed" | "counted") => Ok(None),
            _ => Err(Ended::Unreadable(error)),
        },
    }
}

/// Returns between half of the pause and all of it, so that gateways that went together are not called together.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    pause / 2 + pause.mul_f64(f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX) / 2.0)
}

/// Formats an error with its causes in one line.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
