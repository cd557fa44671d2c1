//! Finding a part of an answer. Nothing is rewritten: what is found is a part of the bytes.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

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

/// The members of an object, read once and looked at often.
pub(super) struct Object<'a> {
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// `None` for what is no object.
    ///
    /// # Errors
    /// The reason, where the bytes are not JSON.
    pub(super) fn read(body: &'a [u8]) -> Result<Option<Self>, String> {
        if first(body) != Some(b'{') {
            return Ok(None);
        }
        let mut json = serde_json::Deserializer::from_slice(body);
        let members = json.deserialize_map(Members).map_err(|e| reason(&e))?;
        json.end().map_err(|e| reason(&e))?;
        Ok(Some(Self { members }))
    }

    /// The last member of that name.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.get())
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

    /// The list by the rule that filters use for a payload: under `items`, `result` or `data`, else the first member
    /// that is one. With its name.
    pub(super) fn find_list(&self) -> Option<(&str, &'a str)> {
        let named = |name: &'static str| Some((name, self.get(name)?));
        let is_list = |(_, text): &(&str, &str)| text.starts_with('[');
        let any = || self.members.iter().map(|(name, value)| (name.as_str(), value.get())).find(is_list);
        ["items", "result", "data"].into_iter().filter_map(named).find(is_list).or_else(any)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            all.push((key, map.next_value()?));
        }
        Ok(all)
    }
}

/// A member of an object, or an element of a list.
fn child<'a>(text: &'a str, segment: &str) -> Result<Option<&'a str>, String> {
    if let Some(object) = Object::read(text.as_bytes())? {
        return Ok(object.get(segment));
    }
    let Ok(index) = segment.parse::<usize>() else { return Ok(None) };
    if !text.starts_with('[') {
        return Ok(None);
    }
    let all: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| reason(&e))?;
    Ok(all.get(index).map(|element| element.get()))
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
