//! What a bundle publishes follows its parts, and its callers are notified.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use serde_json::json;
use tamis_config::{Access, BundleDocument, ExpositionDocument, Reason, Snapshot, Stopped};
use tamis_gateway::Change;

use super::{bundle, listed, part, tools, with};
use crate::support::{Running, Upstream, id, options, service, snapshot, start, until};

type Bytes = Result<bytes::Bytes, reqwest::Error>;

async fn listen(running: &Running, modern: bool) -> impl Stream<Item = Bytes> + Unpin + use<> {
    let request = if modern {
        running.modern_request("all", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
    } else {
        running.http.get(running.url("all")).header("accept", "text/event-stream")
    };
    let mut stream = request.send().await.unwrap().bytes_stream();
    stream.next().await.unwrap().unwrap();
    stream
}

/// Whether a stream tells of a change soon.
async fn is_notified(stream: &mut (impl Stream<Item = Bytes> + Unpin)) -> bool {
    match tokio::time::timeout(Duration::from_millis(300), stream.next()).await {
        Ok(Some(Ok(event))) => String::from_utf8_lossy(&event).contains("notifications/tools/list_changed"),
        Ok(end) => panic!("the stream has ended: {end:?}"),
        Err(_) => false,
    }
}

#[tokio::test]
async fn changes_of_parts_reach_the_callers_of_the_bundle() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let running = start(options()).await;
    let service = service(&upstream.base, &tools(&["get", "list"]));
    let serve = |document: ExpositionDocument| Change::Serve(Arc::new(document), Arc::clone(&service));
    let all = bundle(&[("one", "a_"), ("two", "b_")]);
    // The bundle is there before its parts.
    running.gateway.apply(&with(Snapshot::default(), [all.clone()]));
    assert_eq!(listed(&running, "all").await, <[&str; 0]>::default());
    let mut streams = [listen(&running, false).await, listen(&running, true).await];
    let stop = Stopped { reason: Reason::ServiceNotFound, message: "spec.service: none".to_owned() };
    let limited = |name: &str| {
        let mut document = part(name, &service, &["get", "list"]);
        document.limits.concurrent = Some(5);
        document
    };
    let hidden = ExpositionDocument { access: Some(Access::BundleOnly), ..limited("one") };
    let regrouped = BundleDocument { parts: bundle(&[("one", "x_")]).parts, ..all.clone() };
    // What changes, whether the callers are notified, and what is listed then.
    let steps: Vec<(&str, Vec<Change>, bool, &[&str])> = vec![
        ("a part arrives", vec![serve(part("one", &service, &["get"]))], true, &["a_get"]),
        ("another one", vec![serve(part("two", &service, &["get"]))], true, &["a_get", "b_get"]),
        (
            "a part has more tools",
            vec![serve(part("one", &service, &["get", "list"]))],
            true,
            &["a_get", "a_list", "b_get"],
        ),
        ("a limit of a part", vec![serve(limited("one"))], false, &["a_get", "a_list", "b_get"]),
        ("the access of a part", vec![serve(hidden.clone())], true, &["a_get", "a_list", "b_get"]),
        ("a part stops", vec![Change::Stop(id("two"), stop.clone())], true, &["a_get", "a_list"]),
        ("no part of it", vec![serve(part("other", &service, &["get"]))], false, &["a_get", "a_list"]),
        ("it is served again", vec![serve(part("two", &service, &["get"]))], true, &["a_get", "a_list", "b_get"]),
        ("a part is removed", vec![Change::Remove(id("two"))], true, &["a_get", "a_list"]),
        ("the bundle's parts", vec![Change::Bundle(Arc::new(regrouped))], true, &["x_get", "x_list"]),
        ("a former part", vec![serve(part("two", &service, &["get"]))], false, &["x_get", "x_list"]),
        ("nothing", vec![serve(hidden)], false, &["x_get", "x_list"]),
    ];
    for (what, changes, told, expected) in steps {
        assert_eq!(running.gateway.update(&changes).failed, [], "{what}");
        for stream in &mut streams {
            assert_eq!(is_notified(stream).await, told, "{what}");
        }
        assert_eq!(listed(&running, "all").await, expected, "{what}");
    }
    // A stopped bundle publishes nothing, and is back with its parts.
    let stopped = |running: &Running| running.gateway.update(&[Change::Stop(id("all"), stop.clone())]);
    assert_eq!(stopped(&running).changed, [id("all")]);
    let (status, _) = running.legacy("all", "tools/list", json!({})).await;
    assert_eq!(status, 503);
    running.gateway.update(&[Change::Bundle(Arc::new(all))]);
    assert_eq!(listed(&running, "all").await, ["a_get", "a_list", "b_get"]);
    // An address changes from a bundle to a service and back.
    running.gateway.update(&[serve(part("all", &service, &["get"]))]);
    assert_eq!(listed(&running, "all").await, ["get"]);
    running.gateway.update(&[Change::Bundle(Arc::new(bundle(&[("one", "")])))]);
    assert_eq!(listed(&running, "all").await, ["get", "list"]);
    let metrics = running.admin("/metrics").await.1;
    assert!(metrics.contains("tamis_config_expositions 4\n"), "{metrics}");
}

#[tokio::test]
async fn a_call_in_flight_keeps_its_part() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1}"#);
    let running = start(options()).await;
    let service = service(&upstream.base, &tools(&["get"]));
    let snapshot = with(snapshot(&service, [part("one", &service, &["get"])]), [bundle(&[("one", "a_")])]);
    running.gateway.apply(&snapshot);
    let held = upstream.hold().await;
    let call = tokio::spawn(running.modern_request("all", "tools/call", json!({"name": "a_get"})).send());
    until("the call reached the upstream", || upstream.hits() == 1).await;
    running.gateway.apply(&Snapshot::default());
    drop(held);
    let (status, answer) = crate::support::read(call.await.unwrap().unwrap()).await;
    assert_eq!((status, &answer["result"]["structuredContent"]), (200, &json!({"a": 1})), "{answer}");
    let (status, _) = running.modern("all", "tools/list", json!({})).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_legacy_call_is_cancelled_by_its_id() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let running = start(options()).await;
    let service = service(&upstream.base, &tools(&["get"]));
    running.gateway.apply(&with(snapshot(&service, [part("one", &service, &["get"])]), [bundle(&[("one", "a_")])]));
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let response = running.post("all", message).send().await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let _held = upstream.hold().await;
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "a_get"}}).to_string();
    let call = tokio::spawn(running.post("all", message).header("mcp-session-id", &session).send());
    until("the call reached the upstream", || upstream.hits() == 1).await;
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let cancel = |name: &str| running.post(name, message.to_string()).header("mcp-session-id", &session).send();
    // A session of a bundle is no session of its part.
    assert_eq!(cancel("one").await.unwrap().status().as_u16(), 202);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!call.is_finished());
    assert_eq!(cancel("all").await.unwrap().status().as_u16(), 202);
    let (_, answer) = crate::support::read(call.await.unwrap().unwrap()).await;
    assert!(answer["error"].is_object(), "{answer}");
}
