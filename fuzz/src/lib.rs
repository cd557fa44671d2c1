//! What hostile input is fed to. A target is a pure function that panics when what it holds does not hold.
//!
//! `cargo xtask fuzz` runs the targets with coverage feedback, on the stable toolchain. The seeds in `seeds/` are fed to
//! them in every run of the tests.

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

/// A name, and what runs one input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets that this build has, in the order of their names.
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
];

/// The function of a target, if this build has it.
#[must_use]
pub fn find(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// Two texts in one input: the first line, and all that follows it.
#[cfg(any(feature = "schema", feature = "template", feature = "text"))]
fn halves(data: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(data).ok()?.split_once('\n')
}
