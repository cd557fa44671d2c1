//! A tool call, from its arguments to its answer: limits, validation, upstream, audit, filter, envelope, metrics.

mod answer;
mod content;
mod document;
mod explain;
mod filter;
mod input;
mod request;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tamis_config::{Audit, ExpositionId, PaginationKind, ServiceTool};
use tamis_engine::{Call, Enforcement, Stage};

use crate::arguments::Arguments;
use crate::audit::{self, Record};
use crate::exposition::{Exposition, Tool};
use crate::gateway::Gateway;
use crate::limiter::{Admitted, Limiter, Refusal};
use crate::mcp::RpcError;
use crate::mcp::arguments::InvalidArguments;
use crate::mcp::encode::{self, ToolResult};
use crate::memory::{Chain, Exhausted, Held, Reservation, Shared, arguments_need};
use crate::metrics::{ExpositionSeries, Outcome, Rejection};
use crate::paging;
use crate::relay::Relay;
use crate::seal::SealError;
use crate::shares::{Grant, Resource};
use crate::trace::{CallTrace, Traces};
use crate::upstream::{CallBounds, CallContext, UpstreamError};
use crate::validation::{self, ArgumentsError};
use crate::watch::Watch;
pub(crate) use content::{ContentCall, DocumentCall};
use explain::{category, explain};
use filter::filtered;
use request::Limits;
pub(crate) use request::{Caller, ToolCall};

/// A call in progress. When it is dropped, it is counted and recorded with the result that it has by then.
struct ActiveCall<'a> {
    gateway: &'a Gateway,
    exposition: &'a Arc<Exposition>,
    tool: &'a str,
    call: &'a ToolCall,
    relay: Option<&'a Arc<Relay>>,
    limits: Limits,
    started: Instant,
    outcome: Outcome,
    /// The first filter stage that failed, if the output passed nevertheless.
    failed_stage: Option<Stage>,
    status: u16,
    output: Option<Bytes>,
    result_bytes: usize,
    /// The answer, to be signed if records are logged.
    answer: Option<Shared>,
    trace: Option<CallTrace>,
    /// Memory of the call.
    held: &'a mut Reservation,
    /// Whether the server has no such prompt or resource.
    is_absent: bool,
    /// Whether the server has ended the caller's session.
    session_ended: bool,
    /// The error of the protocol that is the answer in place of a result.
    refusal: Option<RpcError>,
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let ended = Instant::now();
        let took = ended.saturating_duration_since(self.started);
        self.exposition.tool_series(self.call.tool).call(&self.gateway.metrics, self.outcome);
        self.gateway.metrics.call_duration.observe(took.as_secs_f64());
        if let Some(trace) = &mut self.trace {
            trace.outcome(self.outcome.as_str(), self.outcome != Outcome::Ok);
        }
        let auditor = &self.gateway.auditor;
        let file = match (self.exposition.audit, &self.output) {
            (Audit::Full, Some(output)) => auditor.keep(self.exposition, self.tool, output, self.held),
            (Audit::Full, None) | (Audit::Digest, _) => None,
        };
        if !audit::is_logged() {
            return;
        }
        auditor.record(Record {
            exposition: Arc::clone(self.exposition),
            bundle: self.call.bundle.clone(),
            tool: self.call.tool,
            caller: self.call.caller.clone(),
            outcome: self.outcome,
            failed_stage: self.failed_stage,
            status: self.status,
            output_bytes: self.output.as_ref().map_or(0, Bytes::len),
            result_bytes: self.result_bytes,
            answer: self.answer.take(),
            ended,
            took,
            trace: self.trace.as_ref().and_then(CallTrace::sampled_id),
            file,
        });
    }
}

/// Reserves one of the gateway's calls in flight.
fn place(gateway: &Gateway, exposition: &Exposition) -> Result<Grant, RpcError> {
    exposition.share.take(Resource::Calls, 1).map_err(|_| {
        exposition.series.rejected(&gateway.metrics, Rejection::Calls);
        gateway.refusals.note(Rejection::Calls, Some(&exposition.id), Default::default());
        RpcError::busy(503, "the gateway has too many calls under way", 1)
    })
}

