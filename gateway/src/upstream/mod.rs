//! Calls to upstreams. A service's answer becomes bytes; nothing here knows of filters or MCP.
//!
//! [`Upstream`] dispatches on the kind of a service's source, and each kind is a module of its own: `http`, `mcp`, `grpc` and `command`. The
//! other modules are shared: the client and what it may connect to, responses, credentials, the search for a credential in
//! an answer, and templates.

mod alias;
mod auth;
mod client;
mod cluster;
mod command;
mod connect;
mod credentials;
mod dns;
mod egress;
mod error;
mod grpc;
mod gunzip;
mod http;
mod incoming;
mod json_template;
mod local_callers;
mod mcp;
mod origin;
mod pace;
mod pool;
mod reserved;
mod returned;
mod service;
mod syntax;
mod template;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tamis_config::ExpositionId;
use tamis_config::{AllowedUse, CredentialGrant, CredentialHandle, CredentialRef};
use tamis_engine::Input;

use crate::access::Callers;
use crate::call::Caller;
use crate::input::{CallerInput, CannotAsk};
use crate::memory::Reservation;
use crate::offload::Offload;
use crate::relay::Relay;
use crate::sealed::CallerSession;
use crate::trace::CallTrace;

pub use crate::arguments::Arguments;
pub use client::{Client, ClientError, ClientOptions, IdleLimits};
pub use command::ProgramEnd;
pub use credentials::{LocalCredentials, environment_variable};
pub use egress::{Destination, EgressPolicy, InvalidDestination};
pub use error::UpstreamError;
pub use mcp::{Difference, Withheld, fuzzing as mcp_fuzzing};
pub(crate) use mcp::{LeftOut, Listed, StreamEnd, asked};
pub use service::{InvalidService, Upstream};

pub(crate) use client::error_chain;
pub(crate) use mcp::{Opened, ProgramReport};
pub(crate) use origin::Target;

/// What a call gets besides its arguments.
#[derive(Debug)]
pub struct CallContext<'a> {
    /// How long the call may take, and how much it may return.
    pub bounds: CallBounds,
    /// Gateways that the call has passed before this one.
    pub hops: u8,
    /// The credentials of the exposition.
    pub credentials: CredentialScope<'a>,
    /// Who calls. Callers do not share sessions with an upstream.
    pub(crate) caller: Option<&'a Caller>,
    /// The bundle that the call came through, if it did. Its callers may have the names of others.
    pub(crate) through: Option<&'a ExpositionId>,
    /// The trace of the call. Each request gets a span, and the upstream gets its context.
    pub trace: Option<&'a CallTrace>,
    /// What passes messages of the server to the caller; none if the caller wants none.
    pub(crate) relay: Option<&'a Arc<Relay>>,
    /// What the caller can be asked for, and what it has answered; none if it cannot be asked.
    pub(crate) input: Option<&'a CallerInput>,
    /// The caller's session, if its id says what session of an MCP server belongs to it.
    pub(crate) session: Option<&'a CallerSession>,
    /// Why an MCP server cannot ask the caller during the call, if `relay` does not say how it can.
    pub(crate) cannot_ask: CannotAsk,
    /// The query of a GraphQL tool, as a JSON string, in place of the service's.
    pub(crate) query: Option<&'a str>,
    /// How many messages of a stream the filter reads; none for all.
    pub(crate) most_messages: Option<usize>,
    /// Where answers are parsed and merged that are too large for a serving thread.
    pub(crate) offload: Offload<'a>,
    /// The memory of the call. The answer's memory is reserved here, and stays reserved.
    pub memory: &'a mut Reservation,
}

impl CallContext<'_> {
    /// Returns a name for the caller that no other caller has, of any exposition or bundle.
    fn caller_key(&self) -> String {
        let caller = self.caller.map(Caller::listener).unwrap_or_default();
        // Names of expositions and of sessions contain no space.
        match (self.through, self.session) {
            (Some(bundle), _) => format!("{} {bundle} {caller}", self.offload.exposition()),
            (None, Some(session)) => format!("{} :{} {caller}", self.offload.exposition(), session.name),
            (None, None) => format!("{}  {caller}", self.offload.exposition()),
        }
    }
}

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallBounds {
    /// When the call has to be over, retries and pages included.
    pub deadline: Instant,
    /// Bytes of output, after decompression, over all pages.
    pub max_response_bytes: u64,
    /// Whether a page that is an object may be searched for its list (`items`, ..). Not under `Enforced`: there data
    /// that the filter removes must not decide which list it is.
    pub detect_list: bool,
}

/// What an upstream answered, before any filter. Its `Debug` shows no payload.
pub struct Answer {
    /// The output. For several pages one JSON list of their elements.
    pub output: Output,
    /// Content of an MCP tool that is not text, as JSON: images, audio, links and embedded resources.
    pub media: Vec<Bytes>,
    /// Members of the `_meta` of an MCP tool's result, as JSON without braces.
    pub meta: Option<Bytes>,
    /// The errors that a GraphQL server reported next to the data, as a JSON list.
    pub errors: Option<Bytes>,
    /// Set if the gateway fetched pages.
    pub pagination: Option<PageReport>,
    /// Why a stream was not read to its end: a sentence for the caller.
    pub cut: Option<&'static str>,
    /// Status of the last response.
    pub status: u16,
    /// Requests sent, retries and pages included.
    pub requests: u32,
    /// Time spent upstream.
    pub elapsed: Duration,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { output, media, meta, errors, pagination, cut, status, requests, elapsed } = self;
        f.debug_struct("Answer")
            .field("output", output)
            .field("media", &media.len())
            .field("meta", &meta.as_ref().map(Bytes::len))
            .field("errors", &errors.as_ref().map(Bytes::len))
            .field("pages", &pagination.as_ref().map(|p| p.pages))
            .field("cut", cut)
            .field("status", status)
            .field("requests", requests)
            .field("elapsed", elapsed)
            .finish()
    }
}

