//! JSON Schema for the arguments of tool calls, with bounded work and bounded memory.
//!
//! [`Document::parse`] reads a JSON text into a flat index of its values and refuses what different readers would read
//! differently, duplicate keys above all. [`compile`] turns a schema into a [`Schema`], or into [`Problem`]s that each
//! name a place and a remedy. [`Schema::check`] validates a document in a number of steps that the document's size
//! bounds, whatever the schema says: a schema that would multiply the work ends the check with [`Invalid::Work`].
//!
//! Why not a general-purpose validator: it collects every error before the first can be reported, runs patterns with a
//! backtracking engine, and has no bound on recursion under `anyOf`. Decision 0020 has the figures.
//!
//! The dialect is JSON Schema 2020-12; a `$schema` that names drafts 4 to 2019-09 is honoured. `format` and the
//! `content*` keywords are annotations. References lead to a place of the same document.
//!
//! The crate is pure: no clock, no file, no network.

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
