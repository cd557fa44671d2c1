//! Runs the fast path, and reports its result as the tree would.

use crate::json;
use crate::program::{Plan, Program};
use crate::stream::{self, Outcome, Payload};
use crate::work::Work;
use crate::{Call, Filtered, Input, Refused, Report};

use super::finish::List;
use super::{Run, root, without_bom};

/// Runs the program over the bytes. Returns `None` if the stages have to run on a tree.
pub(super) fn apply(
    program: &Program,
    input: Input<'_>,
    call: &Call<'_>,
    work: &Work<'_>,
) -> Option<Result<Filtered, Refused>> {
    let plan: &Plan = &program.0;
    let (original_bytes, bytes) = match input {
        Input::Json(bytes) if !call.raw => (bytes.len(), without_bom(bytes)),
        Input::Json(_) | Input::Text(_) => return None,
    };
    if bytes.is_empty() || bytes.len() > plan.limits.max_input_bytes.min(plan.max_streamed_bytes) {
        return None;
    }
    let Outcome { branch, json, compact_bytes, unresolved, stopped_at, partial_miss, truncated_from, payload } =
        plan.fast.run(&plan.branches, bytes, work).ok()?;
    let report = Report {
        applied: !branch.is_empty(),
        skipped: branch.is_empty().then_some("no_stage"),
        original_bytes,
        compact_bytes,
        result_bytes: json.len(),
        items_truncated_from: truncated_from,
        partial_miss,
        unresolved,
        ..Report::default()
    };
    let text = String::from_utf8(json).ok()?;
    let mut run = Run { plan, call, work, exceeded: false, report };
    if let Some(at) = stopped_at {
        run.stopped(at);
    }
    let text = match run.written(branch, text) {
        Ok(output) => return Some(run.finish(Ok(output))),
        Err(text) => text,
    };
    let place = payload.as_ref().and_then(|payload| Some((place(&text, payload, work)?, payload.total)));
    let output = if branch.compact.is_some() {
        // A template reads a tree.
        let document = json::read(text.as_bytes(), plan.limits.max_depth, usize::MAX, work).ok()?.node;
        run.encode(branch, document, place.as_ref())
    } else {
        run.shaped(text, List::of(branch, place.as_ref()), Some(branch))
    };
    Some(run.finish(output))
}

/// Returns the positions of the payload in the filtered document.
fn place(text: &str, payload: &Payload, work: &Work<'_>) -> Option<root::Place> {
    if payload.alone {
        return Some(vec![0; payload.path.len()]);
    }
    stream::positions(text, &payload.path, work)
}