/// What an MCP server wants of the caller before it can answer. Its `Debug` shows no payload.
#[derive(Clone, PartialEq, Eq)]
pub enum InputRequired {
    /// The server asks for it.
    Asked {
        /// The requests by name, a JSON object.
        requests: Option<Bytes>,
        /// The server's state, a JSON string, which comes back with the answers.
        state: Option<Bytes>,
    },
    /// The server did not ask, since the caller has not declared a capability for it.
    Undeclared {
        /// The capabilities that the server requires, a JSON object in one line, if it named them.
        required: Option<Bytes>,
    },
}

impl fmt::Debug for InputRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked { .. } => "Asked(..)",
            Self::Undeclared { .. } => "Undeclared(..)",
        })
    }
}

/// What an MCP server answered to a request that was passed on.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The result, as JSON: a slice of the server's message.
    pub(crate) result: Bytes,
    /// Time spent upstream.
    pub(crate) elapsed: Duration,
}

/// The output of a call, as its tool declares it. Its `Debug` shows no payload.
#[derive(Clone, PartialEq, Eq)]
pub enum Output {
    /// Meant to be JSON; not parsed yet.
    Json(Bytes),
    /// Text.
    Text(Bytes),
}

impl Output {
    /// Returns the bytes, of whatever form.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Json(bytes) | Self::Text(bytes) => bytes,
        }
    }

    /// Returns the output as a filter takes it.
    #[must_use]
    pub fn input(&self) -> Input<'_> {
        match self {
            Self::Json(bytes) => Input::Json(bytes),
            Self::Text(bytes) => Input::Text(bytes),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Json(_) => "Json",
            Self::Text(_) => "Text",
        };
        write!(f, "{kind}({} bytes)", self.bytes().len())
    }
}

/// What a caller needs to fetch further pages (`_pagination`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageReport {
    /// Pages fetched.
    pub pages: u32,
    /// Items fetched, if the answer was a list.
    pub items: Option<usize>,
    /// Items in all, if the upstream says so.
    pub total: Option<u64>,
    /// The cursor or offset of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Where credential values come from. A value is read at each call, so that it rotates without a reload.
///
/// Standalone, a value is known by its name ([`get`](Self::get)). In a cluster it is known by the handle that came with
/// the exposition's document ([`by_handle`](Self::by_handle)), and by nothing else: a name would give today's value to
/// yesterday's base URL.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Returns the value of that name, or `None` if it is not there. The store of a cluster knows no names.
    fn get(&self, namespace: &str, credential: &CredentialRef) -> Option<Secret>;

    /// Returns the value under a handle, or `None` if it is not there.
    fn by_handle(&self, handle: &CredentialHandle) -> Option<Secret> {
        let _ = handle;
        None
    }

    /// Returns the callers that a Secret names: by its handle if there is one, otherwise by its name. `None` if the
    /// Secret is not there or cannot be used; the exposition then rejects every caller. Called for every request.
    fn callers(&self, namespace: &str, secret: &str, handle: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        let _ = (namespace, secret, handle);
        None
    }
}

/// What an exposition may do with the credentials of its service, and by which handles it knows them. Empty when
/// standalone: credentials are then known by their names, and used without restriction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handles(Box<[(CredentialRef, CredentialGrant)]>);

impl Handles {
    /// Reads the map of an exposition's document, `name/key` to grant.
    ///
    /// # Errors
    /// Names the entry that is not `name/key`.
    pub fn new(credentials: &BTreeMap<String, CredentialGrant>) -> Result<Self, String> {
        let each = |(reference, grant): (&String, &CredentialGrant)| {
            let (name, key) =
                reference.split_once('/').ok_or_else(|| format!("credentials.{reference}: not name/key"))?;
            Ok((CredentialRef { name: name.to_owned(), key: key.to_owned() }, grant.clone()))
        };
        credentials.iter().map(each).collect::<Result<_, String>>().map(Self)
    }
}

/// The credentials of one exposition.
#[derive(Debug, Clone, Copy)]
pub struct CredentialScope<'a> {
    /// Where values come from.
    pub store: &'a dyn Credentials,
    /// The exposition's namespace.
    pub namespace: &'a str,
    /// How it knows them.
    pub handles: &'a Handles,
}

impl<'a> CredentialScope<'a> {
    /// Returns the value of a credential, and how it may be used. An exposition with handles reads it by its handle and
    /// never by its name: the name could give a value of another generation than the URL that it is sent to.
    pub(crate) fn get(&self, credential: &CredentialRef) -> Option<(Secret, Permission<'a>)> {
        if self.handles.0.is_empty() {
            return Some((self.store.get(self.namespace, credential)?, Permission::Any));
        }
        let (_, grant) = self.handles.0.iter().find(|(known, _)| known == credential)?;
        Some((self.store.by_handle(&grant.handle)?, Permission::Uses(&grant.uses)))
    }
}

/// How a credential may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Permission<'a> {
    /// In any way: the user who starts a standalone gateway gives it the credentials.
    Any,
    /// As the lines of its owner allow.
    Uses(&'a [AllowedUse]),
}

/// The value of a credential, cheap to clone. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value, without the line ends that the file has after it.
    #[must_use]
    pub fn new(value: &str) -> Self {
        Self(value.trim_end_matches(['\r', '\n']).into())
    }

    /// Returns the value, for the request only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
