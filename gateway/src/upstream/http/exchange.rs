//! One request and its response: sending, redirects, reading no more than allowed.

use std::error::Error;
use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use url::{Url, form_urlencoded};

use super::gunzip::{Gunzip, GunzipError};
use super::render::{MAX_URL, Rendered, RequestPlan};
use crate::hops;
use crate::memory::{Buffer, Exhausted, Reservation};
use crate::trace::{CallTrace, RequestSpan};
use crate::upstream::auth::Authentication;
use crate::upstream::egress::{Denied, Unresolved};
use crate::upstream::pace::Turn;
use crate::upstream::returned::{Needles, Search};
use crate::upstream::transport::{Failed, MAX_HEAD, MAX_HEADERS, MAX_INFORMATIONAL, Received};
use crate::upstream::{Client, UpstreamError};

/// Redirects that one request may take.
const MAX_REDIRECTS: usize = 5;
/// What is read of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Bytes of gzip that are decoded at once: at most 128 KiB come of them.
const GUNZIP_PIECE: usize = 128;
/// Bytes that are decoded before they are searched for the credential.
const SEARCH_PIECE: usize = 128 << 10;

/// What is sent.
pub(super) struct Outgoing<'a> {
    pub(super) plan: &'a RequestPlan,
    pub(super) rendered: &'a Rendered,
    /// The URL, which differs from the rendered one by page.
    pub(super) url: &'a Url,
    pub(super) authentication: &'a Authentication<'a>,
    pub(super) trace: Option<&'a CallTrace>,
    /// Gateways that the call has passed before this one.
    pub(super) hops: u8,
}

/// What came back, its body not read yet.
pub(super) struct Incoming {
    response: Received,
    /// Ends with it.
    span: Option<RequestSpan>,
}