/// Makes the call and returns its answer together with the memory reserved for it. `relay` gets what the server sends during the
/// call.
///
/// # Errors
/// A limit rejected the call, and it was not sent, or it may be repeated without harm. Or the answer is an error of the protocol: a
/// capability is missing, or the server does not accept a state.
pub(crate) async fn run(
    gateway: &Gateway,
    call: &ToolCall,
    relay: Option<&Arc<Relay>>,
    mut held: Reservation,
) -> Result<Held, RpcError> {
    let before = held.used();
    let (mut current, mut failure) = (call, None);
    loop {
        let made = run_once(gateway, current, relay, &mut held).await;
        let Some(next) = &current.otherwise else {
            let (answer, found) = made?;
            // A server that did not answer may have what the others do not have.
            let answer = failure.filter(|_| found != Found::Here).unwrap_or(answer);
            return Ok(Held::new(answer, held));
        };
        match made {
            Ok((answer, Found::Here)) => return Ok(Held::new(answer, held)),
            Ok((answer, Found::Failed)) => drop(failure.get_or_insert(answer)),
            Ok((_, Found::Absent)) => {}
            Err(error) => return Err(error),
        }
        held.shrink_to(before);
        current = next;
    }
}

/// Whether a call found what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It did.
    Here,
    /// The server does not have it.
    Absent,
    /// It is not known.
    Failed,
}

