//! Compiles one HTTP action to a tool.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::ops::RangeInclusive;
use std::str::FromStr;

use indexmap::IndexMap;
use tamis_config::{
    ArgumentStyle, BodyTemplate, Call, HttpCall, Pagination, PaginationKind, RequestTemplate, Retry, Risk, ServiceTool,
};

use super::template::{literal, placeholders, strings};
use super::{args, auth};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{ActionSpec, ArgSpec, PageType, RequestSpec, RiskLevel};
use crate::sink::DiagnosticSink;

const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Checks an action and converts it for the gateway. Errors leave the result unspecified, because nothing is served then.
pub(super) fn compile(spec: &ActionSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> ServiceTool {
    let method = spec.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
    if !METHODS.contains(&method.as_str()) {
        let remedy = format!("write one of {}", METHODS.join(", "));
        sink.error(&at.key("method"), format!("`{}` is not a method", crate::read::excerpt(&method)), remedy);
    }
    if !spec.aliases.is_empty() {
        sink.warning(&at.key("aliases"), "has no effect here", "remove it, because a tool has one name");
    }
    args::check(&spec.args, &at.key("args"), sink);
    let request = spec.request.clone().unwrap_or_default();
    let styles = templates(spec, &request, at, sink);
    let reads = matches!(method.as_str(), "GET" | "HEAD");
    if reads && request.body.is_some() {
        sink.error(&at.key("request").key("body"), format!("{method} has no body"), "use `query`, or another method");
    }
    let risk = risk(spec, &method);
    ServiceTool {
        title: spec.title.clone(),
        description: described(spec.description.as_deref(), &spec.warnings),
        input_schema: args::input_schema(&spec.args),
        output_schema: None,
        response_type: spec.response.as_ref().and_then(|r| r.kind),
        risk,
        pagination: pagination(spec, risk, &at.key("pagination"), sink),
        call: Call::Http(Box::new(HttpCall {
            method,
            path: spec.path.clone(),
            defaults: args::defaults(&spec.args),
            request: RequestTemplate {
                path_params: request.path_params,
                query: request.query,
                headers: request.headers,
                body: request.body.map(BodyTemplate),
                styles,
                ..RequestTemplate::default()
            },
            extract: extract(spec, at, sink),
            auth: spec.auth.as_ref().map(|spec| auth::compile(spec, &at.key("auth"), sink)),
            retry: retry(spec, risk, &at.key("retry"), sink),
            error_mapping: error_mapping(spec, &at.key("errorMapping"), sink),
            graphql: None,
        })),
    }
}

/// Returns the description of a tool together with its warnings.
pub(super) fn described(description: Option<&str>, warnings: &[String]) -> Option<String> {
    let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
    let parts: Vec<String> = description.into_iter().map(str::to_owned).chain(warnings).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

pub(super) fn risk(spec: &ActionSpec, method: &str) -> Risk {
    let risk = spec.risk.unwrap_or_default();
    let mutating = risk.mutating.unwrap_or(!matches!(method, "GET" | "HEAD"));
    let harmful = risk.level.map_or(method == "DELETE", |level| level >= RiskLevel::High);
    let idempotent = spec.idempotent.unwrap_or(matches!(method, "GET" | "HEAD" | "PUT" | "DELETE"));
    Risk { mutating, destructive: mutating && harmful, idempotent }
}

/// Checks that every template names existing arguments, that the path can always be filled, and that every argument is used.
fn templates(
    spec: &ActionSpec,
    request: &RequestSpec,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> IndexMap<String, ArgumentStyle> {
    let mut used = BTreeSet::new();
    path(spec, request, &mut used, at, sink);
    let at = at.key("request");
    for (name, template) in &request.query {
        let at = at.key("query").key(name);
        if name.is_empty() {
            sink.error(&at, "has no name", "name the parameter");
        }
        names(template, &spec.args, &mut used, &at, sink);
    }
    for (name, template) in &request.headers {
        let at = at.key("headers").key(name);
        auth::header_name(name, &at, sink);
        auth::header_text(template, &at, sink);
        if name.eq_ignore_ascii_case("authorization") {
            sink.warning(&at, "documents must not contain credentials", "use `auth` with a secretRef");
        }
        names(template, &spec.args, &mut used, &at, sink);
    }
    if let Some(body) = &request.body {
        // Keys are not templates. Treating them as templates would count more arguments as used.
        let value: serde_json::Value = serde_json::from_str(body.as_str()).unwrap_or_default();
        strings(&value, &at.key("body"), &mut |at, text| names(text, &spec.args, &mut used, at, sink));
    }
    for name in spec.args.keys().filter(|name| !used.contains(name.as_str())) {
        let at = at_args(&at, name);
        sink.warning(&at, "is never sent", "use it in `path` or `request`, or remove it");
    }
    let styled = |template: &str| {
        let name = placeholders(template).next()?;
        args::style(spec.args.get(name)?)
    };
    request.query.iter().filter_map(|(name, template)| Some((name.clone(), styled(template)?))).collect()
}

/// Returns the path `args.<name>` next to a path that ends in `request`.
fn at_args(request: &FieldPath, name: &str) -> FieldPath {
    request.parent().key("args").key(name)
}

fn path<'a>(
    spec: &'a ActionSpec,
    request: &'a RequestSpec,
    used: &mut BTreeSet<&'a str>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) {
    let (path, at_path) = (&spec.path, at.key("path"));
    let fixed = literal(path);
    if !path.starts_with('/') {
        sink.error(&at_path, "does not begin with /", format!("write /{}", crate::read::excerpt(path)));
    }
    if fixed.contains(['?', '#']) {
        sink.error(&at_path, "has a ? or #", "move parameters to `request.query`");
    }
    if fixed.contains(['{', '}']) {
        sink.error(&at_path, "has a brace without an argument name", "write {name}, with a name of A-Z a-z 0-9 _ - .");
    }
    if fixed.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        sink.error(&at_path, "has a space, a backslash or a control character", "write it percent-encoded");
    }
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        sink.error(&at_path, "has a segment `.` or `..`", "write the path without it");
    }
    for name in placeholders(path) {
        let params = at.key("request").key("pathParams");
        match request.path_params.get(name) {
            Some(template) => {
                names(template, &spec.args, used, &params.key(name), sink);
                for arg in placeholders(template) {
                    always_there(arg, spec, &params.key(name), sink);
                }
            }
            None if spec.args.contains_key(name) => {
                used.extend(spec.args.get_key_value(name).map(|(name, _)| name.as_str()));
                always_there(name, spec, &at_path, sink);
            }
            None => {
                let known = spec.args.keys().chain(request.path_params.keys()).map(String::as_str);
                let remedy = did_you_mean(name, known)
                    .map_or_else(|| "declare it in `args`".to_owned(), |known| format!("did you mean `{{{known}}}`?"));
                sink.error(&at_path, format!("`{{{name}}}` is neither a path parameter nor an argument"), remedy);
            }
        }
    }
    for name in request.path_params.keys().filter(|name| !placeholders(path).any(|p| p == name.as_str())) {
        let at = at.key("request").key("pathParams").key(name);
        sink.error(&at, format!("the path has no `{{{name}}}`"), "add it to the path, or remove it");
    }
}