/// Why nothing came back.
#[derive(Debug)]
pub(super) enum Fault {
    /// The request did not reach the upstream; a short category.
    Unsent(&'static str),
    /// It may have; a short category.
    Broken(&'static str),
    /// Trying again cannot help.
    Final(UpstreamError),
}

impl Fault {
    fn refused(reason: &'static str, sent: bool) -> Self {
        Self::Final(UpstreamError::Unreachable { reason, sent })
    }

    /// One word for it.
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

    /// The error, once it is known that there is no further attempt.
    pub(super) fn into_error(self) -> UpstreamError {
        match self {
            Self::Unsent(reason) => UpstreamError::Unreachable { reason, sent: false },
            Self::Broken(reason) => UpstreamError::Unreachable { reason, sent: true },
            Self::Final(error) => error,
        }
    }
}

/// Sends a request and follows redirects. `requests` counts what was sent.
///
/// A redirect never takes credentials or the manifest's headers to another origin, never leaves `https`, never takes
/// anything but `GET` and `HEAD` to another origin, and never leads to loopback at another origin (another port of the
/// same machine is another program: the gateway's own admin port, say) nor to a Service by its name.
pub(super) async fn exchange(client: &Client, outgoing: &Outgoing<'_>, requests: &mut u32) -> Result<Incoming, Fault> {
    let mut url = outgoing.url.clone();
    let mut method = outgoing.plan.method.clone();
    let mut body = outgoing.rendered.body.clone();
    let mut same_origin = true;
    let mut redirects = 0;
    loop {
        let (policy, http) = if redirects == 0 || same_origin { Some(client.direct()) } else { client.redirected() }
            .ok_or_else(|| Fault::refused("tls", redirects > 0))?;
        policy.check(&url).map_err(|Denied| Fault::refused("egress", redirects > 0))?;
        if same_origin && !outgoing.authentication.may_go_to(&url) {
            return Err(Fault::refused("redirect", redirects > 0));
        }

        let template = (redirects == 0).then_some(&*outgoing.plan.template);
        let mut span = outgoing.trace.map(|trace| trace.request(&method, &url, template, *requests));
        let mut request = request(outgoing, &method, url.clone(), body.clone(), same_origin)
            .ok_or_else(|| Fault::refused(if redirects > 0 { "redirect" } else { "connect" }, redirects > 0))?;
        if let (Some(span), true) = (&span, same_origin) {
            span.inject(request.headers_mut());
        }
        *requests += 1;
        let response = http.send(request).await.map_err(|failed| {
            let fault = fault(&failed, redirects > 0);
            record_failure(&mut span, &fault);
            fault
        })?;
        if let Some(span) = &mut span {
            span.answered(response.status());
        }
        let Some(target) = redirect(&response, &url) else {
            return Ok(Incoming { response, span });
        };
        let refused = || Fault::refused("redirect", true);
        let target = target.ok_or_else(refused)?;
        let status = response.status();
        let is_read = method == Method::GET || method == Method::HEAD;
        let leaves = target.origin() != url.origin();
        redirects += 1;
        let downgrade = url.scheme() == "https" && target.scheme() != "https";
        // 301 and 302 leave open whether a write is to be repeated or has become a read: neither can be guessed.
        let unclear = !is_read && matches!(status.as_u16(), 301 | 302);
        if redirects > MAX_REDIRECTS || downgrade || unclear || (leaves && !is_read) {
            return Err(refused());
        }
        if !is_read && status == StatusCode::SEE_OTHER {
            method = Method::GET;
            body = None;
        }
        same_origin &= target.origin() == outgoing.url.origin();
        url = target;
        if !same_origin {
            body = None;
            strip_secrets(&mut url, outgoing.authentication);
        }
    }
}

/// Tells a span why its request came to nothing.
fn record_failure(span: &mut Option<RequestSpan>, fault: &Fault) {
    if let Some(span) = span {
        span.failed(fault.category());
    }
}

/// `Some(None)` where a redirect names no usable target: one that cannot be requested, or is longer than a request's URL
/// may be.
fn redirect(response: &Received, url: &Url) -> Option<Option<Url>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let target = response.headers().get(LOCATION)?.to_str().ok().and_then(|text| url.join(text).ok());
    Some(target.filter(|t| {
        matches!(t.scheme(), "http" | "https")
            && t.username().is_empty()
            && t.password().is_none()
            && t.as_str().len() <= MAX_URL
    }))
}

/// None for a URL that HTTP's own types do not take.
fn request(
    outgoing: &Outgoing<'_>,
    method: &Method,
    mut url: Url,
    body: Option<Bytes>,
    same_origin: bool,
) -> Option<Request<Full<Bytes>>> {
    let authentication = outgoing.authentication;
    if let (true, Some(pair)) = (same_origin, &authentication.query) {
        let query = match url.query() {
            Some(query) if query.split('&').any(|p| p == pair) => query.to_owned(),
            Some(query) if !query.is_empty() => format!("{query}&{pair}"),
            _ => pair.clone(),
        };
        url.set_query(Some(&query));
    }
    let mut request = Request::new(Full::default());
    *request.method_mut() = method.clone();
    *request.uri_mut() = Uri::try_from(String::from(url)).ok()?;
    if same_origin {
        *request.headers_mut() = outgoing.rendered.headers.clone();
        if let Some((name, value)) = &authentication.header {
            request.headers_mut().insert(name.clone(), value.clone());
        }
    }
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br, zstd"));
    request.headers_mut().insert(hops::HEADER, hops::next(outgoing.hops));
    match body {
        Some(body) => *request.body_mut() = Full::new(body),
        None => {
            request.headers_mut().remove(CONTENT_TYPE);
            // RFC 9110, 8.6: a method that expects content says that there is none.
            if matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
                request.headers_mut().insert(CONTENT_LENGTH, 0.into());
            }
        }
    }
    Some(request)
}

/// An upstream that repeats its query in `Location` must not hand our credential on, however it is spelled.
fn strip_secrets(url: &mut Url, authentication: &Authentication<'_>) {
    let (Some(pair), Some(query)) = (authentication.query.as_deref(), url.query()) else { return };
    let decoded =
        |text: &str| form_urlencoded::parse(text.as_bytes()).next().map(|(k, v)| (k.into_owned(), v.into_owned()));
    let Some((name, secret)) = decoded(pair) else { return };
    let ours = |pair: &&str| decoded(pair).is_some_and(|(k, v)| k == name || v == secret);
    let kept: Vec<_> = query.split('&').filter(|pair| !ours(pair)).collect();
    let kept = kept.join("&");
    url.set_query(Some(&*kept).filter(|query| !query.is_empty()));
}

