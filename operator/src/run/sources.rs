//! Which watches run: those of our kinds from the start, those of Secrets where something names one.

use std::collections::{BTreeSet, HashMap};

use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::object::Kind;
use crate::watch::{Message, Source, Watched, follow};
use crate::world::World;

/// The watches.
pub(super) struct Sources {
    client: Client,
    out: mpsc::UnboundedSender<Message>,
    running: HashMap<Source, DropGuard>,
    /// Sources that have told everything once.
    heard: BTreeSet<Source>,
    /// Sources that may not be read.
    refused: BTreeSet<Source>,
    /// How often all were begun anew.
    epoch: u64,
    shutdown: CancellationToken,
}

impl Sources {
    /// Starts those that always run. `namespaces`: where; everywhere if empty.
    pub(super) fn new(
        client: Client,
        out: mpsc::UnboundedSender<Message>,
        namespaces: Vec<String>,
        shutdown: &CancellationToken,
    ) -> Self {
        let mut sources = Self {
            client,
            out,
            running: HashMap::new(),
            heard: BTreeSet::new(),
            refused: BTreeSet::new(),
            epoch: 0,
            shutdown: shutdown.clone(),
        };
        let scopes: Vec<Option<String>> =
            if namespaces.is_empty() { vec![None] } else { namespaces.into_iter().map(Some).collect() };
        for namespace in scopes {
            for kind in Kind::ALL {
                sources.start(Source { watched: Watched::Kind(kind), namespace: namespace.clone() });
            }
            sources.start(Source { watched: Watched::Configs, namespace: namespace.clone() });
            sources.start(Source { watched: Watched::Namespaces, namespace });
        }
        sources
    }

    /// Starts and ends the watches of Secrets, as objects name them. Gives those that have ended. `foreign`: namespaces with
    /// groups of other operators only, where we have written nothing and may read no Secrets.
    pub(super) fn want(&mut self, world: &World, foreign: &BTreeSet<String>) -> Vec<Source> {
        let credentials = world.namespaces_with_secrets();
        let mut groups: BTreeSet<String> =
            world.all(Kind::GatewayGroup).map(|g| g.key.name.namespace.clone()).collect();
        groups.retain(|namespace| !foreign.contains(namespace));
        let wanted = |watched: Watched, names: BTreeSet<String>| {
            names.into_iter().map(move |name| Source { watched: watched.clone(), namespace: Some(name) })
        };
        let wanted: BTreeSet<Source> =
            wanted(Watched::Secrets, credentials).chain(wanted(Watched::GroupSecrets, groups)).collect();
        let ended: Vec<Source> =
            self.running.keys().filter(|source| is_dynamic(source) && !wanted.contains(source)).cloned().collect();
        for source in &ended {
            self.running.remove(source);
        }
        let running = &self.running;
        self.heard.retain(|source| running.contains_key(source));
        for source in wanted {
            if !self.running.contains_key(&source) {
                self.start(source);
            }
        }
        ended
    }

    /// Whether a source is still of interest.
    pub(super) fn runs(&self, source: &Source) -> bool {
        self.running.contains_key(source)
    }

    /// Begins all watches anew, each with a list of what is there now. Until they have told it, what was told before is
    /// not to be acted upon: one watch may be behind another, by as long as the process slept.
    pub(super) fn again(&mut self) {
        self.epoch += 1;
        self.heard.clear();
        let sources: Vec<Source> = self.running.drain().map(|(source, _)| source).collect();
        for source in sources {
            self.start(source);
        }
    }

    /// Begins the watches of a kind anew, each with a list of what is there now. What was told before still holds.
    pub(super) fn list_again(&mut self, kind: Kind) {
        let is_it = |source: &&Source| source.watched == Watched::Kind(kind);
        let sources: Vec<Source> = self.running.keys().filter(is_it).cloned().collect();
        for source in sources {
            self.start(source);
        }
    }

    /// Whether a message is of the watches that run now.
    pub(super) fn is_of_now(&self, message: &Message) -> bool {
        message.epoch == self.epoch
    }

    fn start(&mut self, source: Source) {
        let token = self.shutdown.child_token();
        let (followed, out) = ((source.clone(), self.epoch), self.out.clone());
        tokio::spawn(follow(self.client.clone(), followed, out, token.clone()));
        self.running.insert(source, token.drop_guard());
    }

    /// A source has told something, or that it may not be read.
    pub(super) fn heard(&mut self, source: &Source, is_refused: bool) {
        if !is_refused {
            self.refused.remove(source);
        } else if !source.may_be_forbidden() {
            self.refused.insert(source.clone());
            return;
        }
        if self.running.contains_key(source) && !self.heard.contains(source) {
            self.heard.insert(source.clone());
        }
    }

    /// Whether the Secrets of a namespace, or the shards of its group, are known.
    pub(super) fn knows(&self, watched: &Watched, namespace: &str) -> bool {
        let source = Source { watched: watched.clone(), namespace: Some(namespace.to_owned()) };
        !self.running.contains_key(&source) || self.heard.contains(&source)
    }

    /// What has not told everything yet. Secrets hold up only what names them: see [`Sources::knows`].
    pub(super) fn waiting_for(&self) -> Vec<String> {
        let silent = self.running.keys().filter(|source| !is_dynamic(source) && !self.heard.contains(source));
        let said = |source: &Source| match self.refused.contains(source) {
            true => format!("{source}: the operator may not list and watch them, see docs/rbac.md"),
            false => source.to_string(),
        };
        let mut waiting: Vec<_> = silent.map(said).collect();
        waiting.sort();
        waiting
    }
}

/// Whether a watch runs only while something needs it.
fn is_dynamic(source: &Source) -> bool {
    matches!(source.watched, Watched::Secrets | Watched::GroupSecrets)
}
