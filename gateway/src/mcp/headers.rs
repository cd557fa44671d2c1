//! Headers that repeat parts of the body for proxies that route without reading it (`Mcp-Method`, `Mcp-Name`, `Mcp-Param-*`).
//! They must agree with the body, or a request could be routed as one and executed as another.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use tamis_schema::{Kind, Value};

use super::message::string;
use super::{Era, Params, RpcError, era};

/// `MCP-Protocol-Version`.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Method`.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`.
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Returns the only value of a header, as text.
///
/// # Errors
/// The header occurs more than once, or is not text.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(RpcError::header_mismatch(format!("header {name} occurs more than once")));
    }
    value.to_str().map(Some).map_err(|_| RpcError::header_mismatch(format!("header {name} is not text")))
}

/// Decodes `=?base64?...?=`, the form of values that a header cannot contain.
fn decode(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

/// Checks a modern request or notification: its metadata, its version, then the headers that repeat the body.
///
/// # Errors
/// 400 with -32602 (metadata missing), -32022 (version) or -32020 (headers).
pub(crate) fn check_modern(
    headers: &HeaderMap,
    method: &str,
    params: &Params<'_>,
    is_request: bool,
) -> Result<(), RpcError> {
    let header = single(headers, &VERSION)?;
    let named = params.meta_version();
    if is_request {
        check_meta(params)?;
    }
    match (header, named.as_deref()) {
        (Some(header), Some(meta)) if header != meta => {
            return Err(RpcError::header_mismatch("MCP-Protocol-Version and _meta name different versions"));
        }
        (None, _) => return Err(RpcError::header_mismatch("header MCP-Protocol-Version is missing")),
        (Some(version), _) => era::check_modern_version(version)?,
    }
    if single(headers, &METHOD)?.is_none() {
        return Err(RpcError::header_mismatch("header Mcp-Method is missing"));
    }
    if subject(method, params).is_some() && single(headers, &NAME)?.is_none() {
        return Err(RpcError::header_mismatch("header Mcp-Name is missing"));
    }
    check_repeats(headers, method, params)
}

/// Returns the member that `Mcp-Name` repeats.
fn subject<'a>(method: &str, params: &Params<'a>) -> Option<Cow<'a, str>> {
    match method {
        "tools/call" | "prompts/get" => params.name.and_then(string),
        "resources/read" => params.uri.and_then(string),
        _ => None,
    }
}

/// Checks that `Mcp-Method` and `Mcp-Name`, if present, agree with the body. This holds in every era, because a proxy that
/// routes or authorises by a header does not check the version.
///
/// # Errors
/// -32020 with 400.
pub(crate) fn check_repeats(headers: &HeaderMap, method: &str, params: &Params<'_>) -> Result<(), RpcError> {
    if single(headers, &METHOD)?.is_some_and(|sent| sent != method) {
        return Err(RpcError::header_mismatch("Mcp-Method differs from the body's method"));
    }
    let Some(sent) = single(headers, &NAME)? else { return Ok(()) };
    if decode(sent).zip(subject(method, params)).is_none_or(|(sent, subject)| sent != subject) {
        return Err(RpcError::header_mismatch("Mcp-Name differs from the body's name"));
    }
    Ok(())
}

/// Returns whether a header that repeats the body is present.
pub(crate) fn has_repeats(headers: &HeaderMap) -> bool {
    headers.contains_key(METHOD) || headers.contains_key(NAME)
}

/// Checks that a modern request has the mandatory metadata.
///
/// # Errors
/// -32602 with 400 that names the missing member.
pub(crate) fn check_meta(params: &Params<'_>) -> Result<(), RpcError> {
    let meta = params.meta.as_ref();
    if params.meta_version().is_none() {
        return Err(RpcError::missing_meta("_meta lacks io.modelcontextprotocol/protocolVersion"));
    }
    if meta.and_then(|meta| meta.capabilities).is_none_or(|raw| !raw.get().starts_with('{')) {
        return Err(RpcError::missing_meta("_meta lacks io.modelcontextprotocol/clientCapabilities"));
    }
    Ok(())
}

/// An argument that a header repeats (`x-mcp-header` in the input schema).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    path: Vec<String>,
    header: HeaderName,
}

impl ParamHeader {
    /// Returns the header.
    pub(crate) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// Returns the text that the header repeats; none if the argument is absent, or is no text, number or boolean.
    pub(crate) fn text<'a>(&self, arguments: Value<'a>) -> Option<Cow<'a, str>> {
        let value = self.value(arguments)?;
        if value.kind() == Kind::String { value.as_str() } else { Some(Cow::Borrowed(value.raw())) }
    }

    fn value<'a>(&self, arguments: Value<'a>) -> Option<Value<'a>> {
        let value = self.path.iter().try_fold(arguments, |value, key| value.get(key));
        value.filter(|value| matches!(value.kind(), Kind::String | Kind::Number | Kind::Boolean))
    }
}

/// Returns the arguments of a schema that headers repeat: those on a path of `properties` from the root.
pub(crate) fn param_headers(schema: &serde_json::Value) -> Vec<ParamHeader> {
    fn walk(schema: &serde_json::Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) {
        let Some(properties) = schema.get("properties").and_then(serde_json::Value::as_object) else { return };
        for (name, property) in properties {
            path.push(name.clone());
            if let Some(suffix) = property.get("x-mcp-header").and_then(serde_json::Value::as_str)
                && let Ok(header) = HeaderName::try_from(format!("mcp-param-{suffix}"))
            {
                found.push(ParamHeader { path: path.clone(), header });
            }
            walk(property, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), &mut found);
    found
}

/// Checks `Mcp-Param-*` against the arguments. The legacy era does not define such headers, so they may be absent there, but must
/// agree if they are present.
///
/// # Errors
/// -32020 if a header and its argument differ, or, in the modern era, if only one of them is present.
pub(crate) fn check_params(
    headers: &HeaderMap,
    rules: &[ParamHeader],
    arguments: Value<'_>,
    era: Era,
) -> Result<(), RpcError> {
    for rule in rules {
        let expected = rule.value(arguments);
        let agree = match (single(headers, &rule.header)?, expected) {
            (None, None) => true,
            (None, Some(_)) => era == Era::Legacy,
            (Some(given), Some(expected)) => decode(given).is_some_and(|given| says(expected, &given)),
            (Some(_), None) => false,
        };
        if !agree {
            return Err(RpcError::header_mismatch(format!(
                "header {} differs from argument `{}`",
                rule.header,
                rule.path.join(".")
            )));
        }
    }
    Ok(())
}

/// Returns whether a scalar equals a header's value. Numbers are compared by value.
fn says(value: Value<'_>, given: &str) -> bool {
    match value.kind() {
        Kind::String => value.is(given),
        Kind::Number => value.is_number(given),
        _ => value.raw() == given,
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
