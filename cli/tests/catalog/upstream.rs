//! The APIs of the catalogue, on one local address: they answer with the payloads, and say what they received.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An entry of `catalog/payloads/calls.json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    /// The key of the credential in its Secret.
    pub(crate) secret: String,
    /// The header that the API is to receive.
    pub(crate) authorization: String,
    /// Texts of the payloads that no partner may see.
    pub(crate) absent: Vec<String>,
    /// Paths of the internal set that the payloads do not have, because the API sends them for some answers only.
    pub(crate) optional: Vec<String>,
    pub(crate) calls: Vec<Call>,
}

/// A call of a tool, and what the API is to receive.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Method, path and query.
    pub(crate) request: String,
    /// The body, or the variables of a GraphQL request.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// The name of the GraphQL operation.
    operation: Option<String>,
    /// The payload in `examples/payloads`; by default, the file of the tool in `catalog/payloads`.
    payload: Option<String>,
}

impl Call {
    /// Returns what the API answers.
    pub(crate) fn answer(&self, entry: &str) -> String {
        let file = match &self.payload {
            Some(name) => format!("examples/payloads/{name}.json"),
            None => format!("catalog/payloads/{entry}/{}.json", self.tool),
        };
        std::fs::read_to_string(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn is_for(&self, method: &Method, path: &str, body: &str) -> bool {
        let (expected, target) = self.request.split_once(' ').expect("method and path");
        let operation = self.operation.as_ref();
        method.as_str() == expected
            && target.split('?').next() == Some(path)
            && operation.is_none_or(|name| [" ", "("].iter().any(|end| body.contains(&format!("{name}{end}"))))
    }
}

/// A request that the APIs received.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Method, path and query.
    pub(crate) request: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Reads `catalog/payloads/calls.json`.
pub(crate) fn entries() -> BTreeMap<String, Entry> {
    let text = std::fs::read_to_string(root().join("catalog/payloads/calls.json")).expect("is there");
    serde_json::from_str(&text).expect("is as described")
}

/// Where the APIs are: each below the name of its entry.
pub(crate) struct Apis {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Apis {
    pub(crate) async fn start(entries: &BTreeMap<String, Entry>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (entries, seen) = (entries.clone(), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&seen);
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let body = String::from_utf8_lossy(&body).into_owned();
            let (_, rest) = uri.path()[1..].split_once('/').unwrap_or_default();
            let (name, path) = (&uri.path()[1..uri.path().len() - rest.len() - 1], format!("/{rest}"));
            let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
            let request = format!("{method} {path}{query}");
            let answer = if query.contains("unknown") {
                Some(r#"{"ok":false,"error":"channel_not_found","internal":"db-7"}"#.to_owned())
            } else {
                let calls = entries.get(name).map_or(&[][..], |entry| &entry.calls);
                calls.iter().find(|call| call.is_for(&method, &path, &body)).map(|call| call.answer(name))
            };
            noted.lock().expect("is whole").push(Seen { request, headers, body });
            let status = if answer.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            async move { (status, [("content-type", "application/json")], answer.unwrap_or_default()) }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Self { url, seen }
    }

    /// The address of an entry's API. GraphQL has one path.
    pub(crate) fn url(&self, entry: &str) -> String {
        format!("{}/{entry}{}", self.url, if entry == "linear" { "/graphql" } else { "" })
    }

    /// The requests since the last call of this.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("is whole"))
    }
}
