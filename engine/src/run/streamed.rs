//! Runs the fast path, and reports its result as the tree would.

use crate::json::{self, Node};
use crate::program::{Plan, Program};
use crate::stream::{Outcome, Payload};
use crate::work::Work;
use crate::{Call, Filtered, Input, Refused, Report};

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
    let document = json::read(text.as_bytes(), plan.limits.max_depth, usize::MAX, work).ok()?.node;
    let payload = payload.and_then(|payload| Some((place(&document, &payload)?, payload.total)));
    let output = run.encode(branch, document, payload.as_ref());
    Some(run.finish(output))
}

/// Returns the positions of the payload in the filtered document.
fn place(document: &Node<'_>, payload: &Payload) -> Option<root::Place> {
    if payload.alone {
        return Some(vec![0; payload.path.len()]);
    }
    let mut node = document;
    let mut place = root::Place::with_capacity(payload.path.len());
    for name in &payload.path {
        let at = match node {
            Node::Object(members) => members.iter().position(|member| member.key.is(&name.text))?,
            Node::Array(_) => name.index.number()?,
            Node::Scalar(_) | Node::String(_) => return None,
        };
        node = match node {
            Node::Object(members) => &members.get(at)?.value,
            Node::Array(elements) => elements.get(at)?,
            Node::Scalar(_) | Node::String(_) => return None,
        };
        place.push(at);
    }
    Some(place)
}
