//! Where redirects may lead, and what they take along.

use std::num::NonZero;
use std::sync::Arc;

use axum::response::IntoResponse as _;
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{Seen, Server, TOKEN, arguments, bounds, call, context, document, given, room, schema};
use crate::upstream::{Client, ClientOptions, EgressPolicy, Upstream, UpstreamError};

fn to(status: u16, location: &str) -> axum::response::Response {
    (StatusCode::from_u16(status).unwrap(), [("location", location)], "moved").into_response()
}

fn ok() -> axum::response::Response {
    r#"{"there": true}"#.into_response()
}

/// Calls with a client whose egress says that any server on loopback may be redirected to.
async fn call_across(document: &tamis_config::ServiceDocument) -> Result<crate::upstream::Answer, UpstreamError> {
    let egress = EgressPolicy { allow: vec!["127.0.0.0/8".parse().unwrap()], ..EgressPolicy::standalone() };
    let client =
        Arc::new(Client::new(ClientOptions { egress, ..ClientOptions::default() }, NonZero::<usize>::MIN).unwrap());
    Upstream::new(&Arc::new(document.clone()), client)
        .unwrap()
        .call("call", &arguments("{}"), context(bounds(), given(), &mut room()))
        .await
}

fn credential(kind: &str, name: Option<&str>) -> Option<Value> {
    Some(json!({"type": kind, "name": name, "credential": {"name": "n", "key": "k"}}))
}

fn assert_no_secret(seen: &Seen) {
    let all = format!("{seen:?}");
    assert!(!all.contains("s3cr3t") && !all.contains("Basic") && !all.contains("private"), "{all}");
}

#[tokio::test]
async fn another_origin_gets_no_credential_and_no_header() {
    for (kind, name) in
        [("bearer", None), ("header", Some("X-Key")), ("basic", None), ("query", Some("key")), ("body", Some("k"))]
    {
        let other = Server::start(|_, _| ok()).await;
        let target = format!("{}/there", other.url());
        let server = Server::start(move |seen, _| {
            // As servers do that only mend the host: with the query as it came.
            let query = seen.uri.query().map(|q| format!("?{q}")).unwrap_or_default();
            to(302, &format!("{target}{query}"))
        })
        .await;
        let http = json!({"path": "/here", "request": {"query": {"q": "1"}, "headers": {"X-Custom": "private", "X-Session": "private"}}});
        let answer = call_across(&document(&server.url(), credential(kind, name), json!({"call": {"http": http}})))
            .await
            .unwrap();
        assert_eq!((answer.output.bytes().as_ref(), answer.requests), (br#"{"there": true}"#.as_slice(), 2));
        assert!(format!("{:?}", server.only()).contains("private"));
        let seen = other.only();
        assert_eq!((seen.target(), seen.body.len()), ("/there?q=1", 0), "{kind}");
        assert_no_secret(&seen);
        assert_eq!(seen.header("referer"), None);
    }
}

#[tokio::test]
async fn a_credential_in_the_query_goes_however_the_upstream_spells_it() {
    let other = Server::start(|_, _| ok()).await;
    let target = other.url();
    let server = Server::start(move |_, _| {
        to(302, &format!("{target}/there?a=1&api+key=x&token=s3cr3t-t0ken/%2b%26=&%61pi%20key&b=2"))
    })
    .await;
    let document = document(&server.url(), credential("query", Some("api key")), json!({}));
    call_across(&document).await.unwrap();
    assert_eq!(other.only().target(), "/there?a=1&b=2");
}

#[tokio::test]
async fn the_way_back_has_no_credential_either() {
    let home = Arc::new(std::sync::OnceLock::<String>::new());
    let back = Arc::clone(&home);
    let other = Server::start(move |_, _| to(302, &format!("{}/back", back.get().unwrap()))).await;
    let away = other.url();
    let server = Server::start(move |seen, _| if seen.uri.path() == "/back" { ok() } else { to(302, &away) }).await;
    home.set(server.url()).unwrap();
    for (kind, name) in [("bearer", None), ("query", Some("key"))] {
        call_across(&document(&server.url(), credential(kind, name), json!({}))).await.unwrap();
        assert_no_secret(server.seen().last().unwrap());
        assert_no_secret(other.seen().last().unwrap());
    }
}

#[tokio::test]
async fn the_same_origin_gets_everything_again() {
    for (kind, name) in [("bearer", None), ("query", Some("key"))] {
        let server = Server::start(|seen, _| match seen.uri.path() {
            "/0" => to(307, "/1?page=2"),
            _ => ok(),
        })
        .await;
        let http = json!({
            "method": "POST", "path": "/0",
            "request": {"headers": {"X-Custom": "private"}, "body": {"x": 1}},
        });
        let document = document(&server.url(), credential(kind, name), json!({"call": {"http": http}}));
        call(&document, "{}").await.unwrap();
        let seen = &server.seen()[1];
        assert_eq!((seen.method.as_str(), seen.body.as_ref()), ("POST", br#"{"x":1}"#.as_slice()));
        assert_eq!(seen.header("x-custom"), Some("private"));
        let (bearer, query) = (format!("Bearer {TOKEN}"), "/1?page=2&key=s3cr3t-t0ken%2F%2B%26%3D");
        let expected = if kind == "bearer" { (Some(&*bearer), "/1?page=2") } else { (None, query) };
        assert_eq!((seen.header("authorization"), seen.target()), expected);
    }
}

#[tokio::test]
async fn what_a_write_may_follow() {
    // Status, whether to another origin, and what comes of it.
    let table = [
        (301, false, None),
        (302, false, None),
        (303, false, Some("GET")),
        (307, false, Some("POST")),
        (308, false, Some("POST")),
        (303, true, None),
        (307, true, None),
        (308, true, None),
    ];
    for (status, leaves, expected) in table {
        let other = Server::start(|_, _| ok()).await;
        let target = if leaves { other.url() } else { "/next".to_owned() };
        let server = Server::start(move |_, n| if n == 0 { to(status, &target) } else { ok() }).await;
        let http = json!({"method": "POST", "path": "/0", "request": {"body": {"x": 1}}});
        let result =
            call(&document(&server.url(), credential("bearer", None), json!({"call": {"http": http}})), "{}").await;
        assert_eq!(other.seen().len(), 0);
        match expected {
            Some(method) => {
                result.unwrap();
                let seen = &server.seen()[1];
                let body = if method == "GET" { (0, None) } else { (7, Some("application/json")) };
                assert_eq!((seen.method.as_str(), (seen.body.len(), seen.header("content-type"))), (method, body));
            }
            None => {
                let error = result.unwrap_err();
                assert!(matches!(error, UpstreamError::Unreachable { reason: "redirect", sent: true }), "{status}");
                assert_eq!(server.seen().len(), 1);
            }
        }
    }
}

#[tokio::test]
async fn five_are_followed() {
    for (hops, followed) in [(5, true), (6, false)] {
        let server = Server::start(move |_, n| if n < hops { to(302, &format!("/{n}")) } else { ok() }).await;
        let result = call(&document(&server.url(), None, json!({})), "{}").await;
        assert_eq!((result.is_ok(), server.seen().len()), (followed, 6), "{hops}");
    }
}

#[tokio::test]
async fn what_is_no_target_is_not_followed() {
    for location in ["ftp://h/", "file:///etc/passwd", "https://user:pass@h/", "http://", "javascript:1"] {
        let server = Server::start(move |_, _| to(302, location)).await;
        let error = call(&document(&server.url(), None, json!({})), "{}").await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "redirect", .. }), "{location}: {error:?}");
    }
    // Without a target it is a status like any other.
    let server = Server::start(|_, _| StatusCode::FOUND).await;
    let error = call(&document(&server.url(), None, json!({})), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Status { status: 302, .. }));
}

