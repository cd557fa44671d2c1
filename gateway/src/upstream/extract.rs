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
    let mut at: &[u8] = body;
    for segment in path.split('.').filter(|s| !s.is_empty()) {
        match child(at, segment)? {
            Some(text) => at = text.as_bytes(),
            None => return Ok(None),
        }
    }
    Ok(Some(body.slice_ref(at)))
}

/// The same, for a scalar's text: a string unescaped, a number's digits. `None` also for null, false and `""`.
pub(super) fn scalar(body: &Bytes, path: &str) -> Option<String> {
    let found = extract(body, path).ok()??;
    let text = std::str::from_utf8(&found).ok()?.trim();
    match text.as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(text).ok().filter(|s| !s.is_empty()),
        b'-' | b'0'..=b'9' => Some(text.to_owned()),
        _ => None,
    }
}

/// The elements' text of a list (what is between its brackets), and how many they are.
pub(super) fn list(body: &Bytes) -> Option<(Bytes, usize)> {
    let text: &RawValue = serde_json::from_slice(body).ok()?;
    if !text.get().starts_with('[') {
        return None;
    }
    let Ok(Elements(count)) = serde_json::from_str(text.get()) else { return None };
    let inner = text.get()[1..text.get().len() - 1].trim();
    Some((body.slice_ref(inner.as_bytes()), count))
}

/// The list in an object by the rule that filters use for a payload: under `items`, `result` or `data`, else the first
/// member that is one. With its name.
pub(super) fn find_list(body: &Bytes) -> Option<(String, Bytes)> {
    let all = members(body).ok()??;
    let is_list = |(_, value): &&(String, &RawValue)| value.get().starts_with('[');
    let named = |name: &str| all.iter().filter(is_list).find(|(key, _)| key == name);
    let (key, value) = ["items", "result", "data"].into_iter().find_map(named).or_else(|| all.iter().find(is_list))?;
    Some((key.clone(), body.slice_ref(value.get().as_bytes())))
}

/// The members of an object, as they come; `None` for what is no object.
fn members(body: &[u8]) -> Result<Option<Vec<(String, &RawValue)>>, String> {
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
    if first(body) != Some(b'{') {
        return Ok(None);
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let all = json.deserialize_map(Members).map_err(|e| reason(&e))?;
    json.end().map_err(|e| reason(&e))?;
    Ok(Some(all))
}

/// The last member of that name in an object, or an element of a list.
fn child<'a>(body: &'a [u8], segment: &str) -> Result<Option<&'a str>, String> {
    match first(body) {
        Some(b'{') => {
            let all = members(body)?.unwrap_or_default();
            Ok(all.into_iter().rev().find(|(key, _)| key == segment).map(|(_, value)| value.get()))
        }
        Some(b'[') => {
            let all: Vec<&RawValue> = serde_json::from_slice(body).map_err(|e| reason(&e))?;
            Ok(segment.parse().ok().and_then(|i: usize| all.get(i).map(|v| v.get())))
        }
        _ => serde_json::from_slice::<IgnoredAny>(body).map(|_| None).map_err(|e| reason(&e)),
    }
}

fn first(body: &[u8]) -> Option<u8> {
    body.iter().copied().find(|b| !b.is_ascii_whitespace())
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
