//! Converters of documents that describe an API: pure, from the tree of a document to the tools that the gateway knows.

pub(crate) mod openapi;