/// Makes one call, and says whether it found what it asked for.
async fn run_once(
    gateway: &Gateway,
    call: &ToolCall,
    relay: Option<&Arc<Relay>>,
    held: &mut Reservation,
) -> Result<(Chain, Found), RpcError> {
    let started = Instant::now();
    let exposition = &call.exposition;
    let name = exposition.call_name(call.tool).ok_or_else(|| RpcError::internal("no such tool"))?;
    let begin = |traces: &Traces| traces.call(&call.parent, &exposition.id, name, call.id());
    let mut trace = gateway.options.traces.as_ref().map(begin);
    let entered = place(gateway, exposition).and_then(|place| Ok((place, admit(gateway, call, started)?)));
    if let (Err(_), Some(trace)) = (&entered, &mut trace) {
        trace.outcome("rejected", true);
    }
    let (place, admitted) = entered?;
    let mut active = ActiveCall {
        gateway,
        exposition,
        tool: name,
        call,
        relay,
        limits: call.limits(),
        started,
        // The outcome if the caller disconnects and this future is dropped.
        outcome: Outcome::Cancelled,
        failed_stage: None,
        status: 0,
        output: None,
        result_bytes: 0,
        answer: None,
        trace,
        held,
        is_absent: false,
        session_ended: false,
        refusal: None,
    };
    let mut answered = match &call.content {
        None => perform(&mut active, name, exposition.tool(call.tool)).await,
        Some(content) => Box::pin(content::perform(&mut active, name, content)).await,
    };
    if let Ok(answer) = &mut answered {
        active.result_bytes = answer.len();
        active.answer = audit::is_logged().then(|| answer.share(active.held));
    }
    let found = match (active.outcome, active.is_absent) {
        (Outcome::Ok, _) => Found::Here,
        (_, true) => Found::Absent,
        (_, false) => Found::Failed,
    };
    let (session_ended, refusal) = (active.session_ended, active.refusal.take());
    drop(active);
    drop((admitted, place));
    if session_ended {
        call.session.iter().for_each(|session| gateway.book.end(&session.name));
        return Err(RpcError::session_ended());
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    Ok((answered.map_err(|Exhausted| RpcError::exhausted())?, found))
}

/// Admits a call by the limits of the bundle, if it came through one, and of the exposition.
fn admit(gateway: &Gateway, call: &ToolCall, now: Instant) -> Result<(Option<Admitted>, Admitted), RpcError> {
    let bundle = call.bundle.as_ref().map(|bundle| (&bundle.limiter, &*bundle.series, &*bundle.id));
    let bundle = bundle.map(|whose| admit_by(gateway, whose, now)).transpose()?;
    let exposition = &call.exposition;
    Ok((bundle, admit_by(gateway, (&exposition.limiter, &exposition.series, &exposition.id), now)?))
}

/// Admits a request by the limits of an exposition or a bundle.
///
/// # Errors
/// A limit rejects it. That is counted.
pub(crate) fn admit_by(
    gateway: &Gateway,
    (limiter, series, id): (&Arc<Limiter>, &ExpositionSeries, &ExpositionId),
    now: Instant,
) -> Result<Admitted, RpcError> {
    limiter.admit(now).map_err(|refusal| {
        let (reason, error) = match refusal {
            Refusal::Rate(wait) => {
                (Rejection::Rate, RpcError::busy(429, "too many calls a second", wait.as_secs() + 1))
            }
            Refusal::Concurrent => (Rejection::Concurrency, RpcError::busy(429, "too many calls at once", 1)),
        };
        series.rejected(&gateway.metrics, reason);
        gateway.refusals.note(reason, Some(id), Default::default());
        error
    })
}

async fn perform(active: &mut ActiveCall<'_>, name: &str, tool: &Tool) -> Result<Chain, Exhausted> {
    let exposition = active.exposition;
    let declared = &exposition.service.document.tools[name];
    let limits = active.limits;
    let deadline = active.started + limits.timeout;
    let tree = arguments_need(active.call.arguments.as_ref().map_or(0, Bytes::len));
    // What waits for the caller is a part of the call until its end.
    let relayed = active.relay.map_or(0, |relay| relay.memory());
    if active.held.take(tree + relayed).await.is_err() {
        return exhausted(active, declared, false);
    }
    let checked = check(active, name, tool, declared, deadline).await;
    active.held.release(tree);
    let (target, arguments, asked) = match checked {
        Ok(checked) => checked,
        Err(ArgumentsError::Invalid(InvalidArguments(message))) => {
            active.outcome = Outcome::InvalidArguments;
            return Ok(failure(active, format!("Invalid arguments: {message}")));
        }
        Err(ArgumentsError::Overdue) => {
            active.outcome = Outcome::Timeout;
            return Ok(failure(active, "The call exceeded its timeout while its arguments were validated."));
        }
    };
    let query = tool.query.as_deref().filter(|_| !asked.raw);
    let most_messages = tool.most_messages.filter(|_| !asked.raw);
    let context = CallContext { query, most_messages, ..call_context(active, deadline) };
    let begun = Instant::now();
    let answered = exposition.service.upstream.call(&target, &arguments, context).await;
    if exposition.service.upstream.take_change() {
        let watch = exposition.watch.as_deref().map(|lease| &**lease);
        active.gateway.note_withheld(watch.map_or(&exposition.service, |watch| &watch.service));
        watch.into_iter().for_each(Watch::note_listed);
    }
    match answered {
        Ok(answer) => {
            active.gateway.metrics.upstream(Ok(answer.status), answer.elapsed);
            filtered(active, name, tool, declared, answer, asked, deadline).await
        }
        Err(UpstreamError::InputRequired(wanted)) => {
            active.gateway.metrics.upstream(Ok(200), begun.elapsed());
            match Box::pin(input::ask(active, wanted)).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(not_asked)) => Ok(failure(active, not_asked.text())),
                Err(Exhausted) => exhausted(active, declared, false),
            }
        }
        Err(error) => {
            active.gateway.metrics.upstream(category(&error), begun.elapsed());
            if let UpstreamError::Exhausted { sent } = error {
                return exhausted(active, declared, sent);
            }
            active.session_ended = matches!(error, UpstreamError::SessionEnded);
            let message = explain(active, declared, &error);
            let repeats_state = active.call.input.as_ref().is_some_and(|input| input.state.is_some());
            if repeats_state && matches!(error, UpstreamError::Rpc { code: -32602, .. }) {
                // Most likely the state, which the model has not written and cannot correct.
                active.refusal = Some(RpcError::invalid_params(message.to_string()));
            }
            Ok(failure(active, message))
        }
    }
}

/// Returns what the upstream gets besides the arguments.
fn call_context<'c>(active: &'c mut ActiveCall<'_>, deadline: Instant) -> CallContext<'c> {
    let (gateway, exposition) = (active.gateway, active.exposition);
    CallContext {
        bounds: CallBounds {
            deadline,
            max_response_bytes: active.limits.max_response_bytes,
            detect_list: exposition.enforcement == Enforcement::Advisory,
        },
        hops: active.call.hops,
        credentials: exposition.credentials(gateway.options.credentials.as_ref()),
        caller: Some(&active.call.caller),
        through: active.call.bundle.as_ref().map(|bundle| &*bundle.id),
        trace: active.trace.as_ref(),
        relay: active.relay,
        input: active.call.input.as_deref(),
        session: active.call.session.as_deref(),
        cannot_ask: active.call.cannot_ask(),
        query: None,
        most_messages: None,
        offload: gateway.offload(&exposition.id),
        memory: active.held,
    }
}

