//! Decides the status of an object. Pure: from the status in the API, the verdict of the plan and the reports of
//! gateways, to the status to apply.
//!
//! The operator applies it by server-side apply with `force`, under its own field manager. The status holds the
//! operator's fields and conditions only: conditions of other types stay, and a field that the operator no longer sets
//! is removed.
//!
//! Which states are `Unknown` and which `False` matters to tools that wait: see
//! `docs/decisions/0007-unknown-while-pending.md`.

mod condition;
mod decide;
pub(crate) mod message;
mod saved;
#[cfg(test)]
mod tests;
mod upstream;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tamis_config::Condition;
use tamis_config::acks::UpstreamReport;
use tamis_crds::resources::{
    ExpositionStatus, FilterSetStatus, GatewayGroupStatus, ResourceStatus, StatusCondition, status_fields,
};

pub(crate) use condition::{Seen, Truth};
pub(crate) use decide::warning;

use crate::acks::{Programmed, Totals};
use crate::object::Kind;
use crate::verdict::{Exposed, GroupFacts, PlanCondition, Verdict};

/// What a status depends on.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The object's kind.
    pub kind: Kind,
    /// The object's `metadata.generation` that the verdict is about.
    pub generation: i64,
    /// The object's `.status` in the API.
    pub previous: Option<&'a Value>,
    /// The verdict of the plan.
    pub verdict: &'a Verdict,
    /// What gateways have loaded of the verdict's documents: the result of `Table::programmed`.
    pub programmed: &'a Programmed,
    /// The totals of an exposition. `None` if no gateway has reported any since the operator started.
    pub saved: Option<Totals>,
    /// The worst that gateways have seen of an exposition's MCP server. `None` if none has reported on it.
    pub upstream: Option<&'a UpstreamReport>,
    /// The time of transitions.
    pub now: Timestamp,
}

/// Returns the whole status to apply, or `None` if nothing would change.
///
/// Returns `None` too while all that is missing is that gateways load what was written a moment ago: one write then
/// reports that they have. Until then `observedGeneration` is older than the object, which `kubectl wait` and kstatus
/// read as "not ready yet".
#[must_use]
pub fn desired(input: &StatusInput<'_>) -> Option<Value> {
    let accepted = decide::planned(input.verdict, PlanCondition::Accepted);
    let resolved = decide::planned(input.verdict, PlanCondition::ResolvedRefs);
    let fails = accepted.truth == Truth::False || resolved.truth == Truth::False;
    let waits = input.verdict.paused.is_some();
    if *input.programmed == Programmed::Settling && input.kind != Kind::GatewayGroup && !fails && !waits {
        return None;
    }
    let programmed = decide::programmed(input);
    let ready = decide::ready(input, &accepted, &resolved, programmed.as_ref());
    let upstream = upstream::condition(input);
    let draft = |condition: Condition| match condition {
        Condition::Accepted => Some(&accepted),
        Condition::ResolvedRefs => Some(&resolved),
        Condition::Programmed => programmed.as_ref(),
        Condition::Ready => Some(&ready),
        Condition::Upstream => upstream.as_ref(),
    };
    let conditions = Condition::ALL.into_iter().filter_map(|condition| {
        let before = Seen::find(input.previous, condition);
        Some(draft(condition)?.dated(condition, input.generation, before, input.now))
    });
    let status = status(input, conditions.collect());
    (!says(input.previous, &status)).then_some(status)
}

/// Builds the status of the object's kind.
fn status(input: &StatusInput<'_>, conditions: Vec<StatusCondition>) -> Value {
    let observed_generation = Some(input.generation);
    match input.kind {
        Kind::Exposition => json(&exposition(input, observed_generation, conditions)),
        Kind::GatewayGroup => json(&group(input.verdict.group.as_ref(), observed_generation, conditions)),
        Kind::ServiceManifest
        | Kind::ToolsFilters
        | Kind::CustomTools
        | Kind::Prompts
        | Kind::Resources
        | Kind::ConfigurationPlan => json(&ResourceStatus { observed_generation, conditions }),
    }
}

