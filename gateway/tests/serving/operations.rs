//! The admin port, the way out, and what an operator is told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tamis_config::proof::Question;
use tamis_config::{Access, Audit, Snapshot};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::upstream::Secret;
use tamis_gateway::{AdminToken, Options, Readiness};

use crate::support::{Page, Upstream, exposition, id, options, service, simple, snapshot, start, tool, until};

#[tokio::test]
async fn probes_say_what_is_waited_for_and_config_what_is_loaded() {
    let upstream = Upstream::start().await;
    let running = start(options()).await;
    assert_eq!(running.admin("/livez").await, (200, "ok\n".to_owned()));
    let (status, reason) = running.admin("/readyz").await;
    assert!(status == 503 && reason.contains("first configuration"), "{reason}");
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let snapshot = snapshot(&service, [exposition("api", &service, Advisory, &[("read", None)])]);
    running.gateway.apply(&snapshot);
    assert_eq!(running.admin("/readyz").await, (200, "ok\n".to_owned()));
    running.gateway.apply_in_part(&snapshot, "b.yaml:1:1: error".to_owned());
    assert_eq!(running.admin("/readyz").await.0, 200, "what is served stays");
    let config: Value = serde_json::from_str(&running.admin("/config").await.1).unwrap();
    assert_eq!(config["lastError"], "b.yaml:1:1: error");
    let exposition = &config["expositions"][0];
    assert_eq!(exposition["unfiltered"], json!(["read"]));
    assert_eq!((&exposition["name"], &exposition["state"]), (&json!("api"), &json!("Serving")));
    assert_eq!(exposition["service"], json!(service.digest()));
    assert_eq!(exposition["digest"].as_str().unwrap().len(), 64);
    assert!(!config.to_string().contains(&upstream.base));
    let metrics = running.admin("/metrics").await.1;
    assert!(metrics.contains("tamis_config_reloads_total{result=\"failed\"} 1"), "{metrics}");
    assert!(metrics.contains("tamis_config_reloads_total{result=\"applied\"} 1"));
    assert!(metrics.contains("tamis_config_expositions 1"));
    assert_eq!(running.admin("/nothing").await.0, 404);
    let evil = running.http.get(format!("http://{}/config", running.admin)).header("origin", "http://evil.example");
    assert_eq!(evil.send().await.unwrap().status().as_u16(), 403);
}

#[tokio::test]
async fn in_a_cluster_config_and_acks_want_the_token() {
    let plain = start(options()).await;
    assert_eq!((plain.admin("/config").await.0, plain.admin("/acks").await.0), (200, 404), "standalone");
    let token = Arc::new(AdminToken::default());
    let running = start(Options { admin_token: Some(Arc::clone(&token)), ..options() }).await;
    let ask = async |path: &str, authorization: Option<&str>| {
        let mut request = running.http.get(format!("http://{}{path}", running.admin));
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let mut answer = request.send().await.unwrap();
        let challenge = answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        let said = answer.chunk().await.unwrap().unwrap_or_default();
        (answer.status().as_u16(), challenge, String::from_utf8_lossy(&said).into_owned())
    };
    for path in ["/config", "/acks"] {
        assert_eq!(ask(path, Some("Bearer ")).await.0, 503, "no token is known");
        token.set(Some(&Secret::new("one")));
        for wrong in [None, Some("Bearer"), Some("Bearer "), Some("Bearer on"), Some("Basic one"), Some("one")] {
            let (status, challenge, _) = ask(path, wrong).await;
            assert_eq!((status, challenge.as_deref()), (401, Some("Bearer")), "{path} {wrong:?}");
        }
        assert_eq!(ask(path, Some("Bearer one")).await.0, 200);
        assert_eq!(ask(path, Some("bearer one")).await.0, 200);
        token.set(Some(&Secret::new("two")));
        assert_eq!((ask(path, Some("Bearer one")).await.0, ask(path, Some("Bearer two")).await.0), (401, 200));
        token.set(Some(&Secret::new("")));
        assert_eq!(ask(path, Some("Bearer ")).await.0, 503);
    }
    token.set(Some(&Secret::new("one")));
    let (_, _, said) = ask("/acks", Some("Bearer one")).await;
    assert!(said.starts_with("data: {\"event\":\"snapshot\",\"instance\":\""), "{said}");

    // An open stream is cut when the token that opened it is replaced, and not when the same token is set again.
    let url = format!("http://{}/acks", running.admin);
    let mut stream = running.http.get(url).header("authorization", "Bearer one").send().await.unwrap();
    assert!(stream.chunk().await.unwrap().is_some());
    token.set(Some(&Secret::new("one")));
    assert!(tokio::time::timeout(Duration::from_millis(200), stream.chunk()).await.is_err(), "it says or ends");
    token.set(None);
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.chunk()).await.expect("it ends");
    assert!(ended.is_err(), "{ended:?}");
}

