//! Requests, and the answers that count as success.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use hyper::{Method, Request, StatusCode, Uri};
use serde::Serialize;

use crate::client::Protocol;

/// The generation of the MCP revision that a call uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Era {
    /// 2025-06-18, which begins with `initialize`.
    Legacy,
    /// 2026-07-28, which is stateless.
    Modern,
}

/// What each request of the modern era carries.
const META: &str = concat!(
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);

/// A request that is made over and over.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    /// Whether the answer is a result of JSON-RPC.
    has_result: bool,
}

impl Call {
    /// A plain `GET` to the upstream or to a bare proxy.
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, headers: HeaderMap::new(), body: Bytes::new(), has_result: false }
    }

    /// A `tools/call` without arguments.
    pub(crate) fn tool(path: String, tool: &str, era: Era) -> Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let version = HeaderName::from_static("mcp-protocol-version");
        let body = match era {
            Era::Legacy => {
                headers.insert(version, HeaderValue::from_static("2025-06-18"));
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
                )
            }
            Era::Modern => {
                headers.insert(version, HeaderValue::from_static("2026-07-28"));
                headers.insert(HeaderName::from_static("mcp-method"), HeaderValue::from_static("tools/call"));
                headers.insert(HeaderName::from_static("mcp-name"), HeaderValue::from_str(tool)?);
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","_meta":{META}}}}}"#
                )
            }
        };
        let mut call = Self::post(path, body.into());
        call.headers.extend(headers);
        Ok(call)
    }

    /// A `tools/call` of the legacy era that asks for progress.
    pub(crate) fn with_progress(path: String, tool: &str) -> Result<Self> {
        let mut call = Self::tool(path, tool, Era::Legacy)?;
        call.body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}},"_meta":{{"progressToken":1}}}}}}"#
        )
        .into();
        Ok(call)
    }

    /// A `POST` of JSON.
    pub(crate) fn post(path: String, body: Bytes) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { method: Method::POST, path, headers, body, has_result: true }
    }

    /// A query of the upstream as a GraphQL API.
    pub(crate) fn graphql(kb: usize) -> Self {
        let query = format!(
            r#"{{"query":"query items{kb}{{items{kb}{{number title user{{login}}assignee}}}}","variables":{{}}}}"#
        );
        Self { has_result: false, ..Self::post("/graphql".to_owned(), query.into()) }
    }

    /// A call of the upstream as a gRPC server, with an empty message.
    pub(crate) fn grpc(kb: usize) -> Self {
        let mut call = Self::post(format!("/bench.Items/List{kb}"), Bytes::from_static(&[0; 5]));
        call.has_result = false;
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        call.headers.insert(TE, HeaderValue::from_static("trailers"));
        call
    }

    /// Adds `Authorization: Bearer KEY`.
    pub(crate) fn with_key(mut self, key: &str) -> Result<Self> {
        self.headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {key}"))?);
        Ok(self)
    }

    /// Returns the request for a server on loopback. Cloning it is cheap, which making it is not.
    pub(crate) fn request(&self, port: u16, protocol: Protocol) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        let authority = format!("127.0.0.1:{port}");
        match protocol {
            Protocol::Http1 => {
                *request.uri_mut() = self.path.parse()?;
                request.headers_mut().insert(HOST, HeaderValue::try_from(authority)?);
            }
            Protocol::Http2 => {
                *request.uri_mut() =
                    Uri::builder().scheme("http").authority(authority).path_and_query(&*self.path).build()?;
            }
        }
        Ok(request)
    }

    /// Fails unless an answer is a success: an error of JSON-RPC or of the tool may have the status 200.
    pub(crate) fn check(&self, status: StatusCode, body: &[u8]) -> Result<()> {
        let head = &body[..body.len().min(4096)];
        let shown = || String::from_utf8_lossy(head).into_owned();
        ensure!(status.is_success(), "{} answered {status}: {}", self.path, shown());
        if self.has_result {
            let text = std::str::from_utf8(body).with_context(|| format!("{}: the answer is no text", self.path))?;
            ensure!(text.contains("\"result\""), "{} gave no result: {}", self.path, shown());
            ensure!(!text.contains("\"isError\":true"), "{} failed: {}", self.path, shown());
        }
        Ok(())
    }
}
