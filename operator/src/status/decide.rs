//! Decides each condition: its truth, its reason and its message. Pure.

use tamis_config::{Condition, Reason};

use super::condition::{Draft, Seen, Truth};
use super::{StatusInput, message};
use crate::acks::Programmed;
use crate::object::Kind;
use crate::verdict::{Exposed, Finding, PlanCondition, Verdict};

fn errors(verdict: &Verdict, condition: PlanCondition) -> impl Iterator<Item = &Finding> {
    verdict.findings.iter().filter(move |finding| finding.is_error && finding.condition == condition)
}

/// Returns a warning as it appears in a message.
pub(crate) fn warning(finding: &Finding) -> String {
    message::part(&format!("warning: {}", finding.message))
}

fn with_warnings<'a>(text: &str, findings: impl Iterator<Item = &'a Finding>) -> String {
    message::join(std::iter::once(text.to_owned()).chain(findings.filter(|finding| !finding.is_error).map(warning)))
}

/// Decides `Accepted` or `ResolvedRefs` from the findings of the plan.
pub(super) fn planned(verdict: &Verdict, condition: PlanCondition) -> Draft {
    let of_it = || verdict.findings.iter().filter(|finding| finding.condition == condition);
    match errors(verdict, condition).next() {
        Some(first) => {
            let warnings = of_it().filter(|finding| !finding.is_error).map(warning);
            let messages = errors(verdict, condition).map(|finding| finding.message.clone()).chain(warnings);
            Draft::new(Truth::False, first.reason, message::join(messages))
        }
        None => {
            let text = match condition {
                PlanCondition::Accepted => "The resource is valid",
                PlanCondition::ResolvedRefs => "Everything that it names is there",
            };
            Draft::new(Truth::True, condition.met(), with_warnings(text, of_it()))
        }
    }
}

/// Decides `Programmed`. A GatewayGroup has none: its gateways load other objects.
pub(super) fn programmed(input: &StatusInput<'_>) -> Option<Draft> {
    let verdict = input.verdict;
    let before = Seen::find(input.previous, Condition::Programmed);
    if input.kind == Kind::GatewayGroup {
        return None;
    }
    if input.kind != Kind::Exposition
        && let Some(error) = errors(verdict, PlanCondition::Accepted).next()
    {
        return Some(Draft::new(Truth::False, error.reason, "No gateway loads this generation; Accepted says why"));
    }
    if let Some(text) = &verdict.paused {
        // Gateways may have loaded what a paused exposition uses: for another exposition, or before the pause.
        let truth = if input.kind == Kind::Exposition { Truth::False } else { Truth::Unknown };
        return Some(Draft::new(truth, Reason::Paused, text));
    }
    if verdict.unwritten {
        return Some(Draft::new(
            Truth::False,
            Reason::Pending,
            "No gateway has received this generation; Accepted says why",
        ));
    }
    if input.kind == Kind::Exposition && verdict.documents.is_empty() {
        return Some(match verdict.findings.iter().find(|finding| finding.is_error) {
            Some(error) => Draft::new(Truth::False, error.reason, "No gateway receives it; Ready says why"),
            None => Draft::new(Truth::Unknown, Reason::Pending, "No gateway has received it yet"),
        });
    }
    let stopped = verdict.exposed.as_ref().is_some_and(|exposed| exposed.stopped);
    Some(match input.programmed {
        Programmed::NotUsed => Draft::new(Truth::True, Reason::NotUsed, "No exposition uses it"),
        Programmed::Loaded if stopped => Draft::new(Truth::True, Reason::Stopped, "Every ready gateway answers 503"),
        Programmed::Loaded => Draft::new(Truth::True, Reason::Programmed, "Every ready gateway has loaded it"),
        Programmed::Settling => before
            .filter(|before| before.generation() == Some(input.generation))
            .and_then(Seen::again)
            .unwrap_or_else(|| Draft::new(Truth::Unknown, Reason::Pending, "Gateways are loading it")),
        Programmed::Pending { message } => Draft::new(Truth::Unknown, Reason::Pending, message),
        Programmed::Unavailable { message } => Draft::new(lost_or_awaited(before), Reason::GatewayUnavailable, message),
        Programmed::TooOld { message } => Draft::new(Truth::False, Reason::GatewayTooOld, message),
        Programmed::Refused { message } => Draft::new(Truth::False, Reason::GatewayRefused, message),
    })
}

/// Returns the truth of a condition while no gateway is ready: `Unknown` while the first gateways start, `False` in an
/// outage. Any other previous state means that a gateway has been ready: only ready gateways make a document pending.
fn lost_or_awaited(before: Option<Seen<'_>>) -> Truth {
    match before.and_then(|before| Some((before.truth()?, before.reason()))) {
        None | Some((Truth::Unknown, Some(Reason::GatewayUnavailable))) => Truth::Unknown,
        Some(_) => Truth::False,
    }
}

/// Returns how many tools are published unfiltered, if there are any.
fn unfiltered(exposed: &Exposed) -> Option<String> {
    let Exposed { tools, unfiltered, .. } = exposed;
    let are = if *unfiltered == 1 { "is" } else { "are" };
    (*unfiltered > 0 && !exposed.follows).then(|| format!("{unfiltered} of {tools} tools {are} published unfiltered"))
}

/// Decides `Ready` from the other conditions.
pub(super) fn ready(input: &StatusInput<'_>, accepted: &Draft, resolved: &Draft, programmed: Option<&Draft>) -> Draft {
    let exposed = input.verdict.exposed.as_ref();
    let failing = [Some(accepted), Some(resolved), programmed]
        .into_iter()
        .flatten()
        .find(|draft| draft.truth == Truth::False)
        .cloned();
    let reached = programmed.is_none_or(|draft| draft.truth != Truth::False);
    if let Some(text) = exposed.and_then(|exposed| exposed.serving_previous.as_deref())
        && reached
    {
        let causes = [PlanCondition::Accepted, PlanCondition::ResolvedRefs]
            .into_iter()
            .flat_map(|condition| errors(input.verdict, condition))
            .map(|finding| finding.message.as_str())
            .filter(|message| !text.contains(message));
        return Draft::new(Truth::False, Reason::ServingPrevious, message::join(std::iter::once(text).chain(causes)));
    }
    if let Some(failing) = failing {
        return failing;
    }
    if input.kind == Kind::GatewayGroup
        && let Some(text) = &input.verdict.paused
    {
        return Draft::new(Truth::False, Reason::Paused, text);
    }
    if exposed.is_some_and(|exposed| exposed.stopped) {
        return Draft::new(Truth::False, Reason::Stopped, "It is not served");
    }
    if let Some(group) = &input.verdict.group
        && group.ready_replicas == 0
    {
        let truth = lost_or_awaited(Seen::find(input.previous, Condition::Ready));
        return Draft::new(
            truth,
            Reason::GatewayUnavailable,
            "No gateway of the group is ready, or the operator can reach none; the pods and the operator's log say why",
        );
    }
    match programmed {
        Some(draft) if draft.truth == Truth::Unknown => draft.clone(),
        Some(draft) => {
            let text = match exposed.and_then(unfiltered) {
                Some(unfiltered) => format!("{}; {unfiltered}", draft.message),
                None => draft.message.clone(),
            };
            Draft::new(Truth::True, Reason::Ready, with_warnings(&text, input.verdict.findings.iter()))
        }
        None => {
            Draft::new(Truth::True, Reason::Ready, with_warnings("Gateways are ready", input.verdict.findings.iter()))
        }
    }
}
