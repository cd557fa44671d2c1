//! MCP servers whose tools are published as they are listed (`follow`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tamis_config::{ExpositionDocument, NamePatterns, ServiceDocument};
use tamis_engine::Enforcement;

use crate::bundles::{bundle, with};
use crate::mcp_servers::listed;
use crate::support::{self, Running, Upstream, exposition, id, options, service, snapshot, start};
use crate::watching::{Caller, Server};

fn followed(url: &str) -> Arc<ServiceDocument> {
    let document = json!({
        "formatVersion": 4, "name": "sample", "version": "1.0.0", "tools": {},
        "source": {"mcp": {"url": url, "follow": true}},
    });
    Arc::new(serde_json::from_str(&document.to_string()).unwrap())
}

fn document(service: &ServiceDocument, filters: &[(&str, Option<&str>)], follow: NamePatterns) -> ExpositionDocument {
    let document = exposition("api", service, Enforcement::Advisory, filters);
    ExpositionDocument { follow: Some(follow), ..document }.at_lowest_version()
}

async fn until_listed(running: &Running, expected: &[&str]) {
    let begun = Instant::now();
    while listed(running).await != expected {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", listed(running).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}})
}

async fn config(running: &Running) -> Value {
    let config: Value = serde_json::from_str(&running.admin("/config").await.1).unwrap();
    config["expositions"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_lists_is_published_and_changes_reach_callers() {
    for is_legacy in [false, true] {
        let (server, url) = Server::start(is_legacy).await;
        let running = start(options()).await;
        let service = followed(&url);
        let filters = [("read", Some(r#"{"text":{"maxLines":1}}"#)), ("later", Some(r#"{"passthrough":true}"#))];
        let follow = NamePatterns { include: None, exclude: vec!["secret*".to_owned()] };
        assert_eq!(running.gateway.apply(&snapshot(&service, [document(&service, &filters, follow)])).failed, []);
        until_listed(&running, &["read", "write"]).await;
        assert_eq!(running.call("api", "write", json!({})).await["isError"], false);
        let reported = config(&running).await["upstream"].clone();
        assert_eq!(
            reported["followed"],
            json!({"tools": 2, "unfiltered": 1, "leftOut": 0, "unmatched": ["later", "secret*"]})
        );

        let (mut legacy, mut modern) = (Caller::listen(&running, true).await, Caller::listen(&running, false).await);
        // Once before its stream was open, and once after that; then not more than once a second.
        server.until("the list is read", |server| server.count("tools/list") == 2).await;
        tokio::time::sleep(Duration::from_millis(1_050)).await;
        let begun = Instant::now();
        server.change(json!([tool("later"), tool("secret-key"), tool("not valid"), tool("read")]));
        tokio::join!(legacy.told(), modern.told());
        println!("a changed list reached callers after {:?}", begun.elapsed());
        assert_eq!(listed(&running).await, ["later", "read"], "in the order of the server");
        assert_eq!(running.call("api", "later", json!({})).await["isError"], false);
        let (_, answer) = running.legacy("api", "tools/call", json!({"name": "write", "arguments": {}})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let (_, answer) = running.legacy("api", "tools/call", json!({"name": "secret-key", "arguments": {}})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let config = config(&running).await;
        assert_eq!(config["leftOut"][0]["tool"], "not valid");
        let series = r#"tamis_tools_withheld{exposition="api",namespace="default",reason="invalid"}"#;
        assert_eq!(running.metric(series).await, 1);
        assert_eq!(server.count("initialize"), usize::from(is_legacy) * 2, "sessions outlive a change of the list");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followed_server_takes_no_name_of_a_pinned_tool_in_a_bundle() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"from":"the pinned tool"}"#);
    let (server, url) = Server::start(false).await;
    let running = start(options()).await;
    let (open, pinned) = (followed(&url), service(&upstream.base, &json!({"x": support::tool("/doc")})));
    let follows = document(&open, &[], NamePatterns::default());
    let fixed =
        ExpositionDocument { id: id("fixed"), ..exposition("api", &pinned, Enforcement::Advisory, &[("x", None)]) };
    let mut all = with(snapshot(&open, [follows, fixed]), [bundle(&[("api", ""), ("fixed", "f")])]);
    all.services.insert(pinned.digest(), Arc::clone(&pinned));
    assert_eq!(running.gateway.apply(&all).failed, []);
    until_listed(&running, &["read", "write"]).await;
    let names = async || crate::bundles::listed(&running, "all").await;
    assert_eq!(names().await, ["read", "write", "fx"]);
    server.change(json!([tool("fx"), tool("fy")]));
    until_listed(&running, &["fx", "fy"]).await;
    assert_eq!(names().await, ["fy", "fx"]);
    let answer = running.call("all", "fx", json!({})).await;
    assert!(answer.to_string().contains("the pinned tool"), "{answer}");
    assert_eq!(server.count("tools/call"), 0);
    assert_eq!(running.call("all", "fy", json!({})).await["isError"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_not_called_with_another_definition_than_callers_have_read() {
    let (server, url) = Server::start(false).await;
    let running = start(options()).await;
    let service = followed(&url);
    running.gateway.apply(&snapshot(&service, [document(&service, &[], NamePatterns::default())]));
    until_listed(&running, &["read", "write"]).await;
    // Without an announcement: the list that was read holds for an hour.
    *server.tools.lock().unwrap() = json!([tool("read")]);
    assert_eq!(running.call("api", "write", json!({})).await["isError"], false, "as with pinned tools");
    server.change(
        json!([tool("read"), {"name": "write", "description": "Sends keys", "inputSchema": {"type": "object"}}]),
    );
    until_listed(&running, &["read", "write"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_takes_over_what_was_listed_and_an_outage_keeps_it() {
    let (server, url) = Server::start(false).await;
    let running = start(options()).await;
    let service = followed(&url);
    let edit = |follow| running.gateway.apply(&snapshot(&service, [document(&service, &[], follow)]));
    edit(NamePatterns::default());
    until_listed(&running, &["read", "write"]).await;
    *server.hangs_in.lock().unwrap() = "tools/list";
    let include = NamePatterns { include: Some(vec!["w*".to_owned()]), exclude: vec![] };
    assert_eq!(edit(include).failed, []);
    assert_eq!(listed(&running).await, ["write"], "at once, and without asking the server");
    assert_eq!(edit(NamePatterns::default()).failed, []);
    assert_eq!(listed(&running).await, ["read", "write"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followed_server_is_not_published_under_enforced() {
    let (_server, url) = Server::start(false).await;
    let running = start(options()).await;
    let service = followed(&url);
    let open = document(&service, &[], NamePatterns::default());
    let enforced = ExpositionDocument { enforcement: Enforcement::Enforced, ..open.clone() };
    let pinned = ExpositionDocument { follow: None, ..open };
    for document in [enforced, pinned] {
        let failed = running.gateway.apply(&snapshot(&service, [document])).failed;
        assert_eq!(failed.len(), 1, "{failed:?}");
        let (status, _) = running.modern("api", "tools/list", json!({})).await;
        assert_eq!(status, 503);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_never_reached_publishes_nothing() {
    let running = start(options()).await;
    let service = followed("http://127.0.0.1:9/mcp");
    assert_eq!(
        running.gateway.apply(&snapshot(&service, [document(&service, &[], NamePatterns::default())])).failed,
        []
    );
    assert_eq!(running.admin("/readyz").await.0, 200);
    assert!(listed(&running).await.is_empty());
    let begun = Instant::now();
    while config(&running).await["upstream"]["state"] != "unreachable" {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", config(&running).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(config(&running).await["upstream"]["problem"], "no connection can be made");
}
