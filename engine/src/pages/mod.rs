//! Chunks and pages of a list (`filters.md`, "Chunks"; seed 002, "Chunk-Based Lazy Loading").
//!
//! An answer that leaves items out ends with an index: where the other items are, and what they are about. This module
//! reads what a call asks for ([`Page`]), divides the items that are left out ([`divide()`]), and writes the index
//! ([`Index`]) with a summary of each chunk ([`ChunksProgram`]). Which items the answer itself shows is decided by
//! `fit`.
//!
//! Everything here is computed from the filtered list alone. An index shows how many items that list has, and, by the
//! sizes of its chunks, how large the items are in the answer's format. It therefore reveals nothing about a value
//! that the filter removed, and no more about a value that the filter kept than the answers to all chunks do.

mod divide;
mod index;
mod list_id;
mod plain;
mod presets;
mod request;
mod summary;

pub(crate) use divide::{Chunk, Division, Room, divide, divide_runs};
pub(crate) use index::Index;
pub(crate) use list_id::{ListId, ListSettings};
pub use request::{Page, PageError, PageInput, PageInputs, PageRequest};
pub(crate) use summary::{ChunksProgram, Summaries};

#[cfg(test)]
mod tests;
