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
