//! Compiles the `openapi` source of a manifest: an OpenAPI document, and what the manifest says in addition.

use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{Call, HttpSource, Reason, ServiceTool, matches_pattern};

use super::service::{QUERY, base_url, tool_name};
use super::source::openapi::{Conversion, Converted, Selection, Source, convert};
use super::{CompileEnv, action, auth};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::read::{api, excerpt};
use crate::resources::{ActionSpec, ApiDocument, OpenApiSpec, OperationsSpec, OverrideSpec};
use crate::sink::DiagnosticSink;

/// The path of an inline document.
const INLINE: &str = "spec.openapi.inline";

/// Converts the document of a manifest. `None` if the document cannot be read, so that its tools are not known; that has been
/// reported.
pub(super) fn compile<'s>(
    spec: &OpenApiSpec,
    apis: &'s [Arc<ApiDocument>],
    env: &CompileEnv<'_>,
    sink: &mut DiagnosticSink<'s>,
) -> Option<(HttpSource, IndexMap<String, ServiceTool>)> {
    let OpenApiSpec {
        inline: _,
        file: _,
        config_map_ref: _,
        base_url: own_url,
        auth: auth_spec,
        operations,
        overrides,
    } = spec;
    let at = FieldPath::spec(["openapi"]);
    if let Some(url) = own_url {
        base_url(url, &at.key("baseUrl"), QUERY, sink);
    }
    let auth = auth_spec.as_ref().map(|spec| auth::compile(spec, &at.key("auth"), sink));
    let source = document(spec, apis, env, &at, sink)?;
    let operations = operations.clone().unwrap_or_default();
    let selection = Selection { include: operations.include.as_deref(), exclude: &operations.exclude };
    let conversion = convert(source, selection, auth.as_ref(), own_url.is_none());
    let Conversion { base_url: found, tools, left_out: _, unselected: _, names, findings } = conversion;
    let is_readable = !findings.iter().any(crate::Diagnostic::is_error);
    for finding in findings {
        sink.push(finding);
    }
    if is_readable {
        check_patterns(&operations, &names, &at.key("operations"), sink);
    }
    let base_url = own_url.clone().or(found);
    if is_readable && base_url.is_none() {
        let remedy = "set it, for example to https://api.example.com/v1";
        sink.error(&at.key("baseUrl"), "is missing, and the document names no server by an absolute URL", remedy);
    }
    let tools = overridden(tools, overrides, is_readable, &at.key("overrides"), sink);
    if is_readable && tools.is_empty() {
        sink.warning(&at, "no operation becomes a tool", "select others in `operations.include`");
    }
    let source = HttpSource { base_url: base_url.unwrap_or_default(), auth };
    is_readable.then_some((source, tools))
}

/// Returns the document that a manifest holds or names.
fn document<'s>(
    spec: &OpenApiSpec,
    apis: &'s [Arc<ApiDocument>],
    env: &CompileEnv<'_>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'s>,
) -> Option<Source<'s>> {
    let origin = sink.origin();
    match (&spec.inline, &spec.file) {
        (Some(_), Some(_)) => {
            sink.error(&at.key("file"), "and `inline` are mutually exclusive", "remove one of them");
            None
        }
        (None, None) => {
            let remedy = "name the document's `file`, or write it into `inline`";
            sink.error(at, "has no document", remedy);
            None
        }
        (Some(_), None) => {
            let node = origin.tree.get("spec").and_then(|spec| spec.get("openapi")).and_then(|spec| spec.get("inline"));
            let node = node?;
            Some(Source { file: &origin.file, prefix: INLINE, node })
        }
        (None, Some(_)) if env.cluster.is_some() => {
            let message = "names a file, and a cluster has no files next to a manifest";
            sink.because(Reason::UnsupportedSource).error(&at.key("file"), message, "write the document into `inline`");
            None
        }
        (None, Some(file)) => {
            let at = at.key("file");
            let path = match api::path(&origin.file, file) {
                Ok(path) => path,
                Err((message, remedy)) => {
                    sink.error(&at, message, remedy);
                    return None;
                }
            };
            match apis.iter().find(|api| *api.file == *path).map(|api| (&api.file, &api.tree)) {
                Some((file, Ok(node))) => Some(Source { file, prefix: "", node }),
                Some((_, Err(finding))) => {
                    sink.push((**finding).clone());
                    let remedy = "correct the document, or name another";
                    sink.error(&at, format!("`{}` cannot be read", excerpt(file)), remedy);
                    None
                }
                None => {
                    let message = format!("`{}` is not among the files that were read", excerpt(file));
                    sink.error(&at, message, "save the document there, or correct the name");
                    None
                }
            }
        }
    }
}

