//! Compares values, for `enum`, `const` and `uniqueItems`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use super::{Check, Verdict};
use crate::decimal::Decimal;
use crate::document::{Kind, Value};

impl<'d> Check<'_, 'd> {
    /// Returns whether two JSON values are equal: numbers by value, objects without regard to order.
    pub(super) fn equal(&mut self, a: Value<'_>, b: Value<'_>) -> Verdict {
        self.spend(1)?;
        if a.kind() != b.kind() || a.count() != b.count() {
            return Ok(false);
        }
        Ok(match a.kind() {
            Kind::Null | Kind::Boolean => a.raw() == b.raw(),
            Kind::Number => {
                self.spend_text(a.raw().len().min(b.raw().len()))?;
                b.is_number(a.raw())
            }
            Kind::String => {
                self.spend_text(a.raw().len().min(b.raw().len()))?;
                a.as_str() == b.as_str()
            }
            Kind::Array => {
                for (a, b) in a.elements().zip(b.elements()) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            Kind::Object => {
                self.spend_text(a.raw().len() + b.raw().len())?;
                let sorted = |value: Value<'_>| -> Vec<_> {
                    // The places of the keys suffice: the texts are read again below.
                    let mut members: Vec<_> = Vec::with_capacity(value.count());
                    members.extend(
                        value
                            .members()
                            .map(|(key, member)| (key.as_str().unwrap_or_default().into_owned(), member.at())),
                    );
                    members.sort_unstable();
                    members
                };
                let (mine, other) = (sorted(a), sorted(b));
                for ((name, at), (other_name, other_at)) in mine.iter().zip(&other) {
                    if name != other_name || !self.equal(a.sibling(*at), b.sibling(*other_at))? {
                        return Ok(false);
                    }
                }
                true
            }
        })
    }

    /// Returns whether no two elements are equal: compares their keyed hashes, and elements one by one only if hashes
    /// agree.
    pub(super) fn are_unique(&mut self, value: Value<'d>) -> Verdict {
        self.spend(2 * value.count() as u64)?;
        self.spend_text(value.raw().len())?;
        let hashing = self.hashing.get_or_insert_with(RandomState::new).clone();
        let mut hashes: Vec<(u64, usize)> =
            value.elements().map(|element| (hash(&hashing, element), element.at())).collect();
        hashes.sort_unstable();
        for pair in hashes.windows(2) {
            if pair[0].0 == pair[1].0 && self.equal(value.sibling(pair[0].1), value.sibling(pair[1].1))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns a hash that is equal for equal values.
fn hash(state: &RandomState, value: Value<'_>) -> u64 {
    let mut hasher = state.build_hasher();
    match value.kind() {
        Kind::Null | Kind::Boolean => hasher.write(value.raw().as_bytes()),
        Kind::Number => {
            hasher.write_u8(1);
            if let Some(number) = Decimal::parse(value.raw()) {
                number.feed(|byte| hasher.write_u8(byte));
            }
        }
        Kind::String => {
            hasher.write_u8(2);
            hasher.write(value.as_str().unwrap_or_default().as_bytes());
        }
        Kind::Array => {
            hasher.write_u8(3);
            value.elements().for_each(|element| hasher.write_u64(hash(state, element)));
        }
        Kind::Object => {
            // A sum does not depend on the order.
            let member = |(key, member): (Value<'_>, Value<'_>)| {
                let mut hasher = state.build_hasher();
                hasher.write_u64(hash(state, key));
                hasher.write_u64(hash(state, member));
                hasher.finish()
            };
            hasher.write_u8(4);
            hasher.write_u64(value.members().map(member).fold(0, u64::wrapping_add));
        }
    }
    hasher.finish()
}
