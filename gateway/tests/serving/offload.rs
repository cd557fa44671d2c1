//! Work that would hold up a serving thread leaves it, and gives the same answers there.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tamis_engine::Enforcement::Advisory;

use crate::support::{Running, Upstream, exposition, options, read, service, snapshot, start, tool};

/// How much work of each kind has left the serving threads.
async fn offloaded(running: &Running) -> BTreeMap<String, u64> {
    let text = running.admin("/metrics").await.1;
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("tamis_offloaded_work_total{work=\"")?.split_once("\"} "));
    lines.map(|(kind, count)| (kind.to_owned(), count.parse().unwrap())).collect()
}

async fn gateway() -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    let mut paged = tool("/paged");
    paged["pagination"] = json!({"type": "cursor", "maxPages": 5, "nextPath": "next"});
    let mut part = tool("/part");
    part["call"]["http"]["extract"] = json!("a.b");
    let mut write = tool("/write");
    write["inputSchema"] = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    write["call"]["http"]["request"] = json!({});
    let service = service(&upstream.base, &json!({"doc": tool("/doc"), "paged": paged, "part": part, "write": write}));
    let tools = [("doc", None), ("paged", None), ("part", None), ("write", None)];
    let running = start(options()).await;
    assert_eq!(running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &tools)])).failed, []);
    (upstream, running)
}

#[tokio::test]
async fn heavy_work_leaves_the_serving_threads_and_light_work_stays() {
    let (upstream, running) = gateway().await;
    let list = |items: usize| json!(vec![json!({"name": "a \"quoted\" name\n"}); items]);
    let objects = |items: usize| json!({"items": list(items)});
    let long = "x".repeat(60 << 10);
    // Escaped, they take twice the space.
    let quotes = json!({"text": "\"".repeat(60_000)});
    /// Tool, argument, what the upstream answers, the output, and what leaves.
    type Case<'t> = (&'t str, Option<&'t str>, Value, Value, &'t [&'t str]);
    let cases: [Case<'_>; 8] = [
        ("doc", None, objects(10), objects(10), &[]),
        ("doc", None, quotes.clone(), quotes, &["answer"]),
        ("doc", None, objects(20_000), objects(20_000), &["answer", "filter"]),
        ("part", None, json!({"a": {"b": [1]}, "c": "x"}), json!([1]), &[]),
        ("part", None, json!({"a": {"b": [1]}, "c": long}), json!([1]), &["upstream"]),
        ("write", Some("short"), json!({}), json!({}), &[]),
        ("write", Some(&long), json!({}), json!({}), &["arguments", "request"]),
        ("paged", None, json!({"items": list(1_200), "next": null}), list(1_200), &["upstream"]),
    ];
    for (tool, argument, answered, output, expected) in cases {
        upstream.json(&format!("/{tool}"), answered.to_string());
        let before = offloaded(&running).await;
        assert_eq!(before.len(), 5, "each kind is there from the start: {before:?}");
        let arguments = argument.map_or(json!({}), |text| json!({"text": text}));
        let result = running.call("api", tool, arguments).await;
        let case = format!("{tool} {} {}", argument.map_or(0, str::len), answered.to_string().len());
        assert_eq!(result["isError"], json!(false), "{case}");
        let got: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert!(got == output, "{case}");
        let after = offloaded(&running).await;
        let left: Vec<_> = after.iter().filter(|(kind, count)| **count > before[*kind]).map(|(kind, _)| kind).collect();
        assert_eq!(left, expected, "{case}");
    }
}

#[tokio::test]
async fn pages_are_merged_off_the_serving_threads() {
    let (upstream, running) = gateway().await;
    let item = "x".repeat(1_000);
    let page = |next: Value| json!({"items": vec![json!(item); 300], "next": next}).to_string();
    upstream.json("/paged?limit=20", page(json!("b")));
    upstream.json("/paged?limit=20&cursor=b", page(Value::Null));
    let result = running.call("api", "paged", json!({})).await;
    assert_eq!(result["structuredContent"]["result"].as_array().map(Vec::len), Some(600), "{}", result["content"]);
    assert_eq!(result["structuredContent"]["_pagination"]["pages"], json!(2));
    let offloaded = offloaded(&running).await;
    assert_eq!(offloaded["upstream"], 3, "two pages, and the list of them: {offloaded:?}");
    assert!(offloaded["filter"] > 0 && offloaded["answer"] == 2, "{offloaded:?}");
}

#[tokio::test]
async fn messages_of_a_batch_leave_each_by_its_own_size() {
    let (upstream, running) = gateway().await;
    let document = json!("x".repeat(300 << 10));
    upstream.json("/doc", document.to_string());
    upstream.json("/write", "{}");
    let message = |id: usize, tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let long = "y".repeat(40 << 10);
    let batch = json!([
        message(1, "doc", json!({})),
        message(2, "write", json!({"text": long})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 4, "method": long},
    ]);
    let request = running.post("api", batch.to_string()).header("mcp-protocol-version", "2025-03-26");
    let (status, answers) = read(request.send().await.unwrap()).await;
    assert_eq!(status, 200, "{answers}");
    assert_eq!(answers[0]["result"]["content"][0]["text"], json!(document.to_string()));
    let rest: Vec<_> = answers.as_array().unwrap()[1..].iter().map(|a| (&a["id"], &a["error"]["code"])).collect();
    assert_eq!(rest, [(&json!(2), &Value::Null), (&json!(3), &json!(-32600)), (&json!(4), &json!(-32601))]);
    let offloaded = offloaded(&running).await;
    // The batch and two of its messages; the large answer is written there, and the answers are joined without copying.
    assert_eq!((offloaded["request"], offloaded["answer"]), (3, 1), "{offloaded:?}");
}
