//! Configurations that change while calls are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tamis_config::{Reason, Snapshot, Stopped};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::Change;

use crate::support::{
    Upstream, at_workers, exposition, id, options, read, service, snapshot, start, tool, with_workers,
};

at_workers!(a_thousand_reloads_lose_mix_and_fail_no_call, changed_tools_are_announced_in_both_eras);

/// Reads events until one holds `wanted`.
async fn event(
    response: &mut (impl futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin),
    wanted: &str,
) -> Value {
    let mut text = String::new();
    loop {
        let chunk = tokio::time::timeout(Duration::from_secs(5), response.next()).await.expect(wanted);
        text.push_str(std::str::from_utf8(&chunk.expect(wanted).unwrap()).unwrap());
        if let Some(line) = text.lines().find(|line| line.starts_with("data: ") && line.contains(wanted)) {
            return serde_json::from_str(&line[6..]).unwrap();
        }
    }
}

async fn a_thousand_reloads_lose_mix_and_fail_no_call(workers: usize) {
    const RELOADS: usize = 1_000;
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":"A","b":"B","c":"C"}"#);
    let running = Arc::new(start(with_workers(workers)).await);
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    // Two versions; a call sees wholly one: its fields, and the marker that its patch adds.
    let versions = ["one", "two"].map(|version| {
        let (first, second) = if version == "one" { ("a", "b") } else { ("b", "c") };
        let filter = format!(
            r#"{{"retain":["/{first}","/{second}"],"patches":[{{"op":"add","path":"/version","value":"{version}"}}]}}"#
        );
        let document = exposition("api", &service, Enforced, &[("read", Some(&filter))]);
        let other = exposition("other", &service, Advisory, &[("read", None)]);
        snapshot(&service, [document, other])
    });
    running.gateway.apply(&versions[0]);
    let (done, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let (running, done, calls) = (Arc::clone(&running), Arc::clone(&done), Arc::clone(&calls));
            tokio::spawn(async move {
                let mut seen = [0usize; 2];
                while !done.load(Ordering::Relaxed) {
                    let params = json!({"name": "read"});
                    let (status, answer) = if caller % 2 == 0 {
                        running.legacy("api", "tools/call", params).await
                    } else {
                        running.modern("api", "tools/call", params).await
                    };
                    assert_eq!(status, 200, "{answer}");
                    match answer["result"]["content"][0]["text"].as_str().unwrap() {
                        r#"{"a":"A","b":"B","version":"one"}"# => seen[0] += 1,
                        r#"{"b":"B","c":"C","version":"two"}"# => seen[1] += 1,
                        other => panic!("mixed: {other}"),
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                seen
            })
        })
        .collect();
    for n in 0..RELOADS {
        let gateway = Arc::clone(&running.gateway);
        let next = versions[(n + 1) % 2].clone();
        let report = tokio::task::spawn_blocking(move || gateway.apply(&next)).await.unwrap();
        assert_eq!((report.changed.len(), report.unchanged, report.failed.len()), (1, 1, 0));
    }
    done.store(true, Ordering::Relaxed);
    let mut seen = [0, 0];
    for caller in callers {
        let [one, two] = caller.await.expect("no call fails");
        seen = [seen[0] + one, seen[1] + two];
    }
    assert!(seen[0] > 0 && seen[1] > 0, "both versions were called: {seen:?}");
    assert_eq!(seen[0] + seen[1], calls.load(Ordering::Relaxed));
}

async fn changed_tools_are_announced_in_both_eras(workers: usize) {
    let upstream = Upstream::start().await;
    let running = start(with_workers(workers)).await;
    let service = service(&upstream.base, &json!({"one": tool("/1"), "two": tool("/2")}));
    let with = |tools: &[(&str, Option<&str>)]| snapshot(&service, [exposition("api", &service, Advisory, tools)]);
    running.gateway.apply(&with(&[("one", None)]));
    // Streams of both eras on each worker: each stream has a connection of its own.
    let (mut legacy, mut modern) = (Vec::new(), Vec::new());
    let tag = json!({"io.modelcontextprotocol/subscriptionId": "m-1"});
    for _ in 0..workers {
        let get = running.http.get(running.url("api")).header("accept", "text/event-stream");
        let response = get.send().await.unwrap();
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        legacy.push(response.bytes_stream());
        let params = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
        let response = running.modern_request("api", "subscriptions/listen", params).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-accel-buffering"]),
            (200, &"no".parse().unwrap())
        );
        let mut stream = response.bytes_stream();
        let acknowledged = event(&mut stream, "acknowledged").await;
        let both = json!({"toolsListChanged": true, "promptsListChanged": true});
        assert_eq!(acknowledged["params"], json!({"_meta": tag, "notifications": both}));
        modern.push(stream);
    }
    // A change that no list shows is not announced; the next one is, once.
    running.gateway.apply(&with(&[("one", Some(r#"{"dropNulls":true}"#))]));
    running.gateway.apply(&with(&[("one", None), ("two", None)]));
    for stream in &mut legacy {
        assert_eq!(event(stream, "list_changed").await["method"], "notifications/tools/list_changed");
    }
    for stream in &mut modern {
        assert_eq!(event(stream, "list_changed").await["params"]["_meta"], tag);
    }
    running.shutdown.cancel();
    for stream in &mut modern {
        let end = event(stream, "result").await;
        assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("m-1"), &json!("complete")));
        assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "m-1");
    }
    for mut stream in legacy {
        while let Some(chunk) = stream.next().await {
            assert!(chunk.is_ok(), "the stream ends politely");
        }
    }
}

#[tokio::test]
async fn stopped_and_removed_expositions_say_so() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let document = exposition("api", &service, Advisory, &[("read", None)]);
    running.gateway.apply(&snapshot(&service, [document.clone()]));
    let mut stopped = Snapshot::default();
    let why = Stopped { reason: Reason::ServiceNotFound, message: "spec.service: no service named sample".to_owned() };
    stopped.stopped.insert(id("api"), why);
    running.gateway.apply(&stopped);
    let (status, answer) = running.legacy("api", "tools/list", json!({})).await;
    assert_eq!(status, 503);
    assert_eq!(answer["error"]["message"], json!("the exposition is not available"), "{answer}");
    assert!(running.admin("/config").await.1.contains("ServiceNotFound"));
    assert!(!answer["id"].is_null(), "a client waits for an answer to its own request: {answer}");
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).changed.len(), 1);
    running.call("api", "read", json!({})).await;
    assert_eq!(running.gateway.apply(&Snapshot::default()).removed, [id("api")]);
    let response = running.post("api", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).send().await.unwrap();
    let (status, answer) = read(response).await;
    assert_eq!((status, &answer["id"]), (404, &json!(1)), "{answer}");
}

