//! Decides which watches run: those of Tamis' kinds from the start, those of Secrets and ConfigMaps while an object names one. Pure.

use std::collections::BTreeSet;

use super::action::Action;
use crate::cluster_state::ClusterState;
use crate::object::Kind;
use crate::watch::{Message, Source, Watched};

/// The watches.
#[derive(Debug)]
pub(super) struct Sources {
    running: BTreeSet<Source>,
    /// Sources whose first list has arrived.
    listed: BTreeSet<Source>,
    /// Sources that the operator may not read.
    refused: BTreeSet<Source>,
    /// The number of times that all watches were restarted.
    epoch: u64,
}

impl Sources {
    /// Starts the watches that always run, in these namespaces, or in all if the list is empty.
    pub(super) fn new(namespaces: Vec<String>, actions: &mut Vec<Action>) -> Self {
        let mut sources =
            Self { running: BTreeSet::new(), listed: BTreeSet::new(), refused: BTreeSet::new(), epoch: 0 };
        let scopes: Vec<Option<String>> =
            if namespaces.is_empty() { vec![None] } else { namespaces.into_iter().map(Some).collect() };
        for namespace in scopes {
            for kind in Kind::ALL {
                sources.start(Source { watched: Watched::Kind(kind), namespace: namespace.clone() }, actions);
            }
            sources.start(Source { watched: Watched::Configs, namespace: namespace.clone() }, actions);
            sources.start(Source { watched: Watched::Namespaces, namespace }, actions);
        }
        sources
    }

    /// Starts and ends the watches of Secrets and ConfigMaps, depending on which objects name them. Returns the sources whose watches
    /// ended. `foreign`: namespaces with groups of other operators only, where this operator has written nothing and
    /// may read no Secrets.
    pub(super) fn update(
        &mut self,
        cluster: &ClusterState,
        foreign: &BTreeSet<String>,
        actions: &mut Vec<Action>,
    ) -> Vec<Source> {
        let credentials = cluster.namespaces_with_secrets();
        let mut groups: BTreeSet<String> =
            cluster.all(Kind::GatewayGroup).map(|g| g.key.name.namespace.clone()).collect();
        groups.retain(|namespace| !foreign.contains(namespace));
        let wanted = |watched: Watched, names: BTreeSet<String>| {
            names.into_iter().map(move |name| Source { watched: watched.clone(), namespace: Some(name) })
        };
        let wanted: BTreeSet<Source> = wanted(Watched::Secrets, credentials)
            .chain(wanted(Watched::GroupSecrets, groups))
            .chain(wanted(Watched::ConfigMaps, cluster.namespaces_with_config_maps()))
            .collect();
        let ended: Vec<Source> =
            self.running.iter().filter(|source| is_dynamic(source) && !wanted.contains(source)).cloned().collect();
        for source in &ended {
            self.running.remove(source);
            actions.push(Action::Unfollow(source.clone()));
        }
        let running = &self.running;
        self.listed.retain(|source| running.contains(source));
        for source in wanted {
            if !self.running.contains(&source) {
                self.start(source, actions);
            }
        }
        ended
    }

    /// Restarts all watches, so that each lists its objects again. Earlier changes must not be acted upon until all
    /// have listed: one watch may lag behind another by as long as the process slept.
    pub(super) fn restart(&mut self, actions: &mut Vec<Action>) {
        self.epoch += 1;
        self.listed.clear();
        for source in self.running.clone() {
            self.start(source, actions);
        }
    }

    /// Restarts the watches of a class of objects, so that each lists its objects again. Earlier changes remain valid.
    pub(super) fn list_again(&mut self, watched: &Watched, actions: &mut Vec<Action>) {
        let is_it = |source: &&Source| source.watched == *watched;
        let sources: Vec<Source> = self.running.iter().filter(is_it).cloned().collect();
        for source in sources {
            self.start(source, actions);
        }
    }

    /// Returns whether a message comes from a watch that runs now.
    pub(super) fn is_current(&self, message: &Message) -> bool {
        message.epoch == self.epoch && self.running.contains(&message.source)
    }

    fn start(&mut self, source: Source, actions: &mut Vec<Action>) {
        actions.push(Action::Follow { source: source.clone(), epoch: self.epoch });
        self.running.insert(source);
    }

    /// Records that a source has delivered its first list, or that the operator may not read it.
    pub(super) fn on_answer(&mut self, source: &Source, is_refused: bool) {
        if !is_refused {
            self.refused.remove(source);
        } else if !source.may_be_forbidden() {
            self.refused.insert(source.clone());
            return;
        }
        if self.running.contains(source) && !self.listed.contains(source) {
            self.listed.insert(source.clone());
        }
    }

    /// Returns whether the Secrets or ConfigMaps of a namespace, or the shards of its group, are known or not needed.
    pub(super) fn knows(&self, watched: &Watched, namespace: &str) -> bool {
        let source = Source { watched: watched.clone(), namespace: Some(namespace.to_owned()) };
        !self.running.contains(&source) || self.listed.contains(&source)
    }

    /// Returns the sources whose first list is missing. Secrets hold up only the objects that name them: see
    /// [`Sources::knows`].
    pub(super) fn waiting_for(&self) -> Vec<String> {
        let silent = self.running.iter().filter(|source| !is_dynamic(source) && !self.listed.contains(source));
        let text = |source: &Source| match self.refused.contains(source) {
            true => format!("{source}: the operator may not list and watch them, see docs/rbac.md"),
            false => source.to_string(),
        };
        let mut waiting: Vec<_> = silent.map(text).collect();
        waiting.sort();
        waiting
    }
}

/// Returns whether a watch runs only while an object needs it.
fn is_dynamic(source: &Source) -> bool {
    matches!(source.watched, Watched::Secrets | Watched::ConfigMaps | Watched::GroupSecrets)
}