/// Sorts a failure by what it says about the request. `earlier`: an earlier hop has been sent.
fn fault(failed: &Failed, earlier: bool) -> Fault {
    let error = match failed {
        Failed::Http(error) => error,
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
    // rustls' errors come wrapped in one of this kind.
    let invalid = |e: &io::Error| e.kind() == io::ErrorKind::InvalidData;
    let category = match error {
        _ if caused_by(error, &|e| e.is::<Unresolved>()) => "dns",
        _ if caused_by(error, &|e| e.downcast_ref().is_some_and(invalid)) => "tls",
        _ if error.is_connect() => "connect",
        _ => "reset",
    };
    let canceled = |e: &hyper::Error| e.is_canceled();
    let unsent = error.is_connect() || caused_by(error, &|e| e.downcast_ref().is_some_and(canceled));
    if unsent && !earlier { Fault::Unsent(category) } else { Fault::Broken(category) }
}

/// Whether `test` holds for an error or anything it comes from.
fn caused_by(error: &(dyn Error + 'static), test: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    // The source of an `io::Error` is the source of what it wraps, which would be skipped.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    test(error) || wrapped.is_some_and(|e| caused_by(e, test)) || error.source().is_some_and(|e| caused_by(e, test))
}

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// As it is, or decoded already.
    Identity,
    /// Decoded here: the client would end at the first member.
    Gzip,
    Unknown,
}

const UNDECODED: &str = "could not be decompressed";

fn malformed(reason: &str) -> Fault {
    Fault::Final(UpstreamError::Malformed(reason.to_owned()))
}

/// An error once the credential of the call has been found.
fn check_leak(search: Option<&mut Search<'_>>, piece: &[u8]) -> Result<(), Fault> {
    match search.is_some_and(|search| search.feed(piece)) {
        true => Err(Fault::Final(UpstreamError::CredentialReturned)),
        false => Ok(()),
    }
}

/// Decodes a piece of gzip, and counts the work in the turn: a member may be 20 bytes, and begins a decoder of its own; a
/// kilobyte may become a megabyte.
async fn decode(gunzip: &mut Gunzip, piece: &[u8], turn: &mut Turn) -> Result<(), GunzipError> {
    let before = gunzip.decoded().len();
    gunzip.feed(piece)?;
    turn.spend(4 * piece.len() + (gunzip.decoded().len() - before) / 2).await;
    Ok(())
}

/// There is no memory for the rest of a body.
fn exhausted(_: Exhausted) -> Fault {
    Fault::Final(UpstreamError::Exhausted { sent: true })
}

/// What holds for the body of a response.
pub(super) struct BodyLimits<'a> {
    /// Bytes that it may have, decompressed.
    pub(super) limit: u64,
    /// The limit that an error names.
    pub(super) stated: u64,
    /// What it must not contain.
    pub(super) needles: Option<&'a Needles>,
    /// Where its memory is reserved before it is taken.
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
    /// [`UpstreamError::TooLarge`] as soon as it is known; [`UpstreamError::CredentialReturned`] as soon as one of the
    /// needles is found.
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
            Coding::Gzip => return self.read_gzip(limits).await,
            Coding::Unknown => return Err(malformed("has a content encoding that was not asked for")),
        }
        let length = self.response.content_length();
        let too_large = limits.too_large();
        let BodyLimits { limit, stated: _, needles, memory } = limits;
        if length.is_some_and(|length| length > limit) {
            return Err(too_large);
        }
        let mut search = needles.map(Search::new);
        let mut body = Buffer::new(memory, length).await.map_err(exhausted)?;
        while let Some(chunk) = self.chunk().await? {
            check_leak(search.as_mut(), &chunk)?;
            if (body.len() + chunk.len()) as u64 > limit {
                return Err(too_large);
            }
            body.push(chunk).await.map_err(exhausted)?;
        }
        Ok(body.finish())
    }

    /// How the body is coded, beyond what the client decodes by itself.
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
            // A little at a time: what a piece becomes is known, and reserved, when it has become that.
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
            // A transport's error is hyper's; what a decompressor says is an `io::Error` of its own.
            if caused_by(&*error, &|e| e.is::<hyper::Error>()) {
                return Fault::Broken("reset");
            }
            malformed(UNDECODED)
        })
    }

    /// Reads the beginning of an error's body: what came in time, up to 64 KiB; nothing where there is no memory for it.
    pub(super) async fn read_error(mut self, deadline: tokio::time::Instant, memory: &mut Reservation) -> Bytes {
        if memory.take(MAX_ERROR_BODY as u64).await.is_err() {
            return Bytes::new();
        }
        if self.coding() == Coding::Gzip {
            let mut gunzip = Gunzip::new(MAX_ERROR_BODY as u64);
            // What came in time has been decoded so far.
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

    /// Decodes up to the end of the body or of what `gunzip` takes.
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
