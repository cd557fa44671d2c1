//! Compiles bundles: expositions that publish the tools of others. A bundle's document names its parts only, so nothing but
//! the findings and the number of tools depends on them, and no fault of a part stops its bundle.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tamis_config::bundle::{self, LeftOut, MAX_TOOL_NAME, MAX_TOOLS};
use tamis_config::{BundleDocument, BundleLimits, BundlePart, ExpositionId, OutputLimits, Reason, Snapshot};

use super::expose::{Context, Placed, Stop, id_of, is_taken, list_ttl_ms, place, stopped};
use super::groups::Groups;
use super::{Compilation, Degraded, access};
use crate::cluster::{PartState, PartTools};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{BundlePartSpec, ExpositionSpec, LimitsSpec, OutputLimitsSpec, Published, Quantity};
use crate::sink::DiagnosticSink;
use crate::{ObjectName, Resource};

/// What a bundle publishes of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundled {
    /// The number of tools.
    pub tools: usize,
    /// How many of them are unfiltered.
    pub unfiltered: usize,
    /// Parts whose state is not known yet.
    pub pending: Vec<String>,
}

/// A tool that a bundle does not publish: the position of its part, its name there, and why.
type Missed<'p> = (usize, &'p str, LeftOut);

impl Bundled {
    /// Returns what a bundle publishes, where all its parts are in the same snapshot.
    #[must_use]
    pub fn of(document: &BundleDocument, snapshot: &Snapshot) -> Self {
        let served =
            |part: &BundlePart| snapshot.expositions.get(&document.id_of(part)).map(|served| PartTools::of(served));
        let tools: Vec<_> = document.parts.iter().map(served).collect();
        let parts: Vec<_> =
            document.parts.iter().zip(&tools).map(|(part, tools)| (part.prefix.as_str(), tools.as_ref())).collect();
        merge(&parts).0
    }
}

/// Merges the tools of parts, each with its prefix and, if it is served, its tools. Also returns the tools that are left
/// out.
fn merge<'p>(parts: &[(&'p str, Option<&'p PartTools>)]) -> (Bundled, Vec<Missed<'p>>) {
    let prefixes = parts.iter().map(|(prefix, _)| *prefix);
    let rooms = bundle::rooms(parts.iter().map(|(_, tools)| tools.map_or(0, |tools| tools.tools.len())));
    let has = |part: usize, tool: &str| {
        parts[part].1.and_then(|tools| tools.tools.get_index_of(tool)).is_some_and(|number| number < rooms[part])
    };
    let (mut bundled, mut missed) = (Bundled::default(), Vec::new());
    for (part, (_, tools)) in parts.iter().enumerate() {
        for (number, (name, is_unfiltered)) in tools.iter().flat_map(|tools| &tools.tools).enumerate() {
            let named = if number < rooms[part] {
                bundle::name_of(prefixes.clone(), part, name, has)
            } else {
                Err(LeftOut::TooMany)
            };
            match named {
                Ok(_) => {
                    bundled.tools += 1;
                    bundled.unfiltered += usize::from(*is_unfiltered);
                }
                Err(why) => missed.push((part, name.as_str(), why)),
            }
        }
    }
    (bundled, missed)
}

/// Compiles every bundle into the compilation's snapshot. Called after all other expositions.
pub(super) fn all<'r>(
    expositions: &'r [Arc<Resource<ExpositionSpec>>],
    context: &Context<'_, 'r>,
    compilation: &mut Compilation,
) {
    for resource in expositions {
        let Published::Bundle(parts) = resource.spec.published() else { continue };
        let id = id_of(&resource.name);
        if is_taken(compilation, &id) {
            continue;
        }
        let previous = context.env.previous.and_then(|previous| previous.bundles.get(&id));
        let Some(Placed { group, floor }) = place(resource, context, previous, compilation) else { continue };
        let document = match floor {
            // The requirements of the group are unknown, but the served version met them.
            Some(served) => {
                compilation.degraded.insert(id.clone(), vec![Degraded::PreviousExposition]);
                Arc::clone(served)
            }
            None => match document(&id, resource, parts, context, group) {
                Ok(document) => Arc::new(document),
                Err(stop) => {
                    stopped(compilation, context, resource, id, stop);
                    continue;
                }
            },
        };
        let bundled = judge(resource, parts, expositions, context, compilation);
        compilation.bundled.insert(id.clone(), bundled);
        compilation.snapshot.bundles.insert(id, document);
    }
}

