//! What URLs and headers of requests may hold.

use http::header::HeaderName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// RFC 3986 `unreserved` stays; everything else is encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Headers that the client writes itself.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Percent-encodes all of `text`, once.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Appends all of `text`, percent-encoded once.
pub(super) fn push_encoded(out: &mut String, text: &str) {
    out.extend(utf8_percent_encode(text, ENCODED));
}

/// Parses the name of a header that a document may set.
///
/// # Errors
/// The reason.
pub(super) fn header_name(name: &str) -> Result<HeaderName, String> {
    let header = HeaderName::try_from(name).map_err(|_| format!("`{name}` is not a header name"))?;
    if RESERVED.contains(&header.as_str()) {
        return Err(format!("`{name}` is set by the gateway"));
    }
    Ok(header)
}
