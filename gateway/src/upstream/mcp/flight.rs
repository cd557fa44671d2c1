//! What comes before a call, or is asked in the background: which era the server speaks, its session, and whether its tools are
//! still what they were when they were pinned.

mod pass;
mod sessions;
mod streams;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use self::sessions::Opened;
pub(super) use self::sessions::Whose;
use super::decide::{self, Forget};
use super::message::{self, RpcFault};
use super::peers::{Peer, validity};
use super::pins::{Compared, Comparison, PageEnd, Verdict};
use super::program::ENDED;
use super::request::{self, ForCaller, MODERN};
use super::wire::{Answered, Outgoing, Transport, Wire, malformed};
use super::{McpService, Server, text, watch};
use crate::mcp::era::LEGACY_VERSIONS;
use crate::upstream::auth::Authentication;
use crate::upstream::incoming::Fault;
use crate::upstream::{InputRequired, UpstreamError};

/// Bytes of a list of tools, over all its pages.
const MAX_LIST: u64 = 4 << 20;
/// Pages of a list of tools.
const MAX_PAGES: usize = 200;
/// Bytes of an answer that is neither a list nor the result of a tool.
const MAX_HANDSHAKE: u64 = 256 << 10;
/// How long a server may take to answer a question of the modern era before it is asked in the legacy era.
const DISCOVERY: Duration = Duration::from_secs(10);

/// Requests to a server that belong together.
pub(super) struct Flight<'a> {
    pub(super) service: &'a McpService,
    pub(super) peer: Arc<Peer>,
    pub(super) wire: Wire<'a>,
    /// Whose legacy session the requests use.
    pub(super) caller: Arc<str>,
    /// The headers and the id of a request that has to be cancelled when its answer is no longer awaited.
    pub(super) pending: Option<(HeaderMap, u64)>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        // The deadline has passed, or the caller has disconnected.
        if let Some((headers, id)) = self.pending.take() {
            self.wire.transport.cancel(&headers, id);
        }
    }
}

/// A request of a caller.
pub(super) struct Asked<'r> {
    pub(super) method: &'static str,
    /// What it names, for a header.
    pub(super) name: Option<&'r str>,
    /// The members of its parameters, as JSON without braces.
    pub(super) params: &'r str,
    /// Further headers in the modern era.
    pub(super) headers: &'r HeaderMap,
    /// Bytes that the answer may have.
    pub(super) limit: u64,
}

/// Why a server is not ready for a call.
pub(super) enum NotReady {
    /// The server refused a request: what is obsolete, and the error.
    Refused(Forget, UpstreamError),
    Failed(UpstreamError),
}

impl From<Fault> for NotReady {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.into_error())
    }
}

impl NotReady {
    pub(super) fn into_error(self) -> UpstreamError {
        match self {
            Self::Refused(_, error) | Self::Failed(error) => error.before_the_call(),
        }
    }
}

/// What a server said to `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discovery {
    /// It speaks the modern era.
    Modern,
    /// Anything else.
    Other,
    /// Nothing in time.
    Silent,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered<'a> {
    #[serde(borrow)]
    supported_versions: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized<'a> {
    #[serde(borrow)]
    protocol_version: &'a RawValue,
}

