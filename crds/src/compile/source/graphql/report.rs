//! What an import says about a schema: the tools that it becomes, and the part of the schema that they need.

use std::sync::Arc;

use apollo_compiler::ast::OperationType;
use tamis_config::matches_pattern;

use super::super::DocumentAt;
use super::super::report::{ApiReport, ApiTool};
use super::text::Text;
use super::{Conversion, Selection, Source, convert, parse, prune};
use crate::read::api;

/// Documents to be imported: the file of each, which is only a name, and its content.
#[derive(Debug, Clone, Copy)]
pub struct GraphQlDocuments<'d> {
    /// The schema.
    pub schema: (&'d str, &'d [u8]),
    /// Operations.
    pub operations: Option<(&'d str, &'d [u8])>,
}

/// Reads a GraphQL schema, and operations. `include` chooses fields as `fields.include` of a manifest does; without it and without
/// operations, all fields of the query type become tools. `depth`: how many levels of objects are kept of what a tool returns.
#[must_use]
pub fn examine_graphql(documents: GraphQlDocuments<'_>, include: Option<&[String]>, depth: usize) -> ApiReport {
    let read = |(file, bytes): (&str, &[u8])| {
        let file: Arc<str> = file.into();
        api::tree_of(&file, bytes).map(|node| (file, node))
    };
    let failed = |finding| ApiReport { findings: vec![finding], ..ApiReport::default() };
    let (file, node) = match read(documents.schema) {
        Ok(read) => read,
        Err(finding) => return failed(*finding),
    };
    let written = match documents.operations.map(read).transpose() {
        Ok(written) => written,
        Err(finding) => return failed(*finding),
    };
    let schema = DocumentAt { file: &file, field: "", node: &node };
    let operations = written.as_ref().map(|(file, node)| DocumentAt { file, field: "", node });
    let any = include.is_some() || operations.is_none();
    let conversion = convert(Source { schema, operations }, Selection { any, include, exclude: &[] });
    let Conversion { tools, left_out, unselected, names, queries, findings } = conversion;
    let is_meant = |pattern: &String| names.iter().any(|name| matches_pattern(pattern, name));
    let mut report = ApiReport {
        left_out: left_out.into_iter().map(|left| (left.operation, left.reason)).collect(),
        unselected,
        unmatched: include.unwrap_or_default().iter().filter(|pattern| !is_meant(pattern)).cloned().collect(),
        findings,
        ..ApiReport::default()
    };
    let Some(queries) = queries else { return report };
    let schema = &queries.schema;
    let roots: Vec<_> = tools
        .values()
        .filter_map(|tool| {
            let (role, field) = tool.operation.split_once('.')?;
            let kind = if role == "Query" { OperationType::Query } else { OperationType::Mutation };
            let ty = schema.root_operation(kind)?;
            Some((ty.clone(), schema.get_object(ty)?.fields.get_key_value(field)?.0.clone()))
        })
        .collect();
    let text = operations.and_then(|document| Text::operations(document).ok());
    let parsed = text.and_then(|text| super::parser().parse_executable(schema, text.text.clone(), "operations").ok());
    let pruned = prune::prune(schema, &roots, parsed.as_ref(), depth);
    // A part of a schema that is no schema is of no use.
    let node = crate::yaml::Node::text(crate::yaml::Position::START, pruned.clone());
    let again = Text::schema(DocumentAt { file: &file, field: "", node: &node }).ok();
    report.pruned = again.and_then(|text| parse(&text).ok()).map(|_| pruned);
    report.tools = tools.into_iter().map(|(name, tool)| ApiTool::new(name, tool)).collect();
    report
}
