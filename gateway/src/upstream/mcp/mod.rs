//! MCP servers: their tools are called over Streamable HTTP, in the era that the server speaks.
//!
//! A tool is *pinned*: the document holds its definition, and the tool is called only while the server lists it so. What a
//! model was told about a tool can thus not be changed by its server. Before anything is called, the server's list is compared
//! with the document; the comparison holds for five minutes, or as long as the list says, or until the server says that its
//! list has changed.
//!
//! ```text
//! flight    a call: era, comparison, session, call      what to do next
//! decide    what a refusal means                        pure
//! pins      a list against the document                 pure
//! peers     what is known of a server                   by credential
//! request   messages and headers that are sent          pure
//! wire      one message, and its answer                 reads and writes
//! sse       streams of events                           pure
//! message   answers, requests, notifications            pure
//! result    the result of a call, as spans              pure
//! ```

mod decide;
mod flight;
mod message;
mod peers;
mod pins;
mod request;
mod result;
mod sse;
mod text;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use indexmap::IndexMap;
use tamis_config::{AuthKind, Call, McpCall, McpSource, ServiceDocument, ServiceTool};
use tamis_engine::ResponseType;
use url::Url;

use self::flight::Flight;
use self::peers::{Peer, Peers};
use self::pins::{Pins, Verdict};
use self::wire::{Http, Transport, Wire};
use super::auth::{AuthPlan, Authentication};
use super::http::{MAX_URL, for_every_request};
use super::origin::{Origin, Target};
use super::{Answer, Arguments, CallContext, Client, CredentialScope, InvalidService, UpstreamError};
use crate::mcp::arguments;
use crate::mcp::headers::{ParamHeader, param_headers};

pub use self::pins::{Difference, Withheld};

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// 2026-07-28: every request stands alone.
    Modern,
    /// A version before that, which begins with `initialize`.
    Legacy {
        /// The version that was negotiated.
        version: &'static str,
        /// Whether the server issues sessions.
        has_sessions: bool,
    },
}

/// An MCP server, ready to be called.
#[derive(Debug)]
pub(super) struct McpService {
    name: Box<str>,
    endpoint: Endpoint,
    actions: IndexMap<String, Action>,
    pins: Arc<Pins>,
    peers: Peers,
    /// The id of the last request.
    ids: AtomicU64,
    /// Whether the tools that are withheld have changed since this was last asked.
    changed: AtomicBool,
}

/// Where the server is.
#[derive(Debug)]
enum Endpoint {
    /// At an address.
    Http(HttpEndpoint),
}

/// The address of a server, and how requests to it are authenticated.
#[derive(Debug)]
struct HttpEndpoint {
    client: Arc<Client>,
    target: Target,
    auth: Option<AuthPlan>,
    /// The headers of every request.
    common: HeaderMap,
}

/// A tool of the server.
#[derive(Debug)]
struct Action {
    /// Its name on the server.
    tool: Box<str>,
    /// Its position in the document.
    position: usize,
    declared: Option<ResponseType>,
    /// Whether executing a call twice does no harm.
    repeatable: bool,
    /// Arguments that headers repeat.
    param_headers: Vec<ParamHeader>,
}

