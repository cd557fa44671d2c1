//! MCP servers: their tools are called over Streamable HTTP, or over the standard input and output of a program, in the era that
//! the server speaks.
//!
//! A tool is *pinned*: the document holds its definition, and the tool is called only while the server lists it so. What a
//! model was told about a tool can thus not be changed by its server. Before anything is called, the server's list is compared
//! with the document; the comparison holds for five minutes, or as long as the list says, or until the server says that its
//! list has changed.
//!
//! ```text
//! call      the call of a tool                          what to do next
//! flight    before a call: era, comparison, session     what to do next
//! watch     a list that is read in the background       what to do next
//! feed      what a server announces to one caller         what to do next
//! decide    what a refusal means                        pure
//! pins      a list against the document                 pure
//! follow    a list whose tools are published as such    pure
//! peers     what is known of a server                   by credential
//! request   messages and headers that are sent          pure
//! wire      one message over HTTP, and its answer       reads and writes
//! program   servers that are programs                   starts, reads, writes, ends
//! events    servers of the transport of 2024-11-05      reads and writes
//! sse       streams of events                           pure
//! message   answers, requests, notifications            pure
//! result    the result of a call, as spans              pure
//! sessions  those that belong to sessions of callers    reads and writes
//! ```

mod call;
mod decide;
mod event_stream;
mod events;
mod feed;
mod flight;
mod follow;
pub mod fuzzing;
mod message;
mod peers;
mod pins;
mod program;
mod request;
mod result;
mod sessions;
mod sse;
mod text;
mod watch;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use indexmap::IndexMap;
use tamis_config::{AuthKind, Call, McpCall, McpSource, ProgramSource, ServiceDocument, ServiceTool};
use tamis_engine::ResponseType;

use self::call::ToolCall;
use self::flight::Flight;
use self::peers::Peers;
use self::pins::{Pins, Verdict};
use self::program::{Pool, Program};
use self::wire::{Http, Transport, Wire};
use super::auth::{AuthPlan, Authentication};
use super::http::{MAX_URL, for_every_request};
use super::origin::{Origin, Target, server_url};
use super::{Answer, Arguments, CallContext, Client, CredentialScope, InvalidService, Passed, UpstreamError};
use crate::exposition::ServerMethod;
use crate::mcp::arguments;
use crate::mcp::headers::{ParamHeader, param_headers};

pub(super) use self::events::FLOODED as STREAM_FLOODED;
pub(crate) use self::flight::Opened;
pub(crate) use self::follow::{LeftOut, Listed};
pub(crate) use self::peers::Peer;
pub use self::pins::{Difference, Withheld};
pub(crate) use self::program::ProgramReport;
pub(super) use self::program::{BUSY, ENDED, FLOODED, NOT_STARTED, WAITS};
pub(crate) use self::result::asked;
use self::watch::Announcements;
pub(crate) use self::watch::StreamEnd;

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
    /// Whether the tools are published as the server lists them.
    follows: bool,
    /// What is known of the server. The services of a followed server share it: one for each list.
    peers: Arc<Peers>,
    /// The id of the last request.
    ids: Arc<AtomicU64>,
    /// Whether the tools that are withheld, or listed, have changed since this was last asked.
    changed: Arc<AtomicBool>,
    /// What the server announced of its prompts and resources.
    announcements: Arc<Announcements>,
}

