//! The response of an upstream: why there is none, decompression, and a bound on what is read.

use std::error::Error;
use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::header::{CONTENT_ENCODING, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::UpstreamError;
use super::egress::{Denied, ResolveError};
use super::gunzip::{Gunzip, GunzipError};
use super::pace::Turn;
use super::returned::{Needles, Search};
use super::transport::{Failed, MAX_HEAD, MAX_HEADERS, MAX_INFORMATIONAL, Received};
use crate::memory::{Buffer, Exhausted, Reservation};
use crate::trace::RequestSpan;

/// Bytes of an error's body that are read.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Bytes of gzip that are decoded at once. They become at most 128 KiB.
const GUNZIP_PIECE: usize = 128;
/// Bytes that are decoded before they are searched for the credential of the call.
const SEARCH_PIECE: usize = 128 << 10;

/// A response whose body has not been read.
pub(super) struct Incoming {
    response: Received,
    /// Ends with the response.
    span: Option<RequestSpan>,
}

/// Why there is no response, or no body.
#[derive(Debug)]
pub(super) enum Fault {
    /// The request did not reach the upstream. Holds a short category.
    Unsent(&'static str),
    /// The request may have reached the upstream. Holds a short category.
    Broken(&'static str),
    /// Another attempt cannot help.
    Final(UpstreamError),
}

impl Fault {
    /// Returns the fault of a request that must not be sent, or not be followed. Holds a short category.
    pub(super) fn refused(reason: &'static str, sent: bool) -> Self {
        Self::Final(UpstreamError::Unreachable { reason, sent })
    }

    /// Returns the category for traces.
    fn category(&self) -> &'static str {
        match self {
            Self::Unsent(reason) | Self::Broken(reason) => reason,
            Self::Final(UpstreamError::Unreachable { reason, .. }) => reason,
            Self::Final(UpstreamError::TooLarge { .. }) => "too_large",
            Self::Final(UpstreamError::CredentialReturned) => "credential_returned",
            Self::Final(UpstreamError::Exhausted { .. }) => "exhausted",
            Self::Final(_) => "malformed",
        }
    }

    /// Returns the error for a request that is not repeated.
    pub(super) fn into_error(self) -> UpstreamError {
        match self {
            Self::Unsent(reason) => UpstreamError::Unreachable { reason, sent: false },
            Self::Broken(reason) => UpstreamError::Unreachable { reason, sent: true },
            Self::Final(error) => error,
        }
    }
}

/// Records on a span why its request failed.
pub(super) fn record_failure(span: &mut Option<RequestSpan>, fault: &Fault) {
    if let Some(span) = span {
        span.failed(fault.category());
    }
}

/// Classifies a failure by whether the request may have been executed. `earlier`: an earlier hop has been sent.
pub(super) fn fault(failed: &Failed, earlier: bool) -> Fault {
    let error: &(dyn Error + 'static) = match failed {
        Failed::Connect(error) | Failed::Unsent(error) | Failed::Broken(error) => &**error,
        Failed::Informational => {
            return malformed(&format!("sends more than {MAX_INFORMATIONAL} informational responses"));
        }
    };
    if caused_by(error, &|e| e.is::<Denied>()) {
        return Fault::refused("egress", earlier);
    }
    let is_too_large = |e: &hyper::Error| e.is_parse_too_large();
    if caused_by(error, &|e| e.downcast_ref().is_some_and(is_too_large)) {
        return malformed(&format!("has more than {MAX_HEADERS} headers, or more than {MAX_HEAD} bytes of them"));
    }
    // rustls wraps its errors in one of this kind.
    let invalid = |e: &io::Error| e.kind() == io::ErrorKind::InvalidData;
    let category = match failed {
        _ if caused_by(error, &|e| e.is::<ResolveError>()) => "dns",
        _ if caused_by(error, &|e| e.downcast_ref().is_some_and(invalid)) => "tls",
        Failed::Connect(_) => "connect",
        Failed::Unsent(_) | Failed::Broken(_) | Failed::Informational => "reset",
    };
    match failed {
        Failed::Connect(_) | Failed::Unsent(_) if !earlier => Fault::Unsent(category),
        _ => Fault::Broken(category),
    }
}

/// Returns whether `test` holds for an error or any of its causes.
fn caused_by(error: &(dyn Error + 'static), test: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    // The source of an `io::Error` skips the error that it wraps.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    test(error) || wrapped.is_some_and(|e| caused_by(e, test)) || error.source().is_some_and(|e| caused_by(e, test))
}

/// The coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// None, or decoded by the client already.
    Identity,
    /// Decoded here, since the client's decoder ends at the first member.
    Gzip,
    Unknown,
}

const UNDECODED: &str = "could not be decompressed";

fn malformed(reason: &str) -> Fault {
    Fault::Final(UpstreamError::Malformed(reason.to_owned()))
}

/// Searches a piece of the answer.
///
/// # Errors
/// [`UpstreamError::CredentialReturned`] as soon as the credential of the call has been found.
fn check_leak(search: Option<&mut Search<'_>>, piece: &[u8]) -> Result<(), Fault> {
    match search.is_some_and(|search| search.feed(piece)) {
        true => Err(Fault::Final(UpstreamError::CredentialReturned)),
        false => Ok(()),
    }
}

/// Decodes a piece of gzip, and counts the work towards the turn. Members of 20 bytes each begin a decoder of their own, and
/// a kilobyte may become a megabyte.
async fn decode(gunzip: &mut Gunzip, piece: &[u8], turn: &mut Turn) -> Result<(), GunzipError> {
    let before = gunzip.decoded().len();
    gunzip.feed(piece)?;
    turn.spend(4 * piece.len() + (gunzip.decoded().len() - before) / 2).await;
    Ok(())
}

/// The fault when there is no memory for the rest of a body.
fn exhausted(_: Exhausted) -> Fault {
    Fault::Final(UpstreamError::Exhausted { sent: true })
}

/// Bounds on reading the body of a response.
pub(super) struct BodyLimits<'a> {
    /// Bytes that the body may have, decompressed.
    pub(super) limit: u64,
    /// The limit that an error names.
    pub(super) stated: u64,
    /// The credential that the body must not contain.
    pub(super) needles: Option<&'a Needles>,
    /// Where memory is reserved before it is used.
    pub(super) memory: &'a mut Reservation,
}

impl BodyLimits<'_> {
    fn too_large(&self) -> Fault {
        Fault::Final(UpstreamError::TooLarge { limit: self.stated })
    }
}

