//! Compiles the `openapi` source of a manifest: an OpenAPI document, and what the manifest says in addition.

use indexmap::IndexMap;
use tamis_config::{HttpSource, ServiceTool};

use super::auth;
use super::documents::{Document, Given, Library, Place, converted, find};
use super::overrides::{Selects, check_patterns, overridden};
use super::service::{QUERY, base_url};
use super::source::Selection;
use super::source::openapi::{Conversion, convert};
use crate::origin::FieldPath;
use crate::resources::OpenApiSpec;
use crate::sink::DiagnosticSink;

/// The path of an inline document.
const INLINE: Place = Place { field: "spec.openapi.inline", steps: &["openapi", "inline"], is_text: false };
/// What becomes a tool.
const OPERATION: &str = "operation";

/// Converts the document of a manifest. `None` if the document cannot be read, so that its tools are not known; that has been
/// reported.
pub(super) fn compile<'s>(
    spec: &OpenApiSpec,
    library: Library<'s, '_>,
    sink: &mut DiagnosticSink<'s>,
) -> Option<(HttpSource, IndexMap<String, ServiceTool>)> {
    let OpenApiSpec { inline, file, config_map_ref, base_url: own_url, auth: auth_spec, operations, overrides } = spec;
    let at = FieldPath::spec(["openapi"]);
    if let Some(url) = own_url {
        base_url(url, &at.key("baseUrl"), QUERY, sink);
    }
    let auth = auth_spec.as_ref().map(|spec| auth::compile(spec, &at.key("auth"), sink));
    let given = Given { inline: inline.is_some(), file: file.as_deref(), config_map: config_map_ref.as_ref() };
    let document: Document<'s> = find(given, INLINE, &at, library, sink)?;
    let operations = operations.clone().unwrap_or_default();
    let selection = Selection { include: operations.include.as_deref(), exclude: &operations.exclude };
    let chosen = ("openapi", &operations, &auth, own_url);
    let (conversion, failed) = converted(&[&document], &chosen, library.env, sink, |documents| {
        convert(documents[0], selection, auth.as_ref(), own_url.as_deref())
    })?;
    let Conversion { base_url: found, tools, left_out: _, unselected: _, names, findings: _ } = conversion;
    let is_readable = !failed;
    if is_readable {
        let remedy = "write an operationId, a tag, or a method and a path as in `GET /pets`";
        let selected = (operations.include.as_ref(), &operations.exclude[..]);
        let selects = Selects { what: OPERATION, remedy };
        check_patterns(selected, &names, selects, &at.key("operations"), sink);
    }
    let base_url = own_url.clone().or(found);
    if is_readable && base_url.is_none() {
        let remedy = "set it, for example to https://api.example.com/v1";
        sink.error(&at.key("baseUrl"), "is missing, and the document names no server by an absolute URL", remedy);
    }
    let tools = overridden(tools, overrides, (is_readable, OPERATION), &at.key("overrides"), sink);
    if is_readable && tools.is_empty() {
        sink.warning(&at, "no operation becomes a tool", "select others in `operations.include`");
    }
    let source = HttpSource { base_url: base_url.unwrap_or_default(), auth };
    is_readable.then_some((source, tools))
}
