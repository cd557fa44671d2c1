//! Whether, and when, a request is sent again. A pure decision.

use std::time::Duration;

use http::header::{HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use tamis_config::Retry;

/// The longest that a `Retry-After` is followed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// An error status, with what `Retry-After` asks for.
    Status { status: u16, retry_after: Option<Duration> },
    /// The request did not reach the upstream.
    Unsent,
    /// The connection broke after the request may have been read.
    Broken,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Send it again after this time.
    Wait(Duration),
    /// The failure is the result.
    Stop,
}

/// Decides after the attempt number `attempt` (from 1) failed, with `left` until the deadline.
///
/// A request that may have been executed is repeated only where that does no harm (`idempotent`), or where the
/// manifest lists the status. Without `retry` an idempotent request gets one more connection: an upstream may close
/// an idle one at the moment it is used.
pub(super) fn decide(
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
    // An attempt that begins at the deadline cannot succeed; the failure is worth more than a time-out.
    if wait < left { Decision::Wait(wait) } else { Decision::Stop }
}

/// Reads `Retry-After` (RFC 9110, 10.2.3): seconds, or a date seen from `now`.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    // A date that has passed says: now.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
#[path = "tests/retry.rs"]
mod tests;
