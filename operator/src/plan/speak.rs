//! Which of several operators says what becomes of an object that names no group. Two that look after one namespace see
//! different expositions use it, and would write over each other for ever.

use tamis_crds::ObjectName;

use super::Settings;
use crate::object::Kind;
use crate::options::Options;
use crate::world::{Object, World};

/// Whether it is ours to say what becomes of an object that these expositions use: where the oldest of them is ours, or
/// nobody's yet.
pub(crate) fn speaks<'n>(
    world: &World,
    settings: &Settings,
    users: impl IntoIterator<Item = &'n ObjectName>,
) -> bool {
    let users = users.into_iter().filter_map(|name| world.get(Kind::Exposition, name));
    let oldest = users.min_by(|a, b| a.age().cmp(&b.age()));
    oldest.is_none_or(|exposition| !is_anothers(world, settings, exposition))
}

/// Whether an exposition names a group of another operator's.
fn is_anothers(world: &World, settings: &Settings, object: &Object) -> bool {
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
    let named = group.and_then(|group| group.resources.groups.first()).map(|group| &group.spec.controller_name);
    named.is_some_and(|named| named.as_deref().unwrap_or(Options::CONTROLLER_NAME) != settings.controller_name)
}
