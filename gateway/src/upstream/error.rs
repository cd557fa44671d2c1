//! Why a call failed.

use std::fmt;

use bytes::Bytes;
use tamis_config::CredentialRef;

use super::{InputRequired, ProgramEnd, Withheld, mcp};

/// Why there is no answer. Neither `Display` nor `Debug` shows a payload or a credential.
#[derive(thiserror::Error)]
pub enum UpstreamError {
    /// An argument cannot be put where its template wants it. The caller's fault; names the argument.
    #[error("argument `{argument}` {reason}")]
    Argument {
        /// Which.
        argument: String,
        /// Why; never holds the value.
        reason: String,
    },
    /// The upstream answered with an error status.
    #[error("the upstream answered {status}")]
    Status {
        /// The status code.
        status: u16,
        /// The manifest's text for it (`error_mapping`).
        mapped: Option<String>,
        /// The first 64 KiB of the error body, for `Advisory` callers only.
        body: Bytes,
    },
    /// The time limit passed.
    #[error("the upstream did not answer in time")]
    Timeout {
        /// Whether the request may have been executed.
        sent: bool,
    },
    /// The output is larger than allowed.
    #[error("the upstream's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The gateway has no memory for the request or for the answer.
    #[error("the gateway has no memory for the call")]
    Exhausted {
        /// Whether the request may have been executed.
        sent: bool,
    },
    /// The answer could not be read as what the manifest says it is.
    #[error("the upstream's answer {0}")]
    Malformed(String),
    /// No connection, or it broke. A program could not be started, or ended.
    #[error("{}", unreachable(.reason))]
    Unreachable {
        /// A short category: `connect`, `tls`, `dns`, `reset`, `redirect` or `egress`, or one that begins with `program_`.
        reason: &'static str,
        /// Whether the request may have been executed.
        sent: bool,
    },
    /// An MCP tool reported an error (`isError`).
    #[error("the tool reported an error")]
    Tool {
        /// Its text, for `Advisory` callers only.
        body: Bytes,
    },
    /// An MCP server answered with a JSON-RPC error.
    #[error("the upstream answered with error {code}")]
    Rpc {
        /// The code.
        code: i64,
        /// The message, for `Advisory` callers only.
        message: Bytes,
    },
    /// A GraphQL server reported errors, and gave no data, or none of the tool's field.
    #[error("the upstream answered with errors in place of data")]
    GraphQl {
        /// The list of errors as JSON, for `Advisory` callers only.
        errors: Bytes,
    },
    /// A program ended without success.
    #[error("the program {how}")]
    Exit {
        /// How.
        how: ProgramEnd,
        /// The manifest's text for the exit code (`errorMapping`).
        mapped: Option<String>,
        /// The end of its standard error, for `Advisory` callers only.
        body: Bytes,
    },
    /// An MCP server wants input of the caller before it answers. The tool was not executed.
    #[error("the tool asks for input")]
    InputRequired(InputRequired),
    /// An MCP server could not be prepared for the call. The call was not sent.
    #[error("the upstream is not ready for calls: {0}")]
    NotReady(Box<UpstreamError>),
    /// An MCP server has ended the session of the caller's session. The call was not executed.
    #[error("the upstream has ended the session")]
    SessionEnded,
    /// The MCP server does not list the tool as it is pinned. The call was not sent.
    #[error("the tool is withheld: {0}")]
    Withheld(Withheld),
    /// The service has no such tool. A gateway that lists what it calls does not see this.
    #[error("the service has no tool `{0}`")]
    UnknownTool(String),
    /// A credential is not there, empty, or cannot be sent.
    #[error("credential `{}` key `{}` is not available", .0.name, .0.key)]
    Credential(CredentialRef),
    /// The credential's owner does not allow this request (`tamis.dev/allowed-use`). Nothing was sent.
    #[error("credential `{}` key `{}` may not be used for this request", .0.name, .0.key)]
    CredentialUse(CredentialRef),
    /// The answer contains the credential that the request was sent with.
    #[error("the upstream's answer contains the credential that it was called with")]
    CredentialReturned,
}

/// Returns why an upstream could not be reached, by the category.
fn unreachable(reason: &str) -> String {
    let program = match reason {
        mcp::ENDED => "ended before it answered",
        mcp::NOT_STARTED => "could not be started",
        mcp::WAITS => "ended too often, and is started again later",
        mcp::BUSY => "cannot be started again, since all of its processes are in use",
        mcp::STREAM_FLOODED => {
            return "the upstream sent too much that is no answer, and its stream of events was closed".to_owned();
        }
        mcp::FLOODED => "was ended, since it wrote too much that is no answer",
        _ => return format!("the upstream could not be reached: {reason}"),
    };
    format!("the program that is the upstream {program}")
}

impl UpstreamError {
    /// What failed, in one word, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Argument { .. } => "argument",
            Self::Status { .. } => "status",
            Self::Timeout { .. } => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::Exhausted { .. } => "exhausted",
            Self::Malformed(_) => "malformed",
            Self::Unreachable { reason, .. } => reason,
            Self::Tool { .. } => "tool",
            Self::Rpc { .. } => "rpc",
            Self::GraphQl { .. } => "graphql",
            Self::Exit { .. } => "exit",
            Self::InputRequired(_) => "input_required",
            Self::NotReady(error) => error.category(),
            Self::SessionEnded => "session_ended",
            Self::Withheld(_) => "withheld",
            Self::UnknownTool(_) => "unknown_tool",
            Self::Credential(_) => "credential",
            Self::CredentialUse(_) => "credential_use",
            Self::CredentialReturned => "credential_returned",
        }
    }

    /// Returns the beginning of what the upstream says about the error, for `Advisory` callers only.
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        match self {
            Self::Status { body, .. }
            | Self::Exit { body, .. }
            | Self::Tool { body }
            | Self::Rpc { message: body, .. } => Some(body),
            Self::GraphQl { errors } => Some(errors),
            Self::NotReady(error) => error.body(),
            _ => None,
        }
    }

    /// Returns the error of a request that came before the call, which was not sent.
    pub(super) fn before_the_call(self) -> Self {
        match self {
            Self::Timeout { .. } => Self::Timeout { sent: false },
            Self::Exhausted { .. } => Self::Exhausted { sent: false },
            Self::Unreachable { reason, .. } => Self::Unreachable { reason, sent: false },
            Self::Credential(_)
            | Self::CredentialUse(_)
            | Self::CredentialReturned
            | Self::NotReady(_)
            | Self::SessionEnded => self,
            other => Self::NotReady(Box::new(other)),
        }
    }

    /// Whether the upstream may have executed the request, so that a mutating call must not simply be repeated.
    #[must_use]
    pub fn sent(&self) -> bool {
        match self {
            Self::Status { .. } | Self::TooLarge { .. } | Self::Malformed(_) | Self::CredentialReturned => true,
            Self::Tool { .. } | Self::Rpc { .. } | Self::GraphQl { .. } | Self::Exit { .. } => true,
            Self::NotReady(_) | Self::Withheld(_) | Self::InputRequired(_) | Self::SessionEnded => false,
            Self::Timeout { sent } | Self::Exhausted { sent } | Self::Unreachable { sent, .. } => *sent,
            Self::Argument { .. } | Self::UnknownTool(_) | Self::Credential(_) | Self::CredentialUse(_) => false,
        }
    }
}

impl fmt::Debug for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(sent: {}): {self}", self.category(), self.sent())?;
        match self.body() {
            Some(body) => write!(f, " with {} bytes", body.len()),
            None => Ok(()),
        }
    }
}
