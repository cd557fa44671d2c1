//! Tool calls: arguments, enforcement, pages, cancellation.

use std::time::Duration;

use serde_json::{Value, json};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::ListedTools;

use crate::support::{
    Page, Upstream, blocks, exposition, options, service, simple, snapshot, start, text, tool, until,
};

const ISSUES: &str = r#"[{"number":1.0,"title":"a","user":{"login":"x"},"body":"hidden"},
                         {"number":2,"title":"b","user":{"login":"y"},"body":"hidden"}]"#;
const SELECT: &str = r#"{"root":"","select":{"number":"number","by":"user.login"}}"#;

#[tokio::test]
async fn arguments_that_do_not_fit_are_named_and_nothing_is_sent() {
    let (upstream, running) = simple(Default::default()).await;
    for (arguments, named) in [
        (json!({"state": "ajar"}), "`state`"),
        (json!({"state": 1}), "`state`"),
        (json!({"stat": "open"}), "stat"),
        (json!([]), "`arguments`"),
    ] {
        let result = running.call("api", "read", arguments.clone()).await;
        assert_eq!(result["isError"], json!(true), "{arguments}");
        assert!(text(&result).contains(named), "{arguments}: {result}");
    }
    assert_eq!(upstream.hits(), 0);
    let result = running.call("api", "read", json!({"state": "open"})).await;
    assert_eq!(result["isError"], json!(false));
    assert_eq!(upstream.queries.lock().unwrap().as_slice(), ["state=open"]);
}

