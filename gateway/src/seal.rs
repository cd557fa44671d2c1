//! Sealed pagination cursors. Under `Enforced` a cursor of the upstream may hold data that the filter removed, so the
//! caller gets a token that only this process can open, for the same exposition and tool.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Tokens are padded to a multiple of this: their length says little of the cursor's.
const PADDED_TO: usize = 64;
const NONCE: usize = 12;

/// Seals and opens cursors with a key that lives as long as the process.
pub(crate) struct Sealer(RandomizedNonceKey);

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl Sealer {
    /// With a fresh key. None where the system has no randomness.
    pub(crate) fn new() -> Option<Self> {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).ok()?;
        RandomizedNonceKey::new(&AES_256_GCM, &key).ok().map(Self)
    }

    /// A token for `cursor` that is good for `scope` (exposition and tool). None for a cursor beyond all reason.
    pub(crate) fn seal(&self, scope: &str, cursor: &str) -> Option<String> {
        let length = u32::try_from(cursor.len()).ok()?;
        let mut text = Vec::with_capacity(cursor.len() + PADDED_TO + 32);
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(cursor.as_bytes());
        text.resize(text.len().next_multiple_of(PADDED_TO), 0);
        let nonce = self.0.seal_in_place_append_tag(Aad::from(scope.as_bytes()), &mut text).ok()?;
        let mut token = nonce.as_ref().to_vec();
        token.append(&mut text);
        Some(BASE64_URL_SAFE_NO_PAD.encode(token))
    }

    /// The cursor in `token`. None for a token of another scope, another process, or that is none.
    pub(crate) fn open(&self, scope: &str, token: &str) -> Option<String> {
        let mut token = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        let (nonce, sealed) = token.split_at_mut_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.0.open_in_place(nonce, Aad::from(scope.as_bytes()), sealed).ok()?;
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
    fn tokens_of_short_cursors_have_one_length() {
        let sealer = Sealer::new().unwrap();
        let lengths: Vec<_> = ["", "a", &"a".repeat(60)].iter().map(|c| sealer.seal("s", c).unwrap().len()).collect();
        assert_eq!(lengths, vec![lengths[0]; 3]);
        assert!(!sealer.seal("s", "secret").unwrap().contains("secret"));
    }
}
