//! Calls that are none of tools: reads of resource templates, and requests that are passed on to an MCP server.
//!
//! They have the limits, the audit record and the metrics of a tool call. No filter sees what they return, so an `Enforced`
//! exposition has none of them.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use tamis_config::OutputLimits;
use tamis_engine::Enforcement;

use super::explain::{category, explain_read};
use super::{ActiveCall, BEYOND_MEMORY, call_context, document, input, note_exhausted};
use crate::compute::NotRun;
use crate::dispatch::cacheable_call;
use crate::exposition::{Exposition, ServerMethod};
use crate::mcp::RpcError;
use crate::mcp::arguments;
use crate::mcp::encode::{self, Sink as _};
use crate::memory::{Chain, Exhausted};
use crate::metrics::Outcome;
use crate::offload::{LIGHT_WRITTEN, Work};
use crate::passing::Written;
use crate::upstream::{InputRequired, Passed, UpstreamError};

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentCall {
    /// A resource template is read.
    Template {
        /// The URI.
        uri: String,
        /// The values of the template's variables, as a JSON object.
        arguments: String,
    },
    /// A request is passed on to the MCP server.
    Server {
        /// The method.
        method: ServerMethod,
        /// The prompt or the URI that it names.
        name: Option<String>,
        /// The members of its parameters, as JSON without braces.
        params: String,
    },
    /// A prompt or a resource is answered from the documents.
    Document(DocumentCall),
}

/// What the documents have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DocumentCall {
    /// A prompt is filled.
    Prompt {
        /// Its name.
        name: String,
        /// The caller's arguments, as JSON.
        arguments: Option<Bytes>,
    },
    /// A resource is read.
    Resource {
        /// Its URI.
        uri: String,
    },
}

/// Makes the call.
///
/// # Errors
/// There is no memory for it now, and it may be repeated.
pub(super) async fn perform(
    active: &mut ActiveCall<'_>,
    name: &str,
    content: &ContentCall,
) -> Result<Chain, Exhausted> {
    let exposition = active.exposition;
    let deadline = active.started + active.limits.timeout;
    if exposition.enforcement == Enforcement::Enforced && !matches!(content, ContentCall::Document(_)) {
        // Not reached: an Enforced exposition with such calls is not loaded.
        active.outcome = Outcome::Refused;
        return Ok(failed(active, &RpcError::method_not_found(active.call.era)));
    }
    let begun = Instant::now();
    let answered = match content {
        ContentCall::Template { uri, arguments } => template(active, name, uri, arguments, deadline).await,
        ContentCall::Server { method, name, params } => {
            server(active, *method, name.as_deref(), params, deadline).await
        }
        ContentCall::Document(wanted) => return document::perform(active, wanted, deadline).await,
    };
    match answered {
        Ok(answer) => {
            active.outcome = Outcome::Ok;
            Ok(answer)
        }
        Err(UpstreamError::InputRequired(wanted)) => {
            if let InputRequired::Undeclared { .. } = wanted {
                active.gateway.metrics.upstream(Ok(200), begun.elapsed());
            }
            match Box::pin(input::ask(active, wanted)).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(not_asked)) => Ok(failed(active, &RpcError::upstream(not_asked.text()))),
                Err(Exhausted) => exhausted(active),
            }
        }
        Err(error) => {
            active.gateway.metrics.upstream(category(&error), begun.elapsed());
            if let UpstreamError::Exhausted { .. } = error {
                return exhausted(active);
            }
            active.session_ended = matches!(error, UpstreamError::SessionEnded);
            active.is_absent = matches!(error, UpstreamError::Rpc { code, .. } if ABSENT.contains(&code));
            let error = explain_error(active, content, &error);
            if let Some(rest) = rest(active, content) {
                return Ok(rest.into());
            }
            Ok(failed(active, &error))
        }
    }
}

/// The codes with which servers say that they have no such resource or method. Some SDKs answer every error with 0.
const ABSENT: [i64; 4] = [-32002, -32601, -32602, 0];

