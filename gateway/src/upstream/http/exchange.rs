//! One request and its response: redirects, decompression, and a bound on what is read.

use std::error::Error;
use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use url::{Url, form_urlencoded};

use super::gunzip::{Gunzip, GunzipError};
use super::headers::for_every_request;
use super::render::{MAX_URL, Rendered, RequestPlan};
use crate::hops;
use crate::memory::{Buffer, Exhausted, Reservation};
use crate::trace::{CallTrace, RequestSpan};
use crate::upstream::auth::Authentication;
use crate::upstream::egress::{Denied, ResolveError};
use crate::upstream::origin::{Origin, Target};
use crate::upstream::pace::Turn;
use crate::upstream::returned::{Needles, Search};
use crate::upstream::transport::{Failed, MAX_HEAD, MAX_HEADERS, MAX_INFORMATIONAL, Received};
use crate::upstream::{Client, UpstreamError};

/// Redirects that one request may follow.
const MAX_REDIRECTS: usize = 5;
/// Bytes of an error's body that are read.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Bytes of gzip that are decoded at once. They become at most 128 KiB.
const GUNZIP_PIECE: usize = 128;
/// Bytes that are decoded before they are searched for the credential of the call.
const SEARCH_PIECE: usize = 128 << 10;

/// A request to be sent.
pub(super) struct Outgoing<'a> {
    pub(super) plan: &'a RequestPlan,
    pub(super) rendered: &'a Rendered<'a>,
    /// The rendered URL, with the parameters of the page.
    pub(super) target: &'a Target,
    pub(super) authentication: &'a Authentication<'a>,
    pub(super) trace: Option<&'a CallTrace>,
    /// Gateways that the call has passed before this one.
    pub(super) hops: u8,
}

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
    fn refused(reason: &'static str, sent: bool) -> Self {
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

/// Sends a request and follows redirects. `requests` counts the requests sent.
///
/// A redirect to another origin carries no credential and none of the manifest's headers, is followed for `GET` and `HEAD`
/// only, and never leads to loopback or to a Service of the cluster: another port of the same machine is another program,
/// such as the gateway's own admin port. No redirect leads from `https` to `http`.
///
/// # Errors
/// [`Fault`].
pub(super) async fn exchange(client: &Client, outgoing: &Outgoing<'_>, requests: &mut u32) -> Result<Incoming, Fault> {
    let mut target = outgoing.target.clone();
    let mut method = outgoing.plan.method.clone();
    let mut body = outgoing.rendered.body.clone();
    let mut same_origin = true;
    let mut redirects = 0;
    loop {
        let (policy, http) = if redirects == 0 || same_origin { Some(client.direct()) } else { client.redirected() }
            .ok_or_else(|| Fault::refused("tls", redirects > 0))?;
        policy.check(target.origin()).map_err(|Denied| Fault::refused("egress", redirects > 0))?;
        if same_origin && !outgoing.authentication.may_go_to(&target) {
            return Err(Fault::refused("redirect", redirects > 0));
        }

        let template = (redirects == 0).then_some(&*outgoing.plan.template);
        let mut span = outgoing.trace.map(|trace| trace.request(&method, &target, template, *requests));
        let mut request = request(outgoing, &method, &target, body.clone(), same_origin)
            .ok_or_else(|| Fault::refused(if redirects > 0 { "redirect" } else { "connect" }, redirects > 0))?;
        if let (Some(span), true) = (&span, same_origin) {
            span.inject(request.headers_mut());
        }
        *requests += 1;
        let response = http.send(target.origin(), request).await.map_err(|failed| {
            let fault = fault(&failed, redirects > 0);
            record_failure(&mut span, &fault);
            fault
        })?;
        if let Some(span) = &mut span {
            span.answered(response.status());
        }
        let Some(location) = redirect(&response) else {
            return Ok(Incoming { response, span });
        };
        let refused = || Fault::refused("redirect", true);
        let url = target.url().ok_or_else(refused)?;
        let mut next = followed(location, &url).ok_or_else(refused)?;
        let status = response.status();
        let is_read = method == Method::GET || method == Method::HEAD;
        let leaves = next.origin() != url.origin();
        redirects += 1;
        let downgrade = url.scheme() == "https" && next.scheme() != "https";
        // 301 and 302 do not say whether a write is to be repeated or becomes a read.
        let unclear = !is_read && matches!(status.as_u16(), 301 | 302);
        if redirects > MAX_REDIRECTS || downgrade || unclear || (leaves && !is_read) {
            return Err(refused());
        }
        if !is_read && status == StatusCode::SEE_OTHER {
            method = Method::GET;
            body = None;
        }
        same_origin &= Origin::of(&next).is_some_and(|origin| origin == **outgoing.target.origin());
        if !same_origin {
            body = None;
            strip_secrets(&mut next, outgoing.authentication);
        }
        target = Target::of(&next, outgoing.target.origin()).ok_or_else(refused)?;
    }
}

/// Records on a span why its request failed.
fn record_failure(span: &mut Option<RequestSpan>, fault: &Fault) {
    if let Some(span) = span {
        span.failed(fault.category());
    }
}

/// Returns where a redirect leads, or `None` for any other response.
fn redirect(response: &Received) -> Option<&HeaderValue> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    response.headers().get(LOCATION).filter(|_| is_redirect)
}

