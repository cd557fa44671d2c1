//! Who may call: keys of callers, each known by its SHA-256 only.
//!
//! A key is looked up by the first bytes of its digest and then compared in constant time. The first step's time tells
//! nothing of use: whoever presents keys cannot choose their digests, and part of a digest leads to no key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use sha2::{Digest as _, Sha256};

/// Callers of one exposition.
pub(crate) const MAX_CALLERS: usize = 10_000;
/// Bytes of a key; a longer one is nobody's.
const MAX_KEY_BYTES: usize = 512;
/// What stands before the hex digits.
const PREFIX: &str = "sha256:";

/// The other place of a key, for clients that keep `Authorization` for themselves.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turned {
    /// No key, or nobody's.
    Unauthorized,
    /// Nobody knows whose keys are good: the Secret is not there.
    NoCallers,
}

/// The digest of the key that a request presents: `Authorization: Bearer KEY` or `X-API-Key: KEY`. None where there is
/// none, or several that differ: what is checked must be what the client meant.
pub(crate) fn presented(headers: &HeaderMap) -> Option<KeyDigest> {
    let mut keys = headers
        .get_all(AUTHORIZATION)
        .iter()
        .filter_map(|value| bearer(value.as_bytes()))
        .chain(headers.get_all(API_KEY).iter().map(|value| value.as_bytes().trim_ascii()));
    let key = keys.next()?;
    if keys.all(|other| other == key) { KeyDigest::of(key) } else { None }
}

/// What follows the scheme, which is in any case (RFC 9110, 11.1). Other schemes are somebody else's, a proxy's say.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"bearer".len())?;
    (scheme.eq_ignore_ascii_case(b"bearer") && rest.first().is_none_or(|byte| *byte == b' ')).then(|| rest.trim_ascii())
}

/// The SHA-256 of a caller's key. Its `Debug` says nothing.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The digest of a key; none for one that is empty or longer than 512 bytes.
    #[must_use]
    pub fn of(key: &[u8]) -> Option<Self> {
        (!key.is_empty() && key.len() <= MAX_KEY_BYTES).then(|| Self(Sha256::digest(key).into()))
    }

    /// Reads `sha256:` and 64 hex digits; surrounding white space is the file's.
    fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix(PREFIX)?.as_bytes();
        let mut digest = [0; 32];
        if digits.len() != 2 * digest.len() {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(digest))
    }

    /// What the table is sorted by.
    fn head(&self) -> u64 {
        self.0.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(..)")
    }
}

/// Who may call an exposition: names and the digests of their keys. Read from a Secret once, asked at every request.
/// Empty, it admits nobody.
#[derive(Clone, Default)]
pub struct Callers(Box<[(KeyDigest, Arc<str>)]>);

/// A list of callers that cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCallers {
    /// Not a JSON object of strings.
    #[error("is no JSON object of texts")]
    Malformed,
    /// More than a gateway holds.
    #[error("has {0} callers, {MAX_CALLERS} is the limit")]
    TooMany(usize),
}

impl Callers {
    /// Reads a Secret's entries, the caller's name to `sha256:` and 64 hex digits. An entry that is anything else is
    /// left out, with a warning that names `secret` and the entry, never its value.
    ///
    /// # Errors
    /// [`InvalidCallers::TooMany`].
    pub fn new<N, V>(secret: &str, entries: impl IntoIterator<Item = (N, V)>) -> Result<Self, InvalidCallers>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut count = 0;
        let mut table = Vec::new();
        for (name, value) in entries {
            let name = name.as_ref();
            count += 1;
            match KeyDigest::parse(value.as_ref()) {
                Some(digest) if table.len() < MAX_CALLERS => table.push((digest, Arc::from(name))),
                Some(_) => {}
                None => tracing::warn!(
                    secret,
                    entry = name,
                    "a caller's entry is left out: it must be `sha256:` and the 64 hex digits of the key's SHA-256"
                ),
            }
        }
        if count > MAX_CALLERS {
            return Err(InvalidCallers::TooMany(count));
        }
        // Of two callers with one key the name that sorts first counts.
        table.sort_by(|(a, one), (b, other)| (a.0, one).cmp(&(b.0, other)));
        table.dedup_by(|(later, name), (first, kept)| {
            let same = later.0 == first.0;
            if same {
                tracing::warn!(secret, entry = %name, same_as = %kept, "two callers have one key");
            }
            same
        });
        Ok(Self(table.into()))
    }

    /// Reads what a group's credential shard holds under the handle of a callers Secret: a JSON object of
    /// `{"caller": "sha256:<hex>"}`. `secret` is for warnings.
    ///
    /// # Errors
    /// [`InvalidCallers`]; its text holds nothing of the content.
    pub fn from_json(secret: &str, json: &[u8]) -> Result<Self, InvalidCallers> {
        let entries: BTreeMap<String, String> = serde_json::from_slice(json).map_err(|_| InvalidCallers::Malformed)?;
        Self::new(secret, entries)
    }

    /// The name of the caller whose key has this digest.
    #[must_use]
    pub fn find(&self, presented: &KeyDigest) -> Option<&Arc<str>> {
        let head = presented.head();
        let from = self.0.partition_point(|(digest, _)| digest.head() < head);
        let candidates = self.0[from..].iter().take_while(|(digest, _)| digest.head() == head);
        let mut found = None;
        for (digest, name) in candidates {
            if verify_slices_are_equal(&digest.0, &presented.0).is_ok() {
                found = Some(name);
            }
        }
        found
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is admitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Callers").field(&self.len()).finish()
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
