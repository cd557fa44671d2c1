//! Decides whether, and when, a request is repeated. Pure.

use std::time::Duration;

use http::header::{HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use tamis_config::Retry;

/// The longest `Retry-After` that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream) enum Failure {
    /// An error status, with the time that `Retry-After` asks for.
    Status { status: u16, retry_after: Option<Duration> },
    /// The request did not reach the upstream.
    Unsent,
    /// The connection broke after the request may have been read.
    Broken,
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream) enum Decision {
    /// Repeat the request after this time.
    Wait(Duration),
    /// The failure is the result.
    Stop,
}

/// Decides what to do after attempt number `attempt` (from 1) failed, with `left` until the deadline.
///
/// A request that may have been executed is repeated only if that does no harm (`idempotent`), or if the manifest lists the
/// status. Without `retry`, an idempotent request gets one more connection: an upstream may close an idle one at the
/// moment it is used.
pub(in crate::upstream) fn decide(
    retry: Option<&Retry>,
    idempotent: bool,
    attempt: u32,
    failure: Failure,
    left: Duration,
) -> Decision {
    let Some(retry) = retry else {
        let reconnect = idempotent && attempt == 1 && failure == Failure::Broken;
        return if reconnect { Decision::Wait(Duration::ZERO) } else { Decision::Stop };
    };
    let (worth, asked) = match failure {
        Failure::Status { status, retry_after } => (retry.retry_on.contains(&status), retry_after),
        Failure::Unsent => (true, None),
        Failure::Broken => (idempotent, None),
    };
    if !worth || attempt >= retry.max_attempts {
        return Decision::Stop;
    }
    let backoff = Duration::from_millis(retry.backoff_ms.saturating_mul(attempt.into()));
    let wait = asked.map_or(backoff, |asked| asked.min(MAX_RETRY_AFTER));
    // An attempt that begins at the deadline cannot succeed, and the failure says more than a timeout.
    if wait < left { Decision::Wait(wait) } else { Decision::Stop }
}

/// Parses `Retry-After` (RFC 9110, 10.2.3): seconds, or a date relative to `now`.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    // A date in the past means now.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
#[path = "tests/retry.rs"]
mod tests;
