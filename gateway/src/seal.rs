//! The keys that all gateways of a group share. They seal cursors and sessions of MCP servers, and sign audit records.
//!
//! Under `Enforced`, a cursor of the upstream may hold data that the filter removed. The caller therefore gets a token
//! that only the group's gateways can open, for the same exposition, tool and caller.

use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tamis_config::group_keys::{GroupKeys, RootKey};

/// Tokens are padded to a multiple of this, so that their length reveals little about the cursor's.
const PADDED_TO: usize = 64;
const NONCE: usize = 12;
/// Bytes that name the key in front of a token.
const ID: usize = 4;

/// Why a cursor could not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealError {
    /// The gateway has no keys at the moment.
    NoKeys,
    /// These keys did not seal the token for this scope, or the cursor is too long.
    Invalid,
}

/// The signature of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    /// HMAC-SHA256.
    pub(crate) hmac: [u8; 32],
    /// The id of the key.
    pub(crate) key: [u8; ID],
}

/// The keys of a gateway. Empty until they are read. A gateway never generates keys in place of its group's.
#[derive(Debug, Default)]
pub struct Keyring(RwLock<Option<Arc<Keys>>>);

/// Keys of one generation of the group's Secret.
#[derive(Debug)]
struct Keys {
    current: Derived,
    /// The previous and the next key, which only open.
    others: Vec<Derived>,
}

/// The keys that are derived from one root key.
struct Derived {
    id: [u8; ID],
    seal: LessSafeKey,
    nonces: hmac::Key,
    audit: hmac::Key,
}

impl std::fmt::Debug for Derived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Derived(..)")
    }
}

impl Keyring {
    /// Creates a keyring with the keys of a group.
    #[must_use]
    pub fn new(keys: &GroupKeys) -> Self {
        let keyring = Self::default();
        keyring.set(Some(keys));
        keyring
    }

    /// Creates a keyring with keys that last as long as the process, for a gateway without a group. Returns none if the
    /// system has no random numbers.
    pub(crate) fn of_the_process() -> Option<Self> {
        let fresh = || {
            let mut key = [0; 32];
            aws_lc_rs::rand::fill(&mut key).ok()?;
            Some(RootKey::new(key))
        };
        Some(Self::new(&GroupKeys::new(fresh()?, fresh()?, 0)))
    }

    /// Replaces the keys of the group; none if their Secret was deleted.
    pub fn set(&self, keys: Option<&GroupKeys>) {
        let keys = keys.and_then(Keys::new).map(Arc::new);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Returns whether the keyring has keys.
    pub(crate) fn is_known(&self) -> bool {
        self.keys().is_some()
    }

    fn keys(&self) -> Option<Arc<Keys>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a token for `cursor` that is valid in `scope` (exposition, tool and caller).
    pub(crate) fn seal(&self, scope: &str, cursor: &str) -> Result<String, SealError> {
        let keys = self.keys().ok_or(SealError::NoKeys)?;
        keys.current.seal(scope, cursor).ok_or(SealError::Invalid)
    }

    /// Returns the cursor in `token`, which was sealed with the current, the previous or the next key.
    pub(crate) fn open(&self, scope: &str, token: &str) -> Result<String, SealError> {
        let keys = self.keys().ok_or(SealError::NoKeys)?;
        let token = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| SealError::Invalid)?;
        let (id, sealed) = token.split_first_chunk::<ID>().ok_or(SealError::Invalid)?;
        let key = std::iter::once(&keys.current).chain(&keys.others).find(|key| key.id == *id);
        key.and_then(|key| key.open(scope, sealed)).ok_or(SealError::Invalid)
    }

    /// Returns the signature of an answer, which is in pieces; none without keys.
    pub(crate) fn sign<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Signature> {
        self.keys()?.current.sign(pieces)
    }
}

impl Keys {
    fn new(keys: &GroupKeys) -> Option<Self> {
        let GroupKeys { previous, current, next, rotated: _ } = keys;
        let others = previous.iter().chain([next]).map(Derived::new).collect::<Option<_>>()?;
        Some(Self { current: Derived::new(current)?, others })
    }
}

impl Derived {
    fn new(root: &RootKey) -> Option<Self> {
        let root = hmac::Key::new(hmac::HMAC_SHA256, root.expose());
        let derive = |purpose: &str| hmac::sign(&root, purpose.as_bytes());
        let key = |purpose: &str| hmac::Key::new(hmac::HMAC_SHA256, derive(purpose).as_ref());
        let seal = UnboundKey::new(&AES_256_GCM, derive("tamis.dev/cursor/seal").as_ref()).ok()?;
        Some(Self {
            id: *derive("tamis.dev/id").as_ref().first_chunk()?,
            seal: LessSafeKey::new(seal),
            nonces: key("tamis.dev/cursor/nonce"),
            audit: key("tamis.dev/audit"),
        })
    }

    /// Seals a cursor. The nonce is derived from the sealed text with a separate key, so a cursor has one token in each
    /// scope, and equal answers of an upstream give equal answers of the gateway. Two different texts share a nonce
    /// only if HMAC-SHA256, truncated to 96 bits, collides.
    fn seal(&self, scope: &str, cursor: &str) -> Option<String> {
        let length = u32::try_from(cursor.len()).ok()?;
        let mut text = Vec::with_capacity(cursor.len() + PADDED_TO + 32);
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(cursor.as_bytes());
        text.resize(text.len().next_multiple_of(PADDED_TO), 0);
        let nonce = self.nonce(scope, &text)?;
        let mut token = self.id.to_vec();
        token.extend_from_slice(&nonce);
        let (nonce, scope) = (Nonce::assume_unique_for_key(nonce), Aad::from(scope.as_bytes()));
        self.seal.seal_in_place_append_tag(nonce, scope, &mut text).ok()?;
        token.append(&mut text);
        Some(BASE64_URL_SAFE_NO_PAD.encode(token))
    }

    /// Returns the first 96 bits of the HMAC-SHA256 of scope and text. The scope's length separates the two.
    fn nonce(&self, scope: &str, text: &[u8]) -> Option<[u8; NONCE]> {
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(&u64::try_from(scope.len()).ok()?.to_be_bytes());
        context.update(scope.as_bytes());
        context.update(text);
        context.sign().as_ref().first_chunk().copied()
    }

    fn sign<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Signature> {
        let mut context = hmac::Context::with_key(&self.audit);
        pieces.into_iter().for_each(|piece| context.update(piece));
        Some(Signature { hmac: *context.sign().as_ref().first_chunk()?, key: self.id })
    }

    fn open(&self, scope: &str, sealed: &[u8]) -> Option<String> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let text = self.seal.open_in_place(nonce, Aad::from(scope.as_bytes()), &mut sealed).ok()?;
        let (length, cursor) = text.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        String::from_utf8(cursor.get(..length)?.to_vec()).ok()
    }
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
