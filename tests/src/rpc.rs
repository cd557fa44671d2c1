//! Requests as they are on the wire, where a client's library would get in the way.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};

use crate::Era;

/// A connection pool to one endpoint.
#[derive(Debug, Clone)]
pub struct Rpc {
    client: reqwest::Client,
    endpoint: String,
    era: Era,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub text: String,
}

impl Answer {
    /// The JSON-RPC message, out of the one event where it came as an event stream.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn message(&self) -> Result<Value> {
        let text = if self.text.starts_with('{') {
            self.text.as_str()
        } else {
            self.text.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or(&self.text)
        };
        serde_json::from_str(text).with_context(|| format!("{}: {}", self.status, self.text))
    }

    /// The text block of a tool result that is no error.
    ///
    /// # Errors
    /// It is another answer.
    pub fn text_block(&self) -> Result<String> {
        let message = self.message()?;
        let result = &message["result"];
        anyhow::ensure!(self.status == 200 && result["isError"] != json!(true), "{}: {message}", self.status);
        Ok(result["content"][0]["text"].as_str().with_context(|| format!("no text: {message}"))?.to_owned())
    }
}

impl Rpc {
    /// For an endpoint, in one era.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(endpoint: &str, era: Era) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?;
        Ok(Self { client, endpoint: endpoint.to_owned(), era })
    }

    /// A request of its method, with the headers and `_meta` that the era asks for.
    pub fn request(&self, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        let mut request = self
            .client
            .post(&self.endpoint)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        match self.era {
            Era::Legacy => request = request.header("MCP-Protocol-Version", "2025-11-25"),
            Era::Modern => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "tamis-tests", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                request = request.header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", method);
                if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                    request = request.header("Mcp-Name", name);
                }
            }
        }
        request.body(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// The connection's.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Ok(Answer { status, headers, text: answer.text().await? })
    }

    /// Returns the tools of the first page of the list.
    ///
    /// # Errors
    /// The connection's, or the answer has no list.
    pub async fn tools(&self) -> Result<Vec<Value>> {
        let answer = self.send(self.request("tools/list", json!({}))).await?.message()?;
        answer["result"]["tools"].as_array().cloned().with_context(|| format!("no list: {answer}"))
    }

    /// Waits until tools are listed: those of an MCP server that is followed are, once its list was read.
    ///
    /// # Errors
    /// None are listed within half a minute.
    pub async fn until_listed(&self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = self.send(self.request("tools/list", json!({}))).await?.message()?;
            if answer["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()) {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < until, "no tools are listed: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// The connection's.
    pub async fn call(&self, name: &str, arguments: &Value) -> Result<Answer> {
        self.send(self.request("tools/call", json!({"name": name, "arguments": arguments}))).await
    }
}
