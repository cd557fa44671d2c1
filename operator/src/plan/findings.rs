//! Turns the result of a compilation into the verdict on each object.

use std::collections::{BTreeMap, BTreeSet};

use tamis_config::carrier::decode_exposition;
use tamis_config::{
    Condition, ExpositionDocument, ExpositionPayload, GrpcSource, HttpSource, McpSource, Reason, Source, Stopped,
};
use tamis_crds::{Compilation, Degraded, Diagnostic, ObjectName};

use super::{Own, Plan, Planned, Settings, id, owns_status_of, url};
use crate::cluster_state::{ClusterState, Members, Object};
use crate::object::{Kind, ObjectKey};
use crate::verdict::{Exposed, Finding, PlanCondition, RequiredDocument, UpstreamAddress, Verdict};

type Diagnostics<'c> = BTreeMap<&'c str, Vec<&'c Diagnostic>>;

/// Returns the diagnostics by the object that they concern.
fn by_object(compilation: &Compilation) -> Diagnostics<'_> {
    let mut said = Diagnostics::new();
    for diagnostic in &compilation.diagnostics {
        said.entry(&diagnostic.file).or_default().push(diagnostic);
    }
    said
}

fn verdict(object: &Object, said: &Diagnostics<'_>) -> Verdict {
    let compiled = said.get(object.key.to_string().as_str()).map_or(&[][..], Vec::as_slice);
    Verdict { findings: findings(&object.diagnostics, compiled), ..Verdict::default() }
}

/// Fills in the verdicts on a service's own objects. The write decides whether this operator reports them: that depends
/// on the expositions of the service, which may change before it.
pub(super) fn judge_own(
    world: &ClusterState,
    members: &Members,
    sets: &BTreeSet<ObjectName>,
    compilation: &Compilation,
    own: &mut Own,
) {
    let said = by_object(compilation);
    for (kind, names) in members.whole().into_iter().chain([(Kind::ToolsFilters, sets)]) {
        for object in names.iter().filter_map(|name| world.get(kind, name)) {
            own.verdicts.insert(object.key.clone(), verdict(object, &said));
        }
    }
}

/// Fills in the verdicts on the chosen expositions, and the findings that compiling them caused about other objects.
pub(super) fn judge(
    world: &ClusterState,
    settings: &Settings,
    chosen: &BTreeSet<ObjectName>,
    compilation: &Compilation,
    plan: &mut Plan,
) {
    let said = by_object(compilation);
    let about = |kind: Kind, resource: &str| {
        let (namespace, name) = resource.strip_prefix(kind.as_str())?.strip_prefix(' ')?.split_once('/')?;
        let name = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
        Some(ObjectKey { kind, name })
    };
    for (file, diagnostics) in &said {
        let own = [Kind::ServiceManifest, Kind::ToolsFilters, Kind::CustomTools, Kind::Prompts, Kind::Resources];
        if let Some(key) = own.into_iter().find_map(|kind| about(kind, file)) {
            plan.said.insert(key, findings(&[], diagnostics));
        }
    }
    for name in chosen {
        let Some(object) = world.get(Kind::Exposition, name) else { continue };
        if compilation.foreign.contains(&id(name)) {
            continue;
        }
        if let Some(exposition) = object.resources.expositions.first()
            && let Some(named) = &exposition.spec.configuration_plan
        {
            let name = ObjectName { namespace: name.namespace.clone(), name: named.name.clone() };
            if let Some(object) = world.get(Kind::ConfigurationPlan, &name)
                && owns_status_of(world, settings, object)
            {
                plan.verdicts.insert(object.key.clone(), verdict(object, &said));
            }
        }
        let mut verdict = verdict(object, &said);
        exposed(world, name, compilation, plan, &mut verdict);
        plan.verdicts.insert(object.key.clone(), verdict);
    }
}

/// Joins the findings about the shape of an object with those of the compilation.
pub(crate) fn findings(shape: &[Diagnostic], compiled: &[&Diagnostic]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = shape.iter().chain(compiled.iter().copied()).map(finding).collect();
    findings.sort();
    findings.dedup();
    // Errors first.
    findings.sort_by_key(|finding| !finding.is_error);
    findings
}

/// Joins an object's own findings with those that its users caused.
pub(crate) fn merged(own: &[Finding], said: &BTreeSet<&Finding>) -> Vec<Finding> {
    let all: BTreeSet<&Finding> = own.iter().chain(said.iter().copied()).collect();
    let mut findings: Vec<Finding> = all.into_iter().cloned().collect();
    findings.sort_by_key(|finding| !finding.is_error);
    findings
}

fn finding(diagnostic: &Diagnostic) -> Finding {
    let (reason, message) = (diagnostic.reason, diagnostic.statement());
    if diagnostic.is_error() { Finding::error(reason, message) } else { Finding::warning(reason, message) }
}