fn document<'r>(
    id: &ExpositionId,
    resource: &'r Resource<ExpositionSpec>,
    parts: &[BundlePartSpec],
    context: &Context<'_, 'r>,
    group: super::expose::Group<'r>,
) -> Result<BundleDocument, Stop> {
    let access = access::access(resource, context.env)?;
    let limits = limits(resource.spec.limits.as_ref());
    Groups::access_floor(group, access.as_ref())?;
    Groups::bundle_ceilings(group, &resource.spec, &limits)?;
    let part = |part: &BundlePartSpec| BundlePart { name: part.name.clone(), prefix: part.prefix.clone() };
    Ok(BundleDocument {
        format_version: BundleDocument::FORMAT_VERSION,
        id: id.clone(),
        parts: parts.iter().map(part).collect(),
        access,
        limits,
        list_ttl_ms: list_ttl_ms(&resource.spec),
    })
}

/// Returns what a served version of a bundle publishes.
pub(super) fn of_served(document: &BundleDocument, context: &Context<'_, '_>, compilation: &Compilation) -> Bundled {
    let served = |part: &BundlePart| {
        let ExpositionId { namespace, name } = document.id_of(part);
        match state(&ObjectName { namespace, name }, None, context, compilation) {
            PartState::Served { tools, .. } => Some(tools),
            PartState::Missing | PartState::Pending | PartState::Bundle | PartState::Stopped { .. } => None,
        }
    };
    let published: Vec<_> = document.parts.iter().map(served).collect();
    let parts: Vec<_> =
        document.parts.iter().zip(&published).map(|(part, tools)| (&*part.prefix, tools.as_deref())).collect();
    merge(&parts).0
}

fn limits(spec: Option<&LimitsSpec>) -> BundleLimits {
    let Some(spec) = spec else { return BundleLimits::default() };
    let OutputLimitsSpec { bytes, tokens } = spec.output.unwrap_or_default();
    BundleLimits {
        requests_per_second: spec.requests_per_second,
        burst: spec.burst,
        concurrent: spec.concurrent,
        timeout_ms: spec.timeout_ms(),
        max_response_bytes: spec.max_response_bytes.as_ref().and_then(Quantity::bytes),
        output: OutputLimits { bytes, tokens },
    }
}

