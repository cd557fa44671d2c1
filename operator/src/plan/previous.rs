//! Reads what is served now back from the GatewayConfigs, so that a restarted operator knows as much as a running one.

use std::collections::BTreeSet;
use std::sync::Arc;

use tamis_config::carrier::{decode_exposition, decode_service};
use tamis_config::{ExpositionPayload, Snapshot, Stopped};
use tamis_crds::ObjectName;

use super::{Memory, id};
use crate::cluster_state::ClusterState;

/// Returns the documents of these expositions, and the services that they name.
pub(super) fn snapshot(world: &ClusterState, memory: &mut Memory, expositions: &BTreeSet<ObjectName>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for name in expositions {
        let id = id(name);
        let objects = world.configs.of_exposition(&id);
        let Some(object) = objects.iter().find(|object| object.is_managed) else { continue };
        match object.last_readable().map(decode_exposition) {
            Some(Ok(ExpositionPayload::Serve(document))) => {
                let digest = document.service.clone();
                if !memory.documents.contains_key(&digest) {
                    let parts = world.configs.of_service(&object.name.namespace, &digest);
                    if let Ok((_, document)) = decode_service(parts.iter().filter_map(|part| part.spec.as_ref())) {
                        memory.documents.insert(digest.clone(), Arc::new(document));
                    }
                }
                if let Some(service) = memory.documents.get(&digest) {
                    snapshot.services.insert(digest, Arc::clone(service));
                }
                snapshot.expositions.insert(id, Arc::new(document));
            }
            Some(Ok(ExpositionPayload::Bundle(document))) => drop(snapshot.bundles.insert(id, Arc::new(document))),
            Some(Ok(ExpositionPayload::Stop(stop))) => {
                snapshot.stopped.insert(id, Stopped { reason: stop.reason, message: stop.message });
            }
            // A newer operator or another writer wrote it: nothing can be kept from it.
            Some(Err(error)) => tracing::warn!(exposition = %id, "current document cannot be read: {error}"),
            None => {}
        }
    }
    snapshot
}