fn json(status: &impl Serialize) -> Value {
    serde_json::to_value(status).expect("a status is JSON")
}

fn exposition(
    input: &StatusInput<'_>,
    observed_generation: Option<i64>,
    conditions: Vec<StatusCondition>,
) -> ExpositionStatus {
    let Some(exposed) = &input.verdict.exposed else {
        return ExpositionStatus { observed_generation, conditions, ..ExpositionStatus::default() };
    };
    let Exposed { group, url, upstream, tools, unfiltered, follows: _, filters, serving_previous: _, stopped: _ } =
        exposed;
    let shown = input.previous.and_then(|status| status.get("saved")?.as_str());
    let followed = upstream::followed(input, exposed);
    ExpositionStatus {
        observed_generation,
        url: url.clone(),
        upstream: upstream.as_ref().map(upstream::status),
        tools: followed.as_ref().map_or(Some(count(*tools)), |(tools, _)| *tools),
        unfiltered: followed.map_or(Some(count(*unfiltered)), |(_, bare)| bare).filter(|unfiltered| *unfiltered > 0),
        filters: filter_sets(filters),
        gateway_group: group.as_ref().map(ToString::to_string),
        saved: saved::text(shown, input.saved),
        conditions,
    }
}

fn group(
    facts: Option<&GroupFacts>,
    observed_generation: Option<i64>,
    conditions: Vec<StatusCondition>,
) -> GatewayGroupStatus {
    let Some(GroupFacts { attached, ready_replicas, versions, url }) = facts else {
        return GatewayGroupStatus { observed_generation, conditions, ..GatewayGroupStatus::default() };
    };
    GatewayGroupStatus {
        observed_generation,
        attached_expositions: Some(count(*attached)),
        ready_replicas: Some(count(*ready_replicas)),
        versions: versions.clone(),
        url: url.clone(),
        conditions,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns each filter set once: the API refuses a list that names one twice.
fn filter_sets(sets: &[(String, usize)]) -> Vec<FilterSetStatus> {
    let mut list: Vec<FilterSetStatus> = Vec::new();
    for (set, tools) in sets {
        if list.iter().all(|earlier| earlier.set != *set) {
            list.push(FilterSetStatus { set: set.clone(), tools: count(*tools) });
        }
    }
    list
}

/// The fields that the operator owns in the status of any kind, `conditions` apart: there it owns the conditions of its
/// own types only.
static FIELDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let all =
        [status_fields::<ExpositionStatus>(), status_fields::<GatewayGroupStatus>(), status_fields::<ResourceStatus>()];
    all.into_iter().flatten().filter(|field| field != CONDITIONS).collect()
});

const CONDITIONS: &str = "conditions";

/// Returns whether the fields and conditions that the operator owns are the same in both statuses.
pub(crate) fn says(previous: Option<&Value>, status: &Value) -> bool {
    let Some(previous) = previous else { return false };
    FIELDS.iter().all(|field| previous.get(field) == status.get(field))
        && Condition::ALL.into_iter().all(|condition| {
            let found = |status| Seen::find(Some(status), condition).map(|seen| seen.0);
            found(previous) == found(status)
        })
}

/// Returns the status as a merge patch: it keeps conditions of other types, and removes the operator's fields that the
/// status does not set.
pub(crate) fn merging(previous: Option<&Value>, status: &Value) -> Value {
    let conditions = |status: Option<&Value>| status.and_then(|s| s.get(CONDITIONS)?.as_array().cloned());
    let is_own = |condition: &Value| {
        let type_ = condition.get("type").and_then(Value::as_str);
        Condition::ALL.into_iter().any(|own| type_ == Some(own.as_str()))
    };
    let others = conditions(previous).unwrap_or_default().into_iter().filter(|condition| !is_own(condition));
    let mut patch = status.clone();
    patch[CONDITIONS] = conditions(Some(status)).into_iter().flatten().chain(others).collect();
    for field in FIELDS.iter().filter(|field| status.get(field).is_none()) {
        patch[field] = Value::Null;
    }
    patch
}