#[tokio::test]
async fn two_expositions_of_one_service_show_what_each_may() {
    let upstream = Upstream::start().await;
    upstream.json("/issues", ISSUES);
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"list": tool("/issues"), "other": tool("/issues")}));
    let report = running.gateway.apply(&snapshot(
        &service,
        [
            exposition("internal", &service, Advisory, &[("list", Some(r#"{"maxItems":1}"#)), ("other", None)]),
            exposition("partner", &service, Enforced, &[("list", Some(SELECT))]),
        ],
    ));
    assert_eq!((report.added.len(), report.failed.len()), (2, 0), "{report:?}");
    let internal = running.call("internal", "list", json!({})).await;
    assert_eq!(
        blocks(&internal),
        [r#"[{"number":1.0,"title":"a","user":{"login":"x"},"body":"hidden"}]"#, "1 of 2 items shown"]
    );
    assert_eq!(internal["structuredContent"]["result"][0]["title"], "a");
    assert_eq!(internal["structuredContent"]["_truncated"], json!({"shown": 1, "total": 2}));
    let (_, modern) = running.modern("internal", "tools/call", json!({"name": "list"})).await;
    assert_eq!(modern["result"]["structuredContent"], internal["structuredContent"], "both eras get an object");
    assert_eq!(internal["_meta"]["tamis.dev/filter"]["filter_applied"], json!(true));
    let raw = running.call("internal", "list", json!({"_output_mode": "raw"})).await;
    assert!(text(&raw).contains("\"b\""), "{raw}");
    let partner = running.call("partner", "list", json!({})).await;
    assert_eq!(text(&partner), r#"[{"number":1.0,"by":"x"},{"number":2,"by":"y"}]"#);
    assert!(!partner.to_string().contains("hidden"));
    let refused = running.call("partner", "list", json!({"_output_mode": "raw"})).await;
    assert_eq!(refused["isError"], json!(true));
    let (_, unpublished) = running.legacy("partner", "tools/call", json!({"name": "other"})).await;
    assert_eq!(unpublished["error"]["code"], json!(-32602));
    let (_, listed) = running.legacy("internal", "tools/list", json!({})).await;
    let properties = &listed["result"]["tools"][0]["inputSchema"]["properties"];
    assert!(properties.get("_output_mode").is_some() && properties.get("_budget").is_some(), "{properties}");
    let (_, listed) = running.legacy("partner", "tools/list", json!({})).await;
    let properties = &listed["result"]["tools"][0]["inputSchema"]["properties"];
    assert!(properties.get("_output_mode").is_none() && properties.get("_budget").is_some(), "{properties}");
    let small = running.call("partner", "list", json!({"_budget": 50})).await;
    assert_eq!(blocks(&small), ["[]", "0 of 2 items shown"], "{small}");
    assert!(small["structuredContent"].to_string().len() <= 50, "{small}");
}

#[tokio::test]
async fn structured_content_conforms_to_the_advertised_schema_in_both_eras() {
    let upstream = Upstream::start().await;
    upstream.json("/issues", ISSUES);
    upstream.json("/issue", r#"{"number":1,"user":{"login":"x"}}"#);
    let running = start(options()).await;
    upstream.json("/pages?limit=20", format!(r#"{{"items":{ISSUES},"next":"b"}}"#));
    let mut paged = tool("/pages");
    paged["pagination"] = json!({"type": "cursor", "maxPages": 1, "nextPath": "next"});
    paged["call"]["http"]["extract"] = json!("items");
    let service = service(&upstream.base, &json!({"list": tool("/issues"), "get": tool("/issue"), "pages": paged}));
    let short = r#"{"root":"","select":{"number":"number"},"maxItems":1}"#;
    let tools = [("list", Some(SELECT)), ("get", Some(SELECT)), ("pages", Some(short))];
    running.gateway.apply(&snapshot(&service, [exposition("api", &service, Enforced, &tools)]));
    let (_, legacy) = running.legacy("api", "tools/list", json!({})).await;
    let (_, modern) = running.modern("api", "tools/list", json!({})).await;
    for (at, name) in ["list", "get", "pages"].into_iter().enumerate() {
        let schemas = [&legacy, &modern].map(|listed| listed["result"]["tools"][at]["outputSchema"].clone());
        assert_eq!(schemas[0]["type"], "object", "legacy clients take nothing else: {}", schemas[0]);
        let (_, answer) = running.modern("api", "tools/call", json!({"name": name})).await;
        let results = [running.call("api", name, json!({})).await, answer["result"].clone()];
        for (schema, result) in schemas.iter().zip(&results) {
            assert!(schema.is_object(), "advertised");
            let content = &result["structuredContent"];
            assert!(jsonschema::is_valid(schema, content), "{name}: {schema} {content}");
        }
        let contents = results.map(|result| result["structuredContent"].clone());
        assert!(contents[0].is_object() && contents[0] == contents[1], "both eras get the same object: {contents:?}");
        if name == "pages" {
            assert!(contents[0]["_pagination"].is_object() && contents[0]["_truncated"].is_object(), "{contents:?}");
            let closed = json!({"result": [], "_pagination": {"pages": "one"}});
            assert!(!jsonschema::is_valid(&schemas[0], &closed), "{}", schemas[0]);
        }
    }
}

#[tokio::test]
async fn errors_of_the_upstream_tell_an_enforced_caller_the_status_only() {
    let upstream = Upstream::start().await;
    let error = Page { status: 422, kind: "application/json", body: "{\"secret\":1}".into(), delay: Duration::ZERO };
    upstream.page("/bad", error);
    upstream.json("/broken", "{\"secret\":");
    let mut mutating = tool("/broken");
    mutating["risk"] = json!({"mutating": true});
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"bad": tool("/bad"), "broken": mutating, "gone": tool("/none")}));
    let tools = [("bad", Some(SELECT)), ("broken", Some(SELECT)), ("gone", Some(SELECT))];
    running.gateway.apply(&snapshot(
        &service,
        [exposition("open", &service, Advisory, &tools), exposition("closed", &service, Enforced, &tools)],
    ));
    for (tool, says) in [("bad", "422"), ("gone", "404")] {
        let closed = running.call("closed", tool, json!({})).await;
        assert_eq!(closed["isError"], json!(true));
        assert!(text(&closed).contains(says) && !closed.to_string().contains("secret"), "{closed}");
    }
    assert!(running.call("open", "bad", json!({})).await.to_string().contains("secret"));
    let withheld = running.call("closed", "broken", json!({})).await;
    assert!(!withheld.to_string().contains("secret") && text(&withheld).contains("do not repeat"), "{withheld}");
    assert_eq!(withheld["isError"], json!(true));
}

#[tokio::test]
async fn limits_on_time_and_size_hold() {
    let upstream = Upstream::start().await;
    let slow = Page { status: 200, kind: "application/json", body: "{}".into(), delay: Duration::from_secs(5) };
    upstream.page("/slow", slow);
    upstream.json("/large", format!("\"{}\"", "x".repeat(5_000)));
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"slow": tool("/slow"), "large": tool("/large")}));
    let mut document = exposition("api", &service, Advisory, &[("slow", None), ("large", None)]);
    document.limits.timeout_ms = 50;
    document.limits.max_response_bytes = 4_000;
    running.gateway.apply(&snapshot(&service, [document]));
    let slow = running.call("api", "slow", json!({})).await;
    assert!(text(&slow).contains("in time"), "{slow}");
    let large = running.call("api", "large", json!({})).await;
    assert!(text(&large).contains("4000 bytes"), "{large}");
}

#[tokio::test]
async fn cursors_of_the_upstream_are_sealed_under_enforced() {
    let upstream = Upstream::start().await;
    for (query, next) in [("limit=20", "token-1"), ("limit=20&cursor=token-1", "token-2")] {
        upstream.json(&format!("/pages?{query}"), json!({"items": [{"number": 1}], "next": next}).to_string());
    }
    upstream.json("/pages?limit=20&cursor=token-2", json!({"items": [{"number": 3}]}).to_string());
    let mut paged = tool("/pages");
    paged["pagination"] = json!({"type": "cursor", "maxPages": 2, "nextPath": "next"});
    paged["call"]["http"]["extract"] = json!("items");
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"pages": paged}));
    let tools = [("pages", Some(r#"{"root":"","select":{"number":"number"}}"#))];
    running.gateway.apply(&snapshot(
        &service,
        [exposition("open", &service, Advisory, &tools), exposition("closed", &service, Enforced, &tools)],
    ));
    let open = running.call("open", "pages", json!({})).await;
    let pages = r#"{"pages":2,"items":2,"next":{"cursor":"token-2"}}"#;
    assert_eq!(blocks(&open), [r#"[{"number":1},{"number":1}]"#.to_owned(), format!("_pagination: {pages}")]);
    assert_eq!(open["structuredContent"]["_pagination"], serde_json::from_str::<Value>(pages).unwrap(), "{open}");
    // What is attached is counted to the byte.
    let whole = open["structuredContent"].to_string().len();
    for (budget, cut) in [(whole, false), (whole - 1, true)] {
        let open = running.call("open", "pages", json!({"_budget": budget})).await;
        assert_eq!(open["structuredContent"].get("_truncated").is_some(), cut, "{budget}: {open}");
        assert_eq!(open["_meta"]["tamis.dev/filter"].get("budget_applied").is_some(), cut, "{budget}: {open}");
    }
    let closed = running.call("closed", "pages", json!({})).await;
    assert!(!closed.to_string().contains("token-"), "{closed}");
    assert_eq!(closed["structuredContent"]["result"], json!([{"number": 1}, {"number": 1}]));
    let next = closed["structuredContent"]["_pagination"]["next"].clone();
    let last = running.call("closed", "pages", next.clone()).await;
    assert_eq!(last["structuredContent"]["result"], json!([{"number": 3}]), "{last}");
    assert!(last["structuredContent"]["_pagination"].get("next").is_none());
    let hits = upstream.hits();
    let forged = running.call("closed", "pages", json!({"cursor": "token-2"})).await;
    assert!(forged["isError"] == json!(true) && text(&forged).contains("`cursor`"), "{forged}");
    assert_eq!(upstream.hits(), hits);
}

#[tokio::test]
async fn a_closed_connection_cancels_a_modern_call_and_no_legacy_one() {
    let (upstream, running) = simple(Default::default()).await;
    let slow = Page { status: 200, kind: "application/json", body: "{}".into(), delay: Duration::from_millis(400) };
    upstream.page("/doc", slow);
    let modern = running.modern_request("api", "tools/call", json!({"name": "read"}));
    let calling = tokio::spawn(modern.send());
    until("the call reached the upstream", || upstream.hits() == 1).await;
    calling.abort();
    until("the call went away", || upstream.open.load(std::sync::atomic::Ordering::SeqCst) == 0).await;
    let outcome = |outcome: &str| {
        format!(
            "tamis_tool_calls_total{{exposition=\"api\",namespace=\"default\",outcome=\"{outcome}\",tool=\"read\"}} 1"
        )
    };
    assert!(running.admin("/metrics").await.1.contains(&outcome("cancelled")));
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
    let calling = tokio::spawn(running.post("api", message).send());
    until("the call reached the upstream", || upstream.hits() == 2).await;
    calling.abort();
    for _ in 0..200 {
        if running.admin("/metrics").await.1.contains(&outcome("ok")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the legacy call did not end well");
}

#[tokio::test]
async fn a_tool_without_schema_of_ours_lists_in_pages() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let names: Vec<String> = (0..600).map(|n| format!("tool-{n:03}")).collect();
    let tools: serde_json::Map<String, Value> = names.iter().map(|n| (n.clone(), tool("/doc"))).collect();
    let service = service(&upstream.base, &Value::Object(tools));
    let published: Vec<_> = names.iter().map(|n| (n.as_str(), None)).collect();
    let running = start(options()).await;
    running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &published)]));
    let mut seen = Vec::new();
    let mut params = json!({"cursor": ""});
    loop {
        let (_, answer) = running.modern("api", "tools/list", params).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        seen.extend(tools.iter().map(|t| t["name"].as_str().unwrap().to_owned()));
        match answer["result"].get("nextCursor") {
            Some(next) => params = json!({"cursor": next}),
            None => break,
        }
    }
    assert_eq!(seen, names);
}

#[tokio::test]
async fn the_tools_that_validate_weighs_are_those_that_callers_get() {
    let upstream = Upstream::start().await;
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc"), "plain": tool("/doc")}));
    let tools = [("read", Some(r#"{"retain":["/a"],"output":{"budget":{"bytes":100}}}"#)), ("plain", None)];
    let mut documents =
        vec![exposition("some", &service, Advisory, &tools), exposition("none", &service, Advisory, &tools)];
    documents[1].inputs = Some(Vec::new());
    let sizes = documents.iter().map(|document| ListedTools::new(document, &service).unwrap()).collect::<Vec<_>>();
    running.gateway.apply(&snapshot(&service, documents));
    for (name, size) in ["some", "none"].iter().zip(&sizes) {
        let (_, answer) = running.legacy(name, "tools/list", json!({})).await;
        assert_eq!(answer["result"]["tools"], serde_json::from_str::<Value>(&size.listed).unwrap(), "{name}");
        assert_eq!(size.tools, 2);
        assert!(!size.without_inputs.contains("_budget"), "{size:?}");
    }
    assert!(sizes[0].listed.contains("_budget") && sizes[0].listed.contains("chunk"), "{sizes:?}");
    assert_eq!(sizes[0].without_inputs, sizes[1].listed);
    assert_eq!(sizes[1].without_inputs, sizes[1].listed);
    let missing = exposition("api", &service, Advisory, &tools);
    let other = super::support::service(&upstream.base, &json!({"plain": tool("/doc")}));
    assert_eq!(ListedTools::new(&missing, &other).unwrap_err(), "tool read is not in the service");
}