impl McpService {
    /// Prepares the calls of every tool of the server.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn new(
        source: &McpSource,
        document: &Arc<ServiceDocument>,
        client: Arc<Client>,
    ) -> Result<Self, InvalidService> {
        let endpoint = Endpoint::Http(HttpEndpoint::new(source, client)?);
        let mut actions = IndexMap::new();
        for (position, (name, tool)) in document.tools.iter().enumerate() {
            match &tool.call {
                Call::Mcp(call) => {
                    actions.insert(name.clone(), Action::new(position, tool, call));
                }
                // Resolved before a call.
                Call::Alias(_) => {}
                Call::Http(_) => {
                    let field = format!("tools.{name}.call");
                    return Err(InvalidService::new(field, "must be `mcp`: the service is an MCP server"));
                }
            }
        }
        Ok(Self {
            name: document.name.as_str().into(),
            endpoint,
            actions,
            pins: Arc::new(Pins::new(document)),
            peers: Peers::default(),
            ids: AtomicU64::new(0),
            changed: AtomicBool::new(false),
        })
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        context: CallContext<'_>,
    ) -> Result<Answer, UpstreamError> {
        let action = self.actions.get(tool).ok_or_else(|| UpstreamError::UnknownTool(tool.to_owned()))?;
        match &self.endpoint {
            Endpoint::Http(http) => {
                let authentication = http.authenticate(context.credentials)?;
                if let (false, Some(auth)) = (authentication.may_go_to(&http.target), &http.auth) {
                    return Err(UpstreamError::CredentialUse(auth.credential().clone()));
                }
                let HttpEndpoint { client, target, auth: _, common } = http;
                let peer = self.peers.of(&authentication);
                let transport = Transport::Http(Http { client, target, common, authentication: &authentication });
                self.fly(action, arguments, peer, transport, context).await
            }
        }
    }

    async fn fly(
        &self,
        action: &Action,
        arguments: &Arguments,
        peer: Arc<Peer>,
        transport: Transport<'_>,
        context: CallContext<'_>,
    ) -> Result<Answer, UpstreamError> {
        let begun = Instant::now();
        let deadline = context.bounds.deadline;
        let arguments = arguments.object();
        let wire = Wire { transport, requests: 0, list_changed: false, context };
        let mut flight = Flight {
            service: self,
            peer,
            action,
            caller: wire.context.caller_key().into(),
            params: action.repeated(&arguments),
            sent: false,
            pending: None,
            wire,
        };
        if begun < deadline
            && let Ok(result) = tokio::time::timeout_at(deadline.into(), flight.call(&arguments, begun)).await
        {
            return result;
        }
        Err(UpstreamError::Timeout { sent: flight.sent })
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that other tools are withheld than before, if the server has been asked before.
    fn note_change(&self, before: Option<&Verdict>, verdict: &Verdict) {
        for (name, action) in &self.actions {
            if let Some(withheld) = verdict.of(action.position) {
                tracing::warn!(
                    service = %self.name, tool = %name, reason = withheld.reason(),
                    "tool withheld: {withheld}; review it with `tamis import mcp --update`"
                );
            }
        }
        if verdict.is_empty() && before.is_some_and(|before| !before.is_empty()) {
            tracing::info!(service = %self.name, "no tool is withheld any more");
        }
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the tools that are withheld have changed since the last time.
    pub(super) fn take_change(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::Relaxed)
    }

    /// Returns the tools that are withheld from an exposition with these credentials, as far as the server has been asked.
    pub(super) fn withheld(&self, credentials: CredentialScope<'_>) -> BTreeMap<&str, Withheld> {
        let authentication = match &self.endpoint {
            Endpoint::Http(http) => http.authenticate(credentials).ok(),
        };
        let peer = authentication.and_then(|authentication| self.peers.known(&authentication));
        let Some(verdict) = peer.and_then(|peer| peer.verdict()).filter(|verdict| !verdict.is_empty()) else {
            return BTreeMap::new();
        };
        let each = self.actions.iter();
        each.filter_map(|(name, action)| Some((name.as_str(), verdict.of(action.position)?))).collect()
    }
}

impl HttpEndpoint {
    fn new(source: &McpSource, client: Arc<Client>) -> Result<Self, InvalidService> {
        let target = target(&source.url)?;
        let auth = match &source.auth {
            Some(auth) if auth.kind == AuthKind::Body => {
                return Err(InvalidService::new(
                    "source.mcp.auth",
                    "cannot be `body`; use header, bearer, basic or query",
                ));
            }
            Some(auth) => AuthPlan::new("source.mcp.auth", auth)?,
            None => None,
        };
        let mut common = for_every_request(target.origin());
        common.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        common.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        Ok(Self { client, target, auth, common })
    }

    /// Returns what authenticates requests of an exposition.
    fn authenticate<'a>(&'a self, credentials: CredentialScope<'a>) -> Result<Authentication<'a>, UpstreamError> {
        match &self.auth {
            Some(auth) => auth.authenticate(credentials),
            None => Ok(Authentication::default()),
        }
    }
}

impl Action {
    fn new(position: usize, tool: &ServiceTool, call: &McpCall) -> Self {
        let McpCall { tool: name, annotations: _ } = call;
        let schema = serde_json::from_str(tool.input_schema.as_str()).unwrap_or_default();
        Self {
            tool: name.as_str().into(),
            position,
            declared: tool.response_type,
            repeatable: !tool.risk.mutating || tool.risk.idempotent,
            param_headers: param_headers(&schema),
        }
    }

    /// Returns the headers that repeat arguments.
    fn repeated(&self, arguments: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.param_headers.is_empty() {
            return headers;
        }
        let Ok(document) = arguments::document(arguments) else { return headers };
        for rule in &self.param_headers {
            if let Some(value) = rule.text(document.root()).and_then(|text| request::value(&text)) {
                headers.insert(rule.header().clone(), value);
            }
        }
        headers
    }
}

/// Parses the address of a server.
fn target(url: &str) -> Result<Target, InvalidService> {
    let invalid = |message: &str| InvalidService::new("source.mcp.url", message);
    let parsed = Url::parse(url).map_err(|_| invalid("is not a URL; write https://HOST/PATH"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(invalid("must begin with https:// or http://"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(invalid("must not hold a user or a password; use `auth`"));
    }
    if parsed.fragment().is_some() {
        return Err(invalid("must not hold a fragment"));
    }
    let unusable = || invalid("has a host, a port or a path that no request can have");
    let origin = Arc::new(Origin::of(&parsed).ok_or_else(unusable)?);
    Target::of(&parsed, &origin).filter(|target| target.len() <= MAX_URL).ok_or_else(unusable)
}

#[cfg(test)]
mod tests {
    mod calls;
    mod eras;
    mod faults;
    mod fixture;
    mod withheld;
}
