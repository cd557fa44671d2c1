//! Finding a part of an answer. Nothing is rewritten: what is found is a part of the bytes.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Members under which lists usually are.
pub(super) const LISTS: [&str; 3] = ["items", "result", "data"];

/// Follows a dotted path; a number is an index in a list. `None` where it leads nowhere.
///
/// # Errors
/// The reason, where the bytes are not JSON.
pub(super) fn extract(body: &Bytes, path: &str) -> Result<Option<Bytes>, String> {
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

/// The elements' text of a list (what is between its brackets), and how many they are. `None` for no valid list.
pub(super) fn list(body: &Bytes) -> Option<(Bytes, usize)> {
    let text = serde_json::from_slice::<&RawValue>(body).ok()?.get();
    let Elements(count) = serde_json::from_str(text).ok()?;
    let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    Some((body.slice_ref(inner.as_bytes()), count))
}

/// The first byte that is no white space.
pub(super) fn first(body: &[u8]) -> Option<u8> {
    body.iter().copied().find(|b| !b.is_ascii_whitespace())
}

/// The members of an object that somebody may ask for, read once. Their number does not depend on the object.
pub(super) struct Object<'a> {
    members: Vec<(String, &'a RawValue)>,
    /// The first member that is a list.
    list: Option<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Keeps the members of these names; of several with one name the last. `None` for what is no object.
    ///
    /// # Errors
    /// The reason, where the bytes are not JSON.
    pub(super) fn read(body: &'a [u8], names: &[&str]) -> Result<Option<Self>, String> {
        if first(body) != Some(b'{') {
            return Ok(None);
        }
        let mut json = serde_json::Deserializer::from_slice(body);
        let object = json.deserialize_map(Members(names)).map_err(|e| reason(&e))?;
        json.end().map_err(|e| reason(&e))?;
        Ok(Some(object))
    }

    /// The last member of that name, which was asked for.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| value.get())
    }

    /// The text of the scalar at a dotted path: a string unescaped, the digits of a number. `None` also for null, a
    /// boolean and `""`.
    pub(super) fn scalar(&self, path: &str) -> Option<String> {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let text = descend(self.get(name)?, rest).ok()??;
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok().filter(|s: &String| !s.is_empty()),
            b'-' | b'0'..=b'9' => Some(text.to_owned()),
            _ => None,
        }
    }

    /// The list by the rule that filters use for a payload: under one of [`LISTS`], else the first member that is one. With
    /// its name.
    pub(super) fn find_list(&self) -> Option<(&str, &'a str)> {
        let named = |name: &'static str| Some((name, self.get(name)?));
        let is_list = |(_, text): &(&str, &str)| text.starts_with('[');
        let any = || self.list.as_ref().map(|(name, value)| (name.as_str(), value.get()));
        LISTS.into_iter().filter_map(named).find(is_list).or_else(any)
    }
}

/// Reads an object and keeps the members of these names.
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

/// A member of an object, or an element of a list.
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

/// Reads a list and keeps the element of this index.
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

/// Position and kind of a syntax error; never a part of the document.
fn reason(error: &serde_json::Error) -> String {
    format!("is not valid JSON (line {}, column {})", error.line(), error.column())
}

/// A key, also one with a lone surrogate, which no path names.
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

/// How many elements a list has.
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
