use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::json;
use tamis_config::{Access, ExpositionDocument, Reason, ServiceDocument, Stopped};

use super::*;
use crate::upstream::LocalCredentials;
use crate::{Change, Options};

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
}

fn ack(name: &str, digest: &str) -> (ExpositionId, Option<(Digest, AckState)>) {
    (id(name), Some((Digest(digest.to_owned()), AckState::Loaded)))
}

fn gateway() -> Arc<Gateway> {
    Gateway::new(Options::new(Arc::new(LocalCredentials::new(None)))).unwrap()
}

/// A stream whose token stays valid.
fn open(gateway: &Arc<Gateway>, shutdown: &CancellationToken) -> Option<Body> {
    body(gateway, shutdown, CancellationToken::new())
}

/// The next event of a stream, without comments; none at its end.
async fn next(body: &mut Body) -> Option<AckEvent> {
    try_next(body).await.expect("the stream is not cut")
}

async fn try_next(body: &mut Body) -> Result<Option<AckEvent>, Cut> {
    let stream = body.events();
    loop {
        let bytes = tokio::time::timeout(Duration::from_secs(5), stream.next()).await.expect("in time").transpose()?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).unwrap();
        if let Some(json) = text.strip_prefix("data: ") {
            assert!(json.ends_with("\n\n") && json.trim_end().lines().count() == 1, "{json:?}");
            return Ok(Some(serde_json::from_str(json).unwrap()));
        }
    }
}

fn names(acks: &[Ack]) -> Vec<String> {
    acks.iter().map(|ack| format!("{}={}", ack.id.name, ack.digest)).collect()
}

