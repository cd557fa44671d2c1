//! Several expositions behind one address.

mod changes;
mod content;
mod limits;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::{
    Access, BundleDocument, BundleLimits, BundlePart, CredentialHandle, CredentialRef, ExpositionDocument,
    ExpositionId, ServiceDocument, Snapshot,
};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::upstream::{Credentials, Secret};
use tamis_gateway::{Callers, Options};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_util::sync::CancellationToken;

use crate::support::{Running, Upstream, exposition, id, options, read, service, snapshot, start, text, tool};

/// A bundle `all` of these parts, each with its prefix.
pub(crate) fn bundle(parts: &[(&str, &str)]) -> BundleDocument {
    let part = |(name, prefix): &(&str, &str)| BundlePart { name: (*name).to_owned(), prefix: (*prefix).to_owned() };
    BundleDocument {
        format_version: BundleDocument::FORMAT_VERSION,
        id: id("all"),
        parts: parts.iter().map(part).collect(),
        access: Some(Access::Anonymous),
        limits: BundleLimits::default(),
        list_ttl_ms: 0,
    }
}

/// Adds bundles to a snapshot.
pub(crate) fn with(mut snapshot: Snapshot, bundles: impl IntoIterator<Item = BundleDocument>) -> Snapshot {
    snapshot.bundles.extend(bundles.into_iter().map(|bundle| (bundle.id.clone(), Arc::new(bundle))));
    snapshot
}

/// An unfiltered exposition of these tools of a service.
pub(super) fn part(name: &str, service: &ServiceDocument, tools: &[&str]) -> ExpositionDocument {
    let tools: Vec<_> = tools.iter().map(|tool| (*tool, None)).collect();
    exposition(name, service, Advisory, &tools)
}

/// Tools that all read `/doc`.
pub(super) fn tools(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), tool("/doc"))).collect::<serde_json::Map<_, _>>().into()
}

pub(super) fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

pub(crate) async fn listed(running: &Running, name: &str) -> Vec<String> {
    let legacy = names(&running.legacy(name, "tools/list", json!({})).await.1);
    let modern = names(&running.modern(name, "tools/list", json!({})).await.1);
    assert_eq!(legacy, modern);
    legacy
}

