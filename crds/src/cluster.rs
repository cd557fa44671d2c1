//! What the compile step knows in a cluster, beside the resources. All of it is looked up by whoever calls it, so that
//! compiling stays a pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tamis_config::{AllowedUse, CredentialHandle};

use crate::ObjectName;

/// The `controllerName` of groups that write none, and of an operator that is given none.
pub const DEFAULT_CONTROLLER_NAME: &str = "tamis.dev/operator";

/// A cluster, as far as compiling needs it.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The group of expositions that name none, where their namespace has no group `default`.
    pub default_group: Option<&'a ObjectName>,
    /// What the groups of this operator write into `controllerName`, where they write one.
    pub controller_name: &'a str,
    /// Labels of namespaces, for `allowedNamespaces: {from: Selector}`.
    pub namespaces: &'a dyn Namespaces,
    /// Secrets that take part.
    pub secrets: &'a dyn Secrets,
}

impl fmt::Debug for Cluster<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("default_group", &self.default_group)
            .field("controller_name", &self.controller_name)
            .finish_non_exhaustive()
    }
}

/// Labels of namespaces.
pub trait Namespaces {
    /// None where the namespace is not there, or may not be read.
    fn labels(&self, namespace: &str) -> Option<&BTreeMap<String, String>>;

    /// Whether the labels of a namespace may be read.
    fn may_read(&self, _namespace: &str) -> bool {
        true
    }
}

/// Secrets, without their values.
pub trait Secrets {
    /// What is known of a Secret.
    fn find(&self, namespace: &str, name: &str) -> SecretState<'_>;
}

/// What is known of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretState<'a> {
    /// There is none.
    Missing,
    /// It is there, but its owner has not let it take part.
    Unlabelled,
    /// The operator may not read Secrets in that namespace.
    Forbidden,
    /// It takes part.
    Found(&'a SecretFacts),
}

/// A Secret that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFacts {
    /// What its label lets it be used for.
    pub role: SecretRole,
    /// The keys that it has.
    pub keys: BTreeSet<String>,
    /// How its values may be used, as its annotation says.
    pub uses: Vec<AllowedUse>,
    /// Lines of the annotation that could not be read; they allow nothing.
    pub invalid_uses: Vec<usize>,
    /// `uid` and `resourceVersion`: another version is another value.
    pub version: String,
}

/// What a Secret may be used for, by the label `tamis.dev/credentials`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretRole {
    /// `upstream`: sent to upstreams.
    Upstream,
    /// `callers`: compared with what callers present.
    Callers,
}

impl SecretFacts {
    /// The name in the group's shards of one key's value.
    #[must_use]
    pub fn handle(&self, key: &str) -> CredentialHandle {
        CredentialHandle(format!(
            "{}.{}",
            self.version,
            tamis_config::Digest::of(key.as_bytes()).0.get(..12).unwrap_or("")
        ))
    }

    /// The name in the group's shards of the whole Secret, for callers.
    #[must_use]
    pub fn whole(&self) -> CredentialHandle {
        CredentialHandle(format!("{}.all", self.version))
    }
}
