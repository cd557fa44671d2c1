//! ConfigMaps whose keys hold the documents of APIs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use tamis_config::Digest;

use super::ObjectName;
use crate::yaml::{MAX_API_BYTES, Position};

/// From this length on, a value that is not compressed yet is kept compressed.
const LARGE: usize = 64 << 10;
/// A fast level, whose result is within a few percent of the smallest.
const ZSTD_LEVEL: i32 = 3;
/// The largest window that a document may demand of the decoder, as a power of two.
const MAX_WINDOW: u32 = 26;

/// A ConfigMap with the label `tamis.dev/document`.
///
/// The values are kept as they are stored, or compressed: a document is unpacked while it is converted, and not longer.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// The namespace and name.
    pub name: ObjectName,
    keys: BTreeMap<String, Stored>,
    /// The file that holds the ConfigMap, and its place there. `None` for an object of the Kubernetes API.
    pub(crate) place: Option<(Arc<str>, Position)>,
}

/// One value.
#[derive(Clone, PartialEq, Eq)]
struct Stored {
    bytes: Arc<[u8]>,
    /// Whether `bytes` were compressed here.
    is_packed: bool,
    /// The digest of the value as the ConfigMap holds it.
    digest: Digest,
}

impl fmt::Debug for ConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigMap({}, {:?})", self.name, self.keys.keys())
    }
}

/// A document, or what is wrong with the value that should hold it, and the remedy.
pub type Unpacked<'d> = Result<Cow<'d, [u8]>, (String, &'static str)>;

/// How a value is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Zstd,
    Gzip,
}

/// Returns how the value of a key is compressed, and the key without the ending that says so.
fn compression(key: &str) -> (Compression, &str) {
    let ending = |ending: &str| {
        let at = key.len().checked_sub(ending.len())?;
        key.get(at..).filter(|tail| tail.eq_ignore_ascii_case(ending)).and(key.get(..at))
    };
    match (ending(".zst"), ending(".gz")) {
        (Some(name), _) => (Compression::Zstd, name),
        (_, Some(name)) => (Compression::Gzip, name),
        (None, None) => (Compression::None, key),
    }
}

/// Returns the name of a document whose key may say how it is compressed.
pub(crate) fn document_name(key: &str) -> &str {
    compression(key).1
}

impl ConfigMap {
    /// Creates a ConfigMap of its keys and their values: those of `data`, and the decoded ones of `binaryData`.
    #[must_use]
    pub fn new(name: ObjectName, values: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let keys = values.into_iter().map(|(key, value)| {
            let stored = Stored::new(&key, value);
            (key, stored)
        });
        Self { name, keys: keys.collect(), place: None }
    }

    /// Returns the ConfigMap with the place of its document in a file.
    #[must_use]
    pub(crate) fn at(self, file: &Arc<str>, position: Position) -> Self {
        Self { place: Some((Arc::clone(file), position)), ..self }
    }

    /// Returns the keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Returns how many bytes are kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.iter().map(|(key, stored)| key.len() + stored.bytes.len()).sum()
    }

    /// Returns the digest of the value of a key, as the ConfigMap holds it.
    pub(crate) fn digest(&self, key: &str) -> Option<&Digest> {
        self.keys.get(key).map(|stored| &stored.digest)
    }

    /// Returns the document of a key, unpacked. `None` if there is no such key.
    ///
    /// # Errors
    /// What is wrong with the value, and the remedy: it is not what its key says, or has more than [`MAX_API_BYTES`].
    #[must_use]
    pub fn document(&self, key: &str) -> Option<Unpacked<'_>> {
        let Stored { bytes, is_packed, digest: _ } = self.keys.get(key)?;
        // What was compressed here is text.
        let compression = if *is_packed { Compression::Zstd } else { compression(key).0 };
        let unpacked = match compression {
            Compression::None => return Some(Ok(Cow::Borrowed(bytes))),
            Compression::Zstd => zstd::stream::read::Decoder::with_buffer(&bytes[..]).and_then(|mut decoder| {
                decoder.window_log_max(MAX_WINDOW)?;
                bounded(decoder)
            }),
            Compression::Gzip => bounded(flate2::bufread::MultiGzDecoder::new(&bytes[..])),
        };
        Some(match unpacked {
            Ok(Some(unpacked)) => Ok(Cow::Owned(unpacked)),
            Ok(None) => {
                let message = format!("has more than the {MAX_API_BYTES} bytes that are read, once it is unpacked");
                Err((message, "prune it with `tamis import`"))
            }
            Err(error) => {
                let (how, command) = match compression {
                    Compression::Gzip => ("gzip", "compress it with `gzip`, and store it in `binaryData`"),
                    _ => ("zstd", "compress it with `zstd`, and store it in `binaryData`"),
                };
                Err((format!("ends in the name of a compression, but cannot be unpacked with {how}: {error}"), command))
            }
        })
    }
}