/// Callers' keys by Secret. A key's caller is its own name.
#[derive(Debug)]
struct Secrets(BTreeMap<&'static str, Arc<Callers>>);

impl Secrets {
    fn new(secrets: &[(&'static str, &[(&str, &str)])]) -> Self {
        let hex = |key: &str| Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let callers = |callers: &[(&str, &str)]| {
            let entries = callers.iter().map(|(name, key)| (*name, format!("sha256:{}", hex(key))));
            Arc::new(Callers::new("s", entries).unwrap())
        };
        Self(secrets.iter().map(|(secret, entries)| (*secret, callers(entries))).collect())
    }
}

impl Credentials for Secrets {
    fn get(&self, _: &str, _: &CredentialRef) -> Option<Secret> {
        None
    }

    fn callers(&self, _: &str, secret: &str, _: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        self.0.get(secret).cloned()
    }
}

fn keys(secret: &str) -> Option<Access> {
    Some(Access::ApiKeys { secret: secret.to_owned(), handle: None })
}

#[tokio::test]
async fn the_tools_of_three_services_behind_one_address() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"id":12345678901234567890,"secret":"s3"}"#);
    let running = start(options()).await;
    let service = service(&upstream.base, &tools(&["list", "get"]));
    let filter = r#"{"retain":["/id"]}"#;
    let enforced = exposition("strict", &service, Enforced, &[("get", Some(filter))]);
    let parts = [part("first", &service, &["list", "get"]), part("second", &service, &["get"]), enforced];
    let all = bundle(&[("second", "b_"), ("first", "a_"), ("strict", "")]);
    let report = running.gateway.apply(&with(snapshot(&service, parts), [all]));
    assert_eq!(report.failed, []);
    // In the order of the parts, then in that of each part.
    assert_eq!(listed(&running, "all").await, ["b_get", "a_list", "a_get", "get"]);

    for name in ["b_get", "a_get"] {
        let result = running.call("all", name, json!({})).await;
        assert_eq!(result["structuredContent"]["secret"], "s3", "{name}: no filter: {result}");
    }
    let result = running.call("all", "get", json!({})).await;
    assert_eq!(text(&result), r#"{"id":12345678901234567890}"#, "the part's own filter");
    let (_, answer) = running.modern("all", "tools/call", json!({"name": "a_list"})).await;
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "all", "{answer}");
    assert_eq!(upstream.hits(), 4);
    for unknown in ["list", "second", "b_list", "a_", "c_get"] {
        let (_, answer) = running.legacy("all", "tools/call", json!({"name": unknown})).await;
        assert_eq!(answer["error"]["message"], format!("unknown tool: {unknown}"), "{answer}");
    }
    // Except for their names, the entries are those of the part.
    let entry = async |name: &str, tool: &str| {
        let list = running.legacy(name, "tools/list", json!({})).await.1;
        let tools = list["result"]["tools"].as_array().unwrap().clone();
        tools.into_iter().find(|entry| entry["name"] == tool).unwrap()
    };
    let (mut bundled, own) = (entry("all", "a_get").await, entry("first", "get").await);
    bundled["name"] = json!("get");
    assert_eq!(bundled, own);

    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let (_, answer) = running.legacy("all", "initialize", params).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "all");
    assert_eq!(answer["result"]["instructions"], "b_*: A sample\na_*: A sample\nA sample");
    let (_, answer) = running.modern("all", "server/discover", json!({})).await;
    assert_eq!(
        (&answer["result"]["cacheScope"], &answer["result"]["resultType"]),
        (&json!("public"), &json!("complete"))
    );

    let index = running.http.get(format!("http://{}/", running.address)).send().await.unwrap();
    let (_, index) = read(index).await;
    let expected = json!({"name": "default/all", "path": "/mcp/default/all", "bundle": true, "tools": 4});
    assert_eq!(index["expositions"][0], expected, "{index}");
    let config: Value = serde_json::from_str(&running.admin("/config").await.1).unwrap();
    let parts = &config["expositions"][0]["bundle"];
    assert_eq!(parts[0], json!({"exposition": "default/second", "prefix": "b_"}), "{config}");
}

