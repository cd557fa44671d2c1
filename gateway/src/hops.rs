//! Counts the gateways that a call has passed, so that one which reaches itself ends.
//!
//! Each request to an upstream carries `Tamis-Hops`: one more than the call came with. What is too many is refused, and the
//! admin port refuses every request that has the header: no call leads there. A proxy that removes the header hides the
//! way; addresses are checked besides (`upstream::egress`).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("tamis-hops");
/// Gateways that a call may pass, this one included.
pub(crate) const MAX: u8 = 4;

/// How many gateways a request has passed. What cannot be read counts as too many.
pub(crate) fn hop_count(headers: &HeaderMap) -> u8 {
    let mut values = headers.get_all(HEADER).iter();
    match (values.next(), values.next()) {
        (None, _) => 0,
        (Some(value), None) => value.to_str().ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u8::MAX),
        (Some(_), Some(_)) => u8::MAX,
    }
}

/// Whether a call that has passed so many gateways may not pass this one.
pub(crate) fn is_loop(passed: u8) -> bool {
    passed >= MAX
}

/// What a call says to an upstream.
pub(crate) fn next(passed: u8) -> HeaderValue {
    HeaderValue::from(u16::from(passed.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_too_many() {
        for (values, expected) in [
            (&[][..], 0),
            (&["0"], 0),
            (&["3"], 3),
            (&[" 3 "], 3),
            (&["255"], 255),
            (&["256"], 255),
            (&["-1"], 255),
            (&["x"], 255),
            (&["1", "1"], 255),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, value.parse().unwrap());
            }
            assert_eq!(hop_count(&headers), expected, "{values:?}");
            assert_eq!(is_loop(expected), expected > 3, "{values:?}");
        }
        assert_eq!(next(0), "1");
        assert_eq!(next(255), "255");
    }
}