/// Reports what the parts lack, and returns what the bundle publishes of them.
fn judge(
    resource: &Resource<ExpositionSpec>,
    parts: &[BundlePartSpec],
    expositions: &[Arc<Resource<ExpositionSpec>>],
    context: &Context<'_, '_>,
    compilation: &mut Compilation,
) -> Bundled {
    let namespace = &resource.name.namespace;
    let own = compilation.placements.get(&id_of(&resource.name)).cloned();
    let mut found = Vec::new();
    let mut sink = DiagnosticSink::new(&resource.origin, &mut found);
    let mut pending = Vec::new();
    let mut published: Vec<Option<Arc<PartTools>>> = Vec::with_capacity(parts.len());
    let here: HashMap<&ObjectName, Published<'_>> =
        expositions.iter().map(|exposition| (&exposition.name, exposition.spec.published())).collect();
    for (index, part) in parts.iter().enumerate() {
        let at = FieldPath::spec(["expositions"]).index(index).key("name");
        let name = ObjectName { namespace: namespace.clone(), name: part.name.clone() };
        let state = state(&name, here.get(&name).copied(), context, compilation);
        let placed = |group: &Option<ObjectName>| context.env.cluster.is_none() || *group == own;
        let tools = match state {
            PartState::Pending | PartState::Stopped { reason: Reason::Pending, .. } => {
                pending.push(part.name.clone());
                None
            }
            PartState::Served { group, tools } if placed(&group) => Some(tools),
            PartState::Stopped { group, reason } if placed(&group) || group.is_none() => {
                if !(context.incomplete && reason.is_absence()) {
                    let message =
                        format!("exposition `{}` is stopped ({reason}), so its tools are not published", part.name);
                    let remedy = "fix that exposition; its own findings say how";
                    sink.because(Reason::ExpositionStopped).error(&at, message, remedy);
                }
                None
            }
            PartState::Served { group, .. } | PartState::Stopped { group, .. } => {
                let group = group.map_or_else(|| "another group".to_owned(), |group| format!("GatewayGroup {group}"));
                let message = format!("exposition `{}` belongs to {group}, not to the group of the bundle", part.name);
                let remedy = "set the same `gatewayGroup` in both";
                sink.because(Reason::RefNotPermitted).error(&at, message, remedy);
                None
            }
            PartState::Bundle => {
                let message = format!("exposition `{}` is a bundle, and bundles cannot be nested", part.name);
                sink.because(Reason::RefNotPermitted).error(&at, message, "name the expositions of that bundle");
                None
            }
            PartState::Missing => {
                if !context.incomplete {
                    let known = expositions.iter().filter(|exposition| {
                        exposition.name.namespace == *namespace
                            && matches!(exposition.spec.published(), Published::Service(_))
                    });
                    let remedy = match did_you_mean(&part.name, known.map(|exposition| exposition.name.name.as_str())) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => {
                            "create it, or remove the entry; a bundle names expositions of its own namespace".into()
                        }
                    };
                    let message = format!("exposition `{}` does not exist in namespace {namespace}", part.name);
                    sink.because(Reason::ExpositionNotFound).error(&at, message, remedy);
                }
                None
            }
        };
        published.push(tools);
    }
    let served: Vec<_> =
        parts.iter().zip(&published).map(|(part, tools)| (part.prefix.as_str(), tools.as_deref())).collect();
    let (bundled, missed) = merge(&served);
    report(parts, &missed, &mut sink);
    report_content(parts, &served, &mut sink);
    compilation.diagnostics.append(&mut found);
    Bundled { pending, ..bundled }
}

/// Returns the state of a part: as this compile has decided, or else as the cluster has it.
fn state(
    name: &ObjectName,
    here: Option<Published<'_>>,
    context: &Context<'_, '_>,
    compilation: &Compilation,
) -> PartState {
    let id = id_of(name);
    if let Some(Published::Bundle(_)) = here {
        return PartState::Bundle;
    }
    let Snapshot { expositions, stopped, .. } = &compilation.snapshot;
    let group = || compilation.placements.get(&id).cloned();
    if let Some(document) = expositions.get(&id) {
        return PartState::Served { group: group(), tools: Arc::new(PartTools::of(document)) };
    }
    if let Some(stopped) = stopped.get(&id) {
        return PartState::Stopped { group: group(), reason: stopped.reason };
    }
    if here.is_some() {
        // It belongs to a group that is not decided on here.
        return PartState::Pending;
    }
    match &context.env.cluster {
        Some(cluster) => cluster.parts.find(name),
        // What cannot be read is kept by `stale`, which comes later.
        None if context.unusable.expositions().any(|(unusable, _)| unusable == name) => PartState::Pending,
        None => PartState::Missing,
    }
}

