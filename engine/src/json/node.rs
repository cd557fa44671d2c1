//! The tree of spans.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use super::{number, string};
use crate::work::Work;

/// A JSON value whose leaves are spans of the parsed text, or of constants.
///
/// [`Node::equals`] compares JSON values (RFC 6902 section 4.6). It is a method and not `PartialEq`, since two equal
/// nodes may print differently.
#[derive(Clone)]
pub enum Node<'a> {
    /// `null`, `true`, `false` or a number, as written.
    Scalar(&'a str),
    /// A string as written, with its quotes and escapes.
    String(Cow<'a, str>),
    /// Elements in order.
    Array(Vec<Node<'a>>),
    /// Members in order, duplicates included.
    Object(Vec<Member<'a>>),
}

/// One member of an object.
#[derive(Debug, Clone)]
pub struct Member<'a, V = Node<'a>> {
    /// The key.
    pub key: Key<'a>,
    /// The value.
    pub value: V,
}

/// A member's key as written, with its quotes and escapes.
#[derive(Clone)]
pub struct Key<'a>(Cow<'a, str>);

/// The kind of a value, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// Returns the word for the kind, with its article.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "a list",
            Self::Object => "an object",
        }
    }
}

impl<'a> Key<'a> {
    /// Returns a key from its JSON text, with quotes.
    pub(crate) fn from_raw(raw: impl Into<Cow<'a, str>>) -> Self {
        Self(raw.into())
    }

    /// Returns the key as written, with quotes.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Returns whether the key equals `name` once its escapes are resolved.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        string::equals_plain(&self.0, name)
    }

    /// Returns the key with its escapes resolved, in WTF-8: a lone surrogate keeps its code point.
    pub(crate) fn plain(&self) -> Cow<'_, [u8]> {
        string::decode(&self.0)
    }

    /// Returns whether two keys are equal once their escapes are resolved.
    #[must_use]
    pub fn same(&self, other: &Key<'_>) -> bool {
        string::equal(&self.0, &other.0)
    }

    /// Returns the key with its escapes resolved; a lone surrogate becomes U+FFFD.
    #[must_use]
    pub fn decoded(&self) -> Cow<'_, str> {
        string::decode_lossy(&self.0)
    }
}

impl<'a> Node<'a> {
    /// `null`
    pub const NULL: Node<'static> = Node::Scalar("null");

    /// Returns the kind of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Scalar(raw) => match raw.as_bytes().first() {
                Some(b'n') => Kind::Null,
                Some(b't' | b'f') => Kind::Boolean,
                _ => Kind::Number,
            },
            Self::String(_) => Kind::String,
            Self::Array(_) => Kind::Array,
            Self::Object(_) => Kind::Object,
        }
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// Returns the member `name` of an object; the last of duplicates.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Node<'a>> {
        match self {
            Self::Object(members) => members.iter().rev().find(|m| m.key.is(name)).map(|m| &m.value),
            _ => None,
        }
    }

    /// Returns the elements of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Node<'a>]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// Returns the members of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&[Member<'a>]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the text of a string with its escapes resolved; a lone surrogate becomes U+FFFD.
    #[must_use]
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(raw) => Some(string::decode_lossy(raw)),
            _ => None,
        }
    }

    /// Returns how deep arrays and objects are nested; 0 for a scalar.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Scalar(_) | Self::String(_) => 0,
            Self::Array(elements) => 1 + elements.iter().map(Node::depth).max().unwrap_or(0),
            Self::Object(members) => 1 + members.iter().map(|m| m.value.depth()).max().unwrap_or(0),
        }
    }

    /// Returns whether two values are equal by RFC 6902 section 4.6: numbers by value, as exact decimals; strings by
    /// their characters; objects without regard to order, with the last of duplicate keys.
    #[must_use]
    pub fn equals(&self, other: &Node<'_>) -> bool {
        self.equals_within(other, &Work::unlimited())
    }

    /// As [`Node::equals`], but counts steps. It examines no more of this value than `other` has, and duplicate keys:
    /// pass the value that is known to be smaller as `other`. Returns `false` where the stage must end.
    pub(crate) fn equals_within(&self, other: &Node<'_>, work: &Work<'_>) -> bool {
        match (self, other) {
            (Self::Scalar(a), Node::Scalar(b)) => {
                a == b || (work.spend(1 + (a.len() + b.len()) / 64) && number::equal(a, b))
            }
            (Self::String(a), Node::String(b)) => work.spend(1 + (a.len() + b.len()) / 64) && string::equal(a, b),
            (Self::Array(a), Node::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| work.spend(1) && a.equals_within(b, work))
            }
            (Self::Object(a), Node::Object(b)) => {
                let b = by_key(b);
                let mut found = HashMap::with_capacity(b.len());
                for member in a {
                    let key = member.key.plain();
                    if !work.spend(1) || !b.contains_key(&key) {
                        return false;
                    }
                    found.insert(key, &member.value);
                }
                let same = |(key, value): (&Cow<'_, [u8]>, &&Node<'_>)| {
                    found.get(key).is_some_and(|found| found.equals_within(value, work))
                };
                found.len() == b.len() && b.iter().all(same)
            }
            _ => false,
        }
    }
}

