//! Calls over a real connection.

use serde_json::json;

use super::support::{Server, TOKEN, call, document, schema};

fn bearer() -> Option<serde_json::Value> {
    Some(json!({"type": "bearer", "credential": {"name": "github", "key": "token"}}))
}

#[tokio::test]
async fn a_get_has_its_path_query_and_bearer() {
    let server = Server::start(|_, _| r#"[{"id": 12345678901234567890, "price": 1.10}]"#).await;
    let tool = json!({
        "inputSchema": schema(&["owner", "state", "labels", "page"]),
        "http": {
            "path": "/repos/{owner}/issues", "defaults": {"state": "open"},
            "request": {"query": {"state": "{state}", "labels": "{labels}", "page": "{page}"}},
        },
    });
    let document = document(&format!("{}/api/v1/", server.url()), bearer(), tool);
    let answer = call(&document, r#"{"owner": "o w/n", "labels": ["a b", "c&d"]}"#).await.unwrap();
    assert_eq!(answer.body, r#"[{"id": 12345678901234567890, "price": 1.10}]"#);
    assert!(answer.is_json);
    assert_eq!((answer.status, answer.requests), (200, 1));
    let seen = server.only();
    assert_eq!(seen.target(), "/api/v1/repos/o%20w%2Fn/issues?state=open&labels=a%20b&labels=c%26d");
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(seen.header("user-agent"), Some(concat!("tamis/", env!("CARGO_PKG_VERSION"))));
}
