//! Session ids of the legacy era over HTTP. A client gets one with the handshake; the gateway keeps no state for it.
//!
//! Published clients need an id: the Python SDK and rmcp open the stream for `list_changed` only if they have one, and
//! `notifications/cancelled` names a call by a small number that every client counts up from, so that only the session id
//! ties it to its sender. Any well-formed id is accepted at any replica, and none is required. DELETE is refused, since
//! there is nothing to end.

use std::fmt::Write as _;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the id.
pub(super) const HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Hex digits of an id: 128 bits, too many to guess.
const DIGITS: usize = 32;
/// Returns a fresh id; none if the system has no random numbers.
pub(super) fn issue() -> Option<HeaderValue> {
    let mut bytes = [0; DIGITS / 2];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    let mut id = String::with_capacity(DIGITS);
    for byte in bytes {
        let _ = write!(id, "{byte:02x}");
    }
    HeaderValue::from_str(&id).ok()
}

/// Returns the id that a request names, if it has the form of an id that a gateway issued.
pub(super) fn named(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(HEADER)?.to_str().ok()?;
    (id.len() == DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_fresh_and_recognised_by_their_form() {
        let (one, other) = (issue().unwrap(), issue().unwrap());
        assert_ne!(one, other);
        let headers = HeaderMap::from_iter([(HEADER, one.clone())]);
        assert_eq!(named(&headers), one.to_str().ok());
        for strange in ["", "abc", "g0000000000000000000000000000000", "../../../../../../../../../../.."] {
            let headers = HeaderMap::from_iter([(HEADER, HeaderValue::from_static(strange))]);
            assert_eq!(named(&headers), None, "{strange}");
        }
        assert_eq!(named(&HeaderMap::new()), None);
    }
}
