//! Handles the API server's answers to writes of configuration.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use tamis_crds::ObjectName;

use super::action::{Failure, Fence};
use super::blocked::WriteBlocked;
use super::pipeline::{Active, Deferred, InFlight, Purpose, Stage, Target};
use super::state::{Requeue, State};
use crate::cluster_state::ConfigObject;

/// The delay before a refused deletion of a document is tried again.
const FAILED: Duration = Duration::from_secs(2);

impl State {
    /// Ends a write, and marks the exposition that was deferred until its answer.
    fn ends(&mut self, target: &Target) -> Option<InFlight> {
        let (ended, deferred) = self.pipeline.ends(target)?;
        if let Some(Deferred { exposition, lane, service }) = deferred {
            self.put_back(lane, &service, [exposition].into());
        }
        Some(ended)
    }

    /// Handles the answer to the write of a credential shard.
    pub(super) fn on_shard_written(&mut self, name: &ObjectName, result: Result<Box<Secret>, Failure>) {
        let target = Target::Shard(name.clone());
        let Some(ended) = self.ends(&target) else { return };
        let InFlight { purpose, fence, is_listed, reported } = ended;
        match result {
            Ok(secret) => {
                if !is_listed {
                    self.cluster.shard_applied(name, *secret);
                }
                self.arrived(&target);
            }
            Err(failure) => {
                if let Purpose::Shard { change, .. } = purpose {
                    self.pipeline.shard_failed(name, change);
                }
                if !matches!(failure, Failure::Deposed(_)) {
                    tracing::warn!(%name, "credentials not written: {failure}");
                }
                self.failed(&target, &failure, fence, format!("Secret {name}"));
            }
        }
        self.read_kept(reported);
    }

    /// Handles the answer to the write of a GatewayConfig.
    pub(super) fn on_config_written(&mut self, name: &ObjectName, result: Result<Box<ConfigObject>, Failure>) {
        let target = Target::Config(name.clone());
        let Some(ended) = self.ends(&target) else { return };
        let InFlight { purpose, fence, is_listed, reported } = ended;
        match (result, purpose) {
            (Ok(object), purpose) => {
                if !is_listed {
                    let changed = self.cluster.configs.put(*object);
                    self.cluster.parts_written(&changed);
                }
                if let Purpose::Document { exposition } = purpose {
                    self.document_written(fence, &exposition, name, is_listed);
                }
                self.arrived(&target);
            }
            (Err(failure), _) => {
                if !matches!(failure, Failure::Stale | Failure::Deposed(_)) {
                    tracing::warn!(%name, "configuration not written: {failure}");
                }
                self.failed(&target, &failure, fence, format!("GatewayConfig {name}"));
            }
        }
        self.read_kept(reported);
    }

    /// Completes a document that was written.
    fn document_written(&mut self, fence: Fence, exposition: &ObjectName, name: &ObjectName, is_listed: bool) {
        let is_it =
            |active: &Active| active.item.exposition == *exposition && matches!(active.stage, Stage::Writing(_));
        let Some(at) = self.pipeline.active.iter().position(is_it) else { return };
        let Active { item, stage, since, .. } = self.pipeline.active.remove(at);
        self.metrics.reconciled("Exposition", "ok", self.now.saturating_duration_since(since));
        if is_listed {
            // A list may have delivered a later version.
            self.cluster.mark_exposition(exposition);
        } else if let Stage::Writing(wanted) = stage {
            self.written(exposition, wanted, Some(item.seen));
            if self.fence() == Some(fence) {
                self.delete_others(fence, exposition, Some(name));
            }
        }
    }

    /// Handles the answer to the deletion of a GatewayConfig.
    pub(super) fn on_config_deleted(&mut self, name: &ObjectName, uid: &str, result: Result<(), Failure>) {
        let target = Target::Config(name.clone());
        let Some(ended) = self.ends(&target) else { return };
        let InFlight { purpose, fence, is_listed, reported } = ended;
        match result {
            Ok(()) if is_listed => {}
            Ok(()) => {
                let changed = self.cluster.configs.remove(name, Some(uid));
                self.cluster.parts_written(&changed);
            }
            Err(Failure::Deposed(_)) => self.deposed(fence),
            Err(failure) => {
                tracing::warn!(%name, "configuration not deleted: {failure}");
                if let Purpose::Removal { exposition: Some(exposition) } = purpose {
                    self.requeue_after(FAILED, Requeue::Exposition(exposition));
                }
            }
        }
        self.arrived(&target);
        self.read_kept(reported);
    }

    /// Releases the documents that waited for a write.
    fn arrived(&mut self, target: &Target) {
        for active in &mut self.pipeline.active {
            active.waits.remove(target);
        }
    }

    /// Blocks the documents that waited for a write.
    fn failed(&mut self, target: &Target, failure: &Failure, fence: Fence, object: String) {
        let why = WriteBlocked::of(failure, object);
        let waiting: Vec<usize> =
            (0..self.pipeline.active.len()).filter(|at| self.pipeline.active[*at].waits.contains(target)).collect();
        for active in self.pipeline.take(waiting) {
            if let Failure::Deposed(_) = failure {
                let took = self.now.saturating_duration_since(active.since);
                self.metrics.reconciled("Exposition", "deposed", took);
            }
            self.not_written(active.item.exposition, &why);
        }
        if let Failure::Deposed(_) = failure {
            self.deposed(fence);
        }
    }
}
