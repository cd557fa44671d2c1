//! The state of the expositions, from a watch of this program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::StreamExt as _;
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::objects::{TEAM, api};

/// The generation in which each exposition is served.
type Served = HashMap<String, Option<i64>>;

/// Follows the expositions of the team until dropped.
pub(crate) struct Progress {
    served: Arc<Mutex<Served>>,
    count: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Progress {
    pub(crate) fn start(client: &Client) -> Self {
        let served = Arc::new(Mutex::new(Served::new()));
        let (tell, count) = watch::channel(0);
        let (known, api) = (Arc::clone(&served), api(client, "Exposition", TEAM));
        let task = tokio::spawn(async move {
            let mut events = watcher(api, Config::default()).default_backoff().boxed();
            let mut loaded = 0;
            while let Some(event) = events.next().await {
                // The watch restarts by itself after an interruption.
                let (Ok(Event::Apply(object)) | Ok(Event::InitApply(object))) = event else { continue };
                let now = programmed(&object);
                let name = object.metadata.name.unwrap_or_default();
                let before = known.lock().unwrap_or_else(PoisonError::into_inner).insert(name, now).flatten();
                loaded = loaded + usize::from(now.is_some()) - usize::from(before.is_some());
                tell.send_replace(loaded);
            }
        });
        Self { served, count, task }
    }

    /// Returns the number of expositions that are served in their current generation.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until this number of expositions is served.
    pub(crate) async fn reach(&mut self, wanted: usize, within: Duration) -> Result<()> {
        let reached = self.count.wait_for(|count| *count >= wanted);
        let outcome = tokio::time::timeout(within, reached).await.map(|reached| reached.map(drop));
        outcome.with_context(|| format!("{} of {wanted} after {within:?}", self.count()))??;
        Ok(())
    }

    /// Waits until an exposition is served in a generation.
    pub(crate) async fn served(&mut self, name: &str, generation: i64, within: Duration) -> Result<()> {
        let served = Arc::clone(&self.served);
        let is_served = |_: &usize| {
            let served = served.lock().unwrap_or_else(PoisonError::into_inner);
            served.get(name).copied().flatten() >= Some(generation)
        };
        let reached = tokio::time::timeout(within, self.count.wait_for(is_served)).await;
        reached.with_context(|| format!("{name} is not served in generation {generation}"))??;
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the generation if gateways have loaded its document.
fn programmed(object: &DynamicObject) -> Option<i64> {
    let generation = object.metadata.generation?;
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array)?;
    let is = |condition: &Value| {
        condition["type"] == "Programmed"
            && condition["status"] == "True"
            && condition["observedGeneration"] == generation
    };
    conditions.iter().any(is).then_some(generation)
}
