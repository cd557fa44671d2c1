//! Both eras on one endpoint.

use serde_json::{Value, json};
use tamis_config::{BundleDocument, ExpositionDocument};
use tamis_engine::Enforcement;

use crate::bundles::{bundle, with};
use crate::support::{MODERN, exposition, read, service, simple, snapshot, text, tool};

#[tokio::test]
async fn a_legacy_client_shakes_hands_lists_and_calls() {
    let (_upstream, running) = simple(Default::default()).await;
    for (asked, given) in [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2030-01-01", "2025-11-25")] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
        let response = running.post("api", message).send().await.unwrap();
        let session = response.headers().get("mcp-session-id").expect("published clients need one");
        assert_eq!(session.len(), 32);
        let (status, answer) = read(response).await;
        assert_eq!((status, &answer["id"]), (200, &json!(0)));
        assert_eq!(
            answer["result"],
            json!({
                "protocolVersion": given, "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "sample", "version": "1.0.0"}, "instructions": "A sample",
            })
        );
    }
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(read(running.post("api", initialized).send().await.unwrap()).await, (202, json!("")));
    assert_eq!(running.legacy("api", "ping", json!({})).await.1["result"], json!({}));
    let (_, answer) = running.legacy("api", "tools/list", json!({})).await;
    assert_eq!(
        answer["result"],
        json!({"tools": [{
            "name": "read", "description": "Reads",
            "inputSchema": {
                "type": "object", "additionalProperties": false,
                "properties": {"state": {"type": "string", "enum": ["open", "closed"]}},
            },
            "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false},
        }]})
    );
    let (_, answer) = running.legacy("api", "tools/call", json!({"name": "read"})).await;
    let compact = r#"{"id":12345678901234567890,"name":"x"}"#;
    assert_eq!(text(&answer["result"]), compact);
    assert_eq!(answer["result"]["structuredContent"], serde_json::from_str::<Value>(compact).unwrap());
    assert_eq!(answer["result"]["isError"], json!(false));
}

#[tokio::test]
async fn a_modern_client_discovers_lists_and_calls() {
    let (_upstream, running) = simple(Default::default()).await;
    let server = json!({"io.modelcontextprotocol/serverInfo": {"name": "sample", "version": "1.0.0"}});
    let (status, answer) = running.modern("api", "server/discover", json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": "m-1", "result": {
            "resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {"listChanged": true}},
            "instructions": "A sample", "ttlMs": 0, "cacheScope": "public", "_meta": server,
        }})
    );
    let (_, answer) = running.modern("api", "tools/list", json!({})).await;
    assert_eq!(answer["result"]["tools"][0]["name"], "read");
    assert_eq!((&answer["result"]["resultType"], &answer["result"]["ttlMs"]), (&json!("complete"), &json!(0)));
    let (_, answer) = running.modern("api", "tools/call", json!({"name": "read", "arguments": {}})).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["structuredContent"]["name"], "x");
    assert_eq!(answer["result"]["_meta"], server);
}

#[tokio::test]
async fn lists_may_be_kept_as_long_as_their_exposition_says_and_nothing_else() {
    let (upstream, running) = simple(Default::default()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let document = exposition("api", &service, Enforcement::Advisory, &[("read", None)]);
    let kept = ExpositionDocument { list_ttl_ms: 90_000, ..document };
    let all = BundleDocument { list_ttl_ms: 5, ..bundle(&[("api", "")]) };
    let report = running.gateway.apply(&with(snapshot(&service, [kept]), [all]));
    assert_eq!(report.failed, []);
    for (name, ttl) in [("api", 90_000), ("all", 5)] {
        for method in ["server/discover", "tools/list"] {
            let (_, answer) = running.modern(name, method, json!({})).await;
            assert_eq!(answer["result"]["ttlMs"], ttl, "{name} {method}");
        }
        let (_, answer) = running.modern(name, "tools/call", json!({"name": "read"})).await;
        assert_eq!(answer["result"].get("ttlMs"), None, "{name}");
        let (_, answer) = running.legacy(name, "tools/list", json!({})).await;
        assert_eq!(answer["result"].get("ttlMs"), None, "{name}");
    }
}

#[tokio::test]
async fn each_error_has_its_code_and_status() {
    let (upstream, running) = simple(Default::default()).await;
    let legacy: [(&str, Value, u16, i64); 6] = [
        ("tools/call", json!({"name": "nothing"}), 200, -32602),
        ("tools/call", json!({"name": 1}), 200, -32602),
        ("tools/list", json!({"cursor": "%%%"}), 200, -32602),
        ("resources/list", json!({}), 200, -32601),
        ("subscriptions/listen", json!({"notifications": {}}), 200, -32601),
        ("logging/setLevel", json!({"level": "loud"}), 200, -32602),
    ];
    for (method, params, status, code) in legacy {
        let (got, answer) = running.legacy("api", method, params).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "legacy {method}: {answer}");
    }
    let modern: [(&str, Value, u16, i64); 8] = [
        ("tools/call", json!({"name": "nothing"}), 200, -32602),
        ("tools/list", json!({"cursor": "%%%"}), 200, -32602),
        ("tools/list", json!({"cursor": 7}), 200, -32602),
        ("initialize", json!({"protocolVersion": "2025-11-25"}), 404, -32601),
        ("ping", json!({}), 404, -32601),
        ("logging/setLevel", json!({"level": "info"}), 404, -32601),
        ("no/such", json!({}), 404, -32601),
        ("subscriptions/listen", json!({}), 200, -32602),
    ];
    for (method, params, status, code) in modern {
        let (got, answer) = running.modern("api", method, params).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "modern {method}: {answer}");
        assert_eq!(answer["id"], "m-1");
    }
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    type Sent<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, Value);
    let raw: [Sent<'_>; 8] = [
        ("{", &[], 400, json!(-32700)),
        ("[]", &[], 400, json!(-32600)),
        (list, &[("mcp-protocol-version", "2023-01-01")], 400, json!(-32022)),
        (list, &[("mcp-protocol-version", "soon")], 400, json!(-32022)),
        (list, &[("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")], 400, json!(-32602)),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            &[("mcp-protocol-version", "2025-06-18")],
            400,
            json!(-32600),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, &[("mcp-protocol-version", MODERN)], 400, json!(-32600)),
        (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, &[("mcp-protocol-version", MODERN)], 400, json!(-32020)),
    ];
    for (body, headers, status, code) in raw {
        let mut request = running.post("api", body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (got, answer) = read(request.send().await.unwrap()).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &code), "{body} {headers:?}: {answer}");
    }
    assert_eq!(upstream.hits(), 0, "nothing was sent");
}

