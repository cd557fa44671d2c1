//! Tests against a real server over real sockets: it streams, breaks off, sends invalid data, and returns.

use std::collections::VecDeque;
use std::net::SocketAddr;

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use tamis_config::acks::{Ack, AckState, Saved};
use tamis_config::{Digest, ExpositionId};
use tokio::net::TcpListener;

use super::*;

/// The server's answer to one request.
enum Answer {
    /// Sends these chunks and ends the stream.
    Cut(Vec<Vec<u8>>),
    /// Sends these chunks and leaves the stream open.
    Stay(Vec<Vec<u8>>),
    Status(StatusCode),
    Redirect(String),
}

#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    /// The header `authorization` of each request.
    shown: Mutex<Vec<String>>,
}

async fn acks(State(script): State<Arc<Script>>, headers: HeaderMap) -> Response {
    let shown = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    script.shown.lock().unwrap().push(shown.unwrap_or_default());
    let pieces = |pieces: Vec<Vec<u8>>| stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let answer = script.answers.lock().unwrap().pop_front();
    match answer {
        Some(Answer::Cut(list)) => Body::from_stream(pieces(list)).into_response(),
        Some(Answer::Stay(list)) => Body::from_stream(pieces(list).chain(stream::pending())).into_response(),
        Some(Answer::Status(status)) => status.into_response(),
        Some(Answer::Redirect(to)) => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn serve(answers: Vec<Answer>) -> (SocketAddr, Arc<Script>, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (script, task) = start(listener, answers);
    (address, script, task)
}

fn start(listener: TcpListener, answers: Vec<Answer>) -> (Arc<Script>, AbortOnDropHandle<()>) {
    let script = Arc::new(Script { answers: Mutex::new(answers.into()), ..Script::default() });
    let app = axum::Router::new().route("/acks", get(acks)).with_state(Arc::clone(&script));
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (script, AbortOnDropHandle::new(task))
}

fn group() -> ObjectName {
    ObjectName { namespace: "edge".to_owned(), name: "public".to_owned() }
}

fn endpoint(name: &str, address: SocketAddr, token: &str) -> Endpoint {
    Endpoint {
        group: group(),
        name: name.to_owned(),
        url: format!("http://{address}/"),
        token: Token::new(token).expect("is a token"),
        trust: Trust::Named,
    }
}

fn id() -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: "github".to_owned() }
}

fn snapshot(instance: &str) -> AckEvent {
    AckEvent::Snapshot {
        instance: instance.to_owned(),
        version: "1.0.0".to_owned(),
        format_versions: vec![1],
        expositions: vec![Ack { id: id(), digest: Digest("d1".to_owned()), state: AckState::Loaded, upstream: None }],
        saved: vec![],
    }
}

fn counted(input_bytes: u64) -> AckEvent {
    AckEvent::Counted { saved: vec![Saved { id: id(), input_bytes, output_bytes: 1 }] }
}

fn sse(event: &AckEvent) -> Vec<u8> {
    format!("data: {}\n\n", serde_json::to_string(event).unwrap()).into_bytes()
}

struct Subscriber {
    endpoints: Endpoints,
    receiver: mpsc::Receiver<GatewayEvent>,
}

impl Subscriber {
    fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    fn with_limit(limit: usize) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        Self { endpoints: Endpoints::with_limit(sender, limit).unwrap(), receiver }
    }

    async fn next(&mut self) -> GatewayEvent {
        tokio::time::timeout(Duration::from_secs(20), self.receiver.recv()).await.unwrap().unwrap()
    }

    async fn event(&mut self) -> StreamEvent {
        self.next().await.event
    }
}

