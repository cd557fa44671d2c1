//! Tools from a GraphQL schema: operations that the user writes, and fields of the root types.
//!
//! Each tool is an HTTP action with a constant query, so that a gateway knows nothing of GraphQL's language.

mod expansion;
mod fields;
mod input;
mod introspection;
mod operations;
mod output;
mod prune;
mod relations;
#[cfg(test)]
mod relations_tests;
mod report;
mod selection;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use apollo_compiler::ast::{OperationType, Type};
use apollo_compiler::parser::{LineColumn, Parser};
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use indexmap::IndexMap;
use tamis_config::{BodyTemplate, Call, GraphQlCall, HttpCall, RequestTemplate, Risk, ServiceTool};
use tamis_engine::{JsonText, Reads, ResponseType};
use tamis_schema::Patterns;

pub(crate) use self::fields::Selection;
use self::input::Inputs;
pub(crate) use self::relations::RELATION;
pub use self::relations::{GraphQlOperations, graphql_operations};
pub use self::report::{GraphQlDocuments, examine_graphql};
use self::selection::{Selector, Types};
use self::text::Text;
use super::{Converted, DocumentAt, LeftOut};
use crate::Diagnostic;
use crate::diagnostic::Severity;

/// The most tools of one service.
const MAX_SERVICE_TOOLS: usize = crate::definitions::MAX_TOOLS as usize;
/// Levels of nested selections, lists and values in a document.
const MAX_NESTING: usize = 100;
/// The most tokens of a document.
const MAX_TOKENS: usize = 4_000_000;
/// Bytes of the schemas and queries of all tools of one service together.
const MAX_BYTES: usize = 16 << 20;
/// Bytes of a query.
pub(super) const MAX_QUERY: usize = 64 << 10;
/// Tools that are left out and reported one by one.
const REPORTED: usize = 10;
/// Bytes of a tool's description.
const MAX_TEXT: usize = 2048;

/// The documents of a manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'n> {
    pub(crate) schema: DocumentAt<'n>,
    pub(crate) operations: Option<DocumentAt<'n>>,
}

/// What the documents become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversion {
    /// The tools by name: operations, then fields, each in the order of their document.
    pub(crate) tools: IndexMap<String, Converted>,
    /// The fields that were selected and become no tool.
    pub(crate) left_out: Vec<LeftOut>,
    /// How many fields of the query and mutation types were not selected.
    pub(crate) unselected: usize,
    /// Names by which a pattern can mean a field.
    pub(crate) names: Vec<String>,
    /// The queries of tools of fields; none if the schema cannot be read.
    pub(crate) queries: Option<Queries>,
    /// The findings, errors among them.
    pub(crate) findings: Vec<Diagnostic>,
}

impl super::super::conversions::Conversion for Conversion {
    fn findings(&self) -> &[Diagnostic] {
        &self.findings
    }

    fn weight(&self) -> usize {
        /// How many times the bytes of its text a schema takes.
        const PARSED: usize = 10;
        let names: usize = self.names.iter().map(String::len).sum();
        let schema = self.queries.as_ref().map_or(0, |queries| queries.bytes * PARSED);
        names + schema + self.tools.values().map(Converted::weight).sum::<usize>()
    }
}

/// Makes the queries of tools that are made of fields.
#[derive(Clone)]
pub(crate) struct Queries {
    schema: Arc<Valid<Schema>>,
    /// The bytes of the text of the schema.
    bytes: usize,
    /// The type that the field returns, and the query up to the selection, by tool.
    tools: HashMap<String, (Type, String)>,
}

impl fmt::Debug for Queries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queries({} tools)", self.tools.len())
    }
}

impl Queries {
    /// Leaves a tool with the query of the service.
    pub(crate) fn forget(&mut self, tool: &str) {
        self.tools.remove(tool);
    }

    /// Notes that overrides rename tools, from one name to another.
    pub(crate) fn rename(&mut self, names: &[(&String, &String)]) {
        let taken: Vec<_> = names.iter().map(|(from, to)| ((*to).clone(), self.tools.remove(*from))).collect();
        self.tools.extend(taken.into_iter().filter_map(|(to, tool)| Some((to, tool?))));
    }

    /// Returns the query of a tool whose filter reads a part of the output. `None` for a tool that is an operation, whose query
    /// its author has written, for a filter that reads everything, and for a query that would be too large.
    pub(crate) fn query(&self, tool: &str, reads: &Reads) -> Option<String> {
        let (ty, head) = self.tools.get(tool)?;
        if *reads == Reads::All {
            return None;
        }
        let types = Types::new(&self.schema);
        // What a filter reads of a list of lists is not known.
        if ty.is_list() && ty.item_type().is_list() {
            return None;
        }
        // An object with such a member may be text, so that everything else of it matters.
        if types.has_field(ty.inner_named_type(), "raw") {
            return None;
        }
        let selected = Selector::new(&types).select(ty, reads);
        let mut query = head.clone();
        if let Some(selected) = selected {
            selected.write(&mut query);
        }
        query.push('}');
        debug_assert!(
            ExecutableDocument::parse_and_validate(&self.schema, query.clone(), "query").is_ok(),
            "the query fits the schema: {query}"
        );
        (query.len() <= MAX_QUERY).then_some(query)
    }
}

