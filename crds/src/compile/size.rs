//! Checks that documents fit into the objects that carry them. Encoding is slow, so only large documents are encoded.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use tamis_config::{ExpositionDocument, ExpositionPayload, ServiceDocument, carrier};
use tamis_engine::ToolFilter;

/// JSON up to this length fits, compressed or not: 64 parts of 288 KiB carry 18 MiB.
const SMALL_SERVICE: usize = 16 << 20;
/// JSON up to this length fits into the one object of an exposition.
const SMALL_EXPOSITION: usize = 256 << 10;

/// Bytes of JSON that the tools of one service may have together, including those of CustomTools. A tool of CustomTools repeats
/// the tool that it wraps, so its document can be thousands of times as large as the objects that people write: the length is
/// summed up before the document is built.
pub(super) const MAX_SERVICE_BYTES: usize = 4 << 20;
/// Bytes of JSON that the filters of one exposition may have together. Tools of CustomTools repeat the filter of the tool that
/// they wrap; the length is summed up before anything is repeated.
pub(super) const MAX_EXPOSITION_BYTES: usize = 4 << 20;

/// Returns the length of a value's JSON.
pub(super) fn length(value: &impl Serialize) -> usize {
    let mut length = Length(0);
    // Documents serialize without errors; any that did not would be rejected when it is encoded.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

/// Describes how a service whose JSON has `length` bytes is too large, or returns `None` if it fits.
pub(super) fn service(document: &ServiceDocument, length: usize) -> Option<String> {
    if length <= SMALL_SERVICE { None } else { carrier::encode_service("", document).err() }
}

/// Describes how an exposition is too large, or returns `None` if it fits.
pub(super) fn exposition(document: &ExpositionDocument) -> Option<String> {
    // A filter that several tools share is measured once, and counts for each of them.
    let mut known: HashMap<*const ToolFilter, usize> = HashMap::new();
    let mut filters = 0_usize;
    for filter in document.tools.values().filter_map(|tool| tool.filter.as_ref()) {
        filters += *known.entry(Arc::as_ptr(filter)).or_insert_with(|| length(&**filter));
    }
    if filters > MAX_EXPOSITION_BYTES {
        return Some(format!(
            "the filters of its tools have {filters} bytes, more than the limit of {MAX_EXPOSITION_BYTES}"
        ));
    }
    if length(document) <= SMALL_EXPOSITION {
        return None;
    }
    carrier::encode_exposition("", &ExpositionPayload::Serve(document.clone())).err()
}

/// Counts the bytes that are written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tamis_config::{FIRST_VERSION, HttpSource, ServiceContent, Source};

    use super::*;

    #[test]
    fn a_service_must_fit_into_its_parts() {
        // Text that shrinks by a quarter at most.
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut state = 1_u64;
        let noise = (0..4 << 20).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(ALPHABET[usize::from(state.to_be_bytes()[0]) % 64])
        });
        let mut document = ServiceDocument {
            format_version: FIRST_VERSION,
            name: "s".into(),
            version: "1".into(),
            // Farther apart than the encoder looks back.
            description: Some(noise.collect::<String>().repeat(7)),
            source: Source::Http(HttpSource { base_url: "https://example.com".into(), auth: None }),
            tools: indexmap::IndexMap::new(),
            content: ServiceContent::default(),
        };
        let length = document.description.as_ref().map_or(0, String::len);
        assert!(service(&document, length).is_some_and(|message| message.contains("too large")));
        document.description = Some("a".repeat(length));
        assert_eq!(service(&document, length), None, "what shrinks fits");
    }
}