#[tokio::test]
async fn what_cannot_be_loaded_keeps_what_was_there_or_stops() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1,"b":2}"#);
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let good = exposition("api", &service, Enforced, &[("read", Some(r#"{"retain":["/a"]}"#))]);
    let broken = exposition("api", &service, Enforced, &[("read", Some(r#"{"retain":["a"]}"#))]);
    let report = running.gateway.apply(&snapshot(&service, [broken.clone()]));
    assert_eq!(report.failed.len(), 1);
    assert_eq!(running.legacy("api", "tools/list", json!({})).await.0, 503);
    running.gateway.apply(&snapshot(&service, [good]));
    let report = running.gateway.apply(&snapshot(&service, [broken.clone()]));
    assert!(report.failed[0].message.contains("retain"), "{report:?}");
    assert_eq!(running.call("api", "read", json!({})).await["structuredContent"], json!({"a": 1}));
    // What tightens is not delayed by what is broken.
    let loose = exposition("api", &service, Advisory, &[("read", None)]);
    running.gateway.apply(&snapshot(&service, [loose]));
    running.gateway.apply(&snapshot(&service, [broken]));
    assert_eq!(running.legacy("api", "tools/list", json!({})).await.0, 503);
    let bare = exposition("bare", &service, Enforced, &[("read", None)]);
    assert_eq!(running.gateway.apply(&snapshot(&service, [bare])).failed.len(), 1);
    let mut future = exposition("future", &service, Advisory, &[("read", None)]);
    future.format_version = 99;
    assert!(running.gateway.apply(&snapshot(&service, [future])).failed[0].message.contains("format version"));
}

#[tokio::test]
async fn expositions_change_one_by_one() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1,"b":2}"#);
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let shows = |name: &str, member: &str| {
        let filter = format!(r#"{{"retain":["/{member}"]}}"#);
        exposition(name, &service, Enforced, &[("read", Some(filter.as_str()))])
    };
    let serve = |document| Change::Serve(Arc::new(document), Arc::clone(&service));
    let stopped = |reason| Stopped { reason, message: "said".to_owned() };
    let text = async |name: &str| {
        let (status, answer) = running.legacy(name, "tools/call", json!({"name": "read"})).await;
        if status == 200 { answer["result"]["content"][0]["text"].to_string() } else { status.to_string() }
    };

    let report = running.gateway.update(&[serve(shows("one", "a")), serve(shows("two", "a"))]);
    assert_eq!((report.added, report.failed), (vec![id("one"), id("two")], vec![]));
    let report = running.gateway.update(&[serve(shows("one", "b"))]);
    assert_eq!((report.changed, report.added, report.removed), (vec![id("one")], vec![], vec![]));
    assert!(text("one").await.contains("b") && text("two").await.contains("a"), "the others are left alone");
    assert_eq!(running.gateway.update(&[serve(shows("one", "b"))]).unchanged, 1);

    // What cannot be loaded now leaves what was loaded, and answers 503 where nothing was.
    let waits = |name| Change::Keep(id(name), stopped(Reason::Pending));
    assert_eq!(running.gateway.update(&[waits("one"), waits("new")]).added, [id("new")]);
    assert!(text("one").await.contains("b"));
    assert_eq!(text("new").await, "503");
    // A stop is a stop, and what is kept after it is the stop.
    running.gateway.update(&[Change::Stop(id("one"), stopped(Reason::SecretNotFound))]);
    running.gateway.update(&[waits("one")]);
    assert_eq!(text("one").await, "503");

    // Of several changes to one exposition the last counts, whatever came between.
    let removed = Change::Remove(id("two"));
    running.gateway.update(&[removed.clone(), serve(shows("two", "b")), Change::Remove(id("new")), waits("new")]);
    assert!(text("two").await.contains("b"));
    running.gateway.update(&[serve(shows("two", "a")), removed.clone(), waits("two")]);
    assert_eq!(text("two").await, "503", "what was removed is not kept");
    assert_eq!(running.gateway.update(&[removed.clone(), removed]).removed, [id("two")]);
    assert_eq!(text("two").await, "404");
    let metrics = running.admin("/metrics").await.1;
    assert!(metrics.contains("tamis_config_expositions 0"), "{metrics}");

    // What could not be loaded is said until it can.
    let config = async || running.admin("/config").await.1;
    running.gateway.update(&[serve(shows("one", "a"))]);
    let mut broken = shows("one", "a");
    broken.tools = exposition("one", &service, Enforced, &[("read", Some(r#"{"retain":["x"]}"#))]).tools;
    assert_eq!(running.gateway.update(&[serve(broken)]).failed[0].reason, Reason::InvalidFilter);
    assert!(text("one").await.contains("a") && config().await.contains("retain"));
    running.gateway.update(&[serve(shows("one", "a"))]);
    assert!(!config().await.contains("retain"));
}
