//! JSON as the engine reads it: every RFC 8259 text that is valid UTF-8, kept byte for byte.

mod text;

pub use text::{InvalidJson, JsonText};
