//! Reading the bodies of requests: bounded in bytes and time, into memory that was reserved before.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use hyper::header::{self, HeaderMap};

use super::incoming::RequestBody;
use crate::gateway::Gateway;
use crate::memory::{Buffer, Exhausted, Reservation};
use crate::options::GatewayLimits;

/// Bytes that are read of the body of a refused request.
const DISCARDED: usize = 64 << 10;
/// How long reading them may take.
const DISCARDING: Duration = Duration::from_secs(1);

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is larger than a request may be.
    TooLarge,
    /// It took longer than a request may take.
    TimedOut,
    /// Its sender broke off.
    Incomplete,
    /// There is no memory for it.
    Exhausted,
}

impl From<Exhausted> for BodyError {
    fn from(Exhausted: Exhausted) -> Self {
        Self::Exhausted
    }
}

/// Reads the body of an admitted request. A stated length is reserved at once, anything else as it arrives.
///
/// # Errors
/// [`BodyError`].
pub(super) async fn read(
    limits: &GatewayLimits,
    mut body: RequestBody,
    held: &mut Reservation,
) -> Result<Bytes, BodyError> {
    let stated = body.size_hint().exact();
    if stated.is_some_and(|stated| stated > limits.request_bytes as u64) {
        drain(body).await;
        return Err(BodyError::TooLarge);
    }
    let reading = async {
        let mut all = Buffer::new(held, stated).await?;
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(|_| BodyError::Incomplete)?.into_data() else { continue };
            if all.len() + piece.len() > limits.request_bytes {
                return Err(BodyError::TooLarge);
            }
            all.push(piece).await?;
        }
        Ok(all.finish())
    };
    tokio::time::timeout(limits.body_timeout, reading).await.unwrap_or(Err(BodyError::TimedOut))
}

/// Reads a refused request's body if it is short and arrives promptly, and discards it otherwise. Its sender was not
/// authenticated, so the memory is charged to the share of all unauthenticated senders.
pub(super) async fn peek(gateway: &Gateway, mut body: RequestBody) -> Bytes {
    let fits = body.size_hint().lower() <= DISCARDED as u64;
    let held = if fits { Reservation::try_open(&gateway.unauthenticated) } else { None };
    let Some(mut held) = held else {
        drain(body).await;
        return Bytes::new();
    };
    let reading = async {
        let mut all = Buffer::new(&mut held, None).await.ok()?;
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.ok()?.into_data() else { continue };
            if all.len() + piece.len() > DISCARDED {
                return None;
            }
            all.push(piece).await.ok()?;
        }
        Some(all.finish())
    };
    tokio::time::timeout(DISCARDING, reading).await.ok().flatten().unwrap_or_default()
}

/// Discards a refused request's body, so that its sender finishes sending and reads the answer. On `Expect: 100-continue`,
/// the request is refused before the body is sent.
pub(super) async fn discard(headers: &HeaderMap, body: RequestBody) {
    if !headers.contains_key(header::EXPECT) {
        drain(body).await;
    }
}

/// Reads and drops the beginning of a body. The sender of a large or slow body gets the answer with a closed connection.
async fn drain(mut body: RequestBody) {
    let mut left = DISCARDED;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARDING, reading).await;
}
