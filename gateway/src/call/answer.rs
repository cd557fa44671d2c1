//! Writing the answer to a call whose output has been filtered: small ones in passing, large ones off the serving threads.

use std::sync::Arc;
use std::time::Instant;

use tamis_engine::Structured;

use super::Noted;
use crate::audit;
use crate::compute::NotRun;
use crate::mcp::encode::{self, ToolResult};
use crate::memory::Exhausted;
use crate::offload::{LIGHT_WRITTEN, Work};
use crate::paging;
use crate::seal::Keyring;

/// A signature of what a caller got, and the id of its key.
type Signature = Option<(String, String)>;

/// A filtered output on its way into an answer.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) structured: Structured,
    /// The JSON of `_pagination`, until it is attached.
    pub(super) pagination: Option<String>,
    /// The JSON of the filter's report.
    pub(super) filter: Option<String>,
    /// See [`ToolResult::wrap`].
    pub(super) wrap: bool,
}

impl Output {
    fn len(&self) -> usize {
        self.text.len() + self.json().map_or(0, str::len)
    }

    /// The structured content, where it is not the text.
    fn json(&self) -> Option<&str> {
        match &self.structured {
            Structured::Json(json) => Some(json),
            Structured::Text | Structured::None => None,
        }
    }

    /// Bytes that it takes in memory.
    fn held(&self) -> u64 {
        let copied = match &self.structured {
            Structured::Json(json) => json.capacity(),
            Structured::Text | Structured::None => 0,
        };
        (self.text.capacity() + copied) as u64
    }

    /// Attaches `_pagination`. Gives the bytes that an answer takes, at most.
    fn measured(mut self) -> (usize, Self) {
        if let Some(pagination) = self.pagination.take() {
            paging::attach(&mut self.text, &mut self.structured, &pagination);
        }
        (encode::result_size(&self.text, &self.structured, self.filter.as_deref()), self)
    }

    fn result(&self) -> ToolResult<'_> {
        let structured = match &self.structured {
            Structured::Text => Some(self.text.as_str()),
            Structured::Json(json) => Some(json.as_str()),
            Structured::None => None,
        };
        ToolResult { text: &self.text, structured, wrap: self.wrap, is_error: false, filter: self.filter.as_deref() }
    }
}

/// An answer with its signature, where records are logged.
pub(super) fn signed(keyring: &Keyring, is_logged: bool, answer: Vec<u8>) -> (Vec<u8>, Signature) {
    let signature = if is_logged { keyring.sign(&answer) } else { None };
    (answer, signature)
}

/// Attaches what the gateway adds to an output, and says how many bytes its answer takes at most.
pub(super) async fn measure(
    noted: &mut Noted<'_>,
    output: Output,
    deadline: Instant,
) -> Result<(usize, Output), NotRun> {
    if output.len() <= LIGHT_WRITTEN {
        return Ok(output.measured());
    }
    // The old text is there until the new one is complete.
    let need = 2 * output.held();
    let offload = noted.gateway.offload(&noted.exposition.id);
    let measured = offload.run(Work::Answer, deadline, Some((noted.held, need)), move |_| output.measured()).await;
    noted.held.give(need);
    measured
}

/// Writes and signs an answer of at most `size` bytes. Its memory is left in the call's reservation.
pub(super) async fn write(
    noted: &mut Noted<'_>,
    output: Output,
    size: usize,
    deadline: Instant,
) -> Result<Vec<u8>, NotRun> {
    let need = output.held() + (size + noted.call.id.len()) as u64;
    let (keyring, service) = (Arc::clone(&noted.gateway.keyring), Arc::clone(&noted.exposition.service));
    let (id, era, is_logged) = (noted.call.id.clone(), noted.call.era, audit::is_logged());
    let work = move |_: &dyn Fn() -> bool| {
        let id = std::str::from_utf8(&id).unwrap_or("null");
        signed(&keyring, is_logged, encode::tool_result(id, &output.result(), era, &service.server_meta))
    };
    let (answer, signature) = if size <= LIGHT_WRITTEN {
        noted.held.take(need).await.map_err(|Exhausted| NotRun::Exhausted)?;
        work(&|| false)
    } else {
        let offload = noted.gateway.offload(&noted.exposition.id);
        offload.run(Work::Answer, deadline, Some((noted.held, need)), work).await?
    };
    noted.signature = signature;
    Ok(answer)
}
