//! The keys of a document: two keys have one number if they are equal once their escapes are resolved.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::json::decode_string;
use crate::stream::equal32;

/// Bytes that are compared at once.
const BLOCK: usize = 32;

/// The number of a key, in the order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u32);

impl Key {
    /// No key.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// Where a key stands in the document, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Span {
    /// Returns the text of the key, with its quotes.
    #[inline(always)]
    pub(super) fn of<'a>(&self, json: &'a str) -> &'a str {
        &json[self.start as usize..(self.start + self.len) as usize]
    }

    /// Returns the position behind the key at `pos`, if the same text is there.
    #[inline(always)]
    pub(super) fn matched(&self, bytes: &[u8], pos: usize) -> Option<usize> {
        let (len, start) = (self.len as usize, self.start as usize);
        if len <= BLOCK
            && let Some(known) = bytes.get(start..).and_then(<[u8]>::first_chunk::<BLOCK>)
            && let Some(found) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<BLOCK>)
        {
            let mask = (1_u64 << len) - 1;
            return (u64::from(equal32(known, found)) & mask == mask).then_some(pos + len);
        }
        (bytes.get(pos..pos + len)? == &bytes[start..start + len]).then_some(pos + len)
    }
}

/// The keys of a document.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    /// Where each key was first seen.
    spans: Vec<Span>,
    /// By their characters, as they are without escapes.
    plain: HashMap<Cow<'a, [u8]>, Key, RandomState>,
    /// Keys that are written with escapes, by their text.
    escaped: HashMap<&'a str, Key, RandomState>,
}

impl<'a> Keys<'a> {
    /// Returns the number of the key that stands at `start..end` of `json`, quotes included.
    pub(super) fn add(&mut self, json: &'a str, start: usize, end: usize) -> Key {
        let raw = &json[start..end];
        if let Some(key) = self.find(raw) {
            return key;
        }
        let characters = decode_string(raw);
        let new = Key(self.spans.len() as u32);
        let key = *self.plain.entry(characters).or_insert(new);
        if key == new {
            self.spans.push(Span { start: start as u32, len: (end - start) as u32 });
        }
        if raw.contains('\\') {
            self.escaped.insert(raw, key);
        }
        key
    }

    /// Returns the number of a key that was added with the same text or without escapes.
    pub(super) fn find(&self, raw: &str) -> Option<Key> {
        if raw.contains('\\') {
            self.escaped.get(raw).copied()
        } else {
            self.plain.get(&raw.as_bytes()[1..raw.len() - 1]).copied()
        }
    }

    /// Returns where the key was first seen.
    #[inline(always)]
    pub(super) fn span(&self, key: Key) -> Span {
        self.spans[key.0 as usize]
    }
}
