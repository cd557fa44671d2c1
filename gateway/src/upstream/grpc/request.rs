//! Requests: the metadata, which no argument changes, and the message that arguments make.

use std::time::{Duration, Instant};

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use indexmap::IndexMap;
use prost_reflect::{DynamicMessage, MessageDescriptor, prost::Message as _};

use crate::upstream::http::for_every_request;
use crate::upstream::origin::Origin;
use crate::upstream::syntax::header_name;
use crate::upstream::template::invalid_argument;
use crate::upstream::{Arguments, InvalidService, UpstreamError};

/// The time that the call may take.
pub(super) const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// How messages are compressed.
pub(super) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPTED_ENCODINGS: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Returns the metadata of every call. `more`: from a ConfigurationPlan.
///
/// # Errors
/// For a name or a value that is not valid, or that belongs to the protocol.
pub(super) fn headers(origin: &Origin, more: &IndexMap<String, String>) -> Result<HeaderMap, InvalidService> {
    let mut headers = for_every_request(origin);
    // HTTP/2 has the host in the request line.
    for name in [HOST, ACCEPT, ACCEPT_ENCODING] {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(ACCEPTED_ENCODINGS, HeaderValue::from_static("gzip"));
    for (name, value) in more {
        let invalid = |message: &str| InvalidService::new(format!("source.grpc.headers.{name}"), message);
        let name = header_name(name).map_err(|reason| invalid(&reason))?;
        if headers.contains_key(&name) || name.as_str().starts_with("grpc-") || name.as_str().ends_with("-bin") {
            return Err(invalid("belongs to the protocol"));
        }
        headers.insert(name, HeaderValue::try_from(value).map_err(|_| invalid("is not valid"))?);
    }
    Ok(headers)
}

/// Returns the value of `grpc-timeout`: at most eight digits, and a unit.
pub(super) fn timeout(deadline: Instant) -> HeaderValue {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let text = match left.as_millis() {
        milliseconds @ ..100_000_000 => format!("{milliseconds}m"),
        _ => format!("{}S", left.as_secs().min(99_999_999)),
    };
    HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).unwrap_or(HeaderValue::from_static("1S"))
}

/// Returns the message that arguments make.
///
/// # Errors
/// [`UpstreamError::Argument`] for one that the schema accepts and that is no value of its field, such as a date that does not exist.
pub(super) fn encode(input: &MessageDescriptor, arguments: &Arguments) -> Result<Vec<u8>, UpstreamError> {
    if let Some(message) = read(input, &arguments.object()) {
        return Ok(message.encode_to_vec());
    }
    let is_wrong = |(name, value): &(&str, &str)| {
        let object = format!("{{{}:{value}}}", tamis_engine::json::encode(name));
        read(input, &object).is_none()
    };
    let wrong = arguments.iter().find(is_wrong).map(|(name, _)| name);
    Err(match wrong {
        Some(name) => invalid_argument(name, &format!("is not {}", expected(input, name))),
        // Each is right alone, so that two of them exclude each other.
        None => {
            let fields = |name: &str| input.get_field_by_json_name(name).and_then(|field| field.containing_oneof());
            let named: Vec<_> = arguments.iter().filter_map(|(name, _)| Some((name, fields(name)?))).collect();
            let second = named.iter().enumerate().find(|(index, (_, own))| {
                named[..*index].iter().any(|(_, other)| other.full_name() == own.full_name())
            });
            let name = second.map_or("arguments", |(_, (name, _))| name);
            invalid_argument(name, "cannot be combined with another argument, of which at most one may be set")
        }
    })
}

fn read(input: &MessageDescriptor, json: &str) -> Option<DynamicMessage> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(input.clone(), &mut reader).ok()?;
    reader.end().ok().map(|()| message)
}

/// Returns what the field of an argument holds, for a message.
fn expected(input: &MessageDescriptor, name: &str) -> String {
    use prost_reflect::Kind;
    let Some(field) = input.get_field_by_json_name(name) else { return "a field of the method".to_owned() };
    let one = match field.kind() {
        Kind::Message(message) if field.is_map() => {
            let value = message.map_entry_value_field().kind();
            format!("a map of {value:?}")
        }
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Timestamp" => "a time as in 2025-01-02T03:04:05Z, of the years 1 to 9999".to_owned(),
            "google.protobuf.Duration" => "a duration as in 1.5s, of at most 315576000000 seconds".to_owned(),
            "google.protobuf.FieldMask" => "a list of paths in lowerCamelCase, separated by commas".to_owned(),
            "google.protobuf.Any" => "a message with the `@type` of one that the descriptors know".to_owned(),
            other => format!("a valid {other}"),
        },
        Kind::Bytes => "base64".to_owned(),
        Kind::Enum(ty) => format!("a value of {}", ty.full_name()),
        other => {
            let name = format!("{other:?}").to_lowercase();
            format!("{} {name}", if name.starts_with('i') { "an" } else { "a" })
        }
    };
    if field.is_list() { format!("a list, each {one}") } else { one }
}