/// Converts the documents of a manifest.
pub(crate) fn convert(source: Source<'_>, selection: Selection<'_>) -> Conversion {
    let failed = |findings: Vec<Diagnostic>| Conversion { findings, ..Conversion::default() };
    let text = match Text::schema(source.schema) {
        Ok(text) => text,
        Err(finding) => return failed(vec![finding]),
    };
    let (schema, findings) = match parse(&text) {
        Ok(parsed) => parsed,
        Err(findings) => return failed(findings),
    };
    let mut conversion = Conversion { findings, ..Conversion::default() };
    let mut bytes = 0;
    if let Some(document) = source.operations {
        match operations::convert(&schema, document) {
            Ok(made) => {
                for (name, converted) in made {
                    bytes += size(&converted.tool);
                    conversion.tools.insert(name, converted);
                }
            }
            Err(findings) => return failed(findings),
        }
    }
    let mut queries = HashMap::new();
    fields::convert(&schema, &text, selection, &mut conversion, &mut queries, &mut bytes);
    if conversion.tools.len() > MAX_SERVICE_TOOLS {
        let message =
            format!("{} tools are selected, more than the limit of {MAX_SERVICE_TOOLS}", conversion.tools.len());
        conversion.findings.push(text.error(None, message, "select fewer with `fields.include`"));
    }
    if bytes > MAX_BYTES {
        let message = format!("the schemas and queries of the tools have more than {} MiB", MAX_BYTES >> 20);
        conversion.findings.push(text.error(None, message, "select fewer with `fields.include`"));
    }
    conversion.queries = Some(Queries { schema: Arc::new(schema), bytes: text.text.len(), tools: queries });
    conversion
}

fn size(tool: &ServiceTool) -> usize {
    let query = match &tool.call {
        Call::Http(call) => call.graphql.as_ref().map_or(0, |call| call.query.len()),
        Call::Alias(_) | Call::Mcp(_) | Call::Grpc(_) | Call::Command(_) => 0,
    };
    query + tool.input_schema.as_str().len() + tool.output_schema.as_ref().map_or(0, |schema| schema.as_str().len())
}

/// Parses and validates a schema. Also returns what is only a warning: published schemas define a field twice, and then the first
/// definition counts, as it does for servers.
fn parse(text: &Text<'_>) -> Result<(Valid<Schema>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let remedy = "correct the schema";
    text.check_nesting().map_err(|finding| vec![finding])?;
    let (schema, warnings) = match parser().parse_schema(text.text.clone(), "schema") {
        Ok(schema) => (schema, Vec::new()),
        Err(found) => {
            let mut findings = text.mistakes(&found.errors, remedy);
            if !found.errors.iter().all(|finding| is_repeated_field(&finding.error.to_string())) {
                return Err(findings);
            }
            findings.iter_mut().for_each(|finding| finding.severity = Severity::Warning);
            (found.partial, findings)
        }
    };
    if schema.schema_definition.query.is_none() {
        let message = "the schema has no query type";
        return Err(vec![text.error(None, message, "define `type Query`, or name another in `schema`")]);
    }
    let schema = schema.validate().map_err(|found| text.mistakes(&found.errors, remedy))?;
    Ok((schema, warnings))
}

fn is_repeated_field(message: &str) -> bool {
    message.starts_with("duplicate definitions for the `") && message.contains("` field of ")
}

fn parser() -> Parser {
    Parser::new().recursion_limit(MAX_NESTING).token_limit(MAX_TOKENS)
}

/// What a tool is made of.
struct Parts {
    description: Option<String>,
    kind: OperationType,
    query: String,
    /// The only root field.
    field: Option<String>,
    response_type: Option<ResponseType>,
    output_schema: Option<JsonText>,
}

/// Makes a tool. The arguments become variables of the same names.
///
/// # Errors
/// The reason why it cannot be made, as the end of a sentence about it.
fn tool(parts: Parts, inputs: Inputs<'_>, patterns: &mut Patterns) -> Result<ServiceTool, String> {
    let Parts { description, kind, query, field, response_type, output_schema } = parts;
    if query.len() > MAX_QUERY {
        return Err(format!("has a query of more than {} KiB", MAX_QUERY >> 10));
    }
    let variables: Vec<String> = inputs.names().map(|name| format!("\"{name}\":\"{{{name}}}\"")).collect();
    let body = format!("{{\"variables\":{{{}}}}}", variables.join(","));
    let unusable = |what: &str| format!("has {what} that cannot be used");
    let input_schema = JsonText::parse(inputs.finish()?).map_err(|_| unusable("a schema"))?;
    tamis_schema::compile(input_schema.as_str(), patterns).map_err(|_| unusable("a schema"))?;
    let body = JsonText::parse(body).map_err(|_| unusable("variables"))?;
    let reads = kind == OperationType::Query;
    Ok(ServiceTool {
        title: None,
        description,
        input_schema,
        output_schema,
        response_type,
        risk: Risk { mutating: !reads, destructive: false, idempotent: reads },
        pagination: None,
        call: Call::Http(Box::new(HttpCall {
            method: "POST".to_owned(),
            path: String::new(),
            defaults: IndexMap::new(),
            request: RequestTemplate { body: Some(BodyTemplate(body)), ..RequestTemplate::default() },
            extract: None,
            auth: None,
            retry: None,
            error_mapping: IndexMap::new(),
            graphql: Some(GraphQlCall { query, field }),
        })),
    })
}

/// Returns where a name or another part of a document is.
fn line(range: Option<std::ops::Range<LineColumn>>) -> Option<LineColumn> {
    range.map(|range| range.start)
}
