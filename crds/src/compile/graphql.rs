//! Compiles the `graphql` source of a manifest: a GraphQL schema, operations, and what the manifest says in addition.

use indexmap::IndexMap;
use tamis_config::{HttpSource, ServiceTool};

use super::auth;
use super::documents::{Document, Given, Library, Place, converted, find};
use super::overrides::{Selects, check_patterns, overridden};
use super::service::base_url;
use super::source::graphql::{Conversion, Queries, Selection, Source, convert};
use crate::origin::FieldPath;
use crate::resources::{GraphQlFieldsSpec, GraphQlOperationsSpec, GraphQlSpec};
use crate::sink::DiagnosticSink;

/// What becomes a tool.
const FIELD: &str = "field";

/// The tools of a GraphQL API, and what makes their queries.
pub(super) struct Compiled {
    pub(super) source: HttpSource,
    pub(super) tools: IndexMap<String, ServiceTool>,
    pub(super) queries: Queries,
}

/// Converts the documents of a manifest. `None` if a document cannot be read, so that its tools are not known; that has been
/// reported.
pub(super) fn compile<'s>(
    spec: &GraphQlSpec,
    library: Library<'s, '_>,
    sink: &mut DiagnosticSink<'s>,
) -> Option<Compiled> {
    let GraphQlSpec { inline, file, config_map_ref, base_url: url, auth: auth_spec, operations, fields, overrides } =
        spec;
    let at = FieldPath::spec(["graphql"]);
    base_url(url, &at.key("baseUrl"), "write the endpoint alone", sink);
    let auth = auth_spec.as_ref().map(|spec| auth::compile(spec, &at.key("auth"), sink));
    let given = Given { inline: inline.is_some(), file: file.as_deref(), config_map: config_map_ref.as_ref() };
    let schema: Option<Document<'s>> = find(given, SCHEMA, &at, library, sink);
    let written = match operations {
        None => Some(None),
        Some(GraphQlOperationsSpec { inline, file, config_map_ref }) => {
            let given = Given { inline: inline.is_some(), file: file.as_deref(), config_map: config_map_ref.as_ref() };
            find(given, OPERATIONS, &at.key("operations"), library, sink).map(Some)
        }
    };
    let (schema, written): (Document<'s>, Option<Document<'s>>) = (schema?, written?);
    let documents: Vec<&Document<'s>> = std::iter::once(&schema).chain(&written).collect();
    let GraphQlFieldsSpec { include, exclude } = fields.clone().unwrap_or_default();
    let any = fields.is_some() || operations.is_none();
    let chosen = ("graphql", any, &include, &exclude);
    let (conversion, failed) = converted(&documents, &chosen, library.env, sink, |documents| {
        let source = Source { schema: documents[0], operations: documents.get(1).copied() };
        convert(source, Selection { any, include: include.as_deref(), exclude: &exclude })
    })?;
    let Conversion { tools, left_out: _, unselected: _, names, queries, findings: _ } = conversion;
    let is_readable = !failed;
    if is_readable {
        let remedy = "write the name of a field, or that of its type and its own, as in `Mutation.addStar`";
        let selects = Selects { what: FIELD, remedy };
        check_patterns((include.as_ref(), &exclude), &names, selects, &at.key("fields"), sink);
    }
    let tools = overridden(tools, overrides, (is_readable, "operation and no field"), &at.key("overrides"), sink);
    if is_readable && tools.is_empty() {
        sink.warning(&at, "no operation and no field becomes a tool", "select others in `fields.include`");
    }
    let mut queries = queries.filter(|_| is_readable)?;
    for (name, spec) in overrides {
        // Its filter reads a part of the field, so that its paths begin elsewhere.
        if spec.response.as_ref().is_some_and(|response| response.extract.is_some()) {
            queries.forget(name);
        }
    }
    // Two tools may swap their names.
    let renamed: Vec<_> = overrides.iter().filter_map(|(name, spec)| Some((name, spec.name.as_ref()?))).collect();
    queries.rename(&renamed);
    Some(Compiled { source: HttpSource { base_url: url.clone(), auth }, tools, queries })
}

const SCHEMA: Place = Place { field: "spec.graphql.inline", steps: &["graphql", "inline"], is_text: true };
const OPERATIONS: Place =
    Place { field: "spec.graphql.operations.inline", steps: &["graphql", "operations", "inline"], is_text: true };
