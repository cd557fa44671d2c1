//! The status of a call: its name, and the HTTP status that stands for it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::HeaderMap;
use percent_encoding::percent_decode;

use super::json;
use super::records::{Data, Records};
use super::types::Types;

/// Bytes of the JSON of a status.
const MAX_STATUS: usize = 64 << 10;
/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The names of statuses by their numbers, and the HTTP status of each (`google.rpc.Code`).
const CODES: [(&str, u16); 17] = [
    ("OK", 200),
    ("CANCELLED", 499),
    ("UNKNOWN", 500),
    ("INVALID_ARGUMENT", 400),
    ("DEADLINE_EXCEEDED", 504),
    ("NOT_FOUND", 404),
    ("ALREADY_EXISTS", 409),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("FAILED_PRECONDITION", 400),
    ("ABORTED", 409),
    ("OUT_OF_RANGE", 400),
    ("UNIMPLEMENTED", 501),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DATA_LOSS", 500),
    ("UNAUTHENTICATED", 401),
];

/// A status other than `OK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// The name, for traces.
    pub(super) name: &'static str,
    /// The HTTP status that stands for it.
    pub(super) http: u16,
    /// Name, message and details as JSON.
    pub(super) body: Bytes,
    /// How long the server asks to wait before another attempt.
    pub(super) retry_after: Option<Duration>,
    /// Whether the server forbids another attempt.
    pub(super) is_final: bool,
}

/// Reads the status in trailers; none if they have none.
pub(super) fn read(trailers: &HeaderMap, types: &Types) -> Option<Result<(), Status>> {
    let code = trailers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse::<usize>().ok());
    if code == Some(0) {
        return Some(Ok(()));
    }
    // A code that is not known is `UNKNOWN`.
    let (name, http) = code.and_then(|code| CODES.get(code).copied()).unwrap_or(CODES[2]);
    let message = trailers.get("grpc-message").map(|message| percent_decode(message.as_bytes()).decode_utf8_lossy());
    let details = trailers.get("grpc-status-details-bin").and_then(|value| BASE64.decode(value.as_bytes()).ok());
    let mut body = format!("{{\"code\":\"{name}\"");
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        body.push_str(",\"message\":");
        body.push_str(&tamis_engine::json::encode(&message));
    }
    if let Some(details) = details.and_then(|details| details_of(&details, types)) {
        body.push_str(",\"details\":");
        body.push_str(&details);
    }
    body.push('}');
    let pushback = trailers.get("grpc-retry-pushback-ms").and_then(|value| value.to_str().ok());
    let milliseconds = pushback.map(str::parse::<u64>);
    Some(Err(Status {
        name,
        http,
        body: body.into(),
        retry_after: milliseconds.clone().and_then(Result::ok).map(Duration::from_millis),
        // What is not a number of milliseconds, or negative, forbids it (gRFC A6).
        is_final: matches!(milliseconds, Some(Err(_))),
    }))
}

/// Returns the details of a `google.rpc.Status` as a JSON list; none if there are none, or if they cannot be read.
fn details_of(status: &[u8], types: &Types) -> Option<String> {
    let mut out = b"[".to_vec();
    let mut reader = Records(status);
    while let Ok(Some((number, data))) = reader.next() {
        let (3, Data::Bytes(detail)) = (number, data) else { continue };
        if out.len() > 1 {
            out.push(b',');
        }
        json::write_any(types, detail, &mut out, MAX_STATUS).ok()?;
    }
    out.push(b']');
    if out.len() == 2 { None } else { String::from_utf8(out).ok() }
}
