//! The headers that repeat the body for whoever routes without reading it (`Mcp-Method`, `Mcp-Name`, `Mcp-Param-*`).
//! They must agree with it, or the two would be routed and executed as different requests.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use serde_json::Value;

use super::message::string;
use super::{Params, RpcError, era};

/// `MCP-Protocol-Version`.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The only value of a header, as text.
///
/// # Errors
/// It is there twice, or is not text.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(RpcError::header_mismatch(format!("header {name} is there more than once")));
    }
    value.to_str().map(Some).map_err(|_| RpcError::header_mismatch(format!("header {name} is not text")))
}

/// Undoes `=?base64?...?=`, in which values travel that a header cannot hold.
fn decode(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

/// Checks a modern request or notification: metadata, version, then the headers that repeat the body.
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
        (Some(version), _) if !era::MODERN_VERSIONS.contains(&version) => return Err(era::unsupported(version)),
        (Some(_), _) => {}
    }
    match single(headers, &METHOD)? {
        None => return Err(RpcError::header_mismatch("header Mcp-Method is missing")),
        Some(value) if value != method => {
            return Err(RpcError::header_mismatch("Mcp-Method differs from the body's method"));
        }
        Some(_) => {}
    }
    let source = match method {
        "tools/call" | "prompts/get" => params.name,
        "resources/read" => params.uri,
        _ => return Ok(()),
    };
    let Some(expected) = source.and_then(string) else { return Ok(()) };
    let Some(value) = single(headers, &NAME)? else {
        return Err(RpcError::header_mismatch("header Mcp-Name is missing"));
    };
    if decode(value).is_none_or(|name| name != expected) {
        return Err(RpcError::header_mismatch("Mcp-Name differs from the body's name"));
    }
    Ok(())
}

/// Checks that a modern request carries what each must.
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

/// The arguments of a schema that headers repeat: those on a path of `properties` from the root.
pub(crate) fn param_headers(schema: &Value) -> Vec<ParamHeader> {
    fn walk(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for (name, property) in properties {
            path.push(name.clone());
            if let Some(suffix) = property.get("x-mcp-header").and_then(Value::as_str)
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

/// Checks `Mcp-Param-*` against the arguments.
///
/// # Errors
/// -32020 where a header and its argument differ, or only one of them is there.
pub(crate) fn check_params(headers: &HeaderMap, rules: &[ParamHeader], arguments: &Value) -> Result<(), RpcError> {
    for rule in rules {
        let value = rule.path.iter().try_fold(arguments, |value, key| value.get(key));
        let expected = match value {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Bool(flag)) => Some(flag.to_string()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let given = single(headers, &rule.header)?;
        let agree = match (given, &expected) {
            (None, None) => true,
            (Some(given), Some(expected)) => decode(given).is_some_and(|given| given == *expected),
            _ => false,
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

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
