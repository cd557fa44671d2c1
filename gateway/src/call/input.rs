//! A call whose server asks its caller for input.

use tamis_config::ServiceTool;

use super::{ActiveCall, exhausted, failure};
use crate::input;
use crate::mcp::encode;
use crate::memory::{Chain, Exhausted};
use crate::metrics::Outcome;
use crate::upstream::InputRequired;

/// Asks the caller, or explains why the caller cannot be asked.
///
/// # Errors
/// There is no memory for the answer. The tool has not been executed.
pub(super) async fn ask(
    active: &mut ActiveCall<'_>,
    declared: &ServiceTool,
    wanted: InputRequired,
) -> Result<Chain, Exhausted> {
    let call = active.call;
    active.status = 200;
    let checked = input::check(&wanted, call.input.as_deref(), call.era, active.exposition.enforcement);
    let (requests, state) = match (checked, wanted) {
        (Ok(()), InputRequired::Asked { requests, state }) => (requests, state),
        (Ok(()), InputRequired::Undeclared) => (None, None),
        (Err(not_asked), _) => {
            active.outcome = Outcome::UpstreamError;
            return Ok(failure(active, not_asked.text()));
        }
    };
    let server = call.server_meta();
    let bytes = [&requests, &state].into_iter().flatten().map(bytes::Bytes::len).sum::<usize>();
    if active.held.take((bytes + call.id().len() + server.len() + 160) as u64).await.is_err() {
        return exhausted(active, declared, false);
    }
    let answer = encode::input_required(call.id(), requests.as_deref(), state.as_deref(), server);
    active.output = requests.or(state);
    active.outcome = Outcome::Ok;
    Ok(answer.into())
}