impl Stored {
    fn new(key: &str, value: Vec<u8>) -> Self {
        let digest = Digest::of(&value);
        if compression(key).0 == Compression::None
            && value.len() >= LARGE
            && let Ok(packed) = zstd::bulk::compress(&value, ZSTD_LEVEL)
        {
            return Self { bytes: packed.into(), is_packed: true, digest };
        }
        Self { bytes: value.into(), is_packed: false, digest }
    }
}

/// Reads until the limit. `None` if there is more.
fn bounded(reader: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut unpacked = Vec::new();
    reader.take(MAX_API_BYTES + 1).read_to_end(&mut unpacked)?;
    Ok((unpacked.len() as u64 <= MAX_API_BYTES).then_some(unpacked))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).expect("writes");
        encoder.finish().expect("ends")
    }

    fn of(key: &str, value: Vec<u8>) -> ConfigMap {
        let name = ObjectName { namespace: "team".to_owned(), name: "api".to_owned() };
        ConfigMap::new(name, [(key.to_owned(), value)])
    }

    #[test]
    fn a_document_is_read_as_its_key_says() {
        let text = b"openapi: 3.1.0\n".to_vec();
        let long = vec![b'a'; LARGE];
        let zstd = |text: &[u8]| zstd::bulk::compress(text, 3).expect("compresses");
        let twice = [gzip(b"openapi: "), gzip(b"3.1.0\n")].concat();
        for (key, name, value, expected) in [
            ("api.yaml", "api.yaml", text.clone(), &text),
            ("long.yaml", "long.yaml", long.clone(), &long),
            ("api.yaml.zst", "api.yaml", zstd(&text), &text),
            ("api.json.ZST", "api.json", zstd(&long), &long),
            ("api.yaml.gz", "api.yaml", gzip(&text), &text),
            ("members.gz", "members", twice, &text),
            ("zst", "zst", text.clone(), &text),
            ("é.gz", "é", gzip(&text), &text),
        ] {
            let map = of(key, value.clone());
            assert_eq!(map.document(key).expect("is there").expect("unpacks"), &expected[..], "{key}");
            assert_eq!((document_name(key), map.digest(key)), (name, Some(&Digest::of(&value))), "{key}");
            assert!(map.bytes() < LARGE, "{key}");
            assert!(map.document("other").is_none());
        }
    }

    #[test]
    fn a_bomb_is_unpacked_to_the_limit_only() {
        let limit = usize::try_from(MAX_API_BYTES).expect("fits");
        let most = vec![b' '; limit];
        let more = vec![b' '; limit + 1];
        for (what, value, fits) in [
            ("zst", zstd::bulk::compress(&most, 1).expect("compresses"), true),
            ("zst", zstd::bulk::compress(&more, 1).expect("compresses"), false),
            ("gz", gzip(&most), true),
            ("gz", gzip(&more), false),
        ] {
            assert!(value.len() < 1 << 20, "it fits into a ConfigMap");
            let key = format!("bomb.{what}");
            let map = of(&key, value);
            match map.document(&key).expect("is there") {
                Ok(unpacked) => assert!(fits && unpacked.len() == limit, "{key}"),
                Err((message, _)) => {
                    assert!(!fits && message.starts_with("has more than the 67108864 bytes"), "{message}");
                }
            }
        }
        // A frame that demands a window of 128 MiB.
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("starts");
        encoder.window_log(27).expect("is a window");
        encoder.write_all(b"x").expect("writes");
        let map = of("window.zst", encoder.finish().expect("ends"));
        assert!(map.document("window.zst").expect("is there").is_err());
    }

    #[test]
    fn what_is_not_compressed_as_it_says_is_a_mistake() {
        let half = gzip(&[b'a'; 100]);
        for (key, value, expected) in [
            ("api.zst", b"openapi".to_vec(), "cannot be unpacked with zstd"),
            ("api.gz", b"openapi".to_vec(), "cannot be unpacked with gzip"),
            ("half.gz", half[..half.len() / 2].to_vec(), "cannot be unpacked with gzip"),
        ] {
            let map = of(key, value);
            let (message, remedy) = map.document(key).expect("is there").expect_err("is no such thing");
            assert!(message.contains(expected) && remedy.contains("binaryData"), "{key}: {message}");
        }
    }
}