/// Reports the tools that are left out: of each part and cause the first one, and how many there are.
fn report(parts: &[BundlePartSpec], missed: &[Missed<'_>], sink: &mut DiagnosticSink<'_>) {
    let mut causes: BTreeMap<(usize, Reason, bool), (&str, LeftOut, usize)> = BTreeMap::new();
    for (number, tool, why) in missed {
        let cause = match why {
            LeftOut::Taken(_) => (*number, Reason::Conflict, false),
            LeftOut::TooLong => (*number, Reason::Conflict, true),
            LeftOut::TooMany => (*number, Reason::TooLarge, false),
        };
        causes.entry(cause).or_insert((tool, *why, 0)).2 += 1;
    }
    for ((number, reason, _), (tool, why, count)) in causes {
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let BundlePartSpec { name, prefix } = &parts[number];
        let at = FieldPath::spec(["expositions"]).index(number);
        let at = if prefix.is_empty() { at.key("name") } else { at.key("prefix") };
        let (why, remedy) = match why {
            LeftOut::Taken(first) => (
                format!("exposition `{}` comes first and has that name too", parts[first].name),
                "set another `prefix`, or leave the tool out of one of them with `tools.exclude`",
            ),
            LeftOut::TooLong => (
                format!("its name is longer than {MAX_TOOL_NAME} characters"),
                "shorten the `prefix`, or rename the tool with a CustomTools document",
            ),
            LeftOut::TooMany => (
                format!("the parts before it have {MAX_TOOLS} tools, the limit of a bundle"),
                "leave tools out with `tools` of the parts, or split the bundle",
            ),
        };
        let message = format!("tool `{prefix}{tool}` of exposition `{name}` is not published, because {why}{more}");
        sink.because(reason).error(&at, message, remedy);
    }
}

/// Reports the prompts and resources of parts that an earlier part has too: of each part and kind the first one, and how many there
/// are. Two expositions of one service have the same prompts and resources, so that nothing is missing there.
fn report_content(parts: &[BundlePartSpec], served: &[(&str, Option<&PartTools>)], sink: &mut DiagnosticSink<'_>) {
    let mut owners: HashMap<(&str, String), usize> = HashMap::new();
    for (number, (prefix, published)) in served.iter().enumerate() {
        let Some(PartTools { tools: _, content, service }) = published else { continue };
        let at = FieldPath::spec(["expositions"]).index(number).key("name");
        let name = &parts[number].name;
        let kinds = [
            ("prompt", *prefix, &content.prompts),
            ("resource", "", &content.resources),
            ("resource template", "", &content.templates),
        ];
        for (kind, prefix, entries) in kinds {
            let mut taken = Vec::new();
            for entry in entries {
                let owner = *owners.entry((kind, format!("{prefix}{entry}"))).or_insert(number);
                if owner != number && served[owner].1.is_none_or(|other| other.service != *service) {
                    taken.push((entry, owner));
                }
            }
            let Some((entry, owner)) = taken.first() else { continue };
            let more = if taken.len() > 1 { format!(" (and {} more)", taken.len() - 1) } else { String::new() };
            let message = format!(
                "{kind} `{prefix}{entry}` of exposition `{name}` is not published, because exposition `{}` comes first and has \
                 it too{more}",
                parts[*owner].name
            );
            let remedy = match kind {
                "prompt" => "set another `prefix`, or leave the prompt out of one of them with `prompts.exclude`",
                _ => "leave it out of one of them with `resources.exclude`",
            };
            sink.because(Reason::Conflict).error(&at, message, remedy);
        }
        if content.server_prompts.is_some() {
            let owner = *owners.entry(("prompts of a server", (*prefix).to_owned())).or_insert(number);
            if owner != number {
                let message = format!(
                    "the MCP server of exposition `{name}` is not asked for prompts, because that of exposition `{}` comes \
                     first and has the same prefix",
                    parts[owner].name
                );
                let remedy =
                    "set another `prefix`, or `prompts: {exclude: ['*']}` in the exposition that has no prompts";
                sink.because(Reason::Conflict).warning(&at, message, remedy);
            }
        }
    }
}
