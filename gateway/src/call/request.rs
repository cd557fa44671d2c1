//! A tool call as it was requested: what to call, for whom, and within which limits.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tamis_config::OutputLimits;
use tamis_engine::Enforcement;

use super::ContentCall;
use crate::bundle::{Bundle, Member};
use crate::exposition::Exposition;
use crate::input::{CallerInput, CannotAsk};
use crate::mcp::Era;
use crate::mcp::level::Level;
use crate::relay::{Asking, Relay, Wanted};
use crate::sealed::CallerSession;
use crate::trace::Parent;

/// A call that was parsed but not checked yet. Owns its parts, so it can outlive its connection.
#[derive(Debug)]
pub(crate) struct ToolCall {
    /// The exposition that publishes the tool. The call counts for it.
    pub(crate) exposition: Arc<Exposition>,
    /// The bundle that the call came through, if it did.
    pub(crate) bundle: Option<Arc<Bundle>>,
    /// Gateways that the call has passed before this one.
    pub(crate) hops: u8,
    /// The request's id, as JSON.
    pub(crate) id: Bytes,
    /// The number of the tool, or of another call, in the exposition.
    pub(crate) tool: usize,
    /// What is called if it is not a tool.
    pub(crate) content: Option<ContentCall>,
    /// The part of a bundle whose prompts or resources are asked for, if they are asked for through a bundle.
    pub(crate) member: Option<Member>,
    /// What is called if this call finds nothing: another server of a bundle may have the resource.
    pub(crate) otherwise: Option<Box<Self>>,
    /// The arguments, as JSON.
    pub(crate) arguments: Option<Bytes>,
    /// How to answer.
    pub(crate) era: Era,
    /// What the caller wants of the messages that a server sends during the call.
    pub(crate) wanted: Wanted,
    /// What the caller can be asked for during the call, and what it has answered. None under `Enforced`.
    pub(crate) input: Option<Box<CallerInput>>,
    /// The caller's session with the exposition, if its id is sealed.
    pub(crate) session: Option<Box<CallerSession>>,
    /// The caller, for the audit record.
    pub(crate) caller: Caller,
    /// The caller's span that the call belongs to.
    pub(crate) parent: Parent,
}

/// The limits on one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) timeout: Duration,
    pub(super) max_response_bytes: u64,
    pub(super) output: OutputLimits,
}

impl ToolCall {
    /// Returns the stricter of the limits of the exposition and of the bundle.
    pub(super) fn limits(&self) -> Limits {
        let own = &self.exposition.limits;
        let (mut timeout_ms, mut max_response_bytes, mut output) = (own.timeout_ms, own.max_response_bytes, own.output);
        if let Some(bundle) = &self.bundle {
            timeout_ms = bundle.limits.timeout_ms.map_or(timeout_ms, |most| timeout_ms.min(most));
            max_response_bytes =
                bundle.limits.max_response_bytes.map_or(max_response_bytes, |m| max_response_bytes.min(m));
            output = output.tightest(bundle.limits.output);
        }
        Limits { timeout: Duration::from_millis(timeout_ms), max_response_bytes, output }
    }

    /// Returns what passes messages of the server to the caller, with the level of log messages that the caller's session has set, and
    /// how the caller is asked for input; none if nothing passes. Only MCP servers send messages during a call.
    pub(crate) fn relay(
        &self,
        session: impl FnOnce() -> Option<Level>,
        asking: impl FnOnce() -> Option<Asking>,
    ) -> Option<Arc<Relay>> {
        if self.content.is_some() || !self.exposition.service.upstream.is_mcp() {
            return None;
        }
        let enforcement = self.exposition.enforcement;
        let level = match (enforcement, self.era) {
            (Enforcement::Enforced, _) => None,
            (Enforcement::Advisory, Era::Modern) => self.wanted.level,
            (Enforcement::Advisory, Era::Legacy) => session(),
        };
        let asking = if self.era == Era::Legacy && enforcement == Enforcement::Advisory { asking() } else { None };
        Relay::new(&Wanted { token: self.wanted.token.clone(), level }, asking, enforcement)
    }

    /// Returns why a server cannot ask the caller, if it cannot ask at all.
    pub(super) fn cannot_ask(&self) -> CannotAsk {
        match (self.exposition.enforcement, self.era, &self.session) {
            (Enforcement::Enforced, _, _) => CannotAsk::Enforced,
            (Enforcement::Advisory, Era::Modern, _) => CannotAsk::Modern,
            (Enforcement::Advisory, Era::Legacy, None) => CannotAsk::NoSession,
            (Enforcement::Advisory, Era::Legacy, Some(_)) => CannotAsk::Undeclared(None),
        }
    }

    /// Returns the member of a modern `_meta` that names the server that the caller addressed.
    pub(crate) fn server_meta(&self) -> &Arc<str> {
        self.bundle.as_ref().map_or(&self.exposition.service.server_meta, |bundle| &bundle.server_meta)
    }

    /// Returns the request's id, as JSON.
    pub(crate) fn id(&self) -> &str {
        // Checked when the request was read.
        std::str::from_utf8(&self.id).unwrap_or("null")
    }
}

/// The sender of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// An anonymous caller at this address.
    Peer(IpAddr),
    /// The owner of the key with this name, at this address.
    Key(Arc<str>, IpAddr),
    /// The process that started this one.
    Parent,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(address) => write!(f, "anonymous@{address}"),
            Self::Key(name, address) => write!(f, "key:{name}@{address}"),
            Self::Parent => f.write_str("stdio"),
        }
    }
}

impl Caller {
    /// Returns the identity for streams of notifications: the key's name, or else the address.
    pub(crate) fn listener(&self) -> String {
        match self {
            Self::Key(name, _) => format!("key:{name}"),
            Self::Peer(address) => address.to_string(),
            Self::Parent => String::new(),
        }
    }

    /// Returns this caller under the name that an exposition knows.
    pub(crate) fn named(&self, name: Arc<str>) -> Self {
        match self {
            Self::Peer(address) | Self::Key(_, address) => Self::Key(name, *address),
            Self::Parent => Self::Parent,
        }
    }

    /// Returns the caller's name, to which sealed cursors are bound; none if callers have no names.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Key(name, _) => Some(name),
            Self::Peer(_) | Self::Parent => None,
        }
    }
}