#[tokio::test]
async fn egress_is_checked_at_every_hop() {
    for target in
        ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[fe80::1]/", "http://0.0.0.0/"]
    {
        let server = Server::start(move |_, _| to(302, target)).await;
        let error = call(&document(&server.url(), None, json!({})), "{}").await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "egress", sent: true }), "{target}: {error:?}");
    }
}

#[tokio::test]
async fn loopback_does_not_lead_to_another_port_of_loopback() {
    // An admin port, say: what it answers would come back as the tool's output.
    let admin = Server::start(|_, _| ok()).await;
    for host in ["127.0.0.1", "localhost", "[::1]", "127.0.0.2"] {
        let location = format!("http://{host}:{}/metrics", admin.address.port());
        let server = Server::start(move |_, _| to(302, &location)).await;
        let error = call(&document(&server.url(), None, json!({})), "{}").await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "egress", sent: true }), "{host}: {error:?}");
    }
    assert_eq!(admin.seen().len(), 0);
}

#[tokio::test]
async fn nothing_else_leads_to_loopback() {
    // The host has an address on loopback, but the manifest's name does not say so.
    let target = Server::start(|_, _| ok()).await;
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let location = format!("http://{host}:{}/", target.address.port());
        let server = Server::start(move |_, _| to(302, &location)).await;
        // 0.0.0.0 reaches loopback on Linux without being loopback: it stands for an address that was allowed.
        let url = format!("http://0.0.0.0:{}", server.address.port());
        let egress = EgressPolicy { allow: vec!["0.0.0.0".parse().unwrap()], ..EgressPolicy::standalone() };
        let client =
            Arc::new(Client::new(ClientOptions { egress, ..ClientOptions::default() }, NonZero::<usize>::MIN).unwrap());
        let upstream = Upstream::new(&Arc::new(document(&url, None, json!({}))), client).unwrap();
        let error = upstream.call("call", &arguments("{}"), context(bounds(), given(), &mut room())).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "egress", sent: true }), "{host}: {error:?}");
    }
    assert_eq!(target.seen().len(), 0);
}

#[tokio::test]
async fn arguments_stay_where_they_were() {
    let server = Server::start(|seen, n| if n == 0 { to(301, &format!("/v2{}", seen.target())) } else { ok() }).await;
    let tool =
        json!({"inputSchema": schema(&["a"]), "call": {"http": {"path": "/{a}", "request": {"query": {"q": "{a}"}}}}});
    call(&document(&server.url(), None, tool), r#"{"a": "x+y&z"}"#).await.unwrap();
    assert_eq!(server.seen()[1].target(), "/v2/x%2By%26z?q=x%2By%26z");
}

#[tokio::test]
async fn a_redirect_to_a_url_that_is_too_long_is_refused_and_nothing_is_repeated() {
    // The second is longer than a response's head may be, the last one just fits a request.
    for (length, expected) in [
        (60_001, Some("the upstream could not be reached: redirect")),
        (200_000, Some("the upstream's answer has more than 128 headers, or more than 65536 bytes of them")),
        (60_000, None),
    ] {
        let server = Server::start(move |seen, n| match n {
            0 => {
                let begin = format!("http://{}/", seen.header("host").unwrap());
                to(302, &format!("{begin}{}", "a".repeat(length - begin.len())))
            }
            _ => ok(),
        })
        .await;
        let result = call(&document(&server.url(), None, json!({})), "{}").await;
        assert_eq!(result.err().map(|error| error.to_string()).as_deref(), expected, "{length}");
        assert_eq!(server.seen().len(), if expected.is_some() { 1 } else { 2 }, "{length}");
    }
}
