//! Random documents, made of a list of random decisions: tests only.

use std::collections::HashSet;

use crate::json::encode;

/// A document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Doc {
    /// `null`, `true`, `false` or a number, as written.
    Word(&'static str),
    /// A string, and whether it is written with an escape that it does not need.
    Text(String, bool),
    List(Vec<Doc>),
    Object(Vec<(String, bool, Doc)>),
}

impl Doc {
    /// Returns the document as compact JSON.
    pub(super) fn json(&self) -> String {
        fn text(text: &str, escaped: bool) -> String {
            match text.chars().next() {
                Some(first) if escaped && (first as u32) < 0x1_0000 => {
                    format!("\"\\u{:04x}{}", first as u32, &encode(&text[first.len_utf8()..])[1..])
                }
                _ => encode(text),
            }
        }
        match self {
            Self::Word(word) => (*word).to_owned(),
            Self::Text(plain, escaped) => text(plain, *escaped),
            Self::List(items) => format!("[{}]", items.iter().map(Self::json).collect::<Vec<_>>().join(",")),
            Self::Object(members) => {
                let member =
                    |(key, escaped, value): &(String, bool, Self)| format!("{}:{}", text(key, *escaped), value.json());
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
            }
        }
    }

    pub(super) fn is_primitive(&self) -> bool {
        matches!(self, Self::Word(_) | Self::Text(..))
    }

    pub(super) fn members(&self) -> Option<&[(String, bool, Self)]> {
        match self {
            Self::Object(members) if !members.is_empty() => Some(members),
            _ => None,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.members()?.iter().find(|(key, ..)| key == name).map(|(.., value)| value)
    }
}

/// Numbers that every reader writes as they are.
const WORDS: [&str; 12] =
    ["null", "0", "1", "true", "false", "-1", "42", "-0.25", "12.5", "9007199254740991", "123456789", "0.001"];

const TEXTS: [&str; 40] = [
    "",
    "a",
    "x y",
    " x",
    "x ",
    "-",
    "- a",
    "-5",
    "#",
    "# a",
    "a#",
    "null",
    "true",
    "false",
    "nul",
    "0",
    "05",
    "1e5",
    "+1",
    "1.",
    "1.5E-3",
    "[chunks]",
    "[2]:",
    "a:b",
    "a,b",
    "a|b",
    "a\tb",
    "{}",
    "a\"b",
    "a\\b",
    "line\nline",
    "\u{1}",
    "\u{7f}",
    "\u{feff}mark",
    "é",
    "😀 smile",
    "/a/b",
    "\u{2028}",
    "key{a}",
    "12 monkeys",
];

const KEYS: [&str; 24] = [
    "id", "name", "a", "b", "c", "user", "login", "_x", "A.b", "a-b", "", "0", "7", " ", "k:1", "[0]", "a,b", "{x}",
    "\"", "\\", "\n", "é", "😀", "null",
];

/// A list of random decisions. At its end every decision is the first choice.
pub(super) struct Decisions<'a> {
    bytes: &'a [u8],
    /// Whether an object may have a key twice.
    duplicates: bool,
}

impl<'a> Decisions<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, duplicates: false }
    }

    /// As [`Decisions::new`], for documents in which an object may have a key twice.
    pub(super) fn with_duplicates(bytes: &'a [u8]) -> Self {
        Self { bytes, duplicates: true }
    }

    fn pick(&mut self, choices: usize) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(*first) % choices
    }

    fn one_in(&mut self, choices: usize) -> bool {
        self.pick(choices) == choices - 1
    }

    fn primitive(&mut self) -> Doc {
        if self.pick(2) == 0 {
            Doc::Word(WORDS[self.pick(WORDS.len())])
        } else {
            Doc::Text(TEXTS[self.pick(TEXTS.len())].to_owned(), self.one_in(8))
        }
    }

    fn key(&mut self) -> String {
        let few = if self.pick(2) == 0 { 6 } else { KEYS.len() };
        KEYS[self.pick(few)].to_owned()
    }

    fn distinct(&self, members: &mut Vec<(String, bool, Doc)>) {
        let mut seen = HashSet::new();
        if !self.duplicates {
            members.retain(|(key, ..)| seen.insert(key.clone()));
        }
    }

    pub(super) fn document(&mut self, depth: usize) -> Doc {
        match self.pick(if depth == 0 { 1 } else { 8 }) {
            0 | 1 => self.primitive(),
            2 => Doc::List((0..self.pick(5)).map(|_| self.primitive()).collect()),
            3 => Doc::List((0..self.pick(5)).map(|_| self.document(depth - 1)).collect()),
            4 | 5 => {
                let mut members =
                    (0..self.pick(6)).map(|_| (self.key(), self.one_in(8), self.document(depth - 1))).collect();
                self.distinct(&mut members);
                Doc::Object(members)
            }
            _ => {
                let count = self.pick(6);
                let rows = self.rows(depth - 1, count);
                if self.pick(3) > 0 {
                    return Doc::List(rows);
                }
                let mut members = rows.into_iter().map(|row| (self.key(), self.one_in(8), row)).collect();
                self.distinct(&mut members);
                Doc::Object(members)
            }
        }
    }

    /// Objects with much in common: the same keys, sometimes in another order, sometimes not all of them.
    pub(super) fn rows(&mut self, depth: usize, count: usize) -> Vec<Doc> {
        let columns: Vec<(String, bool)> =
            (0..1 + self.pick(5)).map(|_| (self.key(), depth > 0 && self.one_in(3))).collect();
        let mut groups: Vec<_> = Vec::new();
        for (_, is_group) in &columns {
            groups.push(if *is_group { self.rows(depth - 1, count) } else { Vec::new() });
        }
        let (orders, gaps, odd) = (self.one_in(3), self.one_in(3), self.one_in(6));
        (0..count)
            .map(|row| {
                let mut members: Vec<_> = columns
                    .iter()
                    .enumerate()
                    .map(|(i, (key, _))| {
                        let group = groups[i].get(row).cloned();
                        (key.clone(), self.one_in(16), group.unwrap_or_else(|| self.primitive()))
                    })
                    .collect();
                self.distinct(&mut members);
                if orders && self.pick(2) == 1 {
                    let by = self.pick(members.len());
                    members.rotate_left(by);
                }
                if gaps {
                    members.retain(|_| self.pick(4) > 0);
                }
                if odd && self.one_in(4) {
                    return self.document(depth);
                }
                Doc::Object(members)
            })
            .collect()
    }
}
