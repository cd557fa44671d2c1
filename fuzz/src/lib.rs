//! Fuzz targets. A target is a pure function that panics if its property does not hold for an input.
//!
//! `cargo xtask fuzz` runs the targets with coverage feedback, on the stable toolchain. Every test run passes the
//! seeds in `seeds/` to them.

#[cfg(feature = "apply")]
mod apply;
#[cfg(feature = "documents")]
mod documents;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "messages")]
mod messages;
#[cfg(feature = "schema")]
mod schema;
#[cfg(feature = "template")]
mod template;
#[cfg(feature = "text")]
mod text;
#[cfg(feature = "toon")]
mod toon;
#[cfg(feature = "upstream")]
mod upstream;

/// The name of a target, and the function that runs one input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of this build, in the order of their names.
pub const TARGETS: &[Target] = &[
    #[cfg(feature = "apply")]
    ("apply", apply::run),
    #[cfg(feature = "documents")]
    ("documents", documents::run),
    #[cfg(feature = "json")]
    ("json", json::run),
    #[cfg(feature = "messages")]
    ("messages", messages::run),
    #[cfg(feature = "schema")]
    ("schema", schema::run),
    #[cfg(feature = "template")]
    ("template", template::run),
    #[cfg(feature = "text")]
    ("text", text::run),
    #[cfg(feature = "toon")]
    ("toon", toon::run),
    #[cfg(feature = "upstream")]
    ("upstream", upstream::run),
];

/// Returns the function of a target, if this build has it.
#[must_use]
pub fn find(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// Splits an input into two texts: the first line, and everything after it.
#[cfg(any(feature = "schema", feature = "template", feature = "text"))]
fn halves(data: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(data).ok()?.split_once('\n')
}
