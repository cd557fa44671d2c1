//! The cluster state that the compile step needs besides the resources. The caller looks it up, so that compiling stays a pure
//! function.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{AllowedUse, CredentialHandle, Digest, ExpositionDocument, PublishedContent, Reason};

use crate::ObjectName;
use crate::resources::ConfigMap;

/// The `controllerName` of groups that set none, and of an operator without the option.
pub const DEFAULT_CONTROLLER_NAME: &str = "tamis.dev/operator";

/// The cluster state for a compile.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The group of expositions that name none and whose namespace has no group `default`.
    pub default_group: Option<&'a ObjectName>,
    /// The `controllerName` of this operator's groups.
    pub controller_name: &'a str,
    /// Labels of namespaces, for `allowedNamespaces: {from: Selector}`.
    pub namespaces: &'a dyn Namespaces,
    /// Labelled Secrets.
    pub secrets: &'a dyn Secrets,
    /// Labelled ConfigMaps.
    pub config_maps: &'a dyn ConfigMaps,
    /// Expositions that are not compiled together with a bundle that names them.
    pub parts: &'a dyn Parts,
}

impl fmt::Debug for Cluster<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("default_group", &self.default_group)
            .field("controller_name", &self.controller_name)
            .finish_non_exhaustive()
    }
}

/// Expositions that a bundle may name.
pub trait Parts {
    /// Returns the state of an exposition.
    fn find(&self, name: &ObjectName) -> PartState;
}

/// What an exposition publishes, as far as documents say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartTools {
    /// The tools in their order, and whether each is unfiltered.
    pub tools: IndexMap<String, bool>,
    /// The prompts and resources.
    pub content: PublishedContent,
    /// The service, whose prompts and resources these are.
    pub service: Option<Digest>,
}

impl PartTools {
    /// Returns what a document publishes.
    #[must_use]
    pub fn of(document: &ExpositionDocument) -> Self {
        // The entries of a followed server are filters: only gateways know its tools, and count them.
        let tools = document.tools.iter().filter(|_| document.follow.is_none());
        Self {
            tools: tools.map(|(name, tool)| (name.clone(), tool.is_unfiltered())).collect(),
            content: document.content.clone(),
            service: Some(document.service.clone()),
        }
    }
}

/// The state of an exposition that a bundle may name.
#[derive(Debug, Clone, PartialEq)]
pub enum PartState {
    /// The exposition does not exist.
    Missing,
    /// The exposition exists, but what is served of it is not known yet.
    Pending,
    /// The exposition is a bundle itself.
    Bundle,
    /// The exposition is served.
    Served {
        /// The group that serves it.
        group: Option<ObjectName>,
        /// What it publishes.
        tools: Arc<PartTools>,
    },
    /// The exposition answers 503.
    Stopped {
        /// The group that it belongs to, if it has one.
        group: Option<ObjectName>,
        /// Why it is stopped.
        reason: Reason,
    },
}

/// Labels of namespaces.
pub trait Namespaces {
    /// Returns the labels, or `None` if the namespace does not exist or cannot be read.
    fn labels(&self, namespace: &str) -> Option<&BTreeMap<String, String>>;

    /// Returns whether the labels of a namespace can be read.
    fn may_read(&self, _namespace: &str) -> bool {
        true
    }
}

/// ConfigMaps with the label `tamis.dev/document`.
pub trait ConfigMaps {
    /// Returns the state of a ConfigMap.
    fn find(&self, name: &ObjectName) -> ConfigMapState;
}

/// The state of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigMapState {
    /// The ConfigMap does not exist, or its owner has not labelled it.
    Missing,
    /// The operator is not allowed to read ConfigMaps in that namespace.
    Forbidden,
    /// A quota of the namespace refuses the ConfigMap: which one.
    Refused(String),
    /// The ConfigMap is labelled.
    Found(Arc<ConfigMap>),
}

/// Secrets, without their values.
pub trait Secrets {
    /// Returns the state of a Secret.
    fn find(&self, namespace: &str, name: &str) -> SecretState<'_>;
}

/// The state of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretState<'a> {
    /// The Secret does not exist.
    Missing,
    /// The Secret exists, but its owner has not labelled it.
    Unlabelled,
    /// The operator is not allowed to read Secrets in that namespace.
    Forbidden,
    /// The Secret is labelled.
    Found(&'a SecretFacts),
}

/// A labelled Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFacts {
    /// The use that its label allows.
    pub role: SecretRole,
    /// The keys of the Secret.
    pub keys: BTreeSet<String>,
    /// The uses that its annotation allows.
    pub uses: Vec<AllowedUse>,
    /// Lines of the annotation that cannot be parsed. They allow nothing.
    pub invalid_uses: Vec<usize>,
    /// `uid` and `resourceVersion`: a new version means new values.
    pub version: String,
}

/// The use that the label `tamis.dev/credentials` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretRole {
    /// `upstream`: the values are sent to upstreams.
    Upstream,
    /// `callers`: the values are compared with the callers' keys.
    Callers,
}

impl SecretFacts {
    /// Returns the name of one key's value in the group's shards.
    #[must_use]
    pub fn handle(&self, key: &str) -> CredentialHandle {
        CredentialHandle(format!(
            "{}.{}",
            self.version,
            tamis_config::Digest::of(key.as_bytes()).0.get(..12).unwrap_or("")
        ))
    }

    /// Returns the name of the whole Secret in the group's shards, for callers.
    #[must_use]
    pub fn whole(&self) -> CredentialHandle {
        CredentialHandle(format!("{}.all", self.version))
    }
}