#[tokio::test]
async fn pages_go_from_part_to_part() {
    let upstream = Upstream::start().await;
    let running = start(options()).await;
    let many: Vec<String> = (0..260).map(|number| format!("t{number:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let service = service(&upstream.base, &tools(&many));
    let parts = [part("one", &service, &many), part("two", &service, &many), part("three", &service, &many[..1])];
    let all = bundle(&[("one", "a_"), ("two", "b_"), ("gone", "g_"), ("three", "c_")]);
    assert_eq!(running.gateway.apply(&with(snapshot(&service, parts), [all])).failed, []);
    let (mut found, mut sizes, mut cursor) = (Vec::new(), Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let (status, answer) = running.legacy("all", "tools/list", params).await;
        assert_eq!(status, 200, "{answer}");
        let page = names(&answer);
        sizes.push(page.len());
        found.extend(page);
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(sizes, [250, 250, 21]);
    let expected: Vec<String> =
        ["a_", "b_"].iter().flat_map(|prefix| many.iter().map(move |t| format!("{prefix}{t}"))).collect();
    assert_eq!(found, [expected, vec!["c_t000".to_owned()]].concat());
    for cursor in ["", "a_t001", "Yl90OTk5", "%%", "Zw"] {
        let (_, answer) = running.legacy("all", "tools/list", json!({"cursor": cursor})).await;
        match cursor {
            "" => assert_eq!(names(&answer).len(), 250),
            _ => assert_eq!(answer["error"]["message"], "invalid cursor", "{cursor}"),
        }
    }
}

#[tokio::test]
async fn a_name_stands_for_one_tool() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let running = start(options()).await;
    let long = "t".repeat(62);
    let service = service(&upstream.base, &tools(&["get", "b_get", &long]));
    let parts = [part("one", &service, &["b_get", &long]), part("two", &service, &["get", &long])];
    // `one` has `b_get` without a prefix, and so does `two` under its own. A bundle in a bundle has no tools.
    let all = bundle(&[("one", ""), ("two", "b_"), ("all", "x_"), ("inner", "i_")]);
    let inner = BundleDocument { id: id("inner"), ..bundle(&[("one", "")]) };
    assert_eq!(running.gateway.apply(&with(snapshot(&service, parts), [all, inner])).failed, []);
    assert_eq!(listed(&running, "all").await, ["b_get".to_owned(), long.clone(), format!("b_{long}")]);
    running.call("all", "b_get", json!({})).await;
    let calls = |name: &str| {
        format!("tamis_tool_calls_total{{exposition=\"{name}\",namespace=\"default\",outcome=\"ok\",tool=\"b_get\"}}")
    };
    assert_eq!(running.metric(&calls("one")).await, 1);

    let three = bundle(&[("two", "bcd_")]);
    let snapshot = with(snapshot(&service, [part("two", &service, &["get", &long])]), [three]);
    assert_eq!(running.gateway.apply(&snapshot).failed, []);
    assert_eq!(listed(&running, "all").await, ["bcd_get"], "66 characters are too many");
    let (_, answer) = running.legacy("all", "tools/call", json!({"name": format!("bcd_{long}")})).await;
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("unknown tool"), "{answer}");
}

#[tokio::test]
async fn bundle_and_part_both_admit() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    // The owner of `both` is a caller of both, under two names.
    let secrets = Secrets::new(&[
        ("outer", &[("outside", "of-bundle"), ("shared", "of-both")]),
        ("inner", &[("inside", "of-part"), ("partner", "of-both")]),
    ]);
    let running = start(Options { require_access: true, ..Options::new(Arc::new(secrets)) }).await;
    let service = service(&upstream.base, &tools(&["get"]));
    let with_access = |name: &str, access| ExpositionDocument { access, ..part(name, &service, &["get"]) };
    let parts = [
        with_access("open", Some(Access::Anonymous)),
        with_access("keyed", keys("inner")),
        with_access("hidden", Some(Access::BundleOnly)),
        with_access("lost", keys("missing")),
    ];
    let named = &[("open", "open_"), ("keyed", "keyed_"), ("hidden", "hidden_"), ("lost", "lost_")];
    let open = BundleDocument { id: id("public"), ..bundle(named) };
    let closed = BundleDocument { id: id("private"), access: keys("outer"), ..bundle(named) };
    assert_eq!(running.gateway.apply(&with(snapshot(&service, parts), [open, closed])).failed, []);

    /// The bundle, the key that is presented, and the parts whose tools are there; none if the bundle does not admit.
    type Row = (&'static str, Option<&'static str>, Option<&'static [&'static str]>);
    let table: &[Row] = &[
        ("public", None, Some(&["open", "hidden"])),
        ("public", Some("wrong"), Some(&["open", "hidden"])),
        ("public", Some("of-bundle"), Some(&["open", "hidden"])),
        ("public", Some("of-part"), Some(&["open", "keyed", "hidden"])),
        ("public", Some("of-both"), Some(&["open", "keyed", "hidden"])),
        ("private", None, None),
        ("private", Some("wrong"), None),
        ("private", Some("of-part"), None),
        ("private", Some("of-bundle"), Some(&["open", "hidden"])),
        ("private", Some("of-both"), Some(&["open", "keyed", "hidden"])),
    ];
    for (bundle, key, parts) in table {
        let send = async |method: &str, params: Value| {
            let request = running.modern_request(bundle, method, params);
            let request = if let Some(key) = key { request.bearer_auth(key) } else { request };
            read(request.send().await.unwrap()).await
        };
        let (status, answer) = send("tools/list", json!({})).await;
        let Some(parts) = parts else {
            assert_eq!(status, 401, "{bundle} {key:?}: {answer}");
            continue;
        };
        let expected: Vec<String> = parts.iter().map(|part| format!("{part}_get")).collect();
        assert_eq!(names(&answer), expected, "{bundle} {key:?}");
        assert_eq!(answer["result"]["cacheScope"], "private", "a part asks who calls");
        for (part, prefix) in named {
            let name = format!("{prefix}get");
            let (_, answer) = send("tools/call", json!({"name": name})).await;
            let outcome = if parts.contains(part) { &answer["result"]["isError"] } else { &answer["error"]["code"] };
            let wanted = if parts.contains(part) { json!(false) } else { json!(-32602) };
            assert_eq!(*outcome, wanted, "{bundle} {key:?} {name}: {answer}");
        }
    }

    // The address of a part that is called through bundles only is that of no exposition.
    for key in [None, Some("of-both")] {
        let request = |name: &str| {
            let request = running.modern_request(name, "tools/list", json!({}));
            if let Some(key) = key { request.bearer_auth(key) } else { request }
        };
        let hidden = read(request("hidden").send().await.unwrap()).await;
        assert_eq!(hidden, read(request("no-such").send().await.unwrap()).await);
        assert_eq!(hidden.0, 404);
        let index = running.http.get(format!("http://{}/", running.address));
        let index = if let Some(key) = key { index.bearer_auth(key) } else { index };
        let (_, index) = read(index.send().await.unwrap()).await;
        let all: Vec<_> =
            index["expositions"].as_array().unwrap().iter().map(|e| (e["name"].clone(), e["tools"].clone())).collect();
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str().unwrap()).collect();
        match key {
            None => assert_eq!(names, ["default/open", "default/public"]),
            Some(_) => assert_eq!(names, ["default/keyed", "default/open", "default/private", "default/public"]),
        }
        let tools = &all.iter().find(|(name, _)| name == "default/public").unwrap().1;
        assert_eq!(*tools, json!(if key.is_some() { 3 } else { 2 }));
    }
    let unknown = "tamis_requests_rejected_total{exposition=\"\",namespace=\"\",reason=\"unknown_exposition\"}";
    let text = running.admin("/metrics").await.1;
    assert!(!text.contains("exposition=\"hidden\",namespace=\"default\",reason"), "{unknown}: {text}");
}

