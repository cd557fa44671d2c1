//! Asks an MCP server for its name and its tools, over HTTP or as a program, in either protocol era. Answers stay JSON texts, so that the digits
//! of schemas are kept.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::asking;
use super::events::{Event, Events};
use super::listing::{MAX_LIST_BYTES, MAX_TOOLS};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
/// Versions that a server may choose in the legacy era.
const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The time in which a server says whether it speaks the modern era. Some servers never answer a request that they do not know.
const DISCOVERY: Duration = Duration::from_secs(10);
/// The longest time for one request, with its answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bytes of one answer: the largest list, with room for its envelope and for what is not pinned.
pub(super) const MAX_ANSWER_BYTES: usize = 4 * MAX_LIST_BYTES;
/// Maximum number of pages of a list, as in the gateway.
const MAX_PAGES: usize = 200;

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ServerInfo {
    /// Its name, for programs.
    pub(super) name: String,
    /// Its name, for people.
    pub(super) title: Option<String>,
    /// Its version.
    pub(super) version: String,
    /// Its purpose.
    pub(super) description: Option<String>,
}

/// The answer of a server.
#[derive(Debug)]
pub(super) struct Listed {
    /// What it says about itself.
    pub(super) server: ServerInfo,
    /// The JSON of each tool, in the server's order. At most one tool more than the limit, and as many bytes.
    pub(super) tools: Vec<Box<RawValue>>,
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server answered with an error, so another era may fit.
    #[error("the server refused `{method}`: {message}")]
    Refused { method: String, message: String },
    /// The server answered with something that is not a result, so another era may fit.
    #[error("the answer to `{method}` {message}")]
    Unusable { method: String, message: String },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// What a client can be asked for during a call, before 2026-07-28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Capability {
    /// Something that the user fills in
    Elicitation,
    /// A completion of the client's model
    Sampling,
    /// The client's folders
    Roots,
}

