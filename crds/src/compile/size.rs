//! Whether documents fit into the objects that carry them. Encoding is slow, so only what is large is encoded to see.

use std::io;

use tamis_config::{ExpositionDocument, ExpositionPayload, ServiceDocument, carrier};

/// JSON up to this length fits, compressed or not: 64 parts of 288 KiB carry 18 MiB.
const SMALL_SERVICE: usize = 16 << 20;
/// The same for the one object of an exposition.
const SMALL_EXPOSITION: usize = 256 << 10;

/// How a service whose JSON has `length` bytes is too large; none where it is not.
pub(super) fn service(document: &ServiceDocument, length: usize) -> Option<String> {
    if length <= SMALL_SERVICE { None } else { carrier::encode_service("", document).err() }
}

/// How an exposition is too large; none where it is not.
pub(super) fn exposition(document: &ExpositionDocument) -> Option<String> {
    let mut length = Length(0);
    let counted = serde_json::to_writer(&mut length, document);
    if counted.is_ok() && length.0 <= SMALL_EXPOSITION {
        return None;
    }
    carrier::encode_exposition("", &ExpositionPayload::Serve(document.clone())).err()
}

/// Counts what is written.
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
    use tamis_config::{FORMAT_VERSION, HttpSource, Source};

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
            format_version: FORMAT_VERSION,
            name: "s".into(),
            version: "1".into(),
            // Farther apart than the encoder looks back.
            description: Some(noise.collect::<String>().repeat(7)),
            source: Source::Http(HttpSource { base_url: "https://example.com".into(), auth: None }),
            tools: indexmap::IndexMap::new(),
        };
        let length = document.description.as_ref().map_or(0, String::len);
        assert!(service(&document, length).is_some_and(|message| message.contains("too large")));
        document.description = Some("a".repeat(length));
        assert_eq!(service(&document, length), None, "what shrinks fits");
    }
}
