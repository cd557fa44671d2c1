//! JSON Schema for the arguments of tool calls, with bounded work and bounded memory.
//!
//! [`Document::parse`] parses a JSON text into a flat index of its values, and rejects what parsers treat
//! differently, duplicate keys above all. [`compile`] compiles a schema into a [`Schema`], or returns [`Problem`]s
//! that each name a place and a remedy. [`Schema::check`] validates a document. The size of the document limits the
//! steps of a check, whatever the schema says: a schema that multiplies the work ends the check with
//! [`Invalid::Work`].
//!
//! A general-purpose validator does not fit: it collects every error before the first can be reported, runs patterns
//! with a backtracking engine, and has no limit on recursion under `anyOf`. Decision 0020 has the figures.
//!
//! The dialect is JSON Schema 2020-12; a `$schema` that names one of the drafts 4 to 2019-09 is honoured. `format`
//! and the `content*` keywords are annotations. References must lead to a place of the same document.
//!
//! The crate is pure: it has no clock, no files and no network.

mod compile;
mod decimal;
mod document;
mod node;
mod pattern;
mod validate;

pub use compile::{Problem, Segment, compile};
pub use document::{Document, Kind, Limits, ParseError, Value};
pub use node::Schema;
pub use pattern::Patterns;
pub use validate::{Invalid, STEPS, STEPS_PER_BYTE, steps_for};
