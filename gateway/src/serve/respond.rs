//! Responses that every kind of endpoint gives.

use std::cell::Cell;

use hyper::header::{self, HeaderMap, HeaderValue};
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
    let mut headers = SPARE.take();
    headers.insert(header::CONTENT_TYPE, kind);
    *response.headers_mut() = headers;
    response
}

/// The headers of an answered request above which their map is not kept.
const KEPT: usize = 32;

thread_local! {
    /// An empty map with room for headers. hyper reuses the map of a response for the next request of the connection, and
    /// [`recycle`] keeps the map of that request for the next response, so that no request allocates one.
    static SPARE: Cell<HeaderMap> = Cell::default();
}

/// Keeps the memory of an answered request's headers for the next response of this thread.
pub(super) fn recycle(mut headers: HeaderMap) {
    if headers.capacity() <= KEPT {
        headers.clear();
        SPARE.set(headers);
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    #[test]
    fn a_response_has_no_header_of_the_request_whose_map_it_got() {
        let map = |count: usize| {
            let name = |n: usize| HeaderName::try_from(format!("x-{n}")).unwrap();
            (0..count).map(|n| (name(n), HeaderValue::from_static("secret"))).collect::<HeaderMap>()
        };
        for (count, is_kept) in [(10, true), (100, false)] {
            SPARE.take();
            recycle(map(count));
            let response = plain(StatusCode::OK, "x");
            assert_eq!(response.headers().len(), 1);
            assert_eq!(response.headers().capacity() >= count, is_kept, "{count}");
        }
    }
}