impl Capability {
    fn name(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

/// Connects in the era that the server speaks, and reads all pages of its list. `capabilities`: what the client declares in the legacy
/// era, since some servers list a tool only to clients that can be asked for what it needs.
///
/// # Errors
/// The server cannot be reached, asks for credentials, or does not answer as the protocol says.
pub(super) async fn list(url: &Url, headers: HeaderMap, capabilities: &[Capability]) -> anyhow::Result<Listed> {
    let client = asking(headers, TIMEOUT).build()?;
    let mut session = Session::new(Http { client: client.clone(), url: url.clone(), id: None, may_have_stream: false });
    session.capabilities = capabilities.iter().map(|capability| (capability.name().to_owned(), json!({}))).collect();
    let listed = session.list(true).await;
    let may_have_stream = session.wire.may_have_stream;
    session.wire.end(session.version).await;
    if listed.is_err() && may_have_stream {
        // A server of the transport of 2024-11-05, as the specification says how to find out (MCP, "Backwards Compatibility").
        if let Some(listed) = super::stream::list(&client, url).await? {
            return Ok(listed);
        }
    }
    listed
}

/// Returns whether an answer to `server/discover` names the modern version.
fn is_modern(result: &str) -> bool {
    let versions = serde_json::from_str::<Value>(result).ok().map(|mut result| result["supportedVersions"].take());
    versions.is_some_and(|versions| versions.as_array().is_some_and(|all| all.iter().any(|version| version == MODERN)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Hello {
    server_info: Option<ServerInfo>,
    #[serde(rename = "_meta")]
    meta: HelloMeta,
}

/// Where a server of the modern era may say its name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HelloMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<ServerInfo>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageOfTools {
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// A JSON-RPC message.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    id: Option<Value>,
    /// The method, if the message is a request of the server.
    #[serde(default)]
    method: Option<Value>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<RpcError>,
}

impl Message {
    /// Returns whether the message is a request or a notification.
    pub(super) fn asks(&self) -> bool {
        self.method.is_some()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
}

/// How messages reach a server.
pub(super) trait Wire {
    /// Sends a request and returns the answer with its id.
    async fn ask(&mut self, message: &Value, id: u64, method: &str, version: &str) -> Result<Message, Failure>;

    /// Sends a notification.
    async fn notify(&mut self, message: &Value, version: &str) -> anyhow::Result<()>;
}

/// A server of Streamable HTTP.
struct Http {
    client: Client,
    url: Url,
    /// The id that a server of the legacy era may give.
    id: Option<HeaderValue>,
    /// Whether the server refused `initialize` as one of the transport of 2024-11-05 does.
    may_have_stream: bool,
}

/// A conversation with a server.
pub(super) struct Session<W> {
    pub(super) wire: W,
    version: &'static str,
    /// What is declared in the legacy era.
    capabilities: serde_json::Map<String, Value>,
    next: u64,
}

impl<W: Wire> Session<W> {
    pub(super) fn new(wire: W) -> Self {
        Self { wire, version: MODERN, capabilities: serde_json::Map::new(), next: 0 }
    }

    /// Begins the conversation, and reads all pages of the list. `discover`: whether the server is asked for the modern era.
    ///
    /// # Errors
    /// The server cannot be reached, or does not answer as the protocol says.
    pub(super) async fn list(&mut self, discover: bool) -> anyhow::Result<Listed> {
        let hello = if discover { self.hello().await? } else { self.initialize().await? };
        let Hello { server_info, meta } = serde_json::from_str(hello.get()).unwrap_or_default();
        let server_info = server_info.or(meta.server_info);
        let tools = self.tools().await?;
        Ok(Listed { server: server_info.unwrap_or_default(), tools })
    }

    async fn hello(&mut self) -> anyhow::Result<Box<RawValue>> {
        let discovery = tokio::time::timeout(DISCOVERY, self.request("server/discover", json!({}))).await;
        match discovery {
            Ok(Ok(result)) if is_modern(result.get()) => Ok(result),
            Ok(Err(Failure::Other(error))) => Err(error),
            Ok(Ok(_) | Err(Failure::Refused { .. } | Failure::Unusable { .. })) => self.initialize().await,
            Err(_) => match self.initialize().await {
                Ok(hello) => Ok(hello),
                // A program that takes long to start reads both questions, and may hold to the era of the first.
                Err(error) => {
                    self.version = MODERN;
                    let again = self.request("server/discover", json!({})).await.ok();
                    again.filter(|result| is_modern(result.get())).ok_or(error)
                }
            },
        }
    }

    /// Begins a session of the legacy era.
    async fn initialize(&mut self) -> anyhow::Result<Box<RawValue>> {
        self.version = LEGACY;
        let info = json!({ "name": "tamis", "version": env!("CARGO_PKG_VERSION") });
        let parameters = json!({ "protocolVersion": LEGACY, "capabilities": self.capabilities, "clientInfo": info });
        let result = self.request("initialize", parameters).await?;
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Agreed {
            protocol_version: String,
        }
        let Agreed { protocol_version } = serde_json::from_str(result.get())
            .context("the server's answer to `initialize` names no protocol version")?;
        let known = LEGACY_VERSIONS.iter().find(|version| **version == protocol_version);
        self.version = *known.with_context(|| {
            format!(
                "the server speaks version {} of the protocol, which Tamis does not",
                crate::import::line(&protocol_version)
            )
        })?;
        self.wire.notify(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), self.version).await?;
        Ok(result)
    }

    /// Reads all pages.
    async fn tools(&mut self) -> anyhow::Result<Vec<Box<RawValue>>> {
        let (mut tools, mut bytes, mut cursors) = (Vec::new(), 0, HashSet::new());
        let mut parameters = json!({});
        for _ in 0..MAX_PAGES {
            let result = self.request("tools/list", parameters).await?;
            let page: PageOfTools =
                serde_json::from_str(result.get()).context("the server's answer to `tools/list` is not a list")?;
            for tool in page.tools {
                bytes += tool.get().len();
                tools.push(tool);
                if tools.len() > MAX_TOOLS || bytes > MAX_LIST_BYTES {
                    return Ok(tools);
                }
            }
            let Some(cursor) = page.next_cursor else { return Ok(tools) };
            if !cursors.insert(cursor.clone()) {
                bail!("the server's list does not end: it gives one cursor twice");
            }
            parameters = json!({ "cursor": cursor });
        }
        bail!("the server's list has more than {MAX_PAGES} pages")
    }

    /// Sends a request and returns its result.
    async fn request(&mut self, method: &str, mut parameters: Value) -> Result<Box<RawValue>, Failure> {
        if self.version == MODERN {
            parameters["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "tamis", "version": env!("CARGO_PKG_VERSION") },
            });
        }
        self.next += 1;
        let id = self.next;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        let unusable = |message: &str| Failure::Unusable { method: method.to_owned(), message: message.to_owned() };
        match self.wire.ask(&message, id, method, self.version).await? {
            Message { error: Some(RpcError { code, message }), .. } => Err(Failure::Refused {
                method: method.to_owned(),
                message: format!("{} ({code})", crate::import::line(&message)),
            }),
            Message { result: Some(result), .. } => Ok(result),
            Message { .. } => Err(unusable("has no result")),
        }
    }
}

impl Wire for Http {
    async fn ask(&mut self, message: &Value, id: u64, method: &str, version: &str) -> Result<Message, Failure> {
        let response = self.post(message, method, version).await?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
            return Err(
                anyhow::anyhow!("the server redirects to {}; import from there", crate::import::line(to)).into()
            );
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let remedy = "name a credential with --bearer-env or --header-env";
            return Err(anyhow::anyhow!("the server answers {status}; {remedy}").into());
        }
        self.may_have_stream = method == "initialize" && matches!(status.as_u16(), 400 | 404 | 405);
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.id = Some(session.clone());
        }
        let unusable = |message: String| Failure::Unusable { method: method.to_owned(), message };
        let refused = |message: String| Failure::Refused { method: method.to_owned(), message };
        match answer(response, id).await {
            Ok(Some(message)) if message.error.is_some() || (message.result.is_some() && status.is_success()) => {
                Ok(message)
            }
            _ if !status.is_success() => Err(refused(status.to_string())),
            Ok(_) => Err(unusable("has no result".to_owned())),
            Err(error) => Err(unusable(format!("{error:#}"))),
        }
    }

    async fn notify(&mut self, message: &Value, version: &str) -> anyhow::Result<()> {
        let response = self.post(message, "", version).await?;
        if !response.status().is_success() {
            bail!("the server answers `notifications/initialized` with {}", response.status());
        }
        Ok(())
    }
}

impl Http {
    async fn post(&self, message: &Value, method: &str, version: &str) -> anyhow::Result<Response> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(message.to_string());
        if method != "initialize" {
            request = request.header("mcp-protocol-version", version);
        }
        if version == MODERN {
            request = request.header("mcp-method", method);
        }
        if let Some(id) = &self.id {
            request = request.header("mcp-session-id", id.clone());
        }
        request
            .send()
            .await
            .map_err(|error| anyhow::anyhow!("cannot reach the server: {}", causes(&error.without_url())))
    }

