//! Writes the answer to a call whose output has been filtered: small answers inline, large ones outside the serving
//! threads.

use std::sync::Arc;
use std::time::Instant;

use super::ActiveCall;
use crate::audit;
use crate::compute::NotRun;
use crate::mcp::encode::{self, Measured, ToolResult};
use crate::memory::{Chain, Exhausted};
use crate::offload::{LIGHT_COPIED, LIGHT_SIGNED, LIGHT_WRITTEN, Work};
use crate::seal::{Keyring, Signature};

/// Returns the signature of an answer. Without a log of records there is no signature.
pub(super) fn sign(keyring: &Keyring, is_logged: bool, answer: &Chain) -> Option<Signature> {
    if is_logged { keyring.sign(answer.buffers()) } else { None }
}

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

/// Writes and signs the answer with a result. Its memory stays in the call's reservation.
pub(super) async fn write(active: &mut ActiveCall<'_>, result: Measured, deadline: Instant) -> Result<Chain, NotRun> {
    let (keyring, service) = (Arc::clone(&active.gateway.keyring), Arc::clone(&active.exposition.service));
    let (id, server) = (active.call.id(), &service.server_meta);
    let (written, len) = (result.written(id, server), result.len(id, server));
    let need = (result.memory() + written) as u64;
    let (id, era, is_logged) = (active.call.id.clone(), active.call.era, audit::is_logged());
    let is_light = written <= LIGHT_WRITTEN && (!is_logged || len <= LIGHT_SIGNED);
    let work = move |_: &dyn Fn() -> bool| {
        let id = std::str::from_utf8(&id).unwrap_or("null");
        let answer = encode::tool_result(id, result, era, &service.server_meta);
        let signature = sign(&keyring, is_logged, &answer);
        (answer, signature)
    };
    let (answer, signature) = if is_light {
        active.held.take(need).await.map_err(|Exhausted| NotRun::Exhausted)?;
        work(&|| false)
    } else {
        let offload = active.gateway.offload(&active.exposition.id);
        offload.run(Work::Answer, deadline, Some((active.held, need)), work).await?
    };
    active.signature = signature;
    Ok(answer)
}