/// Returns the members by key; the last of duplicates.
pub(crate) fn by_key<'n, 'a>(members: &'n [Member<'a>]) -> HashMap<Cow<'n, [u8]>, &'n Node<'a>> {
    members.iter().map(|m| (string::decode(m.key.raw()), &m.value)).collect()
}

/// Returns the members whose values count: the last of duplicates.
pub(crate) fn last_of_each<'n, 'a>(members: &'n [Member<'a>], work: &Work<'_>) -> impl Iterator<Item = &'n Member<'a>> {
    let distinct = are_distinct(members, work);
    let last: HashMap<_, _> = if distinct {
        HashMap::new()
    } else {
        polled(members, work).map(|m| (string::decode(m.key.raw()), m)).collect()
    };
    let counts = move |member: &&Member<'a>| {
        distinct || last.get(&string::decode(member.key.raw())).is_some_and(|last| std::ptr::eq(*last, *member))
    };
    members.iter().filter(counts)
}

/// Returns whether all keys differ.
fn are_distinct<V>(members: &[Member<'_, V>], work: &Work<'_>) -> bool {
    // Nearly every object is small and has no duplicates: compare before building a map.
    if members.len() <= 16 {
        (1..members.len()).all(|i| members[..i].iter().all(|m| !string::equal(m.key.raw(), members[i].key.raw())))
    } else {
        polled(members, work).map(|m| string::decode(m.key.raw())).collect::<HashSet<_>>().len() == members.len()
    }
}

/// Iterates over the members until the run is interrupted.
fn polled<'n, 'a, V>(members: &'n [Member<'a, V>], work: &Work<'_>) -> impl Iterator<Item = &'n Member<'a, V>> {
    members.iter().take_while(|_| work.spend_unbounded(1))
}

/// Keeps one member for each key: the last value, at the place of the first.
///
/// Called where a path enters an object; elsewhere duplicates pass unchanged.
pub(crate) fn dedupe<V>(members: &mut Vec<Member<'_, V>>, work: &Work<'_>) {
    if are_distinct(members, work) {
        return;
    }
    let mut first: HashMap<Vec<u8>, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<Member<'_, V>> = Vec::with_capacity(members.len());
    for member in members.drain(..).take_while(|_| work.spend_unbounded(1)) {
        match first.entry(string::decode(member.key.raw()).into_owned()) {
            std::collections::hash_map::Entry::Occupied(at) => kept[*at.get()].value = member.value,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(kept.len());
                kept.push(member);
            }
        }
    }
    *members = kept;
}

// Debug shows no content: nodes hold payloads.
impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(elements) => write!(f, "array of {}", elements.len()),
            Self::Object(members) => write!(f, "object of {}", members.len()),
            Self::Scalar(_) | Self::String(_) => f.write_str(self.kind().as_str()),
        }
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("key")
    }
}