/// Returns the rest of a bundle's list without the server of a part that could not be asked; none for any other call.
fn rest(active: &ActiveCall<'_>, content: &ContentCall) -> Option<Vec<u8>> {
    let (ContentCall::Server { method, .. }, Some(member)) = (content, &active.call.member) else { return None };
    let list = method.list()?;
    let mut out = Vec::new();
    encode::open_result(&mut out, active.call.id());
    out.put("{\"");
    out.put(list.member());
    out.put("\":[]");
    if let Some(next) = member.next_cursor(list) {
        out.put(",\"nextCursor\":");
        encode::string(&mut out, &next);
    }
    out.put(&cacheable_call(active.call));
    out.put("}}");
    Some(out)
}

/// Returns the JSON-RPC error for a call that failed.
fn explain_error(active: &mut ActiveCall<'_>, content: &ContentCall, error: &UpstreamError) -> RpcError {
    let era = active.call.era;
    let message = explain_read(active, error);
    match (content, error) {
        (_, UpstreamError::Argument { .. }) => RpcError::invalid_params(message),
        (ContentCall::Template { uri, .. }, UpstreamError::Status { status: 404 | 410, .. }) => {
            RpcError::resource_not_found(era, uri)
        }
        (
            ContentCall::Server { method: ServerMethod::ReadResource, name: Some(uri), .. },
            UpstreamError::Rpc { code: -32002 | -32602, .. },
        ) => RpcError::resource_not_found(era, uri),
        (ContentCall::Server { .. }, UpstreamError::Rpc { code: -32602, .. }) => RpcError::invalid_params(message),
        (ContentCall::Server { .. }, UpstreamError::Rpc { code: -32601, .. }) => RpcError::method_not_found(era),
        _ => RpcError::upstream(message),
    }
}

/// Handles a call for which there is no memory: one that can never succeed gets an error that invites no other try.
///
/// # Errors
/// It may be repeated.
pub(super) fn exhausted(active: &mut ActiveCall<'_>) -> Result<Chain, Exhausted> {
    note_exhausted(active);
    if active.held.can_never_fit() { Ok(failed(active, &RpcError::upstream(BEYOND_MEMORY))) } else { Err(Exhausted) }
}

pub(super) fn failed(active: &ActiveCall<'_>, error: &RpcError) -> Chain {
    encode::error(Some(&active.call.id), error, active.call.era).into()
}

/// Reads a resource template.
async fn template(
    active: &mut ActiveCall<'_>,
    name: &str,
    uri: &str,
    arguments: &str,
    deadline: Instant,
) -> Result<Chain, UpstreamError> {
    let exposition = active.exposition;
    let arguments = arguments::read(Some(arguments)).map_err(|_| UpstreamError::UnknownTool(name.to_owned()))?;
    let context = call_context(active, deadline);
    let answer = exposition.service.upstream.call(name, &arguments, context).await?;
    active.gateway.metrics.upstream(Ok(answer.status), answer.elapsed);
    active.status = answer.status;
    let bytes = answer.output.bytes().clone();
    active.output = Some(bytes.clone());
    let kind = exposition.service.document.content.templates.get(name).and_then(|found| found.info.mime_type.clone());
    let (exposition, id, tail) = (Arc::clone(exposition), active.call.id.clone(), cacheable_call(active.call));
    let (uri, length, limit) = (uri.to_owned(), bytes.len(), active.limits.output);
    let work = move |_: &dyn Fn() -> bool| {
        let id = std::str::from_utf8(&id).unwrap_or("null");
        write_contents((&exposition, limit), (id, &tail), (&uri, kind.as_deref()), &bytes)
    };
    // A control character of a text takes six bytes as JSON, and three bytes take four as base64.
    let need = 6 * length as u64 + 512;
    let written = if length <= LIGHT_WRITTEN / 6 {
        active.held.take(need).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: true })?;
        work(&|| false)
    } else {
        let offload = active.gateway.offload(&active.exposition.id);
        offload.run(Work::Answer, deadline, Some((active.held, need)), work).await.map_err(not_run)?
    };
    let written = written.ok_or_else(|| UpstreamError::TooLarge {
        limit: active.limits.output.bytes.unwrap_or(active.limits.max_response_bytes),
    })?;
    active.exposition.tool_series(active.call.tool).bytes(&active.gateway.metrics, length, length);
    Ok(written.into())
}

