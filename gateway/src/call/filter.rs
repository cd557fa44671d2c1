//! Filters what an upstream has answered, and makes of it the answer to the caller.
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::{PaginationKind, ServiceTool};
use tamis_engine::{Call, Enforcement, Filtered, Interrupted, Refused, Report, Stage};

use super::explain::{errors_block, text_block};
use super::{ActiveCall, answer, executed, exhausted, failure, scope, sealed};
use crate::compute::NotRun;
use crate::exposition::Tool;
use crate::mcp::arguments::InvalidArguments;
use crate::mcp::encode::ToolResult;
use crate::memory::{Chain, Exhausted, light_need};
use crate::metrics::{Metrics, Outcome, ToolSeries};
use crate::offload::{LIGHT_COPIED, Work};
use crate::paging::{self, Next};
use crate::trace::CallTrace;
use crate::upstream::{self, Answer};

/// The result of filtering an output.
#[expect(clippy::large_enum_variant, reason = "made once a call, and moved")]
enum Applied {
    Done(Result<Filtered, Refused>),
    /// The call's deadline has passed, or its caller has disconnected.
    Overdue,
    /// There is no memory to filter the output.
    Exhausted,
    /// The filter panicked, which is a bug. It fails one call, never the connection or the process.
    Panicked,
}

/// Filters an output. Returns the result and the duration without the wait for a slot. Light work runs inline; other
/// work runs outside the serving threads, until `deadline` at most.
async fn apply(
    active: &mut ActiveCall<'_>,
    tool: &Tool,
    output: &upstream::Output,
    (asked, pagination): (Call<'static>, Option<Arc<str>>),
    deadline: Instant,
) -> (Applied, Duration) {
    let bytes = output.bytes().len();
    if active.held.take(light_need(bytes)).await.is_err() {
        return (Applied::Exhausted, Duration::ZERO);
    }
    let begun = Instant::now();
    let limit = active.limits.output;
    match catch_unwind(AssertUnwindSafe(|| {
        tool.program.apply_light(output.input(), &active.exposition.call(tool, asked, pagination.as_deref(), limit))
    })) {
        Ok(Some(done)) => return (Applied::Done(done), begun.elapsed()),
        Ok(None) => {}
        Err(_) => return (Applied::Panicked, begun.elapsed()),
    }
    let offload = active.gateway.offload(&active.exposition.id);
    let output = output.clone();
    let (exposition, number) = (Arc::clone(active.exposition), active.call.tool);
    let need = {
        let (exposition, output) = (Arc::clone(&exposition), output.clone());
        let need = move || {
            let tool = exposition.tool(number);
            tool.program.memory_for(output.input(), &exposition.call(tool, asked, None, limit)) as u64
        };
        if bytes <= LIGHT_COPIED {
            Ok(need())
        } else {
            offload.run(Work::Filter, deadline, None, move |_: &dyn Fn() -> bool| need()).await
        }
    };
    let work = move |due: &dyn Fn() -> bool| {
        let begun = Instant::now();
        let run = || {
            let tool = exposition.tool(number);
            let call = exposition.call(tool, asked, pagination.as_deref(), limit);
            tool.program.apply_until(output.input(), &call, due)
        };
        let applied = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(done)) => Applied::Done(done),
            Ok(Err(Interrupted)) => Applied::Overdue,
            Err(_) => Applied::Panicked,
        };
        (applied, begun.elapsed())
    };
    let done = match need {
        Ok(need) => offload.run(Work::Filter, deadline, Some((active.held, need)), work).await,
        Err(not_run) => Err(not_run),
    };
    match done {
        Ok(done) => done,
        Err(NotRun::Overdue) => (Applied::Overdue, Duration::ZERO),
        Err(NotRun::Exhausted) => (Applied::Exhausted, Duration::ZERO),
    }
}

