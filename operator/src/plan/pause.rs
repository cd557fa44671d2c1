//! Expositions that are paused: the exposition itself, or its group.

use std::collections::BTreeSet;

use tamis_config::Reason;
use tamis_crds::resources::Resources;
use tamis_crds::{Compilation, CompileEnv, ObjectName, Paused};

use super::{Plan, Planned, id};
use crate::cluster_state::ClusterState;
use crate::object::{Kind, ObjectKey};
use crate::verdict::Finding;

/// Holds back changes to paused expositions, except those that take something away. An exposition that moves to a
/// paused group waits outside it.
pub(super) fn hold_back(
    world: &ClusterState,
    chosen: &BTreeSet<ObjectName>,
    resources: &Resources,
    env: &CompileEnv<'_>,
    compilation: &mut Compilation,
) {
    let paused: BTreeSet<_> = chosen.iter().filter(|name| by(world, compilation, name).is_some()).map(id).collect();
    tamis_crds::pause(compilation, resources, env, &paused);
    for id in &paused {
        let there = world.configs.of_exposition(id).into_iter().find(|config| config.is_managed);
        let at = there.and_then(|config| config.group());
        let placed = compilation.placements.get(id);
        if at.is_some() && placed.is_some() && at.as_ref() != placed {
            compilation.snapshot.expositions.remove(id);
            compilation.paused.insert(id.clone(), Paused::Everything);
        }
    }
}

/// Returns the paused object that pauses an exposition: the exposition or its group.
fn by(world: &ClusterState, compilation: &Compilation, name: &ObjectName) -> Option<ObjectKey> {
    let is_paused = |key: &ObjectKey| world.get(key.kind, &key.name).is_some_and(|object| object.paused);
    let own = ObjectKey { kind: Kind::Exposition, name: name.clone() };
    let group = compilation.placements.get(&id(name)).cloned();
    let group = group.map(|name| ObjectKey { kind: Kind::GatewayGroup, name });
    std::iter::once(own).chain(group).find(is_paused)
}

/// Returns whether an exposition must have no document. One that was already stopped keeps its document, with the
/// reason.
pub(super) fn is_withheld(world: &ClusterState, compilation: &Compilation, name: &ObjectName) -> bool {
    let id = id(name);
    compilation.paused.get(&id) == Some(&Paused::Everything)
        && (!compilation.snapshot.stopped.contains_key(&id) || world.configs.of_exposition(&id).is_empty())
}

/// Reports the pause in the verdicts.
pub(super) fn judge(world: &ClusterState, chosen: &BTreeSet<ObjectName>, compilation: &Compilation, plan: &mut Plan) {
    for name in chosen {
        let Some(by) = by(world, compilation, name) else { continue };
        let own = ObjectKey { kind: Kind::Exposition, name: name.clone() };
        let Some(verdict) = plan.verdicts.get_mut(&own) else { continue };
        let whose = if by == own { "it".to_owned() } else { by.to_string() };
        let annotation = format!("{whose} is paused by the annotation {}", tamis_config::names::PAUSED_ANNOTATION);
        if by == own {
            // A paused group reports it once, in its own status.
            let message = format!("{annotation}: changes wait, except those that take something away");
            verdict.findings.push(Finding::warning(Reason::Paused, message));
        }
        let waits = match compilation.paused.get(&id(name)) {
            Some(Paused::Changes) => "gateways serve the version before, without what may no longer be served",
            Some(Paused::Everything) => "it is not published until then",
            Some(Paused::Nothing) | None => continue,
        };
        if !matches!(plan.expositions.get(name), Some(Planned::Untouched)) {
            verdict.paused = Some(format!("{annotation}; {waits}. Remove the annotation to resume"));
        }
    }
}