/// Patterns that get a suggestion: comparing names costs more than reading them.
const HINTS: usize = 5;

/// Checks that every pattern means an operation.
fn check_patterns(operations: &OperationsSpec, names: &[String], at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let OperationsSpec { include, exclude } = operations;
    let included = include.iter().flatten().enumerate().map(|(index, pattern)| ("include", index, pattern));
    let excluded = exclude.iter().enumerate().map(|(index, pattern)| ("exclude", index, pattern));
    let mut unknown = 0;
    for (field, index, pattern) in included.chain(excluded) {
        if names.iter().any(|name| matches_pattern(pattern, name)) {
            continue;
        }
        let at = at.key(field).index(index);
        if pattern.contains(['*', '?']) {
            sink.warning(&at, "matches no operation", "remove it, or correct it");
        } else {
            unknown += 1;
            let similar = did_you_mean(
                pattern,
                names.iter().map(String::as_str).take(if unknown > HINTS { 0 } else { names.len() }),
            );
            let remedy = similar.map_or_else(
                || "write an operationId, a tag, or a method and a path as in `GET /pets`".to_owned(),
                |name| format!("did you mean `{name}`?"),
            );
            sink.error(&at, format!("the document has no operation `{}`", excerpt(pattern)), remedy);
        }
    }
}

/// Applies the overrides.
fn overridden(
    converted: IndexMap<String, Converted>,
    overrides: &IndexMap<String, OverrideSpec>,
    is_readable: bool,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> IndexMap<String, ServiceTool> {
    if is_readable {
        for name in overrides.keys().filter(|name| !converted.contains_key(*name)) {
            let remedy = match did_you_mean(name, converted.keys().map(String::as_str)) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "write the name that the tool has without an override".to_owned(),
            };
            sink.error(&at.key(name), "no operation becomes this tool", remedy);
        }
    }
    let mut tools = IndexMap::new();
    for (name, Converted { operation: _, tool, omitted: _ }) in converted {
        let (name, tool) = match overrides.get(&name) {
            None => (name, tool),
            Some(spec) => {
                let at = at.key(&name);
                (spec.name.clone().unwrap_or(name), apply(spec, tool, &at, sink))
            }
        };
        if let Some(OverrideSpec { name: Some(_), .. }) =
            overrides.values().find(|spec| spec.name.as_ref() == Some(&name))
        {
            tool_name(&name, at, sink);
        }
        if tools.insert(name.clone(), tool).is_some() {
            let message = format!("two tools would have the name `{}`", excerpt(&name));
            sink.error(at, message, "choose another `name`");
        }
    }
    tools
}

fn apply(spec: &OverrideSpec, mut tool: ServiceTool, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> ServiceTool {
    let OverrideSpec { name: _, title, description, response, retry, pagination, error_mapping, risk } = spec;
    // The same rules as for an action that a person writes.
    let as_action = ActionSpec {
        response: response.clone(),
        retry: retry.clone(),
        pagination: pagination.clone(),
        error_mapping: error_mapping.clone(),
        risk: *risk,
        ..ActionSpec::default()
    };
    let Call::Http(mut call) = tool.call else { return tool };
    tool.title = title.clone().or(tool.title);
    tool.description = description.clone().or(tool.description);
    if risk.is_some() {
        tool.risk = action::risk(&as_action, &call.method);
    }
    if let Some(response) = response {
        call.extract = action::extract(&as_action, at, sink);
        // The document describes the whole answer.
        if call.extract.is_some() {
            (tool.response_type, tool.output_schema) = (None, None);
        }
        tool.response_type = response.kind.or(tool.response_type);
    }
    call.retry = action::retry(&as_action, tool.risk, &at.key("retry"), sink);
    tool.pagination = action::pagination(&as_action, tool.risk, &at.key("pagination"), sink);
    call.error_mapping = action::error_mapping(&as_action, &at.key("errorMapping"), sink);
    ServiceTool { call: Call::Http(call), ..tool }
}
