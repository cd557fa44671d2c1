//! The arguments of a call as they were written: one text, and the places of the names and values in it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;
use tamis_schema::Value;

use crate::mcp::encode;

/// Up to this many arguments, a name is compared with each of them.
const COMPARED: usize = 8;

/// The arguments of a call: names and JSON texts, in the order in which they were written. Digits stay as the caller wrote
/// them. Its `Debug` shows no payload.
#[derive(Clone, Default)]
pub struct Arguments {
    /// The object as it was written, followed by what was inserted later.
    text: String,
    /// The length of the object as it was written, as long as its members are exactly these arguments.
    written: Option<usize>,
    members: SmallVec<[Member; COMPARED]>,
    /// If there are more than [`COMPARED`] members, their numbers in order of their names.
    sorted: Vec<usize>,
}

/// An argument, in [`Arguments::text`].
#[derive(Debug, Clone)]
struct Member {
    /// The name, without quotes and escapes.
    name: Range<usize>,
    value: Range<usize>,
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arguments({})", self.members.len())
    }
}

impl Arguments {
    /// Returns the members of `object`, a value of the document with the text `text`.
    pub(crate) fn of(text: &str, object: Value<'_>) -> Self {
        let mut arguments = Self { text: text.to_owned(), written: Some(text.len()), ..Self::default() };
        arguments.members.reserve_exact(object.count());
        for (name, value) in object.members() {
            let quoted = name.place();
            let name = match name.as_str().unwrap_or_default() {
                Cow::Borrowed(_) => quoted.start + 1..quoted.end - 1,
                Cow::Owned(name) => arguments.append(&name),
            };
            arguments.members.push(Member { name, value: value.place() });
        }
        arguments.sort();
        arguments
    }

    /// Returns the number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the names and the JSON texts of the values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|Member { name, value }| (self.at(name), self.at(value)))
    }

    /// Returns the JSON text of an argument.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name).map(|number| self.at(&self.members[number].value))
    }

    /// Removes an argument, and returns its JSON text.
    pub(crate) fn remove(&mut self, name: &str) -> Option<&str> {
        let Member { name: _, value } = self.members.remove(self.find(name)?);
        self.written = None;
        self.sort();
        Some(self.at(&value))
    }

    /// Adds an argument, or replaces its value. `json` is a JSON text.
    pub(crate) fn insert(&mut self, name: &str, json: &str) {
        self.written = None;
        let value = self.append(json);
        match self.find(name) {
            Some(number) => self.members[number].value = value,
            None => {
                let name = self.append(name);
                self.members.push(Member { name, value });
                self.sort();
            }
        }
    }

    /// Returns the arguments as a JSON object.
    pub(crate) fn object(&self) -> Cow<'_, str> {
        if let Some(written) = self.written {
            return Cow::Borrowed(&self.text[..written]);
        }
        let mut text = String::with_capacity(2 + self.iter().map(|(k, v)| k.len() + v.len() + 8).sum::<usize>());
        text.push('{');
        for (name, value) in self.iter() {
            if text.len() > 1 {
                text.push(',');
            }
            encode::string(&mut text, name);
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        Cow::Owned(text)
    }

    fn at(&self, place: &Range<usize>) -> &str {
        &self.text[place.clone()]
    }

    fn append(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    fn find(&self, name: &str) -> Option<usize> {
        if self.members.len() <= COMPARED {
            return self.members.iter().position(|member| self.at(&member.name) == name);
        }
        let found = self.sorted.binary_search_by(|number| self.at(&self.members[*number].name).cmp(name));
        found.ok().map(|at| self.sorted[at])
    }

    fn sort(&mut self) {
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.clear();
        if self.members.len() > COMPARED {
            sorted.extend(0..self.members.len());
            sorted.sort_unstable_by(|a, b| self.at(&self.members[*a].name).cmp(self.at(&self.members[*b].name)));
        }
        self.sorted = sorted;
    }
}

/// Reads any JSON object. The last of two equal names counts.
impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Arguments;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arguments, A::Error> {
                let mut arguments = Arguments::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    arguments.insert(&name, value.get());
                }
                Ok(arguments)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