#[tokio::test]
async fn receives_events_in_any_chunks_and_reconnects_after_the_end() {
    let bytes = [b": hello\n\n".to_vec(), sse(&snapshot("1")), sse(&counted(5))].concat();
    let pieces = bytes.chunks(7).map(<[u8]>::to_vec).collect();
    let (address, script, _server) =
        serve(vec![Answer::Cut(pieces), Answer::Stay(vec![sse(&snapshot("2")), sse(&counted(6))])]).await;
    let mut subscriber = Subscriber::new();
    subscriber.endpoints.set([endpoint("a", address, "secret")]);
    let first = subscriber.next().await;
    assert_eq!((first.group, first.endpoint.as_str()), (group(), "a"));
    assert_eq!(first.event, StreamEvent::Ack(snapshot("1")));
    assert_eq!(subscriber.event().await, StreamEvent::Ack(counted(5)));
    assert_eq!(subscriber.event().await, StreamEvent::Disconnected);
    assert_eq!(subscriber.event().await, StreamEvent::Ack(snapshot("2")));
    assert_eq!(subscriber.event().await, StreamEvent::Ack(counted(6)));
    assert_eq!(*script.shown.lock().unwrap(), ["Bearer secret", "Bearer secret"]);
}

#[tokio::test]
async fn connects_once_an_unreachable_gateway_listens() {
    // The port is bound, so that no other process gets it, and does not listen yet.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut subscriber = Subscriber::new();
    subscriber.endpoints.set([endpoint("a", socket.local_addr().unwrap(), "secret")]);
    assert_eq!(subscriber.event().await, StreamEvent::Disconnected, "which is sent once");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(subscriber.receiver.try_recv().is_err());
    let listener = socket.listen(8).unwrap();
    let _server = start(listener, vec![Answer::Stay(vec![sse(&snapshot("1"))])]).1;
    assert_eq!(subscriber.event().await, StreamEvent::Ack(snapshot("1")));
}

#[tokio::test]
async fn rejects_anything_but_a_valid_stream_of_events() {
    let wide = format!("data: {{\"event\": \"snapshot\", \"instance\": \"{}", "x".repeat(3000));
    let (other, elsewhere, _other) = serve(vec![]).await;
    let answers = vec![
        Answer::Status(StatusCode::UNAUTHORIZED),
        Answer::Status(StatusCode::NOT_FOUND),
        Answer::Redirect(format!("http://{other}/acks")),
        Answer::Cut(vec![sse(&counted(1))]),
        Answer::Cut(vec![b"data: {\"event\": \"snapshot\"}\n\n".to_vec()]),
        Answer::Cut(vec![b"data: nonsense\n\n".to_vec()]),
        Answer::Stay(vec![wide.into_bytes()]),
        // Unknown types of events are ignored.
        Answer::Stay(vec![
            b"data: {\"event\": \"weather\", \"sun\": true}\n\n".to_vec(),
            sse(&snapshot("1")),
            b"data: {\"event\": \"weather\"}\n\n".to_vec(),
            sse(&counted(7)),
            b"data: {\"event\": \"counted\", \"saved\": 5}\n\n".to_vec(),
        ]),
        Answer::Stay(vec![sse(&snapshot("2"))]),
    ];
    let (address, _, _server) = serve(answers).await;
    let mut subscriber = Subscriber::with_limit(2000);
    subscriber.endpoints.set([endpoint("a", address, "secret")]);
    assert_eq!(subscriber.event().await, StreamEvent::Disconnected);
    assert_eq!(subscriber.event().await, StreamEvent::Ack(snapshot("1")));
    assert_eq!(subscriber.event().await, StreamEvent::Ack(counted(7)));
    assert_eq!(
        subscriber.event().await,
        StreamEvent::Disconnected,
        "a difference is lost, so a new snapshot is needed"
    );
    assert_eq!(subscriber.event().await, StreamEvent::Ack(snapshot("2")));
    assert!(elsewhere.shown.lock().unwrap().is_empty(), "the token went elsewhere");
}

