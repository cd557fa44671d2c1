//! Sealed pagination cursors. Under `Enforced` a cursor of the upstream may hold data that the filter removed, so the
//! caller gets a token that only this process can open, for the same exposition and tool.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Tokens are padded to a multiple of this: their length says little of the cursor's.
const PADDED_TO: usize = 64;
const NONCE: usize = 12;

/// Seals and opens cursors with keys that live as long as the process.
///
/// The nonce is made of what is sealed, by a key of its own: one cursor gives one token for each scope, so that
/// equal answers of an upstream give equal answers here. Two different texts share a nonce only where HMAC-SHA256,
/// cut to 96 bits, collides. All that a token tells is whether a cursor is the one of another token.
pub(crate) struct Sealer {
    key: LessSafeKey,
    nonces: hmac::Key,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl Sealer {
    /// With fresh keys. None where the system has no randomness.
    pub(crate) fn new() -> Option<Self> {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).ok()?;
        let mut nonces = [0; 32];
        aws_lc_rs::rand::fill(&mut nonces).ok()?;
        let key = UnboundKey::new(&AES_256_GCM, &key).ok()?;
        Some(Self { key: LessSafeKey::new(key), nonces: hmac::Key::new(hmac::HMAC_SHA256, &nonces) })
    }

    /// A token for `cursor` that is good for `scope` (exposition and tool). None for a cursor beyond all reason.
    pub(crate) fn seal(&self, scope: &str, cursor: &str) -> Option<String> {
        let length = u32::try_from(cursor.len()).ok()?;
        let mut text = Vec::with_capacity(cursor.len() + PADDED_TO + 32);
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(cursor.as_bytes());
        text.resize(text.len().next_multiple_of(PADDED_TO), 0);
        let nonce = self.nonce(scope, &text)?;
        let mut token = nonce.to_vec();
        let (nonce, scope) = (Nonce::assume_unique_for_key(nonce), Aad::from(scope.as_bytes()));
        self.key.seal_in_place_append_tag(nonce, scope, &mut text).ok()?;
        token.append(&mut text);
        Some(BASE64_URL_SAFE_NO_PAD.encode(token))
    }

    /// The first 96 bits of the HMAC-SHA256 of scope and text, told apart by the scope's length.
    fn nonce(&self, scope: &str, text: &[u8]) -> Option<[u8; NONCE]> {
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(&u64::try_from(scope.len()).ok()?.to_be_bytes());
        context.update(scope.as_bytes());
        context.update(text);
        context.sign().as_ref().first_chunk().copied()
    }

    /// The cursor in `token`. None for a token of another scope, another process, or that is none.
    pub(crate) fn open(&self, scope: &str, token: &str) -> Option<String> {
        let mut token = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        let (nonce, sealed) = token.split_at_mut_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.key.open_in_place(nonce, Aad::from(scope.as_bytes()), sealed).ok()?;
        let (length, cursor) = text.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        String::from_utf8(cursor.get(..length)?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_for_its_scope_and_process_only() {
        let sealer = Sealer::new().unwrap();
        for cursor in ["", "abc", "ü".repeat(50_000).as_str()] {
            let token = sealer.seal("team/a list", cursor).unwrap();
            assert_eq!(sealer.open("team/a list", &token).as_deref(), Some(cursor));
            assert_eq!(sealer.open("team/b list", &token), None);
            assert_eq!(Sealer::new().unwrap().open("team/a list", &token), None);
        }
        for token in ["", "!", "AAAA", &"A".repeat(100)] {
            assert_eq!(sealer.open("s", token), None, "{token}");
        }
    }

    #[test]
    fn one_cursor_has_one_token_in_each_scope() {
        let sealer = Sealer::new().unwrap();
        let token = |scope, cursor| sealer.seal(scope, cursor).unwrap();
        assert_eq!(token("team/a list", "c"), token("team/a list", "c"));
        let others = [("team/a list", "d"), ("team/b list", "c"), ("team/a lis", "tc"), ("team/a list", "c\0")];
        // Nonces too: the first 16 characters of a token.
        for (scope, cursor) in others {
            assert_ne!(token("team/a list", "c")[..16], token(scope, cursor)[..16], "{scope} {cursor:?}");
        }
        assert_ne!(token("s", "c"), Sealer::new().unwrap().seal("s", "c").unwrap());
    }

    #[test]
    fn tokens_of_short_cursors_have_one_length() {
        let sealer = Sealer::new().unwrap();
        let lengths: Vec<_> = ["", "a", &"a".repeat(60)].iter().map(|c| sealer.seal("s", c).unwrap().len()).collect();
        assert_eq!(lengths, vec![lengths[0]; 3]);
        assert!(!sealer.seal("s", "secret").unwrap().contains("secret"));
    }
}
