//! Bundles: what is known about their parts. A bundle's document names its parts only, so a part that changes leads to another
//! verdict on its bundles, and to no write of their documents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::carrier::decode_exposition;
use tamis_config::{Digest, ExpositionId, ExpositionPayload, GatewayConfigSpec, Reason};
use tamis_crds::cluster::{PartState, PartTools};
use tamis_crds::{Compilation, ObjectName};

use super::{Memory, Plan, id};
use crate::cluster_state::ClusterState;
use crate::object::{Kind, ObjectKey};
use crate::verdict::Finding;

/// How long a part may have no document before its bundle says so: documents of objects that are applied together are
/// written one after the other.
pub(super) const NEW: Duration = Duration::from_secs(2);

/// The most parts that are remembered: reading one again costs more memory for a moment.
const REMEMBERED: usize = 4_096;

/// What the documents of parts say, by the digest of each, so that a document is read once and not once for each plan.
#[derive(Debug, Default)]
pub(super) struct Published(HashMap<ExpositionId, (Digest, Said)>);

/// What a document says about a part.
#[derive(Debug, Clone)]
enum Said {
    Served(Arc<PartTools>),
    Stopped(Reason),
    /// It is of another kind, or cannot be read.
    Unknown,
}

impl Published {
    pub(super) fn forget(&mut self, exposition: &ObjectName) {
        self.0.remove(&id(exposition));
    }

    fn read(&mut self, id: &ExpositionId, spec: &GatewayConfigSpec) -> Said {
        if let Some((_, said)) = self.0.get(id).filter(|(digest, _)| *digest == spec.digest) {
            return said.clone();
        }
        let said = match decode_exposition(spec) {
            Ok(ExpositionPayload::Serve(document)) => Said::Served(Arc::new(PartTools::of(&document))),
            Ok(ExpositionPayload::Stop(stop)) => Said::Stopped(stop.reason),
            // It was a bundle until a moment ago, or another version of the operator wrote it.
            Ok(ExpositionPayload::Bundle(_)) | Err(_) => Said::Unknown,
        };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(id.clone(), (spec.digest.clone(), said.clone()));
        said
    }
}

/// Returns the state of every part that these expositions name: what is written for it, which gateways serve or are about to.
pub(super) fn parts(
    world: &ClusterState,
    memory: &mut Memory,
    chosen: &BTreeSet<ObjectName>,
) -> HashMap<ObjectName, PartState> {
    let bundles = chosen.iter().filter_map(|name| world.get(Kind::Exposition, name));
    let names: BTreeSet<ObjectName> = bundles.flat_map(|object| object.parts()).collect();
    names.into_iter().map(|name| (name.clone(), part(world, memory, &name))).collect()
}

fn part(world: &ClusterState, memory: &mut Memory, name: &ObjectName) -> PartState {
    let Some(object) = world.get(Kind::Exposition, name).filter(|object| !object.deleting) else {
        return PartState::Missing;
    };
    if object.resources.expositions.iter().any(|resource| resource.spec.of_service().is_none()) {
        return PartState::Bundle;
    }
    let id = id(name);
    let configs = world.configs.of_exposition(&id);
    let config = configs.iter().find(|config| config.is_managed);
    let Some((config, spec)) = config.and_then(|config| Some((config, config.last_readable()?))) else {
        return PartState::Pending;
    };
    match memory.published.read(&id, spec) {
        Said::Served(tools) => PartState::Served { group: config.group(), tools },
        Said::Stopped(reason) => PartState::Stopped { group: config.group(), reason },
        Said::Unknown => PartState::Pending,
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
