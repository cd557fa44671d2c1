//! The formats of an answer: compact JSON, `table` and TOON.
//!
//! Their input is always the filtered output as compact JSON, which is known to be valid.

pub(crate) mod choice;
#[cfg(test)]
mod choice_tests;
mod distinct;
mod fill;
#[cfg(test)]
mod hostile_tests;
mod keys;
mod layout;
mod literal;
#[cfg(test)]
mod random;
mod rows;
mod scan;
mod shape;
pub(crate) mod table;
#[cfg(test)]
mod table_tests;
pub(crate) mod toon;
#[cfg(test)]
mod toon_tests;

use std::fmt;
use std::str::FromStr;

pub use literal::Delimiter;
pub use toon::{ToonOptions, Unrepresentable};

use crate::json::{self, Node};
use crate::tokens::{TokenCounter, Tokens};
use crate::work::Work;

/// A format of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// JSON without insignificant whitespace.
    #[default]
    Json,
    /// JSON in which the payload, a list of objects, is written as its columns and rows.
    Table,
    /// TOON (Token-Oriented Object Notation) 4.4.
    Toon,
}

impl Format {
    /// All formats, in the order in which `auto` prefers them.
    pub const ALL: [Self; 3] = [Self::Json, Self::Table, Self::Toon];

    /// The values of `_format` and `--format`: the name of a format, or `auto`.
    pub const CHOICES: [&str; 4] = ["json", "table", "toon", "auto"];

    /// Returns the formats to choose from for one of [`Format::CHOICES`].
    #[must_use]
    pub fn choice(name: &str) -> Option<&'static [Self]> {
        let all: &'static [Self] = &Self::ALL;
        match name {
            "auto" => Some(all),
            name => all.iter().position(|format| format.as_str() == name).map(|number| &all[number..=number]),
        }
    }

    /// Returns the name of the format in documents, calls and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Table => "table",
            Self::Toon => "toon",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.as_str() == name).ok_or(UnknownFormat)
    }
}

/// A document as the formats read it: compact JSON.
///
/// [`crate::Program::apply`] writes formats itself. This is for what measures and verifies them.
#[derive(Clone, PartialEq, Eq)]
pub struct CompactJson(String);

impl CompactJson {
    /// Returns `document` as compact JSON.
    #[must_use]
    pub fn of(document: &Node<'_>) -> Self {
        Self(json::to_string(document))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the document as TOON. If `fill` is set, a table has `null` where a row lacks a column.
    ///
    /// # Errors
    /// See [`Unrepresentable`].
    pub fn toon(&self, options: &ToonOptions, fill: bool) -> Result<String, Unrepresentable> {
        toon::encode(&self.0, 0..self.0.len(), fill, options, &Work::unlimited())
    }

    /// Returns the document as `table`, if it is a list that can be one. If `fill` is set, a row has `null` where its
    /// item lacks a column.
    #[must_use]
    pub fn table(&self, fill: bool) -> Option<String> {
        table::encode(&self.0, 0..self.0.len(), fill, &Work::unlimited())
    }

    /// Returns the document in the one of `formats` that has the fewest tokens, and that format. Where JSON is among
    /// them, it stays unless another has at least a tenth fewer.
    #[must_use]
    pub fn choose(&self, formats: &[Format], fill: bool, counter: TokenCounter<'_>) -> (Format, String) {
        let most = Tokens(usize::MAX);
        let request = choice::Request { formats, toon: ToonOptions::default(), fill, most, limit: None };
        match choice::write(&self.0, 0..self.0.len(), &request, counter, &Work::unlimited()) {
            Some(written) => (written.format, written.text.into_owned()),
            // Only if there is no format to choose from: nothing interrupts the work.
            None => (Format::Json, self.0.clone()),
        }
    }
}

// Debug shows no content: the document is a payload.
impl fmt::Debug for CompactJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of JSON", self.0.len())
    }
}

/// A name that no format has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFormat;

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no format; use json, table or toon")
    }
}

impl std::error::Error for UnknownFormat {}