/// A body that is read piece by piece.
pub(super) struct Pieces {
    gunzip: Option<Gunzip>,
    /// What has been received and not decoded.
    undecoded: Bytes,
    turn: Turn,
}

impl Incoming {
    /// Takes a response, and the span of its request.
    pub(super) fn new(response: Received, span: Option<RequestSpan>) -> Self {
        Self { response, span }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the body, decompressed.
    ///
    /// # Errors
    /// [`UpstreamError::TooLarge`] and [`UpstreamError::CredentialReturned`], each as soon as it is known.
    pub(super) async fn read(&mut self, limits: BodyLimits<'_>) -> Result<Bytes, Fault> {
        let read = self.read_all(limits).await;
        if let Err(fault) = &read {
            record_failure(&mut self.span, fault);
        }
        read
    }

    async fn read_all(&mut self, limits: BodyLimits<'_>) -> Result<Bytes, Fault> {
        match self.coding() {
            Coding::Identity => {}
            Coding::Gzip => return Box::pin(self.read_gzip(limits)).await,
            Coding::Unknown => return Err(malformed("has a content encoding that was not asked for")),
        }
        let length = self.response.content_length();
        let too_large = limits.too_large();
        let BodyLimits { limit, stated: _, needles, memory } = limits;
        if length.is_some_and(|length| length > limit) {
            return Err(too_large);
        }
        let mut search = needles.map(|needles| Box::new(Search::new(needles)));
        let mut body = Buffer::new(memory, length).await.map_err(exhausted)?;
        while let Some(chunk) = self.chunk().await? {
            check_leak(search.as_deref_mut(), &chunk)?;
            if (body.len() + chunk.len()) as u64 > limit {
                return Err(too_large);
            }
            body.push(chunk).await.map_err(exhausted)?;
        }
        Ok(body.finish())
    }

    /// Returns the coding that is left after the client's own decoders.
    fn coding(&self) -> Coding {
        match self.response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None => Coding::Identity,
            Some(coding) if coding.eq_ignore_ascii_case(b"identity") => Coding::Identity,
            Some(coding) if coding.eq_ignore_ascii_case(b"gzip") => Coding::Gzip,
            Some(_) => Coding::Unknown,
        }
    }

