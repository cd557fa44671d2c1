//! Bundles: what is known about their parts. A bundle's document names its parts only, so a part that changes leads to another
//! verdict on its bundles, and to no write of their documents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::carrier::decode_exposition;
use tamis_config::{ExpositionPayload, Reason};
use tamis_crds::cluster::PartState;
use tamis_crds::{Compilation, ObjectName};

use super::{Memory, Plan, id};
use crate::cluster_state::ClusterState;
use crate::object::{Kind, ObjectKey};
use crate::verdict::Finding;

/// How long a part may have no document before its bundle says so: documents of objects that are applied together are
/// written one after the other.
pub(super) const NEW: Duration = Duration::from_secs(2);

/// Returns what is written for an exposition that a bundle may name: what gateways serve, or are about to.
pub(super) fn part(world: &ClusterState, name: &ObjectName) -> PartState {
    let Some(object) = world.get(Kind::Exposition, name).filter(|object| !object.deleting) else {
        return PartState::Missing;
    };
    if object.resources.expositions.iter().any(|resource| resource.spec.of_service().is_none()) {
        return PartState::Bundle;
    }
    let configs = world.configs.of_exposition(&id(name));
    let Some(config) = configs.iter().find(|config| config.is_managed) else { return PartState::Pending };
    let group = config.group();
    match config.last_readable().map(decode_exposition) {
        Some(Ok(ExpositionPayload::Serve(document))) => PartState::Served { group, document: Arc::new(document) },
        Some(Ok(ExpositionPayload::Stop(stop))) => PartState::Stopped { group, reason: stop.reason },
        // It was a bundle until a moment ago, or another version of the operator wrote it.
        Some(Ok(ExpositionPayload::Bundle(_)) | Err(_)) | None => PartState::Pending,
    }
}

/// Holds back the status of a new bundle while its parts are being written, and reports parts that stay without a document.
pub(super) fn judge(
    memory: &mut Memory,
    chosen: &BTreeSet<ObjectName>,
    compilation: &Compilation,
    plan: &mut Plan,
    now: Instant,
) {
    for name in chosen {
        let pending = compilation.bundled.get(&id(name)).map(|bundled| &bundled.pending[..]).unwrap_or_default();
        if pending.is_empty() {
            memory.pending_since.remove(name);
            continue;
        }
        let until = *memory.pending_since.entry(name.clone()).or_insert(now) + NEW;
        let own = ObjectKey { kind: Kind::Exposition, name: name.clone() };
        let Some(verdict) = plan.verdicts.get_mut(&own) else { continue };
        if now < until {
            verdict.waits = true;
            let (at, names) = plan.wake.get_or_insert_with(|| (until, BTreeSet::new()));
            *at = (*at).min(until);
            names.insert(name.clone());
            continue;
        }
        for part in pending {
            let message = format!(
                "spec.expositions: no gateway serves exposition `{part}`, so its tools are not published; its own \
                 conditions say why"
            );
            verdict.findings.push(Finding::error(Reason::ExpositionStopped, message));
        }
    }
}
