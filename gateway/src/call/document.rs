//! Prompts and resources that are answered from the documents. No upstream is called, but such a request has the limits, the audit
//! record and the metrics of a call: what it takes to write an answer is up to the caller, who chooses the arguments.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::value::RawValue;
use tamis_config::{OutputLimits, ResourceContent};

use super::content::{exhausted, failed};
use super::explain::explain_read;
use super::{ActiveCall, DocumentCall};
use crate::compute::NotRun;
use crate::dispatch::{cacheable_call, complete_call};
use crate::exposition::Exposition;
use crate::mcp::RpcError;
use crate::mcp::encode::{self, Sink as _};
use crate::memory::{Chain, Exhausted};
use crate::metrics::Outcome;
use crate::offload::{LIGHT_WRITTEN, Work};
use crate::prompts;
use crate::upstream::UpstreamError;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    /// The request is not valid: the text says why.
    Invalid(String),
    /// The answer would be larger than the limit.
    TooLarge,
}

/// Answers the request.
///
/// # Errors
/// There is no memory for it now, and it may be repeated.
pub(super) async fn perform(
    active: &mut ActiveCall<'_>,
    content: &DocumentCall,
    deadline: Instant,
) -> Result<Chain, Exhausted> {
    let limit = active.limits.output;
    let most = most_written(active.exposition, content);
    // The text, and the same as JSON: a control character takes six bytes.
    let need = 7 * most as u64 + 1_024;
    let (exposition, id, wanted) = (Arc::clone(active.exposition), active.call.id.clone(), content.clone());
    let tail = match content {
        DocumentCall::Prompt { .. } => complete_call(active.call),
        DocumentCall::Resource { .. } => cacheable_call(active.call),
    };
    let work = move |_: &dyn Fn() -> bool| {
        let id = std::str::from_utf8(&id).unwrap_or("null");
        write(&exposition, limit, &wanted, (id, &tail))
    };
    let ran = if most <= LIGHT_WRITTEN / 6 {
        active.held.take(need).await.map(|()| work(&|| false)).map_err(|Exhausted| NotRun::Exhausted)
    } else {
        let offload = active.gateway.offload(&active.exposition.id);
        offload.run(Work::Answer, deadline, Some((active.held, need)), work).await
    };
    let error = match ran {
        Ok(Ok(answer)) => {
            active.outcome = Outcome::Ok;
            active.exposition.tool_series(active.call.tool).bytes(&active.gateway.metrics, answer.len(), answer.len());
            return Ok(answer.into());
        }
        Ok(Err(Problem::Invalid(message))) => {
            active.outcome = Outcome::InvalidArguments;
            RpcError::invalid_params(message)
        }
        Ok(Err(Problem::TooLarge)) => {
            let limit = limit.bytes.unwrap_or(active.limits.max_response_bytes);
            RpcError::upstream(explain_read(active, &UpstreamError::TooLarge { limit }))
        }
        Err(NotRun::Overdue) => RpcError::upstream(explain_read(active, &UpstreamError::Timeout { sent: false })),
        Err(NotRun::Exhausted) => return exhausted(active),
    };
    Ok(failed(active, &error))
}

/// Returns the bytes that an answer may have before its text is escaped, at most.
fn most_written(exposition: &Exposition, content: &DocumentCall) -> usize {
    let own = &exposition.service.document.content;
    match content {
        DocumentCall::Prompt { name, arguments } => own
            .prompts
            .get(name)
            .map_or(0, |prompt| prompts::most_rendered(prompt, arguments.as_ref().map_or(0, Bytes::len))),
        DocumentCall::Resource { uri } => own.resources.get(uri).map_or(0, |resource| match &resource.content {
            ResourceContent::Text(text) | ResourceContent::Blob(text) => text.len(),
        }),
    }
}

/// Writes the answer. `tail` are the last members of the result.
fn write(
    exposition: &Exposition,
    limit: OutputLimits,
    content: &DocumentCall,
    (id, tail): (&str, &str),
) -> Result<Vec<u8>, Problem> {
    let own = &exposition.service.document.content;
    let within = |text: &str| if exposition.allows(text, limit) { Ok(()) } else { Err(Problem::TooLarge) };
    let gone = || Problem::Invalid("it is not published any more".to_owned());
    let mut out = Vec::new();
    encode::open_result(&mut out, id);
    match content {
        DocumentCall::Prompt { name, arguments } => {
            let prompt = own.prompts.get(name).ok_or_else(gone)?;
            let arguments: Option<&RawValue> =
                arguments.as_ref().map(|raw| serde_json::from_slice(raw)).transpose().map_err(|_| gone())?;
            let messages = prompts::render(prompt, arguments).map_err(Problem::Invalid)?;
            within(&messages)?;
            out.put("{");
            if let Some(description) = &prompt.description {
                out.put("\"description\":");
                encode::string(&mut out, description);
                out.put(",");
            }
            out.put("\"messages\":");
            out.put(&messages);
        }
        DocumentCall::Resource { uri } => {
            let resource = own.resources.get(uri).ok_or_else(gone)?;
            let (member, text) = match &resource.content {
                ResourceContent::Text(text) => ("text", text.as_str()),
                ResourceContent::Blob(blob) => ("blob", blob.as_str()),
            };
            within(text)?;
            out.put("{\"contents\":[");
            encode::resource(&mut out, uri, resource.info.mime_type.as_deref(), (member, text));
            out.put("]");
        }
    }
    out.put(tail);
    out.put("}}");
    Ok(out)
}
