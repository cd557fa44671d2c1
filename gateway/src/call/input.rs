//! A call whose server asks its caller for input.

use super::ActiveCall;
use crate::input::{self, NotAsked};
use crate::mcp::encode;
use crate::memory::{Chain, Exhausted};
use crate::metrics::Outcome;
use crate::upstream::InputRequired;

/// Returns the answer that asks the caller, or why the caller cannot be asked. If the caller has not declared a capability, that is
/// the [`ActiveCall::refusal`], too.
///
/// # Errors
/// There is no memory for the answer. What the caller asked for has not been executed.
pub(super) async fn ask(
    active: &mut ActiveCall<'_>,
    wanted: InputRequired,
) -> Result<Result<Chain, NotAsked>, Exhausted> {
    let call = active.call;
    active.status = 200;
    let checked = input::check(&wanted, call.input.as_deref(), call.era, active.exposition.enforcement);
    let (requests, state) = match (checked, wanted) {
        (Ok(()), InputRequired::Asked { requests, state }) => (requests, state),
        (Ok(()), InputRequired::Undeclared { .. }) => (None, None),
        (Err(not_asked), wanted) => {
            active.outcome = Outcome::UpstreamError;
            active.refusal = not_asked.error(&wanted);
            return Ok(Err(not_asked));
        }
    };
    let server = call.server_meta();
    let bytes = [&requests, &state].into_iter().flatten().map(bytes::Bytes::len).sum::<usize>();
    active.held.take((bytes + call.id().len() + server.len() + 160) as u64).await?;
    let answer = encode::input_required(call.id(), requests.as_deref(), state.as_deref(), server);
    active.output = requests.or(state);
    active.outcome = Outcome::Ok;
    Ok(Ok(answer.into()))
}
