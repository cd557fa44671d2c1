//! One API, over HTTP, GraphQL, gRPC and MCP: each answers with the same document, and tells what it has received.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tamis_tests::grpc::{GrpcServer, Reply};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Status;

/// What the backend says with an error. Callers under `Enforced` never see it.
pub(super) const PRIVATE: &str = "PRIVATE detail of the backend";

/// The document of an item, as every source can write it: gRPC has no way to say `1.10`, and writes 64-bit integers as strings.
pub(super) fn item(id: &str) -> String {
    let note = if id == "large" { "x".repeat(20_000) } else { "café".to_owned() };
    format!(
        r#"{{"id":"{id}","title":"Item {id}","count":1234567890,"price":1.5,"secret":"PRIVATE","note":"{note}","tags":[{{"name":"a","color":"f00"}},{{"name":"b","color":"0f0"}}]}}"#
    )
}

/// The same API over gRPC.
pub(super) const PROTO: &str = r#"syntax = "proto3";
package shop;
service Items {
  // One item.
  rpc Item(ItemRequest) returns (ItemReply);
}
message ItemRequest { string id = 1; }
message ItemReply {
  string id = 1;
  string title = 2;
  int32 count = 3;
  double price = 4;
  string secret = 5;
  string note = 6;
  repeated Tag tags = 7;
}
message Tag {
  string name = 1;
  string color = 2;
}
"#;

/// What the backend does for an identifier.
enum Behaviour {
    Answer,
    Fail,
    Refuse,
}

#[derive(Default)]
struct Seen {
    headers: Vec<HeaderMap>,
    flaky: usize,
}

type Shared = Arc<Mutex<Seen>>;

fn lock(seen: &Shared) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `slow` answers late.
async fn behaviour(seen: &Shared, id: &str) -> Behaviour {
    if id == "slow" {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    at_once(seen, id)
}

/// `broken` fails always, and `flaky` fails the first time.
fn at_once(seen: &Shared, id: &str) -> Behaviour {
    match id {
        "broken" => Behaviour::Fail,
        "flaky" => {
            let mut seen = lock(seen);
            seen.flaky += 1;
            if seen.flaky == 1 { Behaviour::Refuse } else { Behaviour::Answer }
        }
        _ => Behaviour::Answer,
    }
}

/// A running backend; it stops when dropped.
pub(super) struct Backend {
    /// `http://ADDRESS:PORT`.
    pub(super) url: String,
    /// `http://ADDRESS:PORT` of the gRPC server.
    pub(super) grpc: String,
    seen: Shared,
    server: JoinHandle<()>,
    methods: GrpcServer,
}

impl Backend {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen = Shared::default();
        let handler = Handler(Arc::clone(&seen));
        let shared = Arc::clone(&seen);
        let methods = GrpcServer::start(PROTO, move |_, message| method(&shared, message)).await?;
        let mcp = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(LocalSessionManager::default()),
            StreamableHttpServerConfig::default(),
        );
        let router = Router::new()
            .route("/api/items/{id}", get(http))
            .route("/graphql", post(graphql))
            .nest_service("/mcp", mcp)
            .layer(from_fn_with_state(Arc::clone(&seen), record))
            .with_state(Arc::clone(&seen));
        let server = tokio::spawn(async move {
            // Ends with the test.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, grpc: methods.endpoint(), seen, server, methods })
    }

    /// Returns the values of a header in all requests so far.
    pub(super) fn header(&self, name: &str) -> Vec<String> {
        let seen = lock(&self.seen);
        let values = seen.headers.iter().filter_map(|headers| headers.get(name)?.to_str().ok());
        let values: Vec<String> = values.map(str::to_owned).collect();
        let calls = self.methods.seen().into_iter();
        values
            .into_iter()
            .chain(calls.filter_map(|call| Some(call.metadata.get(name)?.to_str().ok()?.to_owned())))
            .collect()
    }

    pub(super) fn requests(&self) -> usize {
        lock(&self.seen).headers.len() + self.methods.seen().len()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn record(State(seen): State<Shared>, request: Request<Body>, next: Next) -> Response {
    lock(&seen).headers.push(request.headers().clone());
    next.run(request).await
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn http(State(seen): State<Shared>, Path(id): Path<String>) -> Response {
    match behaviour(&seen, &id).await {
        Behaviour::Answer => json_text(item(&id)),
        Behaviour::Fail => (StatusCode::BAD_REQUEST, json!({"message": PRIVATE}).to_string()).into_response(),
        Behaviour::Refuse => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn method(seen: &Shared, message: &Value) -> Reply {
    let id = message["id"].as_str().unwrap_or_default();
    if id == "slow" {
        // Answers are made at once, so the thread waits: longer than the call.
        std::thread::sleep(Duration::from_secs(4));
    }
    match at_once(seen, id) {
        Behaviour::Answer => Reply::of(serde_json::from_str(&item(id)).unwrap_or_default()),
        Behaviour::Fail => Reply::failed(Status::invalid_argument(PRIVATE)),
        Behaviour::Refuse => Reply::failed(Status::unavailable("again")),
    }
}

async fn graphql(State(seen): State<Shared>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = request["variables"]["id"].as_str().unwrap_or_default().to_owned();
    match behaviour(&seen, &id).await {
        Behaviour::Answer => json_text(format!("{{\"data\":{{\"item\":{}}}}}", item(&id))),
        Behaviour::Fail => {
            json_text(json!({"data": {"item": null}, "errors": [{"message": PRIVATE, "path": ["item"]}]}).to_string())
        }
        Behaviour::Refuse => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

#[derive(Clone)]
struct Handler(Shared);

/// The definition of the only tool.
pub(super) fn input_schema() -> Value {
    json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Value::Object(schema) = input_schema() else { unreachable!("an object") };
        Ok(ListToolsResult::with_all_items(vec![Tool::new("item", "One item", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let id = request.arguments.unwrap_or_default().get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(match behaviour(&self.0, &id).await {
            Behaviour::Answer => CallToolResult::success(vec![ContentBlock::text(item(&id))]),
            Behaviour::Fail | Behaviour::Refuse => CallToolResult::error(vec![ContentBlock::text(PRIVATE)]),
        }
        .into())
    }
}
