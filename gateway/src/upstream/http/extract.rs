//! Finds a part of an answer. The result is a slice of the answer's bytes, so nothing is rewritten.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Members that usually hold the list.
pub(super) const LISTS: [&str; 3] = ["items", "result", "data"];

/// Follows a dotted path; a number is an index in a list. Returns `None` if there is nothing at the path.
///
/// # Errors
/// The reason, if the bytes are not JSON.
pub(in crate::upstream) fn extract(body: &Bytes, path: &str) -> Result<Option<Bytes>, String> {
    let text = serde_json::from_slice::<&RawValue>(body).map_err(|e| reason(&e))?.get();
    Ok(descend(text, path)?.map(|found| body.slice_ref(found.as_bytes())))
}

fn descend<'a>(mut text: &'a str, path: &str) -> Result<Option<&'a str>, String> {
    for segment in path.split('.').filter(|s| !s.is_empty()) {
        match child(text, segment)? {
            Some(found) => text = found,
            None => return Ok(None),
        }
    }
    Ok(Some(text))
}

/// Returns the text between the brackets of a list, and the number of its elements, or `None` if it is not a valid list.
pub(super) fn list(body: &Bytes) -> Option<(Bytes, usize)> {
    let text = serde_json::from_slice::<&RawValue>(body).ok()?.get();
    let Elements(count) = serde_json::from_str(text).ok()?;
    let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    Some((body.slice_ref(inner.as_bytes()), count))
}

/// Returns the first byte that is not white space.
pub(super) fn first(body: &[u8]) -> Option<u8> {
    body.iter().copied().find(|b| !b.is_ascii_whitespace())
}

/// Selected members of an object, read once. Their number does not depend on the object.
pub(super) struct Object<'a> {
    members: Vec<(String, &'a RawValue)>,
    /// The first member that is a list.
    list: Option<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Reads the members of these names, the last one of each name. Returns `None` for a value that is not an object.
    ///
    /// # Errors
    /// The reason, if the bytes are not JSON.
    pub(super) fn read(body: &'a [u8], names: &[&str]) -> Result<Option<Self>, String> {
        if first(body) != Some(b'{') {
            return Ok(None);
        }
        let mut json = serde_json::Deserializer::from_slice(body);
        let object = json.deserialize_map(Members(names)).map_err(|e| reason(&e))?;
        json.end().map_err(|e| reason(&e))?;
        Ok(Some(object))
    }

    /// Returns the member of that name, which is one of those that were read.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| value.get())
    }

    /// Returns the text of the string or number at a dotted path: a string without escapes, a number with its digits.
    /// `None` for anything else, and for `""`.
    pub(super) fn scalar(&self, path: &str) -> Option<String> {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let text = descend(self.get(name)?, rest).ok()??;
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok().filter(|s: &String| !s.is_empty()),
            b'-' | b'0'..=b'9' => Some(text.to_owned()),
            _ => None,
        }
    }

    /// Returns the list of the object and its name, by the rule that filters use for a payload: a member in [`LISTS`],
    /// otherwise the first member that is a list.
    pub(super) fn find_list(&self) -> Option<(&str, &'a str)> {
        let named = |name: &'static str| Some((name, self.get(name)?));
        let is_list = |(_, text): &(&str, &str)| text.starts_with('[');
        let any = || self.list.as_ref().map(|(name, value)| (name.as_str(), value.get()));
        LISTS.into_iter().filter_map(named).find(is_list).or_else(any)
    }
}

/// Visits an object and keeps the members of these names.
struct Members<'n>(&'n [&'n str]);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Object { members: Vec::new(), list: None };
        while let Some(Key(key)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            if object.list.is_none() && value.get().starts_with('[') {
                object.list = Some((key.clone(), value));
            }
            if self.0.contains(&key.as_str()) {
                match object.members.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, last)) => *last = value,
                    None => object.members.push((key, value)),
                }
            }
        }
        Ok(object)
    }
}

/// Returns a member of an object, or an element of a list.
fn child<'a>(text: &'a str, segment: &str) -> Result<Option<&'a str>, String> {
    if let Some(object) = Object::read(text.as_bytes(), &[segment])? {
        return Ok(object.get(segment));
    }
    let Ok(index) = segment.parse::<usize>() else { return Ok(None) };
    if !text.starts_with('[') {
        return Ok(None);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let found = json.deserialize_seq(Nth(index)).map_err(|e| reason(&e))?;
    json.end().map_err(|e| reason(&e))?;
    Ok(found.map(RawValue::get))
}

/// Visits a list and keeps the element of this index.
struct Nth(usize);

impl<'de> Visitor<'de> for Nth {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        for _ in 0..self.0 {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = seq.next_element()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Returns the position of a syntax error, and no part of the document.
fn reason(error: &serde_json::Error) -> String {
    format!("is not valid JSON (line {}, column {})", error.line(), error.column())
}

/// The key of a member. A lone surrogate is accepted, although no path can name it.
struct Key(String);

impl<'de> de::Deserialize<'de> for Key {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_bytes<E: de::Error>(self, key: &[u8]) -> Result<Key, E> {
                Ok(Key(String::from_utf8_lossy(key).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Text)
    }
}

/// The number of elements of a list.
struct Elements(usize);

impl<'de> de::Deserialize<'de> for Elements {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;
        impl<'de> Visitor<'de> for Count {
            type Value = Elements;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Elements, A::Error> {
                let mut count = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Elements(count))
            }
        }
        deserializer.deserialize_seq(Count)
    }
}

#[cfg(test)]
#[path = "tests/extract.rs"]
mod tests;