fn not_run(why: NotRun) -> UpstreamError {
    match why {
        NotRun::Overdue => UpstreamError::Timeout { sent: true },
        NotRun::Exhausted => UpstreamError::Exhausted { sent: true },
    }
}

/// Writes the result of `resources/read`: text if the bytes are text, otherwise base64. Returns none if that is larger than
/// the exposition's answers may be.
fn write_contents(
    (exposition, limit): (&Exposition, OutputLimits),
    (id, tail): (&str, &str),
    (uri, kind): (&str, Option<&str>),
    bytes: &Bytes,
) -> Option<Vec<u8>> {
    let encoded;
    let (member, text) = match std::str::from_utf8(bytes) {
        Ok(text) => ("text", text),
        Err(_) => {
            encoded = BASE64_STANDARD.encode(bytes);
            ("blob", encoded.as_str())
        }
    };
    if !exposition.allows(text, limit) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() + id.len() + uri.len() + 256);
    encode::open_result(&mut out, id);
    out.put("{\"contents\":[");
    encode::resource(&mut out, uri, kind, (member, text));
    out.put("]");
    out.put(tail);
    out.put("}}");
    Some(out)
}

/// Passes a request on to the MCP server.
async fn server(
    active: &mut ActiveCall<'_>,
    method: ServerMethod,
    name: Option<&str>,
    params: &str,
    deadline: Instant,
) -> Result<Chain, UpstreamError> {
    let exposition = active.exposition;
    let context = call_context(active, deadline);
    let passed = exposition.service.upstream.pass(method, name, params, context).await?;
    let Passed { result, elapsed } = passed;
    active.gateway.metrics.upstream(Ok(200), elapsed);
    active.status = 200;
    active.output = Some(result.clone());
    let (shared, id, tail) = (Arc::clone(exposition), active.call.id.clone(), cacheable_call(active.call));
    let member = active.call.member.clone();
    let (length, limit, response) = (result.len(), active.limits.output, active.limits.max_response_bytes);
    let work = move |_: &dyn Fn() -> bool| {
        let is_data = matches!(method, ServerMethod::GetPrompt | ServerMethod::ReadResource);
        if is_data && !std::str::from_utf8(&result).is_ok_and(|text| shared.allows(text, limit)) {
            return Err(UpstreamError::TooLarge { limit: limit.bytes.unwrap_or(response) });
        }
        let id = std::str::from_utf8(&id).unwrap_or("null");
        crate::passing::write((&shared, member.as_ref()), method, (id, &tail), &result)
            .map_err(|reason| UpstreamError::Malformed(reason.to_owned()))
    };
    // Entries of a bundle have longer names than the server gave them.
    let prefixes = if active.call.member.is_some() { length as u64 } else { 0 };
    let need = length as u64 + prefixes + 1024;
    let written = if length <= crate::offload::LIGHT_READ {
        active.held.take(need).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: true })?;
        work(&|| false)
    } else {
        let offload = active.gateway.offload(&exposition.id);
        offload.run(Work::Upstream, deadline, Some((active.held, need)), work).await.map_err(not_run)?
    };
    let written = match written? {
        Written::Answer(written) => written,
        Written::Asks(wanted) => return Err(UpstreamError::InputRequired(wanted)),
    };
    active.exposition.tool_series(active.call.tool).bytes(&active.gateway.metrics, length, written.len());
    Ok(written.into())
}
