//! Converters of documents that describe an API: pure, from the tree of a document to the tools that the gateway knows.

pub(crate) mod graphql;
pub(crate) mod grpc;
mod names;
pub(crate) mod openapi;
pub(crate) mod report;

use std::sync::Arc;

use tamis_config::ServiceTool;

use crate::yaml::Node;

/// A document, and where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentAt<'n> {
    pub(crate) file: &'n Arc<str>,
    /// The path of the document in its file; empty for a file of its own.
    pub(crate) field: &'static str,
    pub(crate) node: &'n Node,
}

/// `include` and `exclude` of a manifest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Selection<'s> {
    /// Patterns; `None` selects everything.
    pub(crate) include: Option<&'s [String]>,
    /// Patterns.
    pub(crate) exclude: &'s [String],
}

impl Selection<'_> {
    /// Returns whether something is selected. `matches`: whether a pattern means it.
    fn selects(&self, matches: impl Fn(&str) -> bool) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern));
        self.include.is_none_or(any) && !any(self.exclude)
    }
}

/// A tool, and the operation that it calls.
#[derive(Debug, Clone)]
pub(crate) struct Converted {
    /// Method and path, or type and field.
    pub(crate) operation: String,
    pub(crate) tool: ServiceTool,
    /// What is not part of the tool, with the reason: optional parameters, or fields that need arguments.
    pub(crate) omitted: Vec<String>,
}

impl Converted {
    /// Returns about how many bytes of memory the tool takes.
    fn weight(&self) -> usize {
        /// What a tool takes besides its schemas.
        const REST: usize = 2 << 10;
        let ServiceTool { input_schema, output_schema, description, .. } = &self.tool;
        let output = output_schema.as_ref().map_or(0, |schema| schema.as_str().len());
        REST + input_schema.as_str().len() + output + description.as_ref().map_or(0, String::len)
    }
}

/// An operation that becomes no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Method and path, or type and field.
    pub(crate) operation: String,
    /// Why, as the end of a sentence about it.
    pub(crate) reason: String,
}
