//! Paused expositions: additions wait, removals do not.

use std::collections::BTreeSet;
use std::sync::Arc;

use tamis_config::{
    Access, BundleDocument, BundlePart, CallLimits, ExpositionDocument, ExpositionId, NamePatterns, PublishedContent,
    Snapshot,
};
use tamis_engine::ReservedInput;

use super::expose::{Previous, Stop};
use super::{Compilation, CompileEnv, access, credentials, egress, stale};
use crate::origin::FieldPath;
use crate::resources::{ObjectName, Resources};

/// What a pause withholds from an exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// Nothing: the exposition matches its documents.
    Nothing,
    /// Changes, while an older version is served.
    Changes,
    /// Everything: the exposition is not published until the pause ends.
    Everything,
}

/// Withholds additions from the paused expositions, after a compile with `previous`.
///
/// Removals are not withheld, because a pause must not delay a revocation: an exposition that stops is stopped; access and
/// credentials are current, unless access would open to everyone; a tool that is no longer published is removed; a lower limit
/// applies, a tool without a filter gets one, and enforcement rises. Everything else (the service, filters, new tools) stays as
/// it was. Which of two filters passes less cannot be decided, so a changed filter waits.
///
/// How tokens are counted follows the next version, as the limits do: a new limit in tokens is a number of its own tokenizer.
/// A reserved input that callers did not have waits, and one that they lose is lost at once.
///
/// A bundle keeps the parts that both versions name, under the prefixes of the served one.
pub fn pause(
    compilation: &mut Compilation,
    resources: &Resources,
    env: &CompileEnv<'_>,
    paused: &BTreeSet<ExpositionId>,
) {
    for id in paused {
        let kept = hold_back(compilation, resources, env, id);
        compilation.paused.insert(id.clone(), kept);
    }
}

fn hold_back(compilation: &mut Compilation, resources: &Resources, env: &CompileEnv<'_>, id: &ExpositionId) -> Paused {
    if let Some(next) = compilation.snapshot.bundles.get(id).cloned() {
        return hold_back_bundle(compilation, &next, env);
    }
    let stopped_before = env.previous.and_then(|previous| previous.stopped.get(id));
    let Some(next) = compilation.snapshot.expositions.get(id).cloned() else {
        let is_new = Previous::of(env, id).is_none() && stopped_before.is_none();
        // A stop applies. An exposition that was never served is withheld entirely.
        return if is_new && compilation.snapshot.stopped.contains_key(id) {
            Paused::Everything
        } else {
            Paused::Nothing
        };
    };
    let Some(previous) = Previous::of(env, id) else {
        compilation.snapshot.expositions.remove(id);
        if let Some(stopped) = stopped_before {
            compilation.snapshot.stopped.insert(id.clone(), stopped.clone());
        }
        return Paused::Everything;
    };
    let group = compilation.placements.get(id);
    match kept(&previous, &next, resources, env, group) {
        Ok(kept) if kept == *next => Paused::Nothing,
        Ok(kept) => {
            let services = &mut compilation.snapshot.services;
            services.entry(kept.service.clone()).or_insert_with(|| Arc::clone(previous.service));
            compilation.snapshot.expositions.insert(id.clone(), Arc::new(kept));
            Paused::Changes
        }
        // The served version is no longer permitted.
        Err(stop) => {
            compilation.snapshot.expositions.remove(id);
            compilation.snapshot.stopped.insert(id.clone(), stop.stopped());
            Paused::Changes
        }
    }
}

fn hold_back_bundle(compilation: &mut Compilation, next: &BundleDocument, env: &CompileEnv<'_>) -> Paused {
    let Snapshot { bundles, stopped, .. } = &mut compilation.snapshot;
    let Some(before) = env.previous.and_then(|previous| previous.bundles.get(&next.id)) else {
        bundles.remove(&next.id);
        if let Some(stop) = env.previous.and_then(|previous| previous.stopped.get(&next.id)) {
            stopped.insert(next.id.clone(), stop.clone());
        }
        return Paused::Everything;
    };
    let is_named = |part: &BundlePart| next.parts.iter().any(|named| named.name == part.name);
    let kept = BundleDocument {
        parts: before.parts.iter().filter(|part| is_named(part)).cloned().collect(),
        access: if next.access == Some(Access::Anonymous) { before.access.clone() } else { next.access.clone() },
        limits: before.limits.tightest(&next.limits),
        ..next.clone()
    };
    match stale::refreshed_bundle(&kept, env) {
        Ok(kept) if kept == *next => Paused::Nothing,
        Ok(kept) => {
            bundles.insert(next.id.clone(), Arc::new(kept));
            Paused::Changes
        }
        Err(stop) => {
            bundles.remove(&next.id);
            stopped.insert(next.id.clone(), stop.stopped());
            Paused::Changes
        }
    }
}