#[tokio::test]
async fn each_kind_of_endpoint_refuses_in_its_own_form() {
    let (_upstream, running) = simple(Default::default()).await;
    let message = r#"{"jsonrpc":"2.0","id":"m-9","method":"tools/list"}"#;
    let post = |path: &str| {
        let url = format!("http://{}{path}", running.address);
        running.http.post(url).header("content-type", "application/json").body(message)
    };
    // Clients of MCP wait for an answer to their request.
    for path in ["/mcp/default/none", "/mcp/default/api/", "/mcp/"] {
        let (status, answer) = read(post(path).send().await.unwrap()).await;
        let error = json!({"code": -32000, "message": "no exposition at this address"});
        assert_eq!((status, answer), (404, json!({"jsonrpc": "2.0", "id": "m-9", "error": error})), "{path}");
    }
    let url = |path: &str| format!("http://{}{path}", running.address);
    let elsewhere = [
        post("/mcp"),
        post("/"),
        post("/sse"),
        running.http.get(url("/.well-known/oauth-protected-resource/mcp/default/api")),
        running.http.delete(url("/")),
    ];
    for request in elsewhere {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 404);
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        let text = response.text().await.unwrap();
        assert_eq!(text, "no endpoint at this path; MCP clients call /mcp/NAMESPACE/EXPOSITION\n");
    }
    let list = running.http.get(url("/")).bearer_auth("wrong").send().await.unwrap();
    assert_eq!((list.status().as_u16(), &list.headers()["www-authenticate"]), (401, &"Bearer".parse().unwrap()));
    let text = list.text().await.unwrap();
    assert_eq!(text, "API key required: send `Authorization: Bearer KEY` or `X-API-Key: KEY`");
    running
        .until_metric("tamis_requests_rejected_total{exposition=\"\",namespace=\"\",reason=\"unknown\"}", |n| n == 8)
        .await;
}

#[tokio::test]
async fn other_methods_and_media_types_are_refused() {
    let (_upstream, running) = simple(Default::default()).await;
    let url = running.url("api");
    let get = || running.http.get(&url).header("accept", "text/event-stream");
    let cases = [
        (running.http.delete(&url), 405),
        (running.http.put(&url), 405),
        (get().header("mcp-protocol-version", MODERN), 405),
        (running.http.delete(&url).header("mcp-protocol-version", MODERN), 405),
        (running.http.get(&url).header("accept", "application/json"), 406),
        (running.http.post(&url).body("{}"), 415),
        (running.http.post(&url).header("content-type", "application/json").header("accept", "text/html"), 406),
        (running.post("nothing", "{}"), 404),
        (running.http.get(format!("http://{}/mcp", running.address)), 404),
        (running.http.post(format!("http://{}/", running.address)), 404),
        (running.post("api", "{}").header("origin", "http://evil.example"), 403),
    ];
    for (request, status) in cases {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{response:?}");
        if status == 405 {
            assert!(response.headers().contains_key("allow"));
        }
    }
    let local =
        running.post("api", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).header("origin", "http://localhost:3");
    assert_eq!(local.send().await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn batches_are_answered_where_the_version_has_them() {
    let (_upstream, running) = simple(Default::default()).await;
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read"}},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
        7,
    ]);
    let (status, answers) = read(running.post("api", batch.to_string()).send().await.unwrap()).await;
    assert_eq!(status, 200);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(answers[1]["result"]["structuredContent"]["name"], "x");
    assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&json!(3), &json!(-32600)));
    assert_eq!(answers[3]["error"]["code"], json!(-32600));
    let notifications = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]).to_string();
    assert_eq!(running.post("api", notifications).send().await.unwrap().status().as_u16(), 202);
}

#[tokio::test]
async fn many_calls_share_one_http2_connection() {
    let (upstream, running) = simple(Default::default()).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let calls = (0..50).map(|id| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "read"}});
        let request = client.post(running.url("api")).header("content-type", "application/json");
        let sent = request.body(message.to_string()).send();
        async move {
            let response = sent.await.unwrap();
            assert_eq!(response.version(), reqwest::Version::HTTP_2);
            let (status, answer) = read(response).await;
            assert_eq!((status, &answer["id"]), (200, &json!(id)));
        }
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(upstream.hits(), 50);
}