/// Checks that the arguments of a path are required or have defaults, because a path cannot omit a segment.
fn always_there(name: &str, spec: &ActionSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if spec.args.get(name).is_some_and(|arg| !arg.required && arg.default.is_none()) {
        let remedy = "set `required: true` or a default";
        sink.error(at, format!("the path requires argument `{name}`, which is optional"), remedy);
    }
}

/// Returns the arguments that a template names.
fn names<'a>(
    template: &str,
    args: &'a IndexMap<String, ArgSpec>,
    used: &mut BTreeSet<&'a str>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) {
    for name in placeholders(template) {
        if let Some((name, _)) = args.get_key_value(name) {
            used.insert(name);
        } else {
            let remedy = did_you_mean(name, args.keys().map(String::as_str)).map_or_else(
                || "declare it in `args`; write a space after the brace to keep it as text".to_owned(),
                |known| format!("did you mean `{{{known}}}`?"),
            );
            sink.error(at, format!("there is no argument `{name}`"), remedy);
        }
    }
}

pub(super) fn extract(spec: &ActionSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Option<String> {
    let extract = spec.response.as_ref()?.extract.as_ref().filter(|path| !path.is_empty())?;
    dotted(extract, &at.key("response").key("extract"), sink);
    Some(extract.clone())
}

/// Checks the path of a part of an output.
pub(super) fn dotted(path: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if path.starts_with('/') {
        sink.error(at, "expected a dotted path, found a pointer", "write data.items, not /data/items");
    } else if path.split('.').any(str::is_empty) {
        sink.error(at, "has an empty name", "separate names with single dots");
    }
}

pub(super) fn retry(spec: &ActionSpec, risk: Risk, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Option<Retry> {
    let retry = spec.retry.as_ref()?;
    let backoff_ms = attempts(retry.max_attempts, retry.backoff_ms, at, sink);
    let retry_on = retry.retry_on.clone().unwrap_or_else(|| vec![429, 502, 503, 504]);
    for (index, status) in retry_on.iter().enumerate().filter(|(_, status)| !(400..=599).contains(*status)) {
        let at = at.key("retryOn").index(index);
        sink.error(&at, format!("{status} is not an error status"), "write 400 to 599");
    }
    if risk.mutating && !risk.idempotent && retry.max_attempts > 1 {
        sink.warning(at, "a call that changes something may be executed twice", "remove it, or set `idempotent: true`");
    }
    Some(Retry { max_attempts: retry.max_attempts, backoff_ms, retry_on })
}

/// Checks how often something is attempted, and returns the backoff.
pub(super) fn attempts(
    max_attempts: u32,
    backoff_ms: Option<u64>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> u64 {
    if !(1..=10).contains(&max_attempts) {
        sink.error(&at.key("maxAttempts"), format!("{max_attempts} is out of range"), "write 1 to 10");
    }
    let backoff_ms = backoff_ms.unwrap_or(1_000);
    if backoff_ms > 60_000 {
        sink.error(&at.key("backoffMs"), format!("{backoff_ms} exceeds one minute"), "write at most 60000");
    }
    backoff_ms
}

pub(super) fn pagination(
    spec: &ActionSpec,
    risk: Risk,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Pagination> {
    let pages = spec.pagination.as_ref()?;
    let max_pages = pages.max_pages.unwrap_or(10);
    if !(1..=100).contains(&max_pages) {
        sink.error(&at.key("maxPages"), format!("{max_pages} is out of range"), "write 1 to 100");
    }
    let kind = match pages.kind {
        PageType::Cursor => PaginationKind::Cursor,
        PageType::Offset => PaginationKind::Offset,
    };
    match (&pages.next_path, kind) {
        (None, PaginationKind::Cursor) => {
            sink.error(
                &at.key("nextPath"),
                "is required for type cursor",
                "set the path of the next cursor in an answer",
            );
        }
        (Some(_), PaginationKind::Offset) => {
            sink.error(&at.key("nextPath"), "is not allowed for type offset", "remove it, or set `type: cursor`");
        }
        (Some(path), _) => dotted(path, &at.key("nextPath"), sink),
        _ => {}
    }
    if risk.mutating && !risk.idempotent {
        sink.warning(at, "a call that changes something is repeated for every page", "remove it");
    }
    Some(Pagination { kind, max_pages, next_path: pages.next_path.clone() })
}

pub(super) fn error_mapping(spec: &ActionSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> IndexMap<u16, String> {
    texts_by_code(&spec.error_mapping, 400..=599, ("is not an error status", "write 400 to 599"), at, sink)
}

/// Reads texts by the codes of errors. `otherwise`: what is wrong with a key that is none of `codes`, and the remedy.
pub(super) fn texts_by_code<C: FromStr + PartialOrd + Hash + Eq>(
    texts: &IndexMap<String, String>,
    codes: RangeInclusive<C>,
    (message, remedy): (&str, &str),
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> IndexMap<C, String> {
    let mut mapping = IndexMap::new();
    for (key, text) in texts {
        match key.parse::<C>() {
            Ok(code) if codes.contains(&code) => {
                mapping.insert(code, text.clone());
            }
            _ => sink.error(&at.key(key), message, remedy),
        }
    }
    mapping
}