#[tokio::test]
async fn a_bundle_over_standard_input() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1}"#);
    let running = start(Options::new(Arc::new(Secrets::new(&[])))).await;
    let service = service(&upstream.base, &tools(&["get"]));
    let parts = [
        ExpositionDocument { access: Some(Access::BundleOnly), ..part("hidden", &service, &["get"]) },
        ExpositionDocument { access: keys("missing"), ..part("keyed", &service, &["get"]) },
    ];
    let all = BundleDocument { access: keys("missing"), ..bundle(&[("hidden", "h_"), ("keyed", "k_")]) };
    assert_eq!(running.gateway.apply(&with(snapshot(&service, parts), [all])).failed, []);
    let serve = |name: &str| {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(far);
        let (gateway, id) = (Arc::clone(&running.gateway), ExpositionId::clone(&id(name)));
        let served = tokio::spawn(async move { gateway.serve_stdio(&id, read, write, CancellationToken::new()).await });
        (near, served)
    };
    let (_near, served) = serve("hidden");
    assert_eq!(served.await.unwrap().unwrap_err().to_string(), "no exposition default/hidden");
    let (near, served) = serve("all");
    let (read, mut write) = tokio::io::split(near);
    let mut lines = BufReader::new(read).lines();
    // The process that started the gateway is admitted by every part.
    for (request, expected) in [
        (json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), json!(["h_get", "k_get"])),
        (json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "k_get"}}), json!({"a": 1})),
    ] {
        write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        let got = if request["method"] == "tools/list" {
            json!(names(&answer))
        } else {
            answer["result"]["structuredContent"].clone()
        };
        assert_eq!(got, expected, "{answer}");
    }
    write.shutdown().await.unwrap();
    drop((write, lines));
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_bundle_without_access_is_not_for_other_machines() {
    let running = start(Options { require_access: true, ..options() }).await;
    let open = BundleDocument { access: None, ..bundle(&[("one", "")]) };
    let snapshot = with(Snapshot::default(), [open]);
    assert!(running.gateway.check_listen("0.0.0.0:8080".parse().unwrap(), &snapshot, false).is_err());
    let report = running.gateway.apply(&snapshot);
    assert!(report.failed[0].message.starts_with("access: say who may call"), "{report:?}");
    let (status, _) = running.modern("all", "tools/list", json!({})).await;
    assert_eq!(status, 503);
}
