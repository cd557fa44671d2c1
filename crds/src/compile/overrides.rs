//! What a manifest says about the tools of a document: which of them it selects, and what it overrides.

use indexmap::IndexMap;
use tamis_config::{Call, ServiceTool, matches_pattern};

use super::action;
use super::service::tool_name;
use super::source::Converted;
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::read::excerpt;
use crate::resources::{ActionSpec, OverrideSpec};
use crate::sink::DiagnosticSink;

/// Patterns that get a suggestion: comparing names costs more than reading them.
const HINTS: usize = 5;

/// How messages call what the patterns select.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selects {
    pub(super) what: &'static str,
    pub(super) remedy: &'static str,
}

/// Checks that every pattern means something.
pub(super) fn check_patterns(
    (include, exclude): (Option<&Vec<String>>, &[String]),
    names: &[String],
    selects: Selects,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) {
    let Selects { what, remedy } = selects;
    let included = include.into_iter().flatten().enumerate().map(|(index, pattern)| ("include", index, pattern));
    let excluded = exclude.iter().enumerate().map(|(index, pattern)| ("exclude", index, pattern));
    let mut unknown = 0;
    for (field, index, pattern) in included.chain(excluded) {
        if names.iter().any(|name| matches_pattern(pattern, name)) {
            continue;
        }
        let at = at.key(field).index(index);
        if pattern.contains(['*', '?']) {
            sink.warning(&at, format!("matches no {what}"), "remove it, or correct it");
        } else {
            unknown += 1;
            let similar = did_you_mean(
                pattern,
                names.iter().map(String::as_str).take(if unknown > HINTS { 0 } else { names.len() }),
            );
            let remedy = similar.map_or_else(|| remedy.to_owned(), |name| format!("did you mean `{name}`?"));
            sink.error(&at, format!("the document has no {what} `{}`", excerpt(pattern)), remedy);
        }
    }
}

/// Applies the overrides.
pub(super) fn overridden(
    converted: IndexMap<String, Converted>,
    overrides: &IndexMap<String, OverrideSpec>,
    (is_readable, what): (bool, &'static str),
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> IndexMap<String, ServiceTool> {
    if is_readable {
        for name in overrides.keys().filter(|name| !converted.contains_key(*name)) {
            let remedy = match did_you_mean(name, converted.keys().map(String::as_str)) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "write the name that the tool has without an override".to_owned(),
            };
            sink.error(&at.key(name), format!("no {what} becomes this tool"), remedy);
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
    let mut call = match tool.call {
        Call::Http(call) => call,
        Call::Grpc(call) => {
            return apply_to_method(spec, &as_action, ServiceTool { call: Call::Grpc(call), ..tool }, at, sink);
        }
        Call::Mcp(_) | Call::Alias(_) | Call::Command(_) => return tool,
    };
    tool.title = title.clone().or(tool.title);
    tool.description = description.clone().or(tool.description);
    if risk.is_some() {
        // Every GraphQL request is a POST, and a query changes nothing.
        let reads = call.graphql.is_some() && !tool.risk.mutating;
        tool.risk = action::risk(&as_action, if reads { "GET" } else { &call.method });
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
    if let (Some(_), Some(_)) = (&call.graphql, pagination) {
        let remedy = "let the caller choose the page: declare its variables as arguments of an operation";
        sink.error(&at.key("pagination"), "is not possible for GraphQL", remedy);
    }
    tool.pagination = action::pagination(&as_action, tool.risk, &at.key("pagination"), sink);
    call.error_mapping = action::error_mapping(&as_action, &at.key("errorMapping"), sink);
    ServiceTool { call: Call::Http(call), ..tool }
}

/// The same for a method of gRPC.
fn apply_to_method(
    spec: &OverrideSpec,
    as_action: &ActionSpec,
    mut tool: ServiceTool,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> ServiceTool {
    let Call::Grpc(mut call) = tool.call else { return tool };
    tool.title = spec.title.clone().or(tool.title);
    tool.description = spec.description.clone().or(tool.description);
    if spec.risk.is_some() {
        tool.risk = action::risk(as_action, if tool.risk.mutating { "POST" } else { "GET" });
    }
    if let Some(response) = &spec.response {
        call.extract = action::extract(as_action, at, sink);
        if call.extract.is_some() {
            if call.streams {
                let remedy = "remove it; a filter selects parts of each message";
                sink.error(&at.key("response").key("extract"), "is not possible for a stream of messages", remedy);
            }
            (tool.response_type, tool.output_schema) = (None, None);
        }
        tool.response_type = response.kind.or(tool.response_type);
    }
    call.retry = action::retry(as_action, tool.risk, &at.key("retry"), sink);
    if spec.pagination.is_some() {
        let remedy = "let the caller choose the page, with the arguments of the method";
        sink.error(&at.key("pagination"), "is not possible for gRPC", remedy);
    }
    call.error_mapping = action::error_mapping(as_action, &at.key("errorMapping"), sink);
    ServiceTool { call: Call::Grpc(call), ..tool }
}
