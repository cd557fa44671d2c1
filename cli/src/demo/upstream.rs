//! The sample upstream: a real HTTP server that answers at the real paths of three APIs with the payloads in
//! `examples/payloads/`, byte for byte. Query parameters change nothing.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::value::RawValue;
use tokio::net::TcpListener;

/// The token that the demo's gateway sends to Notion and Slack.
pub(super) const TOKEN: &str = "demo-token";

const REPOS: &str = include_str!("../../../examples/payloads/github-list-repos.json");
const ISSUES: &str = include_str!("../../../examples/payloads/github-list-issues.json");
const DATABASE: &str = include_str!("../../../examples/payloads/notion-query-database.json");
const HISTORY: &str = include_str!("../../../examples/payloads/slack-channel-history.json");

/// The last body that was sent, which the demo compares with the model's.
#[derive(Debug, Clone, Default)]
pub(super) struct LastAnswer(Arc<Mutex<String>>);

impl LastAnswer {
    pub(super) fn body(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send(&self, status: StatusCode, body: &str) -> Response {
        body.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body.to_owned()).into_response()
    }
}

/// Serves until the task is dropped.
pub(super) async fn serve(listener: TcpListener, last: LastAnswer) -> anyhow::Result<()> {
    axum::serve(listener, router(last)).await.context("the sample upstream stopped")
}

fn router(last: LastAnswer) -> Router {
    Router::new()
        .route(
            "/users/{username}/repos",
            get(|State(last): State<LastAnswer>| async move { last.send(StatusCode::OK, REPOS) }),
        )
        .route(
            "/repos/{owner}/{repo}/issues",
            get(|State(last): State<LastAnswer>| async move { last.send(StatusCode::OK, ISSUES) }),
        )
        .route("/repos/{owner}/{repo}/issues/{number}", get(issue))
        .route("/v1/databases/{id}/query", post(database))
        .route("/api/conversations.history", get(history))
        .with_state(last)
}

async fn issue(State(last): State<LastAnswer>, Path((_, _, number)): Path<(String, String, u64)>) -> Response {
    #[derive(serde::Deserialize)]
    struct Issue {
        number: u64,
    }
    let all: Vec<&RawValue> = serde_json::from_str(ISSUES).unwrap_or_default();
    let found = all.iter().find(|raw| serde_json::from_str::<Issue>(raw.get()).is_ok_and(|i| i.number == number));
    match found {
        Some(issue) => last.send(StatusCode::OK, issue.get()),
        None => last.send(StatusCode::NOT_FOUND, r#"{"message": "Not Found", "status": "404"}"#),
    }
}

async fn database(State(last): State<LastAnswer>, headers: HeaderMap) -> Response {
    if authorised(&headers) {
        last.send(StatusCode::OK, DATABASE)
    } else {
        let body = r#"{"object": "error", "status": 401, "code": "unauthorized", "message": "API token is invalid."}"#;
        last.send(StatusCode::UNAUTHORIZED, body)
    }
}

// Slack reports its errors with status 200.
async fn history(State(last): State<LastAnswer>, headers: HeaderMap) -> Response {
    last.send(StatusCode::OK, if authorised(&headers) { HISTORY } else { r#"{"ok": false, "error": "not_authed"}"# })
}

fn authorised(headers: &HeaderMap) -> bool {
    headers.get(header::AUTHORIZATION).is_some_and(|value| value == format!("Bearer {TOKEN}").as_str())
}