/// Where the server is.
#[derive(Debug)]
enum Endpoint {
    /// At an address.
    Http(HttpEndpoint),
    /// A program that the gateway runs.
    Program(Pool),
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
        Self::at(Endpoint::Http(HttpEndpoint::new(source, client)?), source.follow, document)
    }

    /// Prepares the calls of every tool of a server that is a program.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn of_program(
        source: &ProgramSource,
        document: &Arc<ServiceDocument>,
        client: &Client,
    ) -> Result<Self, InvalidService> {
        Self::at(Endpoint::Program(Pool::new(&document.name, source, client.programs())?), false, document)
    }

    fn at(endpoint: Endpoint, follows: bool, document: &Arc<ServiceDocument>) -> Result<Self, InvalidService> {
        let mut actions = IndexMap::new();
        for (position, (name, tool)) in document.tools.iter().enumerate() {
            match &tool.call {
                Call::Mcp(call) => {
                    actions.insert(name.clone(), Action::new(position, tool, call));
                }
                // Resolved before a call.
                Call::Alias(_) => {}
                Call::Http(_) | Call::Grpc(_) | Call::Command(_) => {
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
            follows,
            peers: Arc::default(),
            ids: Arc::default(),
            changed: Arc::default(),
            announcements: Arc::default(),
        })
    }

    /// Prepares the calls of the tools that the server lists now. Sessions and all else that is known of it are shared.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn derived(&self, source: &McpSource, document: &Arc<ServiceDocument>) -> Result<Self, InvalidService> {
        let Endpoint::Http(HttpEndpoint { client, .. }) = &self.endpoint else {
            return Err(InvalidService::new("source", "is not an MCP server that is followed"));
        };
        let derived = Self::new(source, document, Arc::clone(client))?;
        let (peers, ids, changed) = (Arc::clone(&self.peers), Arc::clone(&self.ids), Arc::clone(&self.changed));
        Ok(Self { peers, ids, changed, announcements: Arc::clone(&self.announcements), ..derived })
    }

    /// Returns whether the tools are published as the server lists them.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Returns the tools of a followed server as they were listed last; none before that.
    pub(super) fn listed(&self, credentials: CredentialScope<'_>) -> Option<Arc<Listed>> {
        self.peers.known(&self.authenticate(credentials).ok()?)?.listed()
    }

    /// Returns why a tool is not called, by the last comparison, or by what a followed server lists now.
    fn why_withheld(&self, action: &Action, verdict: &Verdict, listed: Option<&Listed>) -> Option<Withheld> {
        if !self.follows {
            return verdict.of(action.position);
        }
        let now = listed?.tools.get(&*action.tool);
        now.map_or(Some(Withheld::Missing), |now| pins::since_listed(self.pins.tool(action.position)?, now))
    }

    /// Notes that a followed server lists other tools than before.
    fn note_listed(&self, peer: &Peer) {
        let Some(listed) = peer.listed() else { return };
        let Listed { tools, left_out, invalid, ended } = &*listed;
        tracing::info!(service = %self.name, tools = tools.len(), left_out = invalid, "the MCP server lists other tools");
        for LeftOut { name, flaw } in left_out {
            tracing::warn!(service = %self.name, tool = %name, "tool left out: {flaw}");
        }
        if let Some((why, _)) = ended {
            tracing::warn!(service = %self.name, "the rest of the tools is left out: the server's list {why}");
        }
        self.changed.store(true, Ordering::Relaxed);
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
        let begun = Instant::now();
        let authentication = self.authenticate(context.credentials)?;
        let deadline = context.bounds.deadline;
        let arguments = arguments.object();
        let caller = context.caller_key().into();
        let mut call = ToolCall {
            flight: self.flight(&authentication, caller, context)?,
            action,
            params: action.repeated(&arguments),
            sent: false,
        };
        if begun < deadline
            && let Ok(result) = tokio::time::timeout_at(deadline.into(), call.call(&arguments, begun)).await
        {
            return result;
        }
        Err(UpstreamError::Timeout { sent: call.sent })
    }

    /// Passes a request on. `params` are the members of its parameters, as JSON without braces.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn pass(
        &self,
        method: ServerMethod,
        name: Option<&str>,
        params: &str,
        context: CallContext<'_>,
    ) -> Result<Passed, UpstreamError> {
        let begun = Instant::now();
        let authentication = self.authenticate(context.credentials)?;
        let deadline = context.bounds.deadline;
        let caller = context.caller_key().into();
        let mut flight = self.flight(&authentication, caller, context)?;
        match tokio::time::timeout_at(deadline.into(), flight.pass(method, name, params)).await {
            Ok(result) => result.map(|result| Passed { result, elapsed: begun.elapsed() }),
            Err(_) => Err(UpstreamError::Timeout { sent: false }),
        }
    }

    /// Returns what authenticates requests with these credentials.
    fn authenticate<'a>(&'a self, credentials: CredentialScope<'a>) -> Result<Authentication<'a>, UpstreamError> {
        match &self.endpoint {
            Endpoint::Http(http) => http.authenticate(credentials),
            // A program gets its credentials when it starts.
            Endpoint::Program(_) => Ok(Authentication::default()),
        }
    }

    /// Returns what is known of the programs of the service, if it is one that runs programs.
    pub(super) fn program(&self) -> Option<ProgramReport> {
        match &self.endpoint {
            Endpoint::Http(_) => None,
            Endpoint::Program(pool) => Some(pool.report()),
        }
    }

    /// Begins requests that belong together. `caller` is whose legacy session they use, or whose process.
    ///
    /// # Errors
    /// A credential that the program gets is missing.
    fn flight<'a>(
        &'a self,
        authentication: &'a Authentication<'a>,
        caller: Arc<str>,
        context: CallContext<'a>,
    ) -> Result<Flight<'a>, UpstreamError> {
        let transport = match &self.endpoint {
            Endpoint::Http(endpoint) => Transport::Http(endpoint.http(authentication)),
            Endpoint::Program(pool) => {
                Transport::Program(Box::new(Program::new(pool, Arc::clone(&caller), context.credentials)?))
            }
        };
        let announcements = &*self.announcements;
        let wire = Wire { transport, requests: 0, list_changed: false, announcements, is_call: false, context };
        // What is known of a program comes with its process.
        Ok(Flight { service: self, peer: self.peers.of(authentication), caller, wire, pending: None })
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
        let authentication = self.authenticate(credentials).ok();
        let peer = authentication.and_then(|authentication| self.peers.known(&authentication));
        let Some(peer) = peer else { return BTreeMap::new() };
        let (verdict, listed) = (peer.verdict().unwrap_or_default(), peer.listed());
        if verdict.is_empty() && listed.is_none() {
            return BTreeMap::new();
        }
        let why = |action: &Action| self.why_withheld(action, &verdict, listed.as_deref());
        self.actions.iter().filter_map(|(name, action)| Some((name.as_str(), why(action)?))).collect()
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
        for (name, value) in &source.headers {
            let field = || format!("source.mcp.headers.{name}");
            let invalid = |_| InvalidService::new(field(), "is not a header that a request can have");
            let value =
                HeaderValue::from_str(value).map_err(|_| InvalidService::new(field(), "has an invalid value"))?;
            common.insert(HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?, value);
        }
        common.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        common.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        Ok(Self { client, target, auth, common })
    }

    /// Returns what sends requests with this authentication.
    fn http<'a>(&'a self, authentication: &'a Authentication<'a>) -> Http<'a> {
        let Self { client, target, auth: _, common } = self;
        Http { client, target, common, authentication }
    }

    /// Returns what authenticates requests of an exposition.
    fn authenticate<'a>(&'a self, credentials: CredentialScope<'a>) -> Result<Authentication<'a>, UpstreamError> {
        let authentication = Authentication::of(self.auth.as_ref(), credentials)?;
        authentication.check(&self.target)?;
        Ok(authentication)
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
    const FIELD: &str = "source.mcp.url";
    let invalid = |message: &str| InvalidService::new(FIELD, message);
    let parsed = server_url(FIELD, url, "https://HOST/PATH")?;
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
    mod program;
    mod relay;
    mod watch;
    mod withheld;
}
