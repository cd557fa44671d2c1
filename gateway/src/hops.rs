//! Counts the gateways that a call has passed, so that a call that loops ends.
//!
//! Each request to an upstream carries `Tamis-Hops`, one more than the call arrived with. A call above the limit is
//! refused. The admin port refuses every request that has the header, so that no call reaches it. A proxy may remove
//! the header, so addresses are checked too (`upstream::egress`).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the count.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("tamis-hops");
/// Maximum number of gateways that a call may pass, including this one.
pub(crate) const MAX: u8 = 4;

/// Returns how many gateways a request has passed. A malformed header counts as too many.
pub(crate) fn hop_count(headers: &HeaderMap) -> u8 {
    let mut values = headers.get_all(HEADER).iter();
    match (values.next(), values.next()) {
        (None, _) => 0,
        (Some(value), None) => value.to_str().ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u8::MAX),
        (Some(_), Some(_)) => u8::MAX,
    }
}

/// Returns whether a call has passed too many gateways to pass this one.
pub(crate) fn is_loop(passed: u8) -> bool {
    passed >= MAX
}

/// Returns the header for a request to an upstream.
pub(crate) fn next(passed: u8) -> HeaderValue {
    HeaderValue::from(u16::from(passed.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_count_is_too_many() {
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