fn exposed(world: &ClusterState, name: &ObjectName, compilation: &Compilation, plan: &mut Plan, verdict: &mut Verdict) {
    let exposition = id(name);
    let mut exposed = Exposed { group: compilation.placements.get(&exposition).cloned(), ..Exposed::default() };
    if let Some(Planned::Document(document)) = plan.expositions.get(name) {
        verdict.documents.push(RequiredDocument {
            group: document.group.clone(),
            id: exposition.clone(),
            digest: document.spec.digest.clone(),
        });
        let payload = decode_exposition(&document.spec);
        if let Ok(ExpositionPayload::Bundle(_)) = &payload {
            let bundled = compilation.bundled.get(&exposition).cloned().unwrap_or_default();
            (exposed.tools, exposed.unfiltered) = (bundled.tools, bundled.unfiltered);
        } else if let Ok(ExpositionPayload::Serve(served)) = payload {
            exposed.tools = served.tools.len();
            exposed.unfiltered = served.unfiltered();
            exposed.follows = served.follow.is_some();
            exposed.upstream = upstream(world, name, &served, compilation);
            let mut sets: Vec<(String, usize)> = Vec::new();
            for set in served.tools.values().filter_map(|tool| tool.filter_set.as_deref()) {
                match sets.iter_mut().find(|(known, _)| known == set) {
                    Some((_, tools)) => *tools += 1,
                    None => sets.push((set.to_owned(), 1)),
                }
            }
            plan.sets.insert(name.clone(), sets.clone());
            exposed.filters = sets.into_iter().map(|(set, tools)| (shown(world, &set), tools)).collect();
        } else {
            exposed.stopped = true;
        }
    } else {
        exposed.stopped = true;
    }
    if let Some(group) = &exposed.group
        && let Some(object) = world.get(Kind::GatewayGroup, group)
        && let Some(resource) = object.resources.groups.first()
    {
        exposed.url = Some(url(group, &resource.spec, Some(name)));
    }
    if let Some(degraded) = compilation.degraded.get(&exposition) {
        exposed.serving_previous = previous(degraded);
        let is_error = exposed.serving_previous.is_none();
        verdict.findings.push(Finding { is_error, ..Finding::error(Reason::InvalidFilter, describe(degraded)) });
    }
    if let Some(group) = compilation.held.get(&exposition) {
        exposed.stopped = false;
        // The exposition itself is valid: what it refers to is not.
        let message = format!("GatewayGroup {group} cannot be read, so the exposition stays as it is; fix the group");
        verdict.findings.push(Finding::error(Reason::InvalidManifest, message).under(PlanCondition::ResolvedRefs));
    }
    let stopped = compilation.snapshot.stopped.get(&exposition);
    verdict.waits |= stopped.is_some_and(|stopped| stopped.reason == Reason::Pending);
    if let Some(stopped) = stopped
        && !verdict.findings.iter().any(|finding| finding.is_error)
    {
        verdict.findings.push(of_stop(stopped));
    }
    verdict.exposed = Some(exposed);
}

/// Returns where the calls of a served exposition go.
fn upstream(
    world: &ClusterState,
    name: &ObjectName,
    served: &ExpositionDocument,
    compilation: &Compilation,
) -> Option<UpstreamAddress> {
    let (url, is_watched) = match &compilation.snapshot.services.get(&served.service)?.source {
        Source::Http(HttpSource { base_url, auth: _ }) => (base_url, false),
        Source::Mcp(McpSource { url, .. }) => (url, true),
        Source::Grpc(GrpcSource { endpoint, .. }) => (endpoint, false),
        // Not served in a cluster.
        Source::Program(_) | Source::Command(_) => return None,
    };
    let exposition = world.get(Kind::Exposition, name)?.resources.expositions.first();
    let plan = exposition.and_then(|exposition| exposition.spec.configuration_plan.as_ref()).and_then(|named| {
        let plan = ObjectName { namespace: name.namespace.clone(), name: named.name.clone() };
        let plan = world.get(Kind::ConfigurationPlan, &plan)?.resources.plans.first()?;
        plan.spec.endpoint.is_some().then(|| named.name.clone())
    });
    Some(UpstreamAddress { url: url.clone(), plan, is_watched })
}

/// The finding for a stopped exposition that no diagnostic explains. A document of a newer operator may state a reason
/// that is not known here ([`Reason::Stopped`]): until the exposition is compiled again, it is pending.
fn of_stop(stopped: &Stopped) -> Finding {
    let reason = match stopped.reason.condition() {
        Condition::Accepted | Condition::ResolvedRefs => stopped.reason,
        Condition::Programmed | Condition::Ready | Condition::Upstream => Reason::Pending,
    };
    Finding::error(reason, stopped.message.clone())
}

/// Returns why the last good version is served, if it is.
fn previous(degraded: &[Degraded]) -> Option<String> {
    let older = |d: &&Degraded| !matches!(d, Degraded::Unpublished(_));
    degraded.iter().any(|d| older(&d)).then(|| describe(degraded))
}

fn describe(degraded: &[Degraded]) -> String {
    degraded.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns the name by which an exposition refers to a set: `spec.name`, or the resource's name for a default set.
fn shown(world: &ClusterState, set: &str) -> String {
    let Some((namespace, name)) = set.split_once('/') else { return set.to_owned() };
    let key = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
    let object = world.get(Kind::ToolsFilters, &key);
    let named = object.and_then(|object| object.resources.filters.first()?.spec.name.clone());
    named.unwrap_or_else(|| name.to_owned())
}

/// Returns the keys of the objects that an exposition uses.
pub(crate) fn uses(world: &ClusterState, exposition: &ObjectName, sets: &[(String, usize)]) -> BTreeSet<ObjectKey> {
    let mut keys = BTreeSet::new();
    let Some(object) = world.get(Kind::Exposition, exposition) else { return keys };
    for (set, _) in sets {
        if let Some((namespace, name)) = set.split_once('/') {
            let name = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
            keys.insert(ObjectKey { kind: Kind::ToolsFilters, name });
        }
    }
    for members in object.services().iter().filter_map(|service| world.members(service)) {
        for (kind, names) in members.whole() {
            keys.extend(names.iter().map(|name| ObjectKey { kind, name: name.clone() }));
        }
    }
    if let Some(plan) = object.resources.expositions.first().and_then(|e| e.spec.configuration_plan.as_ref()) {
        let name = ObjectName { namespace: exposition.namespace.clone(), name: plan.name.clone() };
        keys.insert(ObjectKey { kind: Kind::ConfigurationPlan, name });
    }
    keys
}
