//! The formats of an answer: compact JSON, `table` and TOON.
//!
//! Their input is always the filtered output as compact JSON, which is known to be valid.

pub(crate) mod choice;
#[cfg(test)]
mod choice_tests;
mod distinct;
mod fill;
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
pub use toon::ToonOptions;

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

/// A name that no format has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFormat;

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no format; use json, table or toon")
    }
}

impl std::error::Error for UnknownFormat {}
