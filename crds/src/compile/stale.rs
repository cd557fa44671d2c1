//! Expositions whose own document cannot be read.

use std::sync::Arc;

use tamis_config::{Access, BundleDocument, ExpositionDocument, ExpositionTool, Reason, ServiceDocument, Stopped};
use tamis_engine::{Enforcement, ToolFilter};

use super::expose::{Context, Previous, Stop, conditions, id_of, is_taken, judge};
use super::filters::Sets;
use super::tools::named_in;
use super::{Compilation, CompileEnv, Degraded, access, bundle, credentials};
use crate::origin::FieldPath;

/// Keeps the served version of expositions that cannot be read, with the current Secrets and the current filters of sets that
/// still have them. In a cluster only served expositions are kept, because the group of the others is unknown.
pub(super) fn all(context: &Context<'_, '_>, sets: &Sets<'_>, compilation: &mut Compilation) {
    for (name, unusable) in context.unusable.expositions() {
        let id = id_of(name);
        if is_taken(compilation, &id) {
            continue;
        }
        if let Some(previous) = context.env.previous.and_then(|previous| previous.bundles.get(&id)) {
            match refreshed_bundle(previous, context.env) {
                Ok(document) => {
                    let bundled = bundle::of_served(&document, context, compilation);
                    compilation.bundled.insert(id.clone(), bundled);
                    compilation.degraded.insert(id.clone(), vec![Degraded::PreviousExposition]);
                    compilation.snapshot.bundles.insert(id, Arc::new(document));
                }
                Err(stop) => drop(compilation.snapshot.stopped.insert(id, stop.stopped())),
            }
            continue;
        }
        match (Previous::of(context.env, &id), &context.env.cluster) {
            (Some(previous), _) => match refreshed(&previous, context.env, sets) {
                Ok(document) => {
                    compilation.degraded.insert(id.clone(), vec![Degraded::PreviousExposition]);
                    compilation.snapshot.services.insert(document.service.clone(), Arc::clone(previous.service));
                    compilation.snapshot.expositions.insert(id, document);
                }
                Err(stop) => drop(compilation.snapshot.stopped.insert(id, stop.stopped())),
            },
            (None, None) => {
                // Callers see this message. Only the author learns what is wrong with the document.
                let message = format!("{} cannot be read; fix its errors", unusable.file);
                compilation.snapshot.stopped.insert(id, Stopped { reason: Reason::InvalidManifest, message });
            }
            (None, Some(_)) => {}
        }
    }
}

/// Returns the served version of a bundle with the current Secret.
pub(super) fn refreshed_bundle(previous: &BundleDocument, env: &CompileEnv<'_>) -> Result<BundleDocument, Stop> {
    let mut document = previous.clone();
    if let Some(cluster) = &env.cluster
        && let Some((secret, handle)) = document.access.as_mut().and_then(Access::secret_mut)
    {
        let namespace = &previous.id.namespace;
        *handle = Some(access::callers(cluster, namespace, secret, FieldPath::spec(["access"]))?);
    }
    Ok(document)
}

fn refreshed(previous: &Previous<'_>, env: &CompileEnv<'_>, sets: &Sets<'_>) -> Result<Arc<ExpositionDocument>, Stop> {
    let mut document = ExpositionDocument::clone(previous.document);
    let namespace = document.id.namespace.clone();
    if let Some(cluster) = &env.cluster {
        if let Some((secret, handle)) = document.access.as_mut().and_then(Access::secret_mut) {
            *handle = Some(access::callers(cluster, &namespace, secret, FieldPath::spec(["access"]))?);
        }
        let tools = document.callables();
        let path = FieldPath::spec(["service"]);
        document.credentials = credentials::resolve(cluster, &namespace, previous.service, tools, &path)?;
    }
    let ServiceDocument { name, version, .. } = &**previous.service;
    let today = |tool: &ExpositionTool| {
        let set = sets.by_name(tool.filter_set.as_deref()?)?;
        (set.spec.service.name == *name && set.spec.service.version == *version).then_some(set)
    };
    let enforcements = document.tools.values().filter_map(|tool| Some(today(tool)?.spec.enforcement));
    let enforcement = enforcements.fold(document.enforcement, Ord::max);
    let risen = std::mem::replace(&mut document.enforcement, enforcement) != enforcement;
    document.tools.retain(|name, tool| {
        let declared = previous.service.tools.get(name);
        let response_type = declared.and_then(|declared| declared.response_type);
        let conditions = conditions(name, enforcement, response_type, previous.document.inputs.as_deref());
        let good = |filter: &Arc<ToolFilter>| judge(filter, conditions).is_good();
        let filter = today(tool).and_then(|set| named_in(&set.spec, name, declared?));
        if let Some((_, filter)) = filter.filter(|(_, filter)| good(filter)) {
            tool.filter = Some(Arc::clone(filter));
        }
        !risen || tool.filter.as_ref().is_some_and(good)
    });
    if enforcement == Enforcement::Enforced {
        document.content.enforce();
    }
    let document = document.at_lowest_version();
    Ok(if document == **previous.document { Arc::clone(previous.document) } else { Arc::new(document) })
}