/// Filters the output of an answer, and writes the answer to the caller.
///
/// # Errors
/// There is no memory for it now, and the call may be repeated.
pub(super) async fn filtered(
    active: &mut ActiveCall<'_>,
    name: &str,
    tool: &Tool,
    declared: &ServiceTool,
    mut answer: Answer,
    asked: Call<'static>,
    deadline: Instant,
) -> Result<Chain, Exhausted> {
    let (gateway, exposition) = (active.gateway, active.exposition);
    let metrics = &gateway.metrics;
    let series = exposition.tool_series(active.call.tool);
    let enforcement = exposition.enforcement;
    let pagination = pagination(active, name, declared, &answer).map(Arc::from);
    let asked_budget = asked.budget;
    active.status = answer.status;
    active.output = Some(answer.output.bytes().clone());
    let mut span = active.trace.as_ref().map(CallTrace::filter);
    let before = active.held.used();
    let (applied, took) = apply(active, tool, &answer.output, (asked, pagination), deadline).await;
    metrics.filter_duration.observe(took.as_secs_f64());
    let executed = executed(declared);
    match applied {
        Applied::Done(Ok(Filtered { text, notice, structured, report })) => {
            count(series, metrics, &report);
            let sizes = exposition.sizes(&report);
            let sample = gateway.sampler.take(series, sizes, answer.output.bytes(), &text);
            let filter = tool.filtered.then(|| report.meta(enforcement));
            // What no filter has seen passes an enforced boundary only where no filter applies.
            let passes = enforcement == Enforcement::Advisory || !tool.filtered;
            let mut media = if passes { std::mem::take(&mut answer.media) } else { Vec::new() };
            let errors = answer.errors.take().filter(|_| enforcement == Enforcement::Advisory);
            if errors.is_some() || answer.cut.is_some() {
                let shown = notice.iter().fold(text.clone(), |shown, notice| shown + notice);
                let limit = active.limits.output;
                let allows = |warning: &str| exposition.allows_with(&shown, warning, limit, asked_budget);
                media.extend(errors.and_then(|errors| errors_block(&errors, allows)));
                media.extend(answer.cut.filter(|cut| allows(cut)).map(text_block));
            }
            let meta = answer.meta.take().filter(|_| enforcement == Enforcement::Advisory);
            let result = ToolResult { text, notice, media, structured, is_error: false, filter, meta };
            // Of the filter's memory, only its result is still in use.
            active.held.shrink_to(before);
            let written = match answer::measure(active, result, deadline).await {
                Ok(measured) => {
                    series.bytes(metrics, report.original_bytes, report.output_bytes);
                    if let Some(bundle) = &active.call.bundle {
                        bundle.totals.add(report.original_bytes, report.output_bytes);
                    }
                    match sample {
                        Some(sample) => gateway.sampler.count(sample),
                        None => series.add_saved_tokens(&sizes),
                    }
                    if let Some(tokens) = report.tokens {
                        series.tokens(metrics, tokens.counted.0);
                    }
                    if let Some(span) = &mut span {
                        span.sizes(report.original_bytes, report.output_bytes);
                    }
                    answer::write(active, measured, deadline).await
                }
                Err(not_run) => Err(not_run),
            };
            match written {
                Ok(answer) => {
                    active.outcome = Outcome::Ok;
                    active.failed_stage = failed_stage(&report);
                    Ok(answer)
                }
                Err(NotRun::Overdue) => {
                    active.outcome = Outcome::Timeout;
                    Ok(failure(
                        active,
                        format!("The call exceeded its timeout while its answer was written.{executed}"),
                    ))
                }
                Err(NotRun::Exhausted) => exhausted(active, declared, true),
            }
        }
        Applied::Done(Err(Refused { page: Some(error), .. })) => {
            active.outcome = Outcome::InvalidArguments;
            let InvalidArguments(message) = tool.reserved.no_page(error);
            Ok(failure(active, format!("Invalid arguments: {message}")))
        }
        Applied::Done(Err(Refused { stage, report, page: None })) => {
            debug_assert_eq!(report.error.as_ref().map(|e| e.stage), Some(stage));
            count(series, metrics, &report);
            active.outcome = Outcome::Refused;
            // The message names fields of the filter, never a value of the output.
            let reason = report.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
            tracing::warn!(exposition = %exposition.id, tool = name, stage = stage.as_str(), reason, "output withheld");
            if let Some(span) = &mut span {
                span.failed(stage.as_str());
            }
            Ok(failure(active, format!("The output was withheld: its filter could not be applied.{executed}")))
        }
        Applied::Overdue => {
            active.outcome = Outcome::Timeout;
            if let Some(span) = &mut span {
                span.failed("deadline");
            }
            Ok(failure(active, format!("The call exceeded its timeout while its output was filtered.{executed}")))
        }
        Applied::Exhausted => {
            if let Some(span) = &mut span {
                span.failed("exhausted");
            }
            exhausted(active, declared, true)
        }
        Applied::Panicked => {
            active.outcome = Outcome::Error;
            tracing::error!(exposition = %exposition.id, tool = name, "the filter panicked");
            Ok(failure(active, "The output was withheld: internal error."))
        }
    }
}

/// Returns the first stage that failed or warned.
fn failed_stage(report: &Report) -> Option<Stage> {
    let warned = report.error.iter().chain(&report.warnings).map(|warning| warning.stage).next();
    warned.or(report.compact_error.as_ref().map(|_| Stage::Compact))
}

fn count(series: &ToolSeries, metrics: &Metrics, report: &Report) {
    for warning in report.error.iter().chain(&report.warnings) {
        series.error(metrics, warning.stage);
    }
    if report.compact_error.is_some() {
        series.error(metrics, Stage::Compact);
    }
    series.missed(metrics, report.partial_miss.len() + report.unresolved.len());
}

/// Returns the JSON of `_pagination`, if the gateway fetched pages.
fn pagination(active: &ActiveCall<'_>, name: &str, declared: &ServiceTool, answer: &Answer) -> Option<String> {
    let report = answer.pagination.as_ref()?;
    let kind = declared.pagination.as_ref().map_or(PaginationKind::Cursor, |p| p.kind);
    let next = match &report.next {
        None => Next::End,
        Some(next) if sealed(active.exposition, declared) => active
            .gateway
            .keyring
            .seal(&scope(active, name), next)
            .map_or(Next::Unavailable, |t| Next::At(Cow::Owned(t))),
        Some(next) => Next::At(Cow::Borrowed(next)),
    };
    Some(paging::describe(report, kind, &next, active.exposition.enforcement))
}
