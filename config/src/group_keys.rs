//! The keys of a group: a Secret that the operator writes and rotates, and that all gateways of the group read.
//!
//! A key is published before it is used and accepted after it was used, so that a cursor that one gateway sealed opens
//! at every other one while a rotation is on its way.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How long a key is in use. Cursors open for at least as long, and for at most twice as long.
pub const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// A key that others are derived from. Its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct RootKey([u8; 32]);

impl RootKey {
    /// Takes 32 random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, to derive keys from.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    fn read(hex: &[u8]) -> Option<Self> {
        let hex = std::str::from_utf8(hex).ok()?.trim();
        let mut key = [0; 32];
        if hex.len() != 2 * key.len() || !hex.is_ascii() {
            return None;
        }
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(key))
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey(..)")
    }
}

/// The content of the Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupKeys {
    /// Opens what was sealed before the last rotation; none before the first.
    pub previous: Option<RootKey>,
    /// Seals, opens and signs.
    pub current: RootKey,
    /// Opens what a gateway that has seen the next rotation seals.
    pub next: RootKey,
    /// When `current` came into use, in seconds since 1970.
    pub rotated: u64,
}

impl GroupKeys {
    /// Keys of a new group.
    #[must_use]
    pub fn new(current: RootKey, next: RootKey, now: u64) -> Self {
        Self { previous: None, current, next, rotated: now }
    }

    /// The keys after a rotation that publishes `fresh`.
    #[must_use]
    pub fn rotate(self, fresh: RootKey, now: u64) -> Self {
        let Self { previous: _, current, next, rotated: _ } = self;
        Self { previous: Some(current), current: next, next: fresh, rotated: now }
    }

    /// How long the current key stays in use; zero where a rotation is due. A date in the future counts as now.
    #[must_use]
    pub fn due_in(&self, now: u64) -> Duration {
        KEY_LIFETIME.saturating_sub(Duration::from_secs(now.saturating_sub(self.rotated)))
    }

    /// The Secret's data.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, Vec<u8>> {
        let Self { previous, current, next, rotated } = self;
        let previous = previous.as_ref().map(|key| ("previous", key.hex()));
        let all = [("current", current.hex()), ("next", next.hex()), ("rotated", rotated.to_string())];
        all.into_iter().chain(previous).map(|(name, text)| (name.to_owned(), text.into_bytes())).collect()
    }

    /// Reads the Secret's data. Returns none if it is incomplete or malformed.
    pub fn read<'d>(data: impl Fn(&str) -> Option<&'d [u8]>) -> Option<Self> {
        let key = |name: &str| RootKey::read(data(name)?);
        Some(Self {
            previous: match data("previous") {
                Some(hex) => Some(RootKey::read(hex)?),
                None => None,
            },
            current: key("current")?,
            next: key("next")?,
            rotated: std::str::from_utf8(data("rotated")?).ok()?.trim().parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> RootKey {
        RootKey::new([byte; 32])
    }

    fn read(data: &BTreeMap<String, Vec<u8>>) -> Option<GroupKeys> {
        GroupKeys::read(|name| data.get(name).map(Vec::as_slice))
    }

    #[test]
    fn a_key_is_published_before_it_is_used_and_accepted_after() {
        let keys = GroupKeys::new(key(1), key(2), 100);
        let rotated = keys.clone().rotate(key(3), 200);
        assert_eq!((&rotated.previous, &rotated.current, &rotated.next), (&Some(key(1)), &key(2), &key(3)));
        for keys in [keys, rotated] {
            assert_eq!(read(&keys.data()), Some(keys.clone()));
            assert!(!format!("{keys:?}").contains("01, 01"), "{keys:?}");
        }
    }

    #[test]
    fn a_rotation_is_due_after_the_lifetime() {
        let keys = GroupKeys::new(key(1), key(2), 1_000);
        let lifetime = KEY_LIFETIME.as_secs();
        for (now, due) in
            [(1_000, lifetime), (1_010, lifetime - 10), (1_000 + lifetime, 0), (u64::MAX, 0), (0, lifetime)]
        {
            assert_eq!(keys.due_in(now).as_secs(), due, "{now}");
        }
    }

    #[test]
    fn what_is_no_key_is_not_guessed_at() {
        let good = GroupKeys::new(key(1), key(2), 7).rotate(key(3), 8).data();
        assert!(read(&good).is_some());
        for (name, value) in [
            ("current", None),
            ("next", None),
            ("rotated", None),
            ("current", Some("00")),
            ("next", Some("zz")),
            ("previous", Some("")),
            ("rotated", Some("yesterday")),
        ] {
            let mut data = good.clone();
            data.remove(name);
            data.extend(value.map(|text| (name.to_owned(), text.as_bytes().to_vec())));
            assert_eq!(read(&data), None, "{name} {value:?}");
        }
    }
}
