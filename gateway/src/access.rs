//! Callers and their keys. The gateway knows only the SHA-256 of a key.
//!
//! A key is looked up by the first bytes of its digest and then compared in constant time. The time of the lookup
//! reveals nothing useful: an attacker who tries keys cannot choose their digests, and part of a digest leads to no
//! key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use sha2::{Digest as _, Sha256};
use tamis_config::Access;

use crate::upstream::Credentials;

/// Maximum number of callers of one exposition.
pub(crate) const MAX_CALLERS: usize = 10_000;
/// Maximum bytes of a key; a longer one belongs to no caller.
const MAX_KEY_BYTES: usize = 512;
/// Maximum bytes of a caller's name.
const MAX_NAME_BYTES: usize = 253;
/// The prefix of the hex digits.
const PREFIX: &str = "sha256:";

/// The other header for a key, for clients that use `Authorization` for something else.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The only text that a request without a valid key gets.
pub(crate) const KEY_REQUIRED: &str = "API key required: send `Authorization: Bearer KEY` or `X-API-Key: KEY`";

/// Why a request is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// It presents no key, or one that belongs to no caller.
    Unauthorized,
    /// The callers' keys are unknown, because their Secret does not exist.
    CallersUnknown,
    /// The exposition is called through bundles only.
    BundleOnly,
}

/// Authenticates a request to an address in `namespace` by the key that it presents. Returns the caller's name, if callers
/// have names.
///
/// # Errors
/// [`AuthError`] if the request is not authenticated.
pub(crate) fn admit(
    access: Option<&Access>,
    namespace: &str,
    store: &dyn Credentials,
    presented: impl FnOnce() -> Option<KeyDigest>,
) -> Result<Option<Arc<str>>, AuthError> {
    match access {
        None | Some(Access::Anonymous) => Ok(None),
        Some(Access::BundleOnly) => Err(AuthError::BundleOnly),
        Some(Access::ApiKeys { secret, handle }) => {
            let callers = store.callers(namespace, secret, handle.as_ref()).ok_or(AuthError::CallersUnknown)?;
            let name = presented().and_then(|key| callers.find(&key).cloned());
            name.map(Some).ok_or(AuthError::Unauthorized)
        }
    }
}

/// Returns the digest of the key that a request presents: `Authorization: Bearer KEY` or `X-API-Key: KEY`. Returns none
/// if there is no key, or if there are several that differ: the gateway must check the key that the client meant.
pub(crate) fn presented(headers: &HeaderMap) -> Option<KeyDigest> {
    let mut keys = headers
        .get_all(AUTHORIZATION)
        .iter()
        .filter_map(|value| bearer(value.as_bytes()))
        .chain(headers.get_all(API_KEY).iter().map(|value| value.as_bytes().trim_ascii()));
    let key = keys.next()?;
    if keys.all(|other| other == key) { KeyDigest::of(key) } else { None }
}

/// Returns the token after the scheme `Bearer`, in upper or lower case (RFC 9110, 11.1). Other schemes are meant for
/// others, such as a proxy.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"bearer".len())?;
    (scheme.eq_ignore_ascii_case(b"bearer") && rest.first().is_none_or(|byte| *byte == b' ')).then(|| rest.trim_ascii())
}

/// The SHA-256 of a caller's key. Its `Debug` output omits it.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// Digests a key. Returns none if it is empty or longer than 512 bytes.
    #[must_use]
    pub fn of(key: &[u8]) -> Option<Self> {
        (!key.is_empty() && key.len() <= MAX_KEY_BYTES).then(|| Self(Sha256::digest(key).into()))
    }

    /// Parses `sha256:` and 64 hex digits. Files may add white space around them.
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

    /// The part of the digest that the table is sorted by.
    fn head(&self) -> u64 {
        self.0.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(..)")
    }
}

/// The callers of an exposition: names, and the digests of their keys. Read from a Secret once, looked up at every
/// request. An empty list admits no caller.
#[derive(Clone, Default)]
pub struct Callers(Box<[(KeyDigest, Arc<str>)]>);

/// Why a list of callers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCallers {
    /// Not a JSON object of strings.
    #[error("is not a JSON object of strings")]
    Malformed,
    /// More than a gateway holds.
    #[error("has {0} callers; the limit is {MAX_CALLERS}")]
    TooMany(usize),
}

impl Callers {
    /// Reads a Secret's entries, from a caller's name to `sha256:` and 64 hex digits. Any other entry is skipped, with
    /// a warning that names `secret` and the entry, never its value.
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
            match Some(value.as_ref()).filter(|_| is_name(name)).and_then(KeyDigest::parse) {
                Some(digest) if table.len() < MAX_CALLERS => table.push((digest, Arc::from(name))),
                Some(_) => {}
                None => tracing::warn!(
                    secret,
                    entry = name,
                    "caller's entry ignored: expected a valid Secret key as the name, and `sha256:` with the 64 hex digits \
                     of the key's SHA-256 as the value"
                ),
            }
        }
        if count > MAX_CALLERS {
            return Err(InvalidCallers::TooMany(count));
        }
        // If two callers have the same key, the name that sorts first counts.
        table.sort_by(|(a, one), (b, other)| (a.0, one).cmp(&(b.0, other)));
        table.dedup_by(|(later, name), (first, kept)| {
            let same = later.0 == first.0;
            if same {
                tracing::warn!(secret, entry = %name, same_as = %kept, "two callers have the same key");
            }
            same
        });
        Ok(Self(table.into()))
    }

    /// Reads the value that a group's credential shard holds for a Secret of callers: a JSON object of
    /// `{"caller": "sha256:<hex>"}`. `secret` is for warnings.
    ///
    /// # Errors
    /// [`InvalidCallers`], whose text omits the content.
    pub fn from_json(secret: &str, json: &[u8]) -> Result<Self, InvalidCallers> {
        let entries: BTreeMap<String, String> = serde_json::from_slice(json).map_err(|_| InvalidCallers::Malformed)?;
        Self::new(secret, entries)
    }

    /// Returns the name of the caller whose key has this digest.
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

    /// The number of callers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list admits no caller.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether Kubernetes allows `name` as a key of a Secret. Such a name is one word of an audit record.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain)
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Callers").field(&self.len()).finish()
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