    /// Ends a session of the legacy era. A server that refuses ends it by itself.
    async fn end(self, version: &str) {
        if let Some(id) = self.id {
            let request = self.client.delete(self.url).header("mcp-session-id", id);
            let _ = request.header("mcp-protocol-version", version).send().await;
        }
    }
}

/// Returns whether a response is a stream of events.
pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// Reads the message with this id from a response, JSON or a stream of events.
async fn answer(mut response: Response, id: u64) -> anyhow::Result<Option<Message>> {
    let streamed = is_stream(&response);
    let (mut read, mut body, mut events) = (0, Vec::new(), Events::default());
    while let Some(chunk) =
        response.chunk().await.map_err(|error| anyhow::anyhow!("{}", causes(&error.without_url())))?
    {
        read += chunk.len();
        if read > MAX_ANSWER_BYTES {
            bail!("has more than {} MiB", MAX_ANSWER_BYTES >> 20);
        }
        if !streamed {
            body.extend_from_slice(&chunk);
            continue;
        }
        for Event { data, .. } in events.push(&chunk) {
            if let Some(message) = message(&data, Some(id))? {
                return Ok(Some(message));
            }
        }
    }
    // An error may be about no request at all.
    if streamed { Ok(None) } else { message(&body, None) }
}

/// Parses a message. One with another id than `id` is not for us.
pub(super) fn message(text: &[u8], id: Option<u64>) -> anyhow::Result<Option<Message>> {
    if text.is_empty() {
        return Ok(None);
    }
    let message: Message = serde_json::from_slice(text).context("is not a JSON-RPC message")?;
    let ours = id.is_none_or(|id| message.id.as_ref().and_then(Value::as_u64) == Some(id));
    Ok(Some(message).filter(|_| ours))
}

/// Joins an error and its causes.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
