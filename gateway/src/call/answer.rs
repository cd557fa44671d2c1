//! Writes the answer to a call whose output has been filtered: small answers inline, large ones outside the serving
//! threads.

use std::sync::Arc;
use std::time::Instant;

use tamis_engine::Structured;

use super::ActiveCall;
use crate::audit;
use crate::compute::NotRun;
use crate::mcp::encode::{self, ToolResult};
use crate::memory::Exhausted;
use crate::offload::{LIGHT_WRITTEN, Work};
use crate::seal::Keyring;

/// The signature of an answer, and the id of its key.
type Signature = Option<(String, String)>;

/// A filtered output, from which an answer is written.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) notice: Option<String>,
    pub(super) structured: Structured,
    /// The JSON of the filter's report.
    pub(super) filter: Option<String>,
}

impl Output {
    fn len(&self) -> usize {
        self.text.len() + self.json().map_or(0, String::len)
    }

    /// Returns the structured content, if it is not derived from the text.
    fn json(&self) -> Option<&String> {
        match &self.structured {
            Structured::Json(json) => Some(json),
            Structured::Text { .. } | Structured::None => None,
        }
    }

    /// Returns the bytes that it takes in memory.
    fn held(&self) -> u64 {
        (self.text.capacity() + self.json().map_or(0, String::capacity)) as u64
    }

    fn result(&self) -> ToolResult<'_> {
        let Self { text, notice, structured, filter } = self;
        ToolResult {
            text,
            notice: notice.as_deref(),
            structured: structured.pieces(text),
            is_error: false,
            filter: filter.as_deref(),
        }
    }
}

/// Returns an answer with its signature. Without a log of records there is no signature.
pub(super) fn signed(keyring: &Keyring, is_logged: bool, answer: Vec<u8>) -> (Vec<u8>, Signature) {
    let signature = if is_logged { keyring.sign(&answer) } else { None };
    (answer, signature)
}

/// Returns the maximum number of bytes of an output's answer.
pub(super) async fn measure(
    active: &mut ActiveCall<'_>,
    output: Output,
    deadline: Instant,
) -> Result<(usize, Output), NotRun> {
    if output.len() <= LIGHT_WRITTEN {
        return Ok((output.result().size(), output));
    }
    let offload = active.gateway.offload(&active.exposition.id);
    offload.run(Work::Answer, deadline, None, move |_| (output.result().size(), output)).await
}

/// Writes and signs an answer of at most `size` bytes. Its memory stays in the call's reservation.
pub(super) async fn write(
    active: &mut ActiveCall<'_>,
    output: Output,
    size: usize,
    deadline: Instant,
) -> Result<Vec<u8>, NotRun> {
    let need = output.held() + (size + active.call.id.len()) as u64;
    let (keyring, service) = (Arc::clone(&active.gateway.keyring), Arc::clone(&active.exposition.service));
    let (id, era, is_logged) = (active.call.id.clone(), active.call.era, audit::is_logged());
    let work = move |_: &dyn Fn() -> bool| {
        let id = std::str::from_utf8(&id).unwrap_or("null");
        signed(&keyring, is_logged, encode::tool_result(id, &output.result(), era, &service.server_meta))
    };
    let (answer, signature) = if size <= LIGHT_WRITTEN {
        active.held.take(need).await.map_err(|Exhausted| NotRun::Exhausted)?;
        work(&|| false)
    } else {
        let offload = active.gateway.offload(&active.exposition.id);
        offload.run(Work::Answer, deadline, Some((active.held, need)), work).await?
    };
    active.signature = signature;
    Ok(answer)
}
