//! Session ids of the legacy era over HTTP. A client gets one with the handshake.
//!
//! Published clients need an id: the Python SDK and rmcp open the stream for `list_changed` only if they have one, and
//! `notifications/cancelled` names a call by a small number that every client counts up from, so that only the session id
//! ties it to its sender. The id is a random name. Where the exposition publishes an MCP server, a sealed part follows after a dot,
//! which says what session of the server belongs to it ([`crate::sealed`]). The gateway keeps no state for either form.
//!
//! Any well-formed id without a sealed part is accepted at any replica, and none is required.

use std::fmt::Write as _;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the id.
pub(super) const HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Hex digits of a name: 128 bits, too many to guess.
const DIGITS: usize = 32;
/// Bytes of an id with a sealed part.
const MAX: usize = 2 << 10;

/// Returns a fresh name; none if the system has no random numbers.
pub(super) fn fresh() -> Option<String> {
    let mut bytes = [0; DIGITS / 2];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    let mut name = String::with_capacity(DIGITS);
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    Some(name)
}

/// Returns the id of a session with this name, and the sealed part if there is one. Returns none if the id would be too long.
pub(super) fn id(name: &str, token: Option<&str>) -> Option<HeaderValue> {
    match token {
        None => HeaderValue::from_str(name).ok(),
        Some(token) => HeaderValue::from_str(&format!("{name}.{token}")).ok().filter(|id| id.len() <= MAX),
    }
}

/// Returns the name of the session that a request names, if it has the form of an id that a gateway issued.
pub(super) fn named(headers: &HeaderMap) -> Option<&str> {
    parts(headers).map(|(name, _)| name)
}

/// Returns the name and the sealed part of the session id of a request, if it has both.
pub(super) fn sealed(headers: &HeaderMap) -> Option<(&str, &str)> {
    parts(headers).and_then(|(name, token)| Some((name, token?)))
}

fn parts(headers: &HeaderMap) -> Option<(&str, Option<&str>)> {
    let id = headers.get(HEADER)?.to_str().ok().filter(|id| id.len() <= MAX)?;
    let (name, token) = match id.split_once('.') {
        Some((name, token)) => (name, Some(token)),
        None => (id, None),
    };
    (name.len() == DIGITS && name.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some((name, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(id: &str) -> HeaderMap {
        HeaderMap::from_iter([(HEADER, HeaderValue::from_str(id).unwrap())])
    }

    #[test]
    fn ids_are_fresh_and_recognised_by_their_form() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        assert_ne!(one, other);
        let plain = id(&one, None).unwrap();
        assert_eq!(named(&headers(plain.to_str().unwrap())), Some(&*one));
        assert_eq!(sealed(&headers(plain.to_str().unwrap())), None);
        let with_token = id(&one, Some("a-_9.x")).unwrap();
        assert_eq!(named(&headers(with_token.to_str().unwrap())), Some(&*one));
        assert_eq!(sealed(&headers(with_token.to_str().unwrap())), Some((&*one, "a-_9.x")));
        for strange in
            ["", "abc", "g0000000000000000000000000000000", "../../../../../../../../../../..", ".", "abc.def"]
        {
            assert_eq!((named(&headers(strange)), sealed(&headers(strange))), (None, None), "{strange}");
        }
        assert_eq!(named(&HeaderMap::new()), None);
    }

    #[test]
    fn an_id_has_a_bounded_length() {
        let name = fresh().unwrap();
        let most = "x".repeat(MAX - DIGITS - 1);
        assert_eq!(id(&name, Some(&most)).unwrap().len(), MAX);
        assert_eq!(id(&name, Some(&format!("{most}x"))), None);
        assert_eq!(named(&headers(&format!("{name}.{most}x"))), None);
    }
}