/// Returns the URL that a redirect from `url` leads to; `None` if it cannot be requested, or is longer than the URL of a
/// request may be.
fn followed(location: &HeaderValue, url: &Url) -> Option<Url> {
    let target = location.to_str().ok().and_then(|text| url.join(text).ok());
    target.filter(|t| {
        matches!(t.scheme(), "http" | "https")
            && t.username().is_empty()
            && t.password().is_none()
            && t.as_str().len() <= MAX_URL
    })
}

/// Builds the request for a target, or returns `None` for one that HTTP's own types do not accept.
fn request(
    outgoing: &Outgoing<'_>,
    method: &Method,
    target: &Target,
    body: Option<Bytes>,
    same_origin: bool,
) -> Option<Request<Full<Bytes>>> {
    let authentication = outgoing.authentication;
    let mut path = target.path_and_query().clone();
    if let (true, Some(pair)) = (same_origin, &authentication.query) {
        path = match target.query() {
            Some(query) if query.split('&').any(|p| p == pair) => path,
            Some(query) if !query.is_empty() => PathAndQuery::try_from(format!("{path}&{pair}")).ok()?,
            _ => PathAndQuery::try_from(format!("{}?{pair}", target.path())).ok()?,
        };
    }
    let mut request = Request::new(Full::default());
    *request.method_mut() = method.clone();
    *request.uri_mut() = path.into();
    if same_origin {
        *request.headers_mut() = outgoing.rendered.headers.as_ref().clone();
        if let Some((name, value)) = &authentication.header {
            request.headers_mut().insert(name.clone(), value.clone());
        }
    } else {
        *request.headers_mut() = for_every_request(target.origin());
    }
    if outgoing.hops > 0 {
        request.headers_mut().insert(hops::HEADER, hops::next(outgoing.hops));
    }
    match body {
        Some(body) => *request.body_mut() = Full::new(body),
        None => {
            request.headers_mut().remove(CONTENT_TYPE);
            // RFC 9110, 8.6: a method that expects content states its absence.
            if matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
                request.headers_mut().insert(CONTENT_LENGTH, 0.into());
            }
        }
    }
    Some(request)
}

/// Removes the credential from the query of a redirect's target, in any spelling: the upstream may have repeated it there.
fn strip_secrets(url: &mut Url, authentication: &Authentication<'_>) {
    let (Some(pair), Some(query)) = (authentication.query.as_deref(), url.query()) else { return };
    let decoded =
        |text: &str| form_urlencoded::parse(text.as_bytes()).next().map(|(k, v)| (k.into_owned(), v.into_owned()));
    let Some((name, secret)) = decoded(pair) else { return };
    let is_credential = |pair: &&str| decoded(pair).is_some_and(|(k, v)| k == name || v == secret);
    let kept: Vec<_> = query.split('&').filter(|pair| !is_credential(pair)).collect();
    let kept = kept.join("&");
    url.set_query(Some(&*kept).filter(|query| !query.is_empty()));
}

/// Classifies a failure by whether the request may have been executed. `earlier`: an earlier hop has been sent.
fn fault(failed: &Failed, earlier: bool) -> Fault {
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

impl Incoming {
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
