//! Responses that every kind of endpoint gives.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::Body;
use crate::memory::Held;

pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A response of JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Held>) -> Response<Body> {
    with(status, HeaderValue::from_static("application/json"), Body::from(body))
}

/// A response of text, for people and for clients that read the status alone.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    with(status, HeaderValue::from_static("text/plain; charset=utf-8"), Body::from(text.as_bytes().to_vec()))
}

/// A stream of server-sent events.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = with(StatusCode::OK, HeaderValue::from_static("text/event-stream"), body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    // Some proxies buffer responses, which would delay events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Adds the header that says how to authenticate.
pub(super) fn challenge(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Adds the header that says when to try again.
pub(super) fn retry_after(mut response: Response<Body>, seconds: u64) -> Response<Body> {
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn with(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