#[tokio::test]
async fn a_stream_begins_with_all_and_goes_on_with_what_changes() {
    let (gateway, shutdown) = (gateway(), CancellationToken::new());
    gateway.acks.note([ack("a", "1"), ack("b", "1")]);
    let mut body = open(&gateway, &shutdown).unwrap();
    let Some(AckEvent::Snapshot { instance, version, format_versions, expositions, saved }) = next(&mut body).await
    else {
        panic!("no snapshot")
    };
    assert_eq!((instance.len(), format_versions, saved), (32, (1..=FORMAT_VERSION).collect(), vec![]));
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(names(&expositions), ["a=1", "b=1"]);
    // What is the same again is not told, and of several changes only where they led.
    gateway.acks.note([ack("a", "1")]);
    gateway.acks.note([ack("c", "1")]);
    gateway.acks.note([ack("c", "2"), (id("b"), None), (id("never"), None)]);
    let began = Instant::now();
    let Some(AckEvent::Changed { expositions, removed }) = next(&mut body).await else { panic!("no change") };
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!((names(&expositions), removed), (vec!["c=2".to_owned()], vec![id("b")]));
    shutdown.cancel();
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test]
async fn totals_are_told_when_they_move_and_never_fall() {
    let gateway = gateway();
    let service: ServiceDocument = serde_json::from_value(
        json!({
            "formatVersion": FORMAT_VERSION, "name": "s", "version": "1",
            "source": {"http": {"baseUrl": "https://a.example"}},
            "tools": {
                "read": {"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}},
                "other": {"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}},
            },
        })
        .to_string()
        .parse::<serde_json::Value>()
        .unwrap(),
    )
    .unwrap();
    let document = |tools: &[&str]| {
        let tools: serde_json::Map<_, _> = tools.iter().map(|tool| ((*tool).to_owned(), json!({}))).collect();
        let document: ExpositionDocument = serde_json::from_value(json!({
            "formatVersion": FORMAT_VERSION, "id": id("a"), "service": service.digest(),
            "enforcement": "Advisory", "tools": tools, "access": Access::Anonymous,
        }))
        .unwrap();
        Change::Serve(Arc::new(document), Arc::new(service.clone()))
    };
    let count = |tool: &str, input, output| {
        let state = gateway.registry.find("team/a").unwrap().state();
        let exposition = state.serving().unwrap();
        let tool = exposition.tools().get_index_of(tool).unwrap();
        exposition.tool_series(tool).bytes(&gateway.metrics, input, output);
    };
    let total = |input_bytes, output_bytes| vec![Saved { id: id("a"), input_bytes, output_bytes }];
    assert_eq!(gateway.update(&[document(&["read", "other"])]).failed, []);
    count("read", 100, 10);
    count("other", 50, 5);
    let mut body = open(&gateway, &CancellationToken::new()).unwrap();
    assert!(matches!(next(&mut body).await, Some(AckEvent::Snapshot { saved, .. }) if saved == total(150, 15)));
    // A tool goes and takes its series along: what it saved was saved.
    gateway.update(&[document(&["read"])]);
    count("read", 1, 1);
    assert_eq!(next(&mut body).await, Some(AckEvent::Counted { saved: total(151, 16) }));
    let stopped = Stopped { reason: Reason::SecretNotFound, message: String::new() };
    gateway.update(&[Change::Stop(id("a"), stopped)]);
    gateway.update(&[document(&["read"])]);
    count("read", 1, 1);
    assert_eq!(next(&mut body).await, Some(AckEvent::Counted { saved: total(152, 17) }));
}

#[tokio::test]
async fn a_stream_that_lags_is_cut_and_the_next_begins_with_a_snapshot() {
    let gateway = gateway();
    let mut slow = open(&gateway, &CancellationToken::new()).unwrap();
    assert!(matches!(next(&mut slow).await, Some(AckEvent::Snapshot { .. })));
    for change in 0..=LAG {
        gateway.acks.note([ack("a", &change.to_string())]);
    }
    assert_eq!(try_next(&mut slow).await, Err(Cut::Lagged));
    let mut again = open(&gateway, &CancellationToken::new()).unwrap();
    assert!(matches!(next(&mut again).await, Some(AckEvent::Snapshot { expositions, .. }) if expositions.len() == 1));
    assert!(gateway.acks.state.lock().unwrap().log.len() <= LAG);
}

#[tokio::test]
async fn there_are_only_so_many_streams() {
    let gateway = gateway();
    let open = || open(&gateway, &CancellationToken::new());
    let mut streams: Vec<_> = (0..STREAMS).map(|_| open().unwrap()).collect();
    assert!(open().is_none());
    streams.pop();
    assert!(open().is_some());
}

#[tokio::test]
async fn a_stream_is_cut_when_its_token_is_revoked() {
    let gateway = gateway();
    let [shutdown, revoked] = [CancellationToken::new(), CancellationToken::new()];
    let mut theirs = body(&gateway, &shutdown, revoked.clone()).unwrap();
    let mut other = open(&gateway, &shutdown).unwrap();
    for stream in [&mut theirs, &mut other] {
        assert!(matches!(next(stream).await, Some(AckEvent::Snapshot { .. })));
    }
    revoked.cancel();
    gateway.acks.note([ack("a", "1")]);
    assert_eq!(try_next(&mut theirs).await, Err(Cut::AccessWithdrawn));
    assert!(matches!(next(&mut other).await, Some(AckEvent::Changed { .. })));
}

#[test]
fn what_is_not_loaded_is_counted_once() {
    let gateway = gateway();
    let of = |name: &str, state: AckState| (id(name), Some((Digest(String::new()), state)));
    let refused = || AckState::Refused { reason: Reason::GatewayTooOld, message: String::new() };
    let waiting = AckState::Waiting { message: String::new() };
    gateway.acks.note([
        of("a", refused()),
        of("b", refused()),
        of("c", waiting),
        of("d", AckState::Loaded),
        of("e", AckState::Stopped),
    ]);
    let known = |names: &[&str]| names.iter().map(|name| id(name)).collect::<Vec<_>>();
    assert_eq!(gateway.acks.not_loaded(known(&[]).iter()), (2, 1));
    // The gateway's own list names one that is known, and one of a folder, where nothing is acknowledged.
    assert_eq!(gateway.acks.not_loaded(known(&["a", "f"]).iter()), (3, 1));
}
