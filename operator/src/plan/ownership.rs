//! Decides which of several operators writes the status of an object that names no group. Two operators in one
//! namespace see different expositions use the object, and would overwrite each other's status forever.

use std::collections::BTreeSet;

use tamis_crds::{Compilation, ObjectName};

use super::{Settings, id};
use crate::cluster_state::{ClusterState, Object};
use crate::object::Kind;
use crate::options::Options;

/// Returns whether this operator reports on an object that these expositions use: if the oldest of them is its own, or
/// has no operator yet.
fn owns_status<'n>(world: &ClusterState, settings: &Settings, users: impl IntoIterator<Item = &'n ObjectName>) -> bool {
    // With one operator, the usual case, an edit of one exposition does not look at all others of its service.
    if !world.all(Kind::GatewayGroup).any(|group| is_of_another(group, settings)) {
        return true;
    }
    let users = users.into_iter().filter_map(|name| world.get(Kind::Exposition, name));
    let oldest = users.min_by(|a, b| a.age().cmp(&b.age()));
    oldest.is_none_or(|exposition| !is_anothers(world, settings, exposition))
}

/// Returns whether this operator writes the status of an object that several expositions may use. Always true for the
/// other kinds.
pub(crate) fn owns_status_of(world: &ClusterState, settings: &Settings, object: &Object) -> bool {
    match object.key.kind {
        Kind::ServiceManifest | Kind::ToolsFilters | Kind::CustomTools | Kind::Prompts | Kind::Resources => {
            let members = object.services().into_iter().filter_map(|service| world.members(&service));
            owns_status(world, settings, members.flat_map(|members| &members.expositions))
        }
        Kind::ConfigurationPlan => owns_status(world, settings, &world.users_of_plan(&object.key.name)),
        Kind::Exposition | Kind::GatewayGroup => true,
    }
}

/// Returns whether an exposition names another operator's group, or resolves to no group here and another operator
/// serves it.
fn is_anothers(world: &ClusterState, settings: &Settings, object: &Object) -> bool {
    let Some(exposition) = object.resources.expositions.first() else { return false };
    let own = &object.key.name.namespace;
    let find = |namespace: &str, name: &str| {
        world.get(Kind::GatewayGroup, &ObjectName { namespace: namespace.to_owned(), name: name.to_owned() })
    };
    let group = match &exposition.spec.gateway_group {
        Some(named) => find(named.namespace.as_ref().unwrap_or(own), &named.name),
        None => find(own, "default")
            .or_else(|| settings.default_group.as_ref().and_then(|group| world.get(Kind::GatewayGroup, group))),
    };
    match group {
        Some(group) => is_of_another(group, settings),
        None => is_served_by_another(world, settings, &object.key.name),
    }
}

fn is_served_by_another(world: &ClusterState, settings: &Settings, exposition: &ObjectName) -> bool {
    let configs = world.configs.of_exposition(&id(exposition));
    let groups = configs.iter().filter(|config| config.is_managed).filter_map(|config| config.group());
    groups.filter_map(|name| world.get(Kind::GatewayGroup, &name)).any(|group| is_of_another(group, settings))
}

fn is_of_another(group: &Object, settings: &Settings) -> bool {
    let named = group.resources.groups.first().map(|group| &group.spec.controller_name);
    named.is_some_and(|named| named.as_deref().unwrap_or(Options::CONTROLLER_NAME) != settings.controller_name)
}

/// Leaves expositions that resolve to no group here to another operator that already serves them: they name no group
/// and that operator has a default group, or their group is gone and that operator reports it.
pub(super) fn leave_to_others(
    world: &ClusterState,
    settings: &Settings,
    chosen: &BTreeSet<ObjectName>,
    compilation: &mut Compilation,
) {
    for name in chosen {
        let id = id(name);
        if compilation.placements.contains_key(&id) || compilation.held.contains_key(&id) {
            continue;
        }
        if is_served_by_another(world, settings, name) {
            compilation.snapshot.stopped.remove(&id);
            compilation.foreign.insert(id);
        }
    }
}