impl Flight<'_> {
    /// Returns the server and which of its tools are withheld, after asking it if that is not known, or not known to hold any
    /// more.
    pub(super) async fn ready(&mut self) -> Result<(Server, Arc<Verdict>), UpstreamError> {
        self.attach().await?;
        let ready = self.ready_once().await;
        if ready.is_ok() || self.wire.transport.ended().is_none() {
            return ready;
        }
        // The program ended before anything was executed.
        self.attach().await?;
        self.ready_once().await
    }

    /// Starts the program, if the server is one that does not run. What is known of it belongs to the process. Opens the caller's
    /// stream, if the server is known to speak the transport of 2024-11-05.
    pub(super) async fn attach(&mut self) -> Result<(), UpstreamError> {
        let program = match &mut self.wire.transport {
            Transport::Program(program) => program,
            Transport::Http(http) | Transport::Events(http, _) => {
                let http = *http;
                self.wire.transport = Transport::Http(http);
                return if self.peer.has_streams() { Box::pin(self.attach_stream()).await } else { Ok(()) };
            }
        };
        let attached = Box::pin(program.attach(self.wire.context.memory)).await;
        let process = attached.map_err(|fault| fault.into_error().before_the_call())?;
        if process.list_has_changed() {
            process.peer.expire();
        }
        self.peer = Arc::clone(&process.peer);
        Ok(())
    }

    async fn ready_once(&mut self) -> Result<(Server, Arc<Verdict>), UpstreamError> {
        if let Some(ready) = self.peer.ready(Instant::now()) {
            return Ok(ready);
        }
        let peer = Arc::clone(&self.peer);
        let _asking = peer.asking.lock().await;
        if let Some(ready) = peer.ready(Instant::now()) {
            return Ok(ready);
        }
        self.read().await
    }

    /// Reads the server's list and compares its tools, whatever is known of it.
    pub(super) async fn read(&mut self) -> Result<(Server, Arc<Verdict>), UpstreamError> {
        let known = self.peer.server();
        let session = self.peer.session(watch::CALLER);
        let mut ready = self.ask(known).await;
        if let (Err(NotReady::Refused(Forget::Session, _)), Some(lost)) = (&ready, &session) {
            // The server has lost the session in which lists are read. Those of callers may be gone, too, which their calls find out.
            self.peer.end_session(watch::CALLER, lost);
            ready = self.ask(known).await;
        }
        let ready = match ready {
            // What was known of the server is not true any more.
            Err(NotReady::Refused(Forget::Session | Forget::Server, _)) if known.is_some() => {
                self.peer.forget();
                self.attach().await?;
                self.ask(None).await
            }
            other => other,
        };
        ready.map_err(NotReady::into_error)
    }

    /// Asks the server for its era, unless that is known, and for its tools.
    async fn ask(&mut self, known: Option<Server>) -> Result<(Server, Arc<Verdict>), NotReady> {
        let server = match known {
            Some(server) => server,
            None => self.detect().await?,
        };
        self.peer.set_server(server);
        let begun = Instant::now();
        if let Transport::Program(program) = &self.wire.transport {
            program.note_comparison();
        }
        let (compared, ttl) = self.list(server).await?;
        let verdict = match compared {
            Compared::Pinned(verdict) => Arc::new(verdict),
            Compared::Followed(listed) => {
                if self.peer.set_listed(listed, begun) {
                    self.service.note_listed(&self.peer);
                }
                Arc::default()
            }
        };
        let mut before = self.peer.set_verdict(&verdict, begun, validity(ttl));
        if let Transport::Program(_) = self.wire.transport {
            // Each process has a comparison of its own. This one is shown.
            let shown = self.service.peers.of(&Authentication::default());
            before = shown.set_verdict(&verdict, begun, validity(ttl));
        }
        if before.as_ref() != Some(&verdict) && !self.service.follows {
            self.service.note_change(before.as_deref(), &verdict);
        }
        Ok((server, verdict))
    }

    /// Finds the era of the server: modern if it says so, otherwise legacy.
    async fn detect(&mut self) -> Result<Server, NotReady> {
        if let Transport::Program(program) = &self.wire.transport
            && program.skips_discovery()
        {
            let initialized = self.initialize(Whose::Lists).await;
            if let (Err(NotReady::Refused(..)), Transport::Program(program)) = (&initialized, &self.wire.transport) {
                program.skip_discovery(false);
            }
            return initialized.map(|(server, _)| server);
        }
        let discovered = self.discover().await?;
        if discovered == Discovery::Modern {
            return Ok(Server::Modern);
        }
        if let Some(program) = self.wire.transport.ended() {
            program.ended_at_discovery();
            return Err(NotReady::Failed(Fault::Broken(ENDED).into_error()));
        }
        let initialized = self.initialize(Whose::Lists).await;
        if let Transport::Http(_) = self.wire.transport {
            return self.or_events(initialized.map(|(server, _)| server)).await;
        }
        let Transport::Program(program) = &self.wire.transport else { return initialized.map(|(server, _)| server) };
        match initialized {
            // A program that takes long to start reads both questions, and may hold to the era of the first.
            Err(NotReady::Refused(..)) if discovered == Discovery::Silent => match self.discover().await? {
                Discovery::Modern => Ok(Server::Modern),
                Discovery::Other | Discovery::Silent => initialized.map(|(server, _)| server),
            },
            Ok((server, _)) => {
                program.skip_discovery(true);
                Ok(server)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the server whether it speaks the modern era.
    async fn discover(&mut self) -> Result<Discovery, NotReady> {
        const METHOD: &str = "server/discover";
        let id = self.service.next_id();
        let outgoing = Outgoing {
            method: METHOD,
            headers: request::headers(Some(Server::Modern), None, METHOD, None),
            body: request::request(id, METHOD, "", Server::Modern),
            id: Some(id),
            limit: MAX_HANDSHAKE,
            refuse_with: None,
        };
        match tokio::time::timeout(DISCOVERY, self.wire.post(outgoing)).await {
            Ok(Ok(Answered::Result(result, _))) if is_modern(&result) => Ok(Discovery::Modern),
            Ok(Ok(Answered::Refused { status, body, .. })) if !decide::may_be_legacy(status) => {
                Err(NotReady::Failed(UpstreamError::Status { status, mapped: None, body }))
            }
            Ok(Err(Fault::Final(UpstreamError::Malformed(_) | UpstreamError::TooLarge { .. }) | Fault::Broken(_))) => {
                Ok(Discovery::Other)
            }
            Ok(Err(fault)) => Err(fault.into()),
            Ok(Ok(_)) => Ok(Discovery::Other),
            Err(_) => Ok(Discovery::Silent),
        }
    }

    /// Begins to talk to a server in the legacy era. The session, if it issues one, is kept unless it will travel with its caller.
    pub(super) async fn initialize(&mut self, whose: Whose) -> Result<(Server, Option<HeaderValue>), NotReady> {
        const METHOD: &str = "initialize";
        let id = self.service.next_id();
        let legacy = Server::Legacy { version: LEGACY_VERSIONS[0], has_sessions: false };
        let outgoing = Outgoing {
            method: METHOD,
            headers: request::headers(None, None, METHOD, None),
            body: request::request(id, METHOD, &self.hello(whose), legacy),
            id: Some(id),
            limit: MAX_HANDSHAKE,
            refuse_with: None,
        };
        let (result, session) = self.result(legacy, None, outgoing).await?;
        let unknown = || malformed("names a protocol version that the gateway does not speak");
        let named =
            serde_json::from_slice::<Initialized<'_>>(&result).ok().and_then(|r| text::string(r.protocol_version));
        let named = named.ok_or_else(unknown)?;
        let version = LEGACY_VERSIONS.into_iter().find(|version| version.as_bytes() == named).ok_or_else(unknown)?;
        let server = Server::Legacy { version, has_sessions: session.is_some() };
        let headers = request::headers(Some(server), session.as_ref(), METHOD, None);
        let outgoing = Outgoing {
            method: "notifications/initialized",
            headers,
            body: request::INITIALIZED,
            id: None,
            limit: MAX_HANDSHAKE,
            refuse_with: None,
        };
        if let Answered::Refused { status, body, .. } = self.wire.post(outgoing).await? {
            return Err(NotReady::Failed(UpstreamError::Status { status, mapped: None, body }));
        }
        if let (Some(session), Some(owner)) = (&session, self.owner(whose)) {
            let end = match &self.wire.transport {
                Transport::Http(http) => http.letter(&request::headers(Some(server), Some(session), METHOD, None)),
                Transport::Events(..) | Transport::Program(_) => None,
            };
            self.peer.keep_session(&owner, session.clone(), end);
        }
        Ok((server, session))
    }

    /// Asks a legacy server for the log messages that the caller wants, unless it was asked in this session before. Whether the
    /// server has log messages does not matter to the call.
    pub(super) async fn set_level(&mut self, server: Server, session: Option<&HeaderValue>) {
        const METHOD: &str = "logging/setLevel";
        let Some(level) = self.wire.context.relay.and_then(|relay| relay.level()) else { return };
        // A server without sessions could not keep the level. A program, or a stream of events, is a session by itself.
        let is_lower = || match &self.wire.transport {
            Transport::Http(_) => session.is_some() && self.peer.lower_level(&self.caller, session, level),
            Transport::Events(_, connection) => connection.lower_level(level),
            Transport::Program(_) => self.peer.lower_level(&self.caller, None, level),
        };
        if server == Server::Modern || !is_lower() {
            return;
        }
        let id = self.service.next_id();
        let plain = request::headers(Some(server), session, METHOD, None);
        let outgoing = Outgoing {
            method: METHOD,
            headers: plain.clone(),
            body: request::request(id, METHOD, &request::set_level(level), server),
            id: Some(id),
            limit: MAX_HANDSHAKE,
            refuse_with: Some(&plain),
        };
        let _ = tokio::time::timeout(DISCOVERY, Box::pin(self.wire.post(outgoing))).await;
    }

    /// Reads the server's list, and compares it with what is pinned. Returns which tools are withheld, or the tools of a followed
    /// server, and how long that holds as the server says, in milliseconds.
    async fn list(&mut self, server: Server) -> Result<(Compared, Option<u64>), NotReady> {
        const METHOD: &str = "tools/list";
        let session = self.session_of_lists(server).await?;
        let mut comparison = Comparison::new(&self.service.pins, self.service.follows);
        let (mut cursor, mut cursors, mut left, mut ttl) = (None::<String>, HashSet::new(), MAX_LIST, None::<u64>);
        for _ in 0..MAX_PAGES {
            let id = self.service.next_id();
            let plain = request::headers(Some(server), session.as_ref(), METHOD, None);
            let outgoing = Outgoing {
                method: METHOD,
                headers: plain.clone(),
                body: request::request(id, METHOD, &request::list(cursor.as_deref()), server),
                id: Some(id),
                limit: left,
                refuse_with: (server != Server::Modern).then_some(&plain),
            };
            let before = self.wire.context.memory.used();
            let page = match self.result(server, session.as_ref(), outgoing).await {
                Ok((page, _)) => page,
                Err(NotReady::Failed(UpstreamError::TooLarge { .. })) => {
                    comparison.end("has more than 4 MiB");
                    break;
                }
                Err(error) => return Err(error),
            };
            let bytes = page.len();
            let mut pages = comparison;
            let compared = self.wire.off_thread(bytes, move || {
                let end = pages.page(&page);
                (pages, end)
            });
            let (pages, end) = compared.await.map_err(NotReady::Failed)?;
            comparison = pages;
            self.wire.context.memory.shrink_to(before);
            let PageEnd { next, ttl_ms } = end.map_err(malformed)?;
            ttl = ttl.into_iter().chain(ttl_ms).min();
            left = left.saturating_sub(bytes as u64);
            // What was listed before has not changed since.
            self.wire.list_changed = false;
            let Some(next) = next else { return Ok((comparison.finish(), ttl)) };
            if !cursors.insert(next.clone()) {
                comparison.end("repeats a cursor");
                break;
            }
            cursor = Some(next);
        }
        comparison.end("has more than 200 pages");
        Ok((comparison.finish(), ttl))
    }

    /// Sends a request that comes before a call, and returns its result and the session that began with it.
    async fn result(
        &mut self,
        server: Server,
        session: Option<&HeaderValue>,
        outgoing: Outgoing<'_>,
    ) -> Result<(Bytes, Option<HeaderValue>), NotReady> {
        match self.wire.post(outgoing).await? {
            Answered::Result(result, session) => Ok((result, session)),
            Answered::Error(error) => {
                let forget = match error.code {
                    decide::UNSUPPORTED_VERSION => Forget::Server,
                    _ => Forget::Nothing,
                };
                Err(NotReady::Refused(forget, UpstreamError::Rpc { code: error.code, message: error.message }))
            }
            Answered::Refused { status, code, body } => {
                let next = decide::refused(server, session.is_some(), (status, code), true, 1);
                Err(NotReady::Refused(next.forget, UpstreamError::Status { status, mapped: None, body }))
            }
            Answered::Accepted => Err(malformed("holds no answer to the request").into()),
        }
    }

    /// Sends a request of a caller. If this future is dropped, the request is cancelled where the protocol has a message for that.
    pub(super) async fn send(
        &mut self,
        server: Server,
        session: Option<&HeaderValue>,
        asked: Asked<'_>,
    ) -> Result<Answered, Fault> {
        let Asked { method, name, params, headers: more, limit } = asked;
        let id = self.service.next_id();
        let plain = request::headers(Some(server), session, method, None);
        let mut headers = request::headers(Some(server), session, method, name);
        let refuse_with = match server {
            Server::Modern => {
                headers.extend(more.clone());
                None
            }
            Server::Legacy { .. } => Some(&plain),
        };
        let relay = self.wire.relay();
        let asked = ForCaller {
            progress: relay.is_some_and(|relay| relay.kinds().progress),
            level: relay.and_then(|relay| relay.level()),
            input: self.wire.context.input,
        };
        let body = request::request_for(asked, id, method, params, server);
        self.pending = self.wire.transport.needs_cancel(server).then(|| (plain.clone(), id));
        let answered = self.wire.post(Outgoing { method, headers, body, id: Some(id), limit, refuse_with }).await;
        self.pending = None;
        if std::mem::take(&mut self.wire.list_changed) {
            self.peer.expire();
        }
        answered
    }

    /// Returns the result of a request of a caller, or `None` if the request has to be sent once more. `repeatable`: executing it
    /// twice does no harm. `attempt`: from 1.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) fn settle(
        &self,
        (server, session): (Server, Option<&HeaderValue>),
        answered: Result<Answered, Fault>,
        repeatable: bool,
        attempt: u32,
    ) -> Result<Option<Bytes>, UpstreamError> {
        match answered {
            Ok(Answered::Result(result, _)) => Ok(Some(result)),
            Ok(Answered::Error(RpcFault { code: decide::MISSING_CAPABILITY, required, .. }))
                if server == Server::Modern =>
            {
                Err(UpstreamError::InputRequired(InputRequired::Undeclared { required }))
            }
            Ok(Answered::Error(error)) => Err(UpstreamError::Rpc { code: error.code, message: error.message }),
            Ok(Answered::Refused { code: Some(decide::MISSING_CAPABILITY), body, .. }) if server == Server::Modern => {
                let required = message::error_in(&body).and_then(|error| error.required);
                Err(UpstreamError::InputRequired(InputRequired::Undeclared { required }))
            }
            Ok(Answered::Refused { status, code, body }) => {
                let next = decide::refused(server, session.is_some(), (status, code), repeatable, attempt);
                self.forget(next.forget, session);
                if next.again { Ok(None) } else { Err(UpstreamError::Status { status, mapped: None, body }) }
            }
            Ok(Answered::Accepted) => Err(malformed("holds no answer to the request").into_error()),
            Err(Fault::Broken(_)) if repeatable && attempt == 1 => Ok(None),
            Err(fault) => Err(fault.into_error()),
        }
    }

    fn forget(&self, what: Forget, session: Option<&HeaderValue>) {
        match (what, session) {
            (Forget::Nothing, _) => {}
            (Forget::Session, Some(session)) => {
                self.peer.end_session(&self.caller, session);
                // A server that has lost its sessions may have been replaced by another version of itself.
                self.peer.expire();
            }
            (Forget::Session, None) | (Forget::Server, _) => self.peer.forget(),
        }
    }
}

/// Whether the answer to `server/discover` says that the server speaks the modern version.
fn is_modern(result: &[u8]) -> bool {
    let versions = serde_json::from_slice(result).map(|Discovered { supported_versions }| supported_versions);
    versions.is_ok_and(|versions| versions.iter().filter_map(|raw| text::string(raw)).any(|version| version == MODERN))
}
