//! What the status of an object shall say. Pure: what is in the API, what the plan thinks, what gateways have loaded ->
//! the status to apply, or nothing where it says so already.
//!
//! The status is applied by server-side apply with `force`, under the operator's field manager: it names only fields and
//! conditions that are the operator's own, so that conditions of other types stay whoever wrote them, and a field that
//! is no longer named goes.
//!
//! What counts as `Unknown` and what as `False` is for the tools that wait: see
//! `docs/decisions/0007-unknown-while-pending.md`.

mod condition;
pub(crate) mod message;
mod saved;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tamis_config::{Condition, Reason};

pub(crate) use condition::{Seen, Truth};

use crate::acks::{Programmed, Totals};
use crate::object::Kind;
use crate::verdict::{Exposed, Finding, PlanCondition, Verdict};
use condition::Draft;

/// What a status is made of.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The object's kind.
    pub kind: Kind,
    /// `metadata.generation` of the object that the verdict is of.
    pub generation: i64,
    /// Its `.status` as it is in the API.
    pub previous: Option<&'a Value>,
    /// What the plan thinks of it.
    pub verdict: &'a Verdict,
    /// What gateways have loaded of it: `Table::programmed` of the verdict's documents.
    pub programmed: &'a Programmed,
    /// What an exposition has saved; none where no gateway has said anything since the operator started.
    pub saved: Option<Totals>,
    /// For transition times.
    pub now: Timestamp,
}

/// The whole status to apply, or none where nothing would change, or where what is missing is only that gateways load
/// what was written a moment ago: then one write will say that they have. (Till then `observedGeneration` is an
/// older one, which `kubectl wait` and kstatus read as "not ready yet".)
#[must_use]
pub fn desired(input: &StatusInput<'_>) -> Option<Value> {
    let accepted = finding_condition(input.verdict, PlanCondition::Accepted);
    let resolved = finding_condition(input.verdict, PlanCondition::ResolvedRefs);
    let fails = accepted.truth == Truth::False || resolved.truth == Truth::False;
    let waits = input.verdict.paused.is_some();
    if *input.programmed == Programmed::Settling && input.kind != Kind::GatewayGroup && !fails && !waits {
        return None;
    }
    let programmed = programmed(input);
    let ready = ready(input, &accepted, &resolved, programmed.as_ref());
    let drafts = [
        (Condition::Accepted, Some(accepted)),
        (Condition::ResolvedRefs, Some(resolved)),
        (Condition::Programmed, programmed),
        (Condition::Ready, Some(ready)),
    ];
    let conditions: Vec<Value> = drafts
        .into_iter()
        .filter_map(|(type_, draft)| {
            let before = Seen::find(input.previous, type_);
            Some(draft?.write(type_, input.generation, before, input.now))
        })
        .collect();
    let mut status = Map::new();
    status.insert("observedGeneration".to_owned(), json!(input.generation));
    fields(input, &mut status);
    status.insert("conditions".to_owned(), Value::Array(conditions));
    let status = Value::Object(status);
    (!says(input.previous, &status)).then_some(status)
}

/// The fields beside the conditions that an operator may write: those of another kind are never there.
const FIELDS: [&str; 10] = [
    "observedGeneration",
    "url",
    "tools",
    "unfiltered",
    "filters",
    "gatewayGroup",
    "saved",
    "attachedExpositions",
    "readyReplicas",
    "versions",
];

/// Whether a status says all that is to be said, and nothing else of ours.
pub(crate) fn says(previous: Option<&Value>, status: &Value) -> bool {
    let Some(previous) = previous else { return false };
    FIELDS.iter().all(|field| previous.get(field) == status.get(field))
        && Condition::ALL.into_iter().all(|type_| {
            Seen::find(Some(previous), type_).map(|seen| seen.0) == Seen::find(Some(status), type_).map(|seen| seen.0)
        })
}

/// The status as a merge patch: conditions of other types stay, fields that are not said any more go.
pub(crate) fn merging(previous: Option<&Value>, status: &Value) -> Value {
    let ours = |condition: &&Value| {
        let type_ = condition.get("type").and_then(Value::as_str);
        Condition::ALL.map(|condition| Some(condition.as_str())).contains(&type_)
    };
    let conditions = |status: Option<&Value>| status.and_then(|s| s.get("conditions")?.as_array().cloned());
    let before = conditions(previous).unwrap_or_default();
    let others = before.iter().filter(|condition| !ours(condition)).cloned();
    let mut patch = status.clone();
    patch["conditions"] = conditions(Some(status)).into_iter().flatten().chain(others).collect();
    for field in FIELDS {
        if status.get(field).is_none() {
            patch[field] = Value::Null;
        }
    }
    patch
}