/// Returns the warning that an error carries once the upstream has answered a mutating call.
fn executed(declared: &ServiceTool) -> &'static str {
    if declared.risk.mutating { " The call was executed: do not repeat it." } else { "" }
}

/// Says that a call can never succeed.
const BEYOND_MEMORY: &str = "The upstream's answer does not fit into the memory that the gateway has for one call: ask for less, \
                             such as fewer items or a shorter range.";

/// Handles a call for which there is no memory. If the upstream may have executed a mutating call, the caller gets an
/// answer that says so, since an error that can be retried would execute the call twice.
fn exhausted(active: &mut ActiveCall<'_>, declared: &ServiceTool, sent: bool) -> Result<Chain, Exhausted> {
    note_exhausted(active);
    if active.held.can_never_fit() {
        // A retry can never succeed, so the caller must not be invited to one.
        let executed = if sent { executed(declared) } else { "" };
        return Ok(failure(active, format!("{BEYOND_MEMORY}{executed}")));
    }
    if sent && declared.risk.mutating {
        let message = format!("The gateway had no memory for the upstream's answer.{}", executed(declared));
        return Ok(failure(active, message));
    }
    Err(Exhausted)
}

/// Counts and reports that there was no memory for a call.
fn note_exhausted(active: &mut ActiveCall<'_>) {
    active.outcome = Outcome::Error;
    active.exposition.series.rejected(&active.gateway.metrics, Rejection::Memory);
    active.gateway.refusals.note(Rejection::Memory, Some(&active.exposition.id), Default::default());
}

/// Checks the arguments. Returns the tool that is called, the arguments to send upstream, and the options that the
/// reserved inputs set.
async fn check<'e>(
    active: &ActiveCall<'e>,
    name: &'e str,
    tool: &Tool,
    declared: &ServiceTool,
    deadline: Instant,
) -> Result<(Cow<'e, str>, Arguments, Call<'static>), ArgumentsError> {
    let (gateway, exposition) = (active.gateway, active.exposition);
    let mut arguments = validation::read(gateway, &exposition.id, active.call.arguments.as_ref(), deadline).await?;
    let asked = tool.reserved.take(&mut arguments)?;
    if sealed(exposition, declared)
        && let Some(cursor) = arguments.get(PaginationKind::Cursor.argument())
    {
        let scope = scope(active, name);
        let opened = match paging::cursor(cursor) {
            Some(token) => gateway.keyring.open(&scope, &token),
            None => Err(SealError::Invalid),
        };
        let opened = opened.map_err(|error| {
            InvalidArguments(match error {
                SealError::Invalid => "`cursor`: not one that this tool returned, or too old".to_owned(),
                SealError::NoKeys => "`cursor`: the gateway cannot open cursors at the moment; try again".to_owned(),
            })
        })?;
        arguments.insert(PaginationKind::Cursor.argument(), &tamis_engine::json::encode(&opened));
    }
    let (made_of, arguments) = validation::validate(gateway, exposition, name, arguments, deadline).await?;
    Ok((made_of.map_or(Cow::Borrowed(name), Cow::Owned), arguments, asked))
}

/// Returns whether the tool's cursors are sealed.
fn sealed(exposition: &Exposition, declared: &ServiceTool) -> bool {
    exposition.enforcement == Enforcement::Enforced
        && declared.pagination.as_ref().is_some_and(|p| p.kind == PaginationKind::Cursor)
}

/// Returns the scope in which a sealed cursor is valid: one tool of one exposition, and one caller if callers have
/// names.
fn scope(active: &ActiveCall<'_>, tool: &str) -> String {
    // Names of expositions and tools contain no space. The names of a bundle's callers are those of another Secret.
    let through = active.call.bundle.as_ref().map(|bundle| format!(" {}", bundle.id)).unwrap_or_default();
    match active.call.caller.name() {
        Some(caller) => format!("{}{through} {tool} {caller}", active.exposition.id),
        None => format!("{}{through} {tool}", active.exposition.id),
    }
}

fn failure(active: &ActiveCall<'_>, message: impl Into<String>) -> Chain {
    let measured = ToolResult::error(message.into()).measure();
    encode::tool_result(active.call.id(), measured, active.call.era, active.call.server_meta())
}
