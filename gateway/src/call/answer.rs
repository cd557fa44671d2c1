//! Writes the answer to a call whose output has been filtered: small answers inline, large ones outside the serving
//! threads.

use std::sync::Arc;
use std::time::Instant;

use super::ActiveCall;
use crate::compute::NotRun;
use crate::mcp::encode::{self, Measured, ToolResult};
use crate::memory::{Chain, Exhausted};
use crate::offload::{LIGHT_COPIED, LIGHT_WRITTEN, Work};

/// Measures a result.
pub(super) async fn measure(
    active: &mut ActiveCall<'_>,
    result: ToolResult,
    deadline: Instant,
) -> Result<Measured, NotRun> {
    if result.len() <= LIGHT_COPIED {
        return Ok(result.measure());
    }
    let offload = active.gateway.offload(&active.exposition.id);
    offload.run(Work::Answer, deadline, None, move |_| result.measure()).await
}

/// Writes the answer with a result. Its memory stays in the call's reservation.
pub(super) async fn write(active: &mut ActiveCall<'_>, result: Measured, deadline: Instant) -> Result<Chain, NotRun> {
    let server_meta = Arc::clone(active.call.server_meta());
    let written = result.written(active.call.id(), &server_meta);
    let need = (result.memory() + written) as u64;
    let (id, era) = (active.call.id.clone(), active.call.era);
    let work = move |_: &dyn Fn() -> bool| {
        let id = std::str::from_utf8(&id).unwrap_or("null");
        encode::tool_result(id, result, era, &server_meta)
    };
    if written <= LIGHT_WRITTEN {
        active.held.take(need).await.map_err(|Exhausted| NotRun::Exhausted)?;
        return Ok(work(&|| false));
    }
    let offload = active.gateway.offload(&active.exposition.id);
    offload.run(Work::Answer, deadline, Some((active.held, need)), work).await
}