/// What an operator asks a pod that claims to be a gateway.
fn question(token: &str, address: &str, age: u64) -> (Question, String) {
    use aws_lc_rs::hmac;
    let key = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    let sign = |text: String| -> String {
        hmac::sign(&key, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (nonce, time) = ("00112233".to_owned(), now - age);
    let signature = sign(Question::signed(&nonce, address, time));
    let proof = sign(Question::answered(&nonce));
    (Question { nonce, address: address.to_owned(), time, signature }, proof)
}

#[tokio::test]
async fn a_gateway_proves_what_it_knows_to_who_proves_it_first() {
    let token = Arc::new(AdminToken::default());
    token.set(Some(&Secret::new("one")));
    let running = start(Options { admin_token: Some(token), ..options() }).await;
    let here = running.admin.to_string();
    for (what, token, address, age, admitted) in [
        ("all is right", "one", here.as_str(), 0, true),
        ("another token", "two", &here, 0, false),
        ("an old question", "one", &here, 100_000, false),
        // As a pod would that passes on what it was asked.
        ("another's question", "one", "192.0.2.1:9090", 0, false),
        ("no address", "one", "gateway", 0, false),
    ] {
        let (question, proof) = question(token, address, age);
        let url = format!("http://{}/acks", running.admin);
        let answer = running.http.get(url).header("authorization", question.to_string()).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), if admitted { 200 } else { 401 }, "{what}");
        let given = answer.headers().get("tamis-proof").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(given, admitted.then_some(proof), "{what}");
    }
}

#[tokio::test]
async fn readiness_is_as_it_was_said() {
    let running = start(options()).await;
    running.gateway.set_readiness(Readiness::WaitsFor("Secrets".to_owned()));
    assert_eq!(running.admin("/readyz").await, (503, "waiting for Secrets\n".to_owned()));
    running.gateway.set_readiness(Readiness::Ready(None));
    assert_eq!(running.admin("/readyz").await, (200, "ok\n".to_owned()));
    running.gateway.set_readiness(Readiness::Ready(Some("from the disk".to_owned())));
    assert_eq!(running.admin("/readyz").await, (200, "ok: from the disk\n".to_owned()));
    running.gateway.begin_draining();
    assert_eq!(running.admin("/readyz").await.0, 503);
}