    async fn read_gzip(&mut self, limits: BodyLimits<'_>) -> Result<Bytes, Fault> {
        let fault = |error, limits: &BodyLimits<'_>| match error {
            GunzipError::TooLarge => limits.too_large(),
            GunzipError::Malformed => malformed(UNDECODED),
        };
        let mut gunzip = Gunzip::new(limits.limit);
        let (mut search, mut searched, mut reserved) = (limits.needles.map(Search::new), 0, 0);
        let mut turn = Turn::new();
        while let Some(chunk) = self.chunk().await? {
            // In small pieces, since the memory for a decoded piece can only be reserved afterwards.
            for piece in chunk.chunks(GUNZIP_PIECE) {
                decode(&mut gunzip, piece, &mut turn).await.map_err(|error| fault(error, &limits))?;
                let more = (gunzip.capacity() as u64).saturating_sub(reserved);
                limits.memory.take(more).await.map_err(exhausted)?;
                reserved += more;
                if gunzip.decoded().len() - searched >= SEARCH_PIECE {
                    check_leak(search.as_mut(), &gunzip.decoded()[searched..])?;
                    searched = gunzip.decoded().len();
                }
            }
            check_leak(search.as_mut(), &gunzip.decoded()[searched..])?;
            searched = gunzip.decoded().len();
        }
        let all = gunzip.finish().map_err(|error| fault(error, &limits))?;
        check_leak(search.as_mut(), &all[searched..])?;
        Ok(all)
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        self.response.chunk().await.map_err(|error| {
            // Errors of the transport come from hyper, those of a decompressor are `io::Error`s.
            if caused_by(&*error, &|e| e.is::<hyper::Error>()) {
                return Fault::Broken("reset");
            }
            malformed(UNDECODED)
        })
    }

    /// Begins to read the body piece by piece.
    ///
    /// # Errors
    /// The body has a coding that was not asked for.
    pub(super) fn pieces(&mut self) -> Result<Pieces, Fault> {
        let gunzip = match self.coding() {
            Coding::Identity => None,
            Coding::Gzip => Some(Gunzip::new(u64::MAX)),
            Coding::Unknown => {
                return Err(self.failed(malformed("has a content encoding that was not asked for")));
            }
        };
        Ok(Pieces { gunzip, undecoded: Bytes::new(), turn: Turn::new() })
    }

    /// Returns the next piece of the body, decompressed; none at its end. A piece of gzip has at most 128 KiB, any other what
    /// one read of the connection gave.
    ///
    /// # Errors
    /// The connection broke, or the body cannot be decompressed.
    pub(super) async fn piece(&mut self, pieces: &mut Pieces) -> Result<Option<Bytes>, Fault> {
        let read = self.next_piece(pieces).await;
        read.map_err(|fault| self.failed(fault))
    }

    async fn next_piece(&mut self, pieces: &mut Pieces) -> Result<Option<Bytes>, Fault> {
        let Pieces { gunzip, undecoded, turn } = pieces;
        let Some(decoder) = gunzip else { return self.chunk().await };
        loop {
            if undecoded.is_empty() {
                match self.chunk().await? {
                    Some(chunk) => *undecoded = chunk,
                    None => {
                        let rest = gunzip.take().map(Gunzip::finish).transpose().map_err(|_| malformed(UNDECODED))?;
                        return Ok(rest.filter(|rest| !rest.is_empty()));
                    }
                }
            }
            let piece = undecoded.split_to(undecoded.len().min(GUNZIP_PIECE));
            decode(decoder, &piece, turn).await.map_err(|_| malformed(UNDECODED))?;
            let decoded = decoder.drain().map_err(|_| malformed(UNDECODED))?;
            if !decoded.is_empty() {
                return Ok(Some(decoded));
            }
        }
    }

    /// Records on the span of the request why its response is not used.
    pub(super) fn failed(&mut self, fault: Fault) -> Fault {
        record_failure(&mut self.span, &fault);
        fault
    }

    /// Reads on where the end of the body has arrived already, so that the connection can be used again.
    pub(super) async fn finish(mut self) {
        for _ in 0..4 {
            match self.response.chunk().now_or_never() {
                Some(Ok(Some(_))) => {}
                Some(Ok(None) | Err(_)) => return,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Reads the beginning of an error's body: what arrives in time, up to 64 KiB. Empty if there is no memory for it.
    pub(super) async fn read_error(mut self, deadline: tokio::time::Instant, memory: &mut Reservation) -> Bytes {
        if memory.take(MAX_ERROR_BODY as u64).await.is_err() {
            return Bytes::new();
        }
        if self.coding() == Coding::Gzip {
            let mut gunzip = Gunzip::new(MAX_ERROR_BODY as u64);
            // What arrived in time has been decoded.
            let _ = tokio::time::timeout_at(deadline, self.gunzip_error(&mut gunzip)).await;
            return gunzip.so_far();
        }
        let mut all = BytesMut::new();
        while all.len() < MAX_ERROR_BODY {
            match tokio::time::timeout_at(deadline, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => all.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY - all.len())]),
                _ => break,
            }
        }
        all.freeze()
    }

    /// Decodes up to the end of the body, or to the limit of `gunzip`.
    async fn gunzip_error(&mut self, gunzip: &mut Gunzip) {
        let mut turn = Turn::new();
        while let Ok(Some(chunk)) = self.response.chunk().await {
            for piece in chunk.chunks(GUNZIP_PIECE) {
                if decode(gunzip, piece, &mut turn).await.is_err() {
                    return;
                }
            }
        }
    }
}