#[tokio::test]
async fn tasks_follow_the_set_of_endpoints() {
    let stay = |instance: &str| Answer::Stay(vec![sse(&snapshot(instance))]);
    let (a, script_a, _server_a) = serve(vec![stay("a1"), stay("a2")]).await;
    let (b, script_b, _server_b) = serve(vec![stay("b1")]).await;
    let mut subscriber = Subscriber::new();
    subscriber.endpoints.set([endpoint("a", a, "old"), endpoint("b", b, "old")]);
    let mut names = [subscriber.next().await.endpoint, subscriber.next().await.endpoint];
    names.sort();
    assert_eq!(names, ["a", "b"]);
    // The same endpoints again: no task restarts.
    subscriber.endpoints.set([endpoint("a", a, "old"), endpoint("b", b, "old")]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(subscriber.receiver.try_recv().is_err());
    // One endpoint has another token, and one is removed.
    subscriber.endpoints.set([endpoint("a", a, "new")]);
    assert_eq!(subscriber.event().await, StreamEvent::Ack(snapshot("a2")));
    assert_eq!(subscriber.endpoints.running.len(), 1);
    assert_eq!(*script_a.shown.lock().unwrap(), ["Bearer old", "Bearer new"]);
    assert_eq!(*script_b.shown.lock().unwrap(), ["Bearer old"]);
}

#[tokio::test]
async fn a_slow_reader_receives_everything_in_order() {
    let events: Vec<Vec<u8>> = (0..500).map(|n| sse(&counted(n))).collect();
    let (address, _, _server) = serve(vec![Answer::Cut([vec![sse(&snapshot("1"))], events].concat())]).await;
    let mut subscriber = Subscriber::new();
    subscriber.endpoints.set([endpoint("a", address, "secret")]);
    assert_eq!(subscriber.event().await, StreamEvent::Ack(snapshot("1")));
    for n in 0..500 {
        if n % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(subscriber.event().await, StreamEvent::Ack(counted(n)));
    }
    assert_eq!(subscriber.event().await, StreamEvent::Disconnected);
}

#[tokio::test]
async fn tasks_end_with_the_receiver() {
    let (address, _, _server) = serve(vec![Answer::Cut(vec![sse(&snapshot("1"))])]).await;
    let mut subscriber = Subscriber::new();
    subscriber.endpoints.set([endpoint("a", address, "secret")]);
    subscriber.next().await;
    let Subscriber { endpoints, receiver } = subscriber;
    drop(receiver);
    let ended = async {
        while !endpoints.running.values().all(|(_, task)| task.is_finished()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}

#[test]
fn debug_does_not_show_the_token() {
    let endpoint = endpoint("a", "127.0.0.1:1".parse().unwrap(), " hunter2\n");
    assert!(!format!("{endpoint:?}").contains("hunter2"));
    assert_eq!(endpoint.token.expose(), "hunter2", "as files have it, with its line end");
}

#[test]
fn pauses_are_jittered_and_bounded() {
    for _ in 0..1000 {
        let pause = jittered(LONGEST_PAUSE);
        assert!(pause >= LONGEST_PAUSE / 2 && pause <= LONGEST_PAUSE, "{pause:?}");
    }
    assert_ne!(jittered(LONGEST_PAUSE), jittered(LONGEST_PAUSE));
}

/// Starts a pod that claims to be a gateway. With a token, it sends a proof as a gateway does.
async fn pod(token: Option<&'static str>) -> (SocketAddr, Arc<Mutex<Vec<String>>>, AbortOnDropHandle<()>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let answer = move |headers: HeaderMap| {
        log.lock().unwrap().push(format!("{headers:?}"));
        let question: Option<Question> =
            headers.get("authorization").and_then(|value| value.to_str().ok()?.parse().ok());
        let proof = question.zip(token).map(|(question, token)| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, digest(&SHA256, token.as_bytes()).as_ref());
            hex(hmac::sign(&key, Question::answered(&question.nonce).as_bytes()).as_ref())
        });
        let body =
            Body::from_stream(stream::iter([Ok::<_, std::io::Error>(sse(&snapshot("1")))]).chain(stream::pending()));
        async move { ([("tamis-proof", proof.unwrap_or_default())], body) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().route("/acks", get(answer));
    let task = AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }));
    (address, seen, task)
}

#[tokio::test]
async fn a_pod_without_the_token_learns_no_token_and_sends_no_events() {
    for (token, is_accepted) in [(None, false), (Some("guess"), false), (Some("secret"), true)] {
        let (address, seen, _server) = pod(token).await;
        let mut subscriber = Subscriber::new();
        subscriber.endpoints.set([Endpoint { trust: Trust::Proven, ..endpoint("a", address, "secret") }]);
        let expected = if is_accepted { StreamEvent::Ack(snapshot("1")) } else { StreamEvent::Disconnected };
        assert_eq!(subscriber.event().await, expected, "{token:?}");
        let seen = seen.lock().unwrap().concat();
        assert!(seen.contains("Tamis-Proof ") && !seen.contains("secret"), "{seen}");
    }
}