/// Returns the document to serve while `next` is withheld.
fn kept(
    previous: &Previous<'_>,
    next: &ExpositionDocument,
    resources: &Resources,
    env: &CompileEnv<'_>,
    group: Option<&ObjectName>,
) -> Result<ExpositionDocument, Stop> {
    let before = previous.document;
    let rises = next.enforcement > before.enforcement;
    let mut kept = if rises { tightened(before, next) } else { older(previous, next, resources) };
    kept.access.clone_from(if next.access == Some(Access::Anonymous) { &before.access } else { &next.access });
    kept.limits = lower(&before.limits, &next.limits);
    kept.tokens = next.tokens;
    kept.inputs = fewer(before.inputs.as_deref(), next.inputs.as_deref());
    let namespace = &next.id.namespace;
    if let Some(cluster) = &env.cluster {
        if let Some((secret, handle)) = kept.access.as_mut().and_then(Access::secret_mut) {
            *handle = Some(access::callers(cluster, namespace, secret, FieldPath::spec(["access"]))?);
        }
        if !rises {
            let path = FieldPath::spec(["service"]);
            let group = group.and_then(|name| resources.groups.iter().find(|group| group.name == *name));
            if let Some(group) = group {
                egress::check(previous.service, namespace, group, &path)?;
            }
            kept.credentials = credentials::resolve(cluster, namespace, previous.service, kept.callables(), &path)?;
        }
    }
    Ok(kept.at_lowest_version())
}

/// Returns `next` without its new tools: enforcement rises, and older filters may not be valid under it.
fn tightened(before: &ExpositionDocument, next: &ExpositionDocument) -> ExpositionDocument {
    let mut kept = next.clone();
    kept.tools.retain(|tool, _| before.may_publish(tool));
    kept.content.retain_common(&before.content);
    kept
}

/// Returns the served document without removed tools, and with filters for tools that had none.
fn older(previous: &Previous<'_>, next: &ExpositionDocument, resources: &Resources) -> ExpositionDocument {
    let mut kept = ExpositionDocument::clone(previous.document);
    // Tools of another service are unrelated to those of this one.
    let same = is_named(resources, next, &previous.service.name);
    if let Some(follow) = &kept.follow {
        let next = match &next.follow {
            Some(next) if same => next.clone(),
            Some(_) | None => NamePatterns {
                include: Some(next.tools.keys().filter(|_| same).cloned().collect()),
                exclude: Vec::new(),
            },
        };
        kept.follow = Some(follow.narrowed(&next));
    } else {
        kept.tools.retain(|tool, _| same && next.may_publish(tool));
    }
    if kept.follow.is_some() {
        // Its entries are filters, which stay, and new ones protect tools that had none.
        for (tool, now) in next.tools.iter().filter(|(_, now)| now.filter.is_some()) {
            kept.tools.entry(tool.clone()).or_insert_with(|| now.clone());
        }
    }
    let content = if same { next.content.clone() } else { PublishedContent::default() };
    kept.content.retain_common(&content);
    for (tool, now) in kept.tools.iter_mut().filter_map(|(name, tool)| Some((tool, next.tools.get(name)?))) {
        if tool.filter.is_none() && now.filter.is_some() {
            tool.clone_from(now);
        }
    }
    kept
}

/// Returns whether an exposition still publishes a service of this name, in any version.
fn is_named(resources: &Resources, next: &ExpositionDocument, name: &str) -> bool {
    let exposition = resources
        .expositions
        .iter()
        .find(|resource| resource.name.namespace == next.id.namespace && resource.name.name == next.id.name);
    exposition.is_some_and(|exposition| exposition.spec.of_service().is_some_and(|service| service.name == name))
}

/// Returns the stricter of both, limit by limit.
fn lower(a: &CallLimits, b: &CallLimits) -> CallLimits {
    let least = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
    CallLimits {
        requests_per_second: least(a.requests_per_second, b.requests_per_second),
        burst: least(a.burst, b.burst),
        concurrent: least(a.concurrent, b.concurrent),
        timeout_ms: a.timeout_ms.min(b.timeout_ms),
        max_response_bytes: a.max_response_bytes.min(b.max_response_bytes),
        output: a.output.tightest(b.output),
    }
}

/// Returns the reserved inputs of both. Without a list, each tool has its own inputs, `_output_mode` among them. No other
/// input shows more of an output, so the list of the other version is then no addition.
fn fewer(a: Option<&[ReservedInput]>, b: Option<&[ReservedInput]>) -> Option<Vec<ReservedInput>> {
    match (a, b) {
        (None, list) | (list, None) => list.map(<[_]>::to_vec),
        (Some(a), Some(b)) => Some(a.iter().copied().filter(|input| b.contains(input)).collect()),
    }
}
