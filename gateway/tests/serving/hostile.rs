//! Requests that contradict themselves, ask for what is not theirs, or only cost: what they get, and what the log says.

use std::sync::Arc;

use serde_json::{Value, json};
use tamis_config::{Access, Reason, Stopped};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::{Change, Options};

use crate::keys::Keys;
use crate::log::Log;
use crate::support::{Running, Upstream, exposition, id, options, read, service, simple, snapshot, start, text, tool};

#[tokio::test]
async fn arguments_that_readers_could_read_differently_go_nowhere() {
    let (upstream, running) = simple(Default::default()).await;
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"read","arguments":{arguments}}}}}"#
        )
    };
    let deep = format!(r#"{{"state":{}1{}}}"#, "[".repeat(90), "]".repeat(90));
    let large = format!(r#"{{"state":"{}"}}"#, "x".repeat(1 << 20));
    for (arguments, expected) in [
        (r#"{"state":"all","state":"open"}"#, "the key `state` is there twice"),
        (r#"{"state":"all","st\u0061te":"open"}"#, "the key `state` is there twice"),
        (r#"{"state":{"a":[{"b":1,"\u0062":2}]}}"#, "the key `b` is there twice"),
        (r#"{"_budget":1000,"_b\u0075dget":100000}"#, "the key `_budget` is there twice"),
        (r#"{"state":"\ud800"}"#, "half of a surrogate pair"),
        (r#"{"state":1e999}"#, "beyond the range"),
        (&deep, "deeper than 64 levels"),
        (&large, "larger than 1048576 bytes"),
    ] {
        let (status, answer) = read(running.post("api", call(arguments)).send().await.unwrap()).await;
        assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)), "{answer}");
        assert!(text(&answer["result"]).contains(expected), "{expected}: {answer}");
    }
    assert_eq!(upstream.hits(), 0);
    // An escape alone is another spelling of one name.
    let (_, answer) = read(running.post("api", call(r#"{"st\u0061te":"open"}"#)).send().await.unwrap()).await;
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    assert_eq!(upstream.queries.lock().unwrap().as_slice(), ["state=open"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_schema_that_multiplies_ends_a_call_and_large_arguments_pass() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let tools = json!({
        "deep": {
            "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {
                "anyOf": [{"items": {"$ref": "#/$defs/n"}}, {"items": {"$ref": "#/$defs/n"}, "maxItems": 9}],
                "not": {"type": "number"},
            }}},
            "call": {"http": {"method": "GET", "path": "/doc"}},
        },
        "write": {
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^x*$"}}},
            "call": {"http": {"method": "POST", "path": "/doc", "request": {"body": {"text": "{text}"}}}},
        },
    });
    let service = service(&upstream.base, &tools);
    let document = exposition("api", &service, Advisory, &[("deep", None), ("write", None)]);
    let running = start(options()).await;
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let nested = (0..27).fold(json!(1), |inner, _| json!([inner]));
    let refused = running.call("api", "deep", json!({"a": nested})).await;
    assert!(text(&refused).contains("takes more than"), "{refused}");
    assert_eq!(upstream.hits(), 0);
    let passed = running.call("api", "write", json!({"text": "x".repeat(900 << 10)})).await;
    assert_eq!(passed["isError"], json!(false), "{passed}");
    let refused = running.call("api", "write", json!({"text": "y".repeat(900 << 10)})).await;
    assert!(text(&refused).contains("`text`: does not match ^x*$"), "{refused}");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused_in_every_era() {
    let (upstream, running) = simple(Default::default()).await;
    let params = json!({"name": "read"});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let batch = format!("[{message}]");
    let named = |name: &'static str, value: &'static str| (name, value);
    for version in [None, Some("2025-03-26"), Some("2025-06-18"), Some("2025-11-25")] {
        for (body, (name, value)) in [
            (&message, named("mcp-name", "list")),
            (&message, named("mcp-method", "tools/list")),
            (&message, named("mcp-name", "READ")),
            (&notification, named("mcp-method", "tools/call")),
            (&notification, named("mcp-name", "read")),
            (&batch, named("mcp-name", "list")),
        ] {
            let mut request = running.post("api", body.clone()).header(name, value);
            if let Some(version) = version {
                request = request.header("mcp-protocol-version", version);
            }
            let (status, answer) = read(request.send().await.unwrap()).await;
            let is_batch = body == &batch && version.is_some_and(|version| version != "2025-03-26");
            let code = if is_batch { -32600 } else { -32020 };
            assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{version:?} {name} {body}: {answer}");
        }
    }
    let modern = running.modern_request("api", "tools/list", json!({})).header("mcp-name", "read");
    assert_eq!(read(modern.send().await.unwrap()).await.1["error"]["code"], json!(-32020));
    assert_eq!(upstream.hits(), 0);
    let agreeing = running.post("api", message).header("mcp-name", "read").header("mcp-method", "tools/call");
    assert_eq!(read(agreeing.send().await.unwrap()).await.0, 200);
}

#[tokio::test]
async fn a_stopped_exposition_tells_callers_nothing_and_the_log_why() {
    let (log, _guard) = Log::start("info");
    let (_upstream, running) = simple(Default::default()).await;
    let stopped = Stopped {
        reason: Reason::ServiceNotFound,
        message: "internal-payroll-api in namespace default, Secret \u{1b}[31mrobot\nline".to_owned(),
    };
    running.gateway.update(&[Change::Stop(id("api"), stopped)]);
    let list = || running.post("api", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    for _ in 0..200 {
        let (status, answer) = read(list().send().await.unwrap()).await;
        let expected =
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "the exposition is not available"}});
        assert_eq!((status, answer), (503, expected));
    }
    for path in ["\u{1b}[31m", "a%0Ab", "a\"b"] {
        let url = format!("http://{}/mcp/{path}", running.address);
        assert_eq!(running.http.post(url).send().await.unwrap().status().as_u16(), 404);
    }
    let lines = log.lines("reason=\"stopped\"");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("exposition=\"default/api\"") && lines[0].contains("ServiceNotFound: internal-payroll-api"),
        "{lines:?}"
    );
    let unknown = log.lines("reason=\"unknown\"");
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(log.lines("\u{1b}").is_empty());
}

#[tokio::test]
async fn the_log_says_why_an_output_was_withheld_and_what_failed_under_advisory() {
    let (log, _guard) = Log::start("info");
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"secret":"hunter2"}"#);
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let filter = Some(r#"{"root":"/items","select":{"a":"a"}}"#);
    let documents = [("open", Advisory), ("closed", Enforced)]
        .map(|(name, enforcement)| exposition(name, &service, enforcement, &[("read", filter)]));
    let running = start(options()).await;
    assert_eq!(running.gateway.apply(&snapshot(&service, documents)).failed, []);
    assert_eq!(running.call("closed", "read", json!({})).await["isError"], json!(true));
    assert_eq!(running.call("open", "read", json!({})).await["isError"], json!(false));
    let withheld = log.lines("output withheld");
    assert_eq!(withheld.len(), 1, "{withheld:?}");
    for part in ["exposition=default/closed", "tool=\"read\"", "stage=\"root\"", "reason=\""] {
        assert!(withheld[0].contains(part), "{part}: {withheld:?}");
    }
    let records = log.records(2).await;
    assert!(records[0].contains("exposition=\"closed\"") && records[0].contains("verdict=\"refused\""), "{records:?}");
    assert!(
        records[1].contains("verdict=\"filter_failed\"") && records[1].contains("failed_stage=\"root\""),
        "{records:?}"
    );
    assert!(log.lines("hunter2").is_empty());
}

async fn index(running: &Running, headers: &[(&str, &str)]) -> reqwest::Response {
    let request = running.http.get(format!("http://{}/", running.address));
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

fn names(index: &Value) -> Vec<&str> {
    index["expositions"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_index_lists_what_its_reader_may_call() {
    let upstream = Upstream::start().await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let documents = [("open", None), ("partner", Some("partners")), ("other", Some("others"))].map(|(name, secret)| {
        let mut document = exposition(name, &service, Advisory, &[("read", None)]);
        if let Some(secret) = secret {
            document.access = Some(Access::ApiKeys { secret: secret.to_owned(), handle: None });
        }
        document
    });
    let keys = Keys::named(&[("alice", "test")]);
    let running = start(Options::new(Arc::new(keys))).await;
    assert_eq!(running.gateway.apply(&snapshot(&service, documents)).failed, []);

    let response = index(&running, &[]).await;
    let headers = response.headers().clone();
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(headers[name], value);
    }
    let (status, anonymous) = read(response).await;
    let entry = json!({
        "name": "default/open", "path": "/mcp/default/open", "service": "sample", "version": "1.0.0",
        "tools": 1, "description": "A sample",
    });
    assert_eq!((status, anonymous), (200, json!({"expositions": [entry]})));
    let (_, keyed) = read(index(&running, &[("authorization", "Bearer test")]).await).await;
    assert_eq!(names(&keyed), ["default/open", "default/partner"]);
    let (status, _) = read(index(&running, &[("x-api-key", "wrong")]).await).await;
    assert_eq!(status, 401);

    // A page of another site, by its Origin or by a name that leads here.
    assert_eq!(index(&running, &[("origin", "http://evil.example")]).await.status().as_u16(), 403);
    let rebound = index(&running, &[("host", "evil.example")]).await;
    assert_eq!(rebound.status().as_u16(), 403);
    assert!(!rebound.text().await.unwrap().contains("open"));
    // A flood of keys costs a bounded number of searches.
    let mut busy = 0;
    for _ in 0..200 {
        let response = index(&running, &[("x-api-key", "wrong")]).await;
        match response.status().as_u16() {
            401 => {}
            429 => {
                assert_eq!(response.headers()["retry-after"], "1");
                busy += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(busy > 0, "200 requests took ten seconds");
}

#[tokio::test]
async fn the_admin_port_answers_under_its_own_names_only() {
    let (_upstream, running) = simple(Default::default()).await;
    let ask = |path: &'static str, host: &'static str| {
        let request = running.http.get(format!("http://{}{path}", running.admin)).header("host", host);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    for path in ["/metrics", "/livez", "/readyz", "/config"] {
        assert_eq!(ask(path, "evil.example:9090").await, 403, "{path}");
        for host in ["localhost:9090", "10.0.0.1", "tamis:9090", "tamis-public.team.svc:9090"] {
            assert_eq!(ask(path, host).await, 200, "{path} {host}");
        }
    }
}
