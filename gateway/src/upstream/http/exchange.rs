//! One request and its response: redirects.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use url::{Url, form_urlencoded};

use super::headers::for_every_request;
use super::render::{MAX_URL, Rendered, RequestPlan};
use crate::hops;
use crate::trace::CallTrace;
use crate::upstream::Client;
use crate::upstream::auth::Authentication;
use crate::upstream::egress::Denied;
use crate::upstream::incoming::{Fault, Incoming, fault, record_failure};
use crate::upstream::origin::{Origin, Target};
use crate::upstream::transport::Received;

/// Redirects that one request may follow.
const MAX_REDIRECTS: usize = 5;

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
            return Ok(Incoming::new(response, span));
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
