//! Strings in a server's messages.

use bytes::Bytes;
use serde_json::value::RawValue;
use tamis_engine::json::Node;

/// Returns the characters of a JSON string, or `None` for any other value. A lone surrogate becomes U+FFFD, since text has
/// none.
pub(super) fn string(raw: &RawValue) -> Option<Bytes> {
    let raw = raw.get();
    raw.starts_with('"').then(|| Bytes::from(Node::String(raw.into()).as_str().unwrap_or_default().into_owned()))
}

/// Returns the characters of a JSON string that is a part of `message`, without a copy if it has no escapes.
pub(super) fn string_of(message: &Bytes, raw: &RawValue) -> Option<Bytes> {
    let text = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if text.contains('\\') { string(raw) } else { Some(message.slice_ref(text.as_bytes())) }
}
