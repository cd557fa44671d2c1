//! A server of the modern era whose tools can be changed while it runs.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour {
    /// The JSON of each tool that it lists, a page each.
    pub(crate) tools: Vec<String>,
    /// The text that every call answers with.
    pub(crate) answer: String,
    /// Further content blocks of each answer, as JSON after a comma.
    pub(crate) more: String,
    /// Whether every call fails.
    pub(crate) fails: bool,
    /// The bearer token that every request must carry.
    pub(crate) token: Option<String>,
    /// Whether its list begins again at the end.
    pub(crate) endless: bool,
    /// Whether its list never ends, with a new cursor for each page.
    pub(crate) unbounded: bool,
    /// Where it redirects every request.
    pub(crate) redirect: Option<String>,
    /// What it answers to `server/discover` in place of JSON.
    pub(crate) page: Option<String>,
    /// What it asks the caller for before it answers a call, as the JSON of `inputRequests`. The answer is then the caller's.
    pub(crate) asks: Option<String>,
    /// Bytes of white space before each answer.
    pub(crate) padding: usize,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    behaviour: Arc<Mutex<Behaviour>>,
    /// Its endpoint.
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts it on a free port of loopback.
    pub(crate) async fn start(behaviour: Behaviour) -> Result<Self> {
        let behaviour = Arc::new(Mutex::new(behaviour));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let app = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&behaviour));
        let task = tokio::spawn(async move {
            // Ends with the test.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { behaviour, url, task })
    }

    /// Changes what it does from the next request on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().expect("is not poisoned"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the JSON of a tool whose calls change nothing.
pub(crate) fn tool(name: &str, description: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object","properties":{{"n":{{"maximum":1.10}}}}}},"annotations":{{"readOnlyHint":true}},"icons":[]}}"#
    )
}

async fn answer(State(behaviour): State<Arc<Mutex<Behaviour>>>, headers: HeaderMap, body: Bytes) -> Response {
    let behaviour = behaviour.lock().expect("is not poisoned").clone();
    if let Some(to) = behaviour.redirect {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response();
    }
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if behaviour.token.is_some_and(|token| sent != Some(&*format!("Bearer {token}"))) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(message) = serde_json::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    let Some(id) = message.get("id").filter(|id| !id.is_null()) else { return StatusCode::ACCEPTED.into_response() };
    let fresh = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" if behaviour.page.is_some() => {
            return behaviour.page.unwrap_or_default().into_response();
        }
        "initialize" => {
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"6"}}"#
                .to_owned()
        }
        "server/discover" => format!(
            r#"{{{fresh},"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"fixture","version":"7"}}}}"#
        ),
        "tools/list" => {
            let page: usize = message["params"]["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
            let tool = behaviour.tools.get(page).map_or("", String::as_str);
            let next = if page + 1 < behaviour.tools.len() || behaviour.unbounded {
                format!(r#","nextCursor":"{}""#, page + 1)
            } else if behaviour.endless {
                r#","nextCursor":"0""#.to_owned()
            } else {
                String::new()
            };
            format!(r#"{{{fresh},"tools":[{tool}]{next}}}"#)
        }
        "tools/call" if behaviour.asks.is_some() && message["params"].get("requestState").is_none() => {
            let asks = behaviour.asks.unwrap_or_default();
            format!(r#"{{"resultType":"input_required","inputRequests":{asks},"requestState":"s-1"}}"#)
        }
        "tools/call" => {
            let text = match behaviour.asks {
                Some(_) => json!(message["params"]["inputResponses"].to_string()),
                None => json!(behaviour.answer),
            };
            let (more, fails) = (&behaviour.more, behaviour.fails);
            format!(
                r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}{more}],"isError":{fails},"_meta":{{"x":"meta-secret"}}}}"#
            )
        }
        _ => {
            let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}});
            return (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "application/json")], error.to_string())
                .into_response();
        }
    };
    let padding = " ".repeat(behaviour.padding);
    let text = format!(r#"{padding}{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
