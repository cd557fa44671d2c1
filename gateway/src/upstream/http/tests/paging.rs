//! Pages, over real connections.

use std::time::Duration;

use axum::response::IntoResponse as _;
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{Seen, Server, call, call_within, client, document, schema, within};
use crate::upstream::{Answer, CallBounds, PageReport, UpstreamError};

fn parameter(seen: &Seen, name: &str) -> Option<String> {
    let url: url::Url = format!("http://h{}", seen.target()).parse().unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn number(seen: &Seen, name: &str) -> usize {
    parameter(seen, name).map_or(0, |text| text.parse().unwrap())
}

/// A tool with pagination, `more` merged over its HTTP call.
fn tool(kind: &str, max_pages: u32, more: Value) -> Value {
    let mut http = json!({"path": "/list"});
    http.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "inputSchema": schema(&["q", "limit", "cursor", "offset"]),
        "pagination": {"type": kind, "maxPages": max_pages},
        "call": {"http": http},
    })
}

/// The tool with a cursor at `next_path`.
fn with_next_path(mut tool: Value, next_path: &str) -> Value {
    tool["pagination"]["nextPath"] = json!(next_path);
    tool
}

/// Items `from..to` as a list with room in it, and digits that a parser would change.
fn items(from: usize, to: usize) -> String {
    let all: Vec<_> = (from..to).map(|i| format!(r#"{{"id": {i}.10}}"#)).collect();
    format!("[ {} ]", all.join(" , "))
}

fn ids(answer: &Answer) -> Vec<f64> {
    let list: Vec<Value> = serde_json::from_slice(answer.output.bytes()).unwrap();
    list.iter().map(|item| item["id"].as_f64().unwrap()).collect()
}

fn report(pages: u32, items: usize, total: Option<u64>, next: Option<&str>) -> Option<PageReport> {
    Some(PageReport { pages, items: Some(items), total, next: next.map(str::to_owned) })
}

#[tokio::test]
async fn offsets_are_followed_to_the_end() {
    let server = Server::start(|seen, _| {
        let (from, limit) = (number(seen, "offset"), number(seen, "limit"));
        items(from.min(45), (from + limit).min(45))
    })
    .await;
    let more = json!({"request": {"query": {"q": "{q}"}}});
    let document = document(&server.url(), None, tool("offset", 10, more));
    let answer = call(&document, r#"{"q": "a b"}"#).await.unwrap();
    assert_eq!(ids(&answer), (0..45).map(|i| f64::from(i) + 0.1).collect::<Vec<_>>());
    assert!(answer.output.bytes().starts_with(br#"[{"id": 0.10} , {"id": 1.10}"#), "digits stay");
    assert_eq!((answer.pagination, answer.requests), (report(3, 45, None, None), 3));
    let targets: Vec<_> = server.seen().iter().map(|s| s.target().to_owned()).collect();
    assert_eq!(targets[1], "/list?q=a%20b&limit=20&offset=20");
}

#[tokio::test]
async fn cursors_are_followed_to_the_end() {
    let server = Server::start(|seen, n| {
        let (from, more) = (n * 2, n < 2);
        assert_eq!(parameter(seen, "cursor"), (n > 0).then(|| format!("c={n}&")));
        let next = if more { format!(r#""c={}&""#, n + 1) } else { "null".to_owned() };
        let body =
            format!(r#"{{"ok": true, "messages": {}, "meta": {{"next": {next}, "total": 6}}}}"#, items(from, from + 2));
        ([("x-total", "6")], body)
    })
    .await;
    let tool = with_next_path(tool("cursor", 10, json!({})), "meta.next");
    let answer = call(&document(&server.url(), None, tool), "{}").await.unwrap();
    assert_eq!(ids(&answer), [0.1, 1.1, 2.1, 3.1, 4.1, 5.1]);
    assert_eq!(answer.pagination, report(3, 6, Some(6), None));
}

#[tokio::test]
async fn a_bare_list_is_followed_by_its_link() {
    let server = Server::start(|_, n| {
        let rel = if n == 0 { "next" } else { "last" };
        ([("link", format!(r#"<https://elsewhere.example/list?cursor=z>; rel="{rel}""#))], items(n, n + 1))
    })
    .await;
    let answer = call(&document(&server.url(), None, tool("cursor", 10, json!({}))), "{}").await.unwrap();
    assert_eq!((ids(&answer), answer.pagination), (vec![0.1, 1.1], report(2, 2, None, None)));
    assert_eq!(parameter(&server.seen()[1], "cursor").as_deref(), Some("z"));
}

#[tokio::test]
async fn a_list_below_extract_is_merged() {
    let server = Server::start(|_, n| {
        let next = ["\"x\"", "\"https://h/list?a=1&cursor=y%3D\"", "\"\""][n];
        format!(r#"{{"first": [9], "data": {{"rows": {}}}, "next_cursor": {next}, "total_count": 3}}"#, items(n, n + 1))
    })
    .await;
    let document = document(&server.url(), None, tool("cursor", 10, json!({"extract": "data.rows"})));
    let answer = call(&document, "{}").await.unwrap();
    assert_eq!(ids(&answer), [0.1, 1.1, 2.1]);
    assert_eq!(answer.pagination, report(3, 3, Some(3), None));
    let cursors: Vec<_> = server.seen().iter().map(|s| parameter(s, "cursor")).collect();
    assert_eq!(cursors, [None, Some("x".to_owned()), Some("y=".to_owned())]);
}

#[tokio::test]
async fn the_most_pages_leave_a_continuation() {
    let endless = |seen: &Seen, n: usize| {
        let from = number(seen, "offset");
        format!(r#"{{"items": {}, "next_cursor": "{n}"}}"#, items(from, from + 20))
    };
    let server = Server::start(endless).await;
    let offset = call(&document(&server.url(), None, tool("offset", 3, json!({}))), "{}").await.unwrap();
    assert_eq!(offset.pagination, report(3, 60, None, Some("60")));
    let cursor = call(&document(&server.url(), None, tool("cursor", 2, json!({}))), "{}").await.unwrap();
    assert_eq!(cursor.pagination, report(2, 40, None, Some("4")));
}

#[tokio::test]
async fn the_caller_says_where_to_go_on_and_how_many() {
    let server = Server::start(|seen, _| {
        let (from, limit) = (number(seen, "offset"), number(seen, "limit").min(30));
        ([("x-total-count", "100")], items(from, (from + limit).min(100)))
    })
    .await;
    let constant = json!({"request": {"query": {"limit": "25"}}});
    let places = json!({"request": {"query": {"limit": "{limit}", "offset": "{offset}"}}, "defaults": {"limit": 25}});
    for more in [json!({"defaults": {"limit": 25}}), places, constant] {
        let document = document(&server.url(), None, tool("offset", 2, more));
        let answer = call(&document, r#"{"offset": 40}"#).await.unwrap();
        assert_eq!(answer.pagination, report(2, 50, Some(100), Some("90")));
        let answer = call(&document, r#"{"limit": 5, "offset": 40}"#).await.unwrap();
        assert_eq!(answer.pagination, report(1, 5, Some(100), Some("45")));
        let answer = call(&document, r#"{"limit": 50, "offset": 80}"#).await.unwrap();
        assert_eq!(answer.pagination, report(2, 20, Some(100), None));
        let error = call(&document, r#"{"limit": "many"}"#).await.unwrap_err();
        assert_eq!(error.to_string(), "argument `limit` is not a whole number, as a page size must be");
    }
    assert_eq!(server.seen().last().unwrap().target(), "/list?limit=50&offset=100");
}

#[tokio::test]
async fn arguments_of_other_names_can_page() {
    let server = Server::start(|seen, _| items(0, number(seen, "limit"))).await;
    let tool = json!({
        "inputSchema": schema(&["count", "after"]),
        "pagination": {"type": "offset", "maxPages": 3},
        "call": {"http": {
            "defaults": {"count": 30}, "request": {"query": {"limit": "{count}", "offset": "{after}"}},
        }},
    });
    let document = document(&server.url(), None, tool);
    let answer = call(&document, r#"{"count": 4, "after": 8}"#).await.unwrap();
    assert_eq!(answer.pagination, report(1, 4, None, Some("12")));
    let answer = call(&document, "{}").await.unwrap();
    assert_eq!(answer.pagination, report(3, 90, None, Some("90")));
}

#[tokio::test]
async fn time_keeps_what_came() {
    // Made before the clock runs.
    client();
    let server = Server::start(|seen, n| {
        let body = items(number(seen, "offset"), number(seen, "offset") + 20);
        let pieces = async_body(body, if n % 3 == 2 { Duration::from_secs(30) } else { Duration::ZERO });
        axum::body::Body::from_stream(pieces)
    })
    .await;
    let document = document(&server.url(), None, tool("offset", 10, json!({})));
    let answer = call_within(&document, "{}", within(Duration::from_millis(1_500), 1 << 20)).await.unwrap();
    assert_eq!((ids(&answer).len(), answer.pagination), (40, report(2, 40, None, Some("40"))));
}

#[tokio::test]
async fn too_many_bytes_are_an_error_on_any_page() {
    // What is between the pages differs in a member that a filter removes: where the pages end must not tell it.
    for (hidden, limit) in [(0, 100), (0, 1_000), (2_000, 2_500)] {
        let server = Server::start(move |seen, _| {
            let from = number(seen, "offset");
            format!(r#"{{"rows": {}, "hidden": "{}"}}"#, items(from, from + 20), "x".repeat(hidden))
        })
        .await;
        let document = document(&server.url(), None, tool("offset", 10, json!({"extract": "rows"})));
        let error = call_within(&document, "{}", within(Duration::from_secs(20), limit)).await.unwrap_err();
        assert!(matches!(error, UpstreamError::TooLarge { limit: told } if told == limit), "{error:?}");
        let pages = server.seen().len();
        assert!(if limit == 100 { pages == 1 } else { pages > 1 }, "{pages}");
    }
}

#[tokio::test]
async fn a_stated_total_does_not_steer() {
    // The two differ in `meta` and in a header only.
    let mut seen = Vec::new();
    for total in [20, 21] {
        let server = Server::start(move |seen, _| {
            let from = number(seen, "offset");
            let rows = items(from.min(20), (from + 20).min(20));
            ([("x-total", total.to_string())], format!(r#"{{"items": {rows}, "meta": {{"total": {total}}}}}"#))
        })
        .await;
        let answer = call(&document(&server.url(), None, tool("offset", 10, json!({}))), "{}").await.unwrap();
        let report = answer.pagination.unwrap();
        let targets: Vec<_> = server.seen().iter().map(|seen| seen.target().to_owned()).collect();
        seen.push((answer.output.bytes().clone(), report.pages, report.items, report.next, targets));
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn an_undeclared_cursor_steers_only_where_detection_is_allowed() {
    for (detect, declared, pages) in [(true, false, 2), (false, false, 1), (true, true, 2), (false, true, 2)] {
        let server = Server::start(|_, n| match n {
            0 => r#"{"rows": [1], "next_cursor": "a"}"#,
            _ => r#"{"rows": [2]}"#,
        })
        .await;
        let mut tool = tool("cursor", 10, json!({"extract": "rows"}));
        if declared {
            tool = with_next_path(tool, "next_cursor");
        }
        let document = document(&server.url(), None, tool);
        let bounds = CallBounds { detect_list: detect, ..within(Duration::from_secs(20), 1 << 20) };
        let answer = call_within(&document, "{}", bounds).await.unwrap();
        assert_eq!(answer.pagination.unwrap().pages, pages, "{detect} {declared}");
    }
}

fn async_body(
    text: String,
    wait: Duration,
) -> impl futures_util::Stream<Item = Result<String, std::io::Error>> + Send + 'static {
    futures_util::stream::once(async move {
        tokio::time::sleep(wait).await;
        Ok(text)
    })
}

#[tokio::test]
async fn loops_and_odd_pages_end() {
    // The same cursor for ever.
    let server = Server::start(|_, _| r#"{"items": [1], "next_cursor": "same"}"#).await;
    let answer = call(&document(&server.url(), None, tool("cursor", 100, json!({}))), "{}").await.unwrap();
    assert_eq!((answer.output.bytes().as_ref(), server.seen().len()), (b"[1,1]".as_slice(), 2));
    // A last page without its list.
    let server = Server::start(|_, n| match n {
        0 => r#"{"rows": [1, 2], "next_cursor": "a"}"#,
        _ => r#"{"rows": null, "others": [3], "next_cursor": "b"}"#,
    })
    .await;
    let answer = call(&document(&server.url(), None, tool("cursor", 100, json!({}))), "{}").await.unwrap();
    assert_eq!((answer.output.bytes().as_ref(), answer.pagination), (b"[1, 2]".as_slice(), report(2, 2, None, None)));
    // Nothing to merge.
    for body in [r#"{"id": 1}"#, "7", ""] {
        let server = Server::start(move |_, _| body).await;
        let answer = call(&document(&server.url(), None, tool("cursor", 100, json!({}))), "{}").await.unwrap();
        assert_eq!((answer.output.bytes().as_ref(), answer.pagination), (body.as_bytes(), None));
    }
    // An empty list.
    let server = Server::start(|_, _| "[ ]").await;
    let answer = call(&document(&server.url(), None, tool("offset", 100, json!({}))), "{}").await.unwrap();
    assert_eq!((answer.output.bytes().as_ref(), answer.pagination), (b"[]".as_slice(), report(1, 0, None, None)));
    // Not JSON.
    for body in ["[1,]", "{\"a\": [1}"] {
        let server = Server::start(move |_, _| body).await;
        let error = call(&document(&server.url(), None, tool("offset", 100, json!({}))), "{}").await.unwrap_err();
        assert!(matches!(error, UpstreamError::Malformed(_)), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn an_error_on_a_later_page_is_the_result() {
    let server = Server::start(|seen, n| {
        if n == 0 { items(0, number(seen, "limit")).into_response() } else { StatusCode::FORBIDDEN.into_response() }
    })
    .await;
    let error = call(&document(&server.url(), None, tool("offset", 10, json!({}))), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Status { status: 403, .. }));
}

#[tokio::test]
async fn a_position_makes_no_url_longer_than_other_arguments_may() {
    // What the server has been sent stays short, so what it names is long.
    for (kind, argument) in [("cursor", "cursor"), ("offset", "offset")] {
        let server = Server::start(|_, _| items(0, 1)).await;
        let document = document(&server.url(), None, tool(kind, 3, json!({})));
        let longest = 60_000 - format!("{}/list?limit=20&{argument}=", server.url()).len();
        for (length, sent) in [(longest, true), (longest + 1, false), (70_000, false), (1_000_000, false)] {
            let arguments = json!({argument: "9".repeat(length)}).to_string();
            let before = server.seen().len();
            let result = call(&document, &arguments).await;
            assert_eq!(server.seen().len() - before, usize::from(sent), "{kind} {length}");
            let expected = format!("argument `{argument}` makes the request longer than 60000 bytes");
            assert_eq!(result.err().map(|e| e.to_string()), (!sent).then_some(expected), "{kind} {length}");
        }
    }
}

#[tokio::test]
async fn a_cursor_of_the_upstream_makes_no_longer_url_either() {
    // Pages that may be fetched, and bytes of the cursor.
    for (max_pages, length, fails) in [(1, 59_000, false), (2, 59_000, false), (1, 61_000, true), (3, 61_000, true)] {
        let server =
            Server::start(move |_, _| format!(r#"{{"items": [1], "next_cursor": "{}"}}"#, "c".repeat(length))).await;
        let tool = with_next_path(tool("cursor", max_pages, json!({})), "next_cursor");
        let document = document(&server.url(), None, tool);
        let result = call(&document, "{}").await;
        if fails {
            let error = result.unwrap_err();
            assert_eq!(
                error.to_string(),
                "the upstream's answer names a next page whose URL is longer than 60000 bytes"
            );
            assert_eq!(server.seen().len(), 1, "{max_pages}");
        } else {
            assert_eq!(result.unwrap().requests, max_pages, "{length}");
        }
    }
}
