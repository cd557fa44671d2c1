//! Decides what a refusal says about the server, and whether a request may be repeated. Pure.

use super::Server;

/// The code for a version that a server does not speak.
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;
/// The code for a call that needs a capability that the caller has not declared.
pub(super) const MISSING_CAPABILITY: i64 = -32021;
/// The codes of refusals that come before a request is processed: header mismatch, unsupported version.
const UNPROCESSED: [i64; 2] = [-32020, UNSUPPORTED_VERSION];

/// What to do after a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// What is no longer true.
    pub(super) forget: Forget,
    /// Whether the request is sent once more.
    pub(super) again: bool,
}

/// What a refusal makes obsolete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forget {
    /// Nothing.
    Nothing,
    /// The session. The server may have been restarted, so its tools are compared again.
    Session,
    /// The server's era, its sessions and the comparison of its tools.
    Server,
}

/// Decides what to do after a server refused a request with an HTTP status and perhaps a JSON-RPC code.
///
/// `has_session`: the request named a session. `repeatable`: executing it twice does no harm. `attempt`: from 1.
///
/// A server that answers 404 to a session does not know the session (MCP, "Session Management"), so it has processed nothing.
/// Some servers answer 400 instead, but 400 may also come from the tool: such a call is only repeated if that does no harm.
pub(super) fn refused(
    server: Server,
    has_session: bool,
    (status, code): (u16, Option<i64>),
    repeatable: bool,
    attempt: u32,
) -> Next {
    let forget = match (server, status, code) {
        (_, 400, Some(UNSUPPORTED_VERSION)) => Forget::Server,
        (Server::Modern, 400, Some(MISSING_CAPABILITY)) => Forget::Nothing,
        (Server::Legacy { .. }, 404, _) if has_session => Forget::Session,
        (Server::Legacy { .. }, 400, _) if has_session => Forget::Session,
        (_, 400 | 404 | 405 | 406 | 410 | 415 | 501, _) => Forget::Server,
        _ => Forget::Nothing,
    };
    let unprocessed = match forget {
        Forget::Nothing => false,
        Forget::Session => status == 404,
        Forget::Server => status == 400 && code.is_some_and(|code| UNPROCESSED.contains(&code)),
    };
    Next { forget, again: attempt == 1 && forget != Forget::Nothing && (unprocessed || repeatable) }
}

/// Whether an answer to `server/discover` with this HTTP status may come from a server of the legacy era.
pub(super) fn may_be_legacy(status: u16) -> bool {
    !matches!(status, 300..=399 | 401 | 403 | 407 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutating_call_is_repeated_only_if_it_was_not_processed() {
        use Forget::{Nothing, Session};
        const MODERN: Server = Server::Modern;
        const LEGACY: Server = Server::Legacy { version: "2025-11-25", has_sessions: true };
        // The refusal, what is forgotten, and whether a mutating and a repeatable call are sent again.
        for (server, has_session, refusal, forget, mutating, harmless) in [
            (LEGACY, true, (404, None), Session, true, true),
            (LEGACY, true, (404, Some(-32001)), Session, true, true),
            (LEGACY, true, (400, Some(-32000)), Session, false, true),
            (LEGACY, true, (400, Some(-32022)), Forget::Server, true, true),
            (LEGACY, false, (404, None), Forget::Server, false, true),
            (LEGACY, false, (400, Some(-32020)), Forget::Server, true, true),
            (LEGACY, true, (405, None), Forget::Server, false, true),
            (MODERN, false, (400, Some(-32022)), Forget::Server, true, true),
            (MODERN, false, (400, Some(-32020)), Forget::Server, true, true),
            (MODERN, false, (400, Some(-32021)), Nothing, false, false),
            (MODERN, false, (400, Some(-32602)), Forget::Server, false, true),
            (MODERN, false, (404, Some(-32601)), Forget::Server, false, true),
            (MODERN, false, (401, None), Nothing, false, false),
            (MODERN, false, (403, None), Nothing, false, false),
            (LEGACY, true, (429, None), Nothing, false, false),
            (LEGACY, true, (500, None), Nothing, false, false),
            (MODERN, false, (503, Some(-32022)), Nothing, false, false),
        ] {
            for (repeatable, again) in [(false, mutating), (true, harmless)] {
                let decided = |attempt| refused(server, has_session, refusal, repeatable, attempt);
                assert_eq!(decided(1), Next { forget, again }, "{server:?} {refusal:?} {repeatable}");
                assert_eq!(decided(2), Next { forget, again: false }, "{server:?} {refusal:?} {repeatable}");
            }
        }
    }

    #[test]
    fn a_server_that_turns_the_caller_away_is_not_asked_in_another_era() {
        for (status, expected) in [
            (200, true),
            (400, true),
            (404, true),
            (405, true),
            (500, true),
            (302, false),
            (401, false),
            (403, false),
            (429, false),
        ] {
            assert_eq!(may_be_legacy(status), expected, "{status}");
        }
    }
}