#[tokio::test]
async fn a_series_is_born_with_its_first_call_and_dies_with_its_exposition() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1, "secret":"hunter2"}"#);
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc"), "gone": tool("/none")}));
    let tools = [("read", Some(r#"{"retain":["/a"]}"#)), ("gone", Some(r#"{"retain":["/a"]}"#))];
    let both = exposition("api", &service, Enforced, &tools);
    running.gateway.apply(&snapshot(&service, [both]));
    assert!(!running.admin("/metrics").await.1.contains("exposition=\"api\""));
    running.call("api", "read", json!({})).await;
    running.call("api", "gone", json!({})).await;
    let metrics = running.admin("/metrics").await.1;
    for line in [
        "tamis_tool_calls_total{exposition=\"api\",namespace=\"default\",outcome=\"ok\",tool=\"read\"} 1",
        "tamis_tool_calls_total{exposition=\"api\",namespace=\"default\",outcome=\"upstream_error\",tool=\"gone\"} 1",
        "tamis_filter_input_bytes_total{exposition=\"api\",namespace=\"default\",tool=\"read\"} 27",
        "tamis_filter_output_bytes_total{exposition=\"api\",namespace=\"default\",tool=\"read\"} 7",
        "tamis_filter_saved_bytes_total{exposition=\"api\",namespace=\"default\",tool=\"read\"} 20",
        // A token for 3.5 bytes, since no exposition has the gateway load a vocabulary.
        "tamis_filter_saved_tokens_estimate_total{exposition=\"api\",namespace=\"default\",tool=\"read\"} 6",
        "tamis_filter_duration_seconds_count 1",
        "tamis_tool_call_duration_seconds_count 2",
        "tamis_upstream_request_duration_seconds_count{code=\"200\"} 1",
        "tamis_upstream_request_duration_seconds_count{code=\"404\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert!(!metrics.contains("hunter2"));
    // A tool that is not published any more goes, the other keeps its count.
    running.gateway.apply(&snapshot(&service, [exposition("api", &service, Enforced, &tools[..1])]));
    let metrics = running.admin("/metrics").await.1;
    assert!(!metrics.contains("tool=\"gone\"") && metrics.contains("outcome=\"ok\",tool=\"read\"} 1"), "{metrics}");
    running.gateway.apply(&Snapshot::default());
    assert!(!running.admin("/metrics").await.1.contains("exposition=\"api\""));
}

#[tokio::test]
async fn stopping_lets_calls_end() {
    let (upstream, mut running) = simple(Default::default()).await;
    let slow =
        Page { status: 200, kind: "application/json", body: "{\"a\":1}".into(), delay: Duration::from_millis(300) };
    upstream.page("/doc", slow);
    let calling = tokio::spawn(running.modern_request("api", "tools/call", json!({"name": "read"})).send());
    until("the call is under way", || upstream.hits() == 1).await;
    running.shutdown.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(running.post("api", "{}").send().await.is_err(), "nothing new is accepted");
    let answer = calling.await.unwrap().unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert!(answer.text().await.unwrap().contains("\"a\":1"));
    tokio::time::timeout(Duration::from_secs(2), &mut running.served).await.expect("it ends then").unwrap();
}

#[tokio::test]
async fn full_records_keep_the_output_before_filtering() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1, "b":2}"#);
    let folder = tempfile::tempdir().unwrap();
    let running = start(Options { audit_dir: Some(folder.path().to_owned()), ..options() }).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut document = exposition("api", &service, Enforced, &[("read", Some(r#"{"retain":["/a"]}"#))]);
    document.audit = Audit::Full;
    let unkept = start(options()).await.gateway.apply(&snapshot(&service, [document.clone()]));
    assert!(unkept.failed[0].message.contains("audit"), "{unkept:?}");
    running.gateway.apply(&snapshot(&service, [document]));
    running.call("api", "read", json!({})).await;
    let files = || std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect::<Vec<_>>();
    until("the record is written", || {
        files().first().is_some_and(|f| std::fs::read(f).unwrap() == b"{\"a\":1, \"b\":2}")
    })
    .await;
    assert_eq!(files().len(), 1);
}

#[tokio::test]
async fn beyond_loopback_every_exposition_says_who_may_call() {
    let upstream = Upstream::start().await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut document = exposition("api", &service, Advisory, &[("read", None)]);
    document.access = None;
    let open = snapshot(&service, [document.clone()]);
    let running = start(options()).await;
    let check = |address: &str, snapshot: &Snapshot, insecure| {
        running.gateway.check_listen(address.parse().unwrap(), snapshot, insecure).is_ok()
    };
    for (address, insecure, allowed) in [
        ("127.0.0.1:1", false, true),
        ("[::1]:1", false, true),
        ("0.0.0.0:1", false, false),
        ("[::]:1", false, false),
        ("192.0.2.1:1", false, false),
        ("0.0.0.0:1", true, true),
    ] {
        assert_eq!(check(address, &open, insecure), allowed, "{address} {insecure}");
    }
    let cluster = start(Options { require_access: true, ..options() }).await;
    assert!(cluster.gateway.apply(&open).failed[0].message.contains("access"));
    document.access = Some(Access::Anonymous);
    let said = snapshot(&service, [document]);
    assert!(check("0.0.0.0:1", &said, false));
    assert_eq!(cluster.gateway.apply(&said).changed, [id("api")]);
}
