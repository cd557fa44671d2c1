//! An answer that contains the credential it was called with is withheld, wherever it stands.

use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use serde_json::json;

use super::support::{Server, TOKEN, call, document, schema};
use crate::upstream::UpstreamError;

fn auth(kind: &str) -> serde_json::Value {
    json!({"type": kind, "name": "text", "credential": {"name": "api", "key": "token"}})
}

#[tokio::test]
async fn an_upstream_that_returns_what_it_was_sent() {
    // As an address that renders text does: `POST /markdown` with the credential as the text.
    let server = Server::start(|seen, _| seen.body.clone()).await;
    let tool = json!({"responseType": "text", "call": {"http": {"method": "POST", "path": "/markdown"}}});
    let error = call(&document(&server.url(), Some(auth("body")), tool), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::CredentialReturned), "{error:?}");
    assert!(error.sent() && error.category() == "credential_returned");
    assert!(!format!("{error} {error:?}").contains(TOKEN));
}

#[tokio::test]
async fn every_way_to_the_caller_is_searched() {
    let base64 = BASE64_STANDARD.encode(format!("me:{TOKEN}"));
    let gzip = {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(format!("{{\"a\":\"{TOKEN}\"}}").as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let link = format!("</?cursor={}>; rel=next", crate::upstream::syntax::encoded(TOKEN));
    let paged = json!({"pagination": {"type": "cursor", "maxPages": 1}, "inputSchema": schema(&["cursor"])});
    let plain = json!({});
    for (what, tool, status, headers, body) in [
        ("a body", &plain, 200, None, format!("{{\"a\":\"{TOKEN}\"}}").into_bytes()),
        ("base64 of what Basic sends", &plain, 200, None, format!("[\"{base64}\"]").into_bytes()),
        ("a compressed body", &plain, 200, Some(("content-encoding", "gzip".to_owned())), gzip),
        ("a body of two megabytes", &plain, 200, None, format!("[\"{}{TOKEN}\"]", "x".repeat(900_000)).into_bytes()),
        ("an error's body", &plain, 403, None, format!("denied for {TOKEN}").into_bytes()),
        (
            "what `extract` leaves out",
            &json!({"call": {"http": {"extract": "a"}}}),
            200,
            None,
            format!("{{\"a\":1,\"b\":\"{TOKEN}\"}}").into_bytes(),
        ),
        ("a header that makes a cursor", &paged, 200, Some(("link", link)), b"[1]".to_vec()),
    ] {
        let server = Server::start(move |_, _| {
            let mut response = body.clone().into_response();
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some((name, value)) = &headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        })
        .await;
        let mut bearer = auth("bearer");
        bearer.as_object_mut().unwrap().remove("name");
        let with = document(&server.url(), Some(bearer), tool.clone());
        let error = call(&with, "{}").await.map(|_| what).unwrap_err();
        assert!(matches!(error, UpstreamError::CredentialReturned), "{what}: {error:?}");
        // Without a credential there is nothing to withhold.
        let without = document(&server.url(), None, tool.clone());
        let answered = call(&without, "{}").await;
        assert!(!matches!(answered, Err(UpstreamError::CredentialReturned)), "{what}");
    }
}

#[tokio::test]
async fn a_header_of_the_manifest_names_no_account_next_to_a_credential() {
    for name in ["Authorization", "authorization", "Cookie"] {
        let tool = json!({"call": {"http": {"method": "POST", "request": {"headers": {name: "Bearer mine"}}}}});
        let invalid = super::support::upstream(&document("https://h", Some(auth("body")), tool.clone())).unwrap_err();
        assert_eq!(invalid.field, format!("tools.call.call.http.request.headers.{name}"));
        assert!(super::support::upstream(&document("https://h", None, tool)).is_ok());
    }
}