fn fields(input: &StatusInput<'_>, status: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            status.insert(name.to_owned(), value);
        }
    };
    if let Some(exposed) = &input.verdict.exposed {
        put("url", exposed.url.as_ref().map(|url| json!(url)));
        put("tools", Some(json!(exposed.tools)));
        put("unfiltered", Some(json!(exposed.unfiltered)).filter(|_| exposed.unfiltered > 0));
        put("filters", filters(exposed));
        put("gatewayGroup", exposed.group.as_ref().map(|group| json!(group.to_string())));
        let shown = input.previous.and_then(|status| status.get("saved")?.as_str());
        put("saved", saved::text(shown, input.saved).map(Value::String));
    }
    if let Some(group) = &input.verdict.group {
        put("attachedExpositions", Some(json!(group.attached)));
        put("readyReplicas", Some(json!(group.ready_replicas)));
        put("versions", Some(json!(group.versions)).filter(|_| !group.versions.is_empty()));
        put("url", group.url.as_ref().map(|url| json!(url)));
    }
}

/// Filter sets by name: the API refuses a list that has one twice.
fn filters(exposed: &Exposed) -> Option<Value> {
    let mut list: Vec<Value> = Vec::new();
    for (index, (set, tools)) in exposed.filters.iter().enumerate() {
        if exposed.filters.iter().take(index).all(|(earlier, _)| earlier != set) {
            list.push(json!({"set": set, "tools": tools}));
        }
    }
    (!list.is_empty()).then_some(Value::Array(list))
}

fn errors(verdict: &Verdict, condition: PlanCondition) -> impl Iterator<Item = &Finding> {
    verdict.findings.iter().filter(move |finding| finding.is_error && finding.condition == condition)
}

/// A warning as a message has it.
pub(crate) fn warning(finding: &Finding) -> String {
    message::part(&format!("warning: {}", finding.message))
}

fn with_warnings<'a>(text: &str, findings: impl Iterator<Item = &'a Finding>) -> String {
    message::join(std::iter::once(text.to_owned()).chain(findings.filter(|finding| !finding.is_error).map(warning)))
}

/// `Accepted` and `ResolvedRefs`: what the plan found.
fn finding_condition(verdict: &Verdict, condition: PlanCondition) -> Draft {
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

/// `Programmed`; none for a group, which is not loaded but loads.
fn programmed(input: &StatusInput<'_>) -> Option<Draft> {
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
        // What an exposition uses may be loaded all the same, elsewhere or since before.
        let truth = if input.kind == Kind::Exposition { Truth::False } else { Truth::Unknown };
        return Some(Draft::new(truth, Reason::Paused, text));
    }
    if verdict.unwritten {
        return Some(Draft::new(Truth::False, Reason::Pending, "Gateways have not been told of it; Accepted says why"));
    }
    if input.kind == Kind::Exposition && verdict.documents.is_empty() {
        return Some(match verdict.findings.iter().find(|finding| finding.is_error) {
            Some(error) => Draft::new(Truth::False, error.reason, "No gateway is told of it; Ready says why"),
            None => Draft::new(Truth::Unknown, Reason::Pending, "No gateway has been told of it yet"),
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

/// Where no gateway is ready: an outage if one ever was, else the first ones are still starting. What is pending waits
/// for gateways that are ready, so that one was.
fn lost_or_awaited(before: Option<Seen<'_>>) -> Truth {
    match before.and_then(|before| Some((before.truth()?, before.reason()))) {
        None | Some((Truth::Unknown, Some(Reason::GatewayUnavailable))) => Truth::Unknown,
        Some(_) => Truth::False,
    }
}

/// Says how many tools are published unfiltered, if any are.
fn unfiltered(exposed: &Exposed) -> Option<String> {
    let Exposed { tools, unfiltered, .. } = exposed;
    let are = if *unfiltered == 1 { "is" } else { "are" };
    (*unfiltered > 0).then(|| format!("{unfiltered} of {tools} tools {are} published unfiltered"))
}

fn ready(input: &StatusInput<'_>, accepted: &Draft, resolved: &Draft, programmed: Option<&Draft>) -> Draft {
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
            "No gateway of the group is ready, or the operator can hear none; pods and log say why",
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
