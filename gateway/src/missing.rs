//! Finds credentials that expositions name but that are missing. They are reported to the user who runs the gateway;
//! callers only learn that a call is not possible.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tamis_config::{Access, CredentialRef, ExpositionId};

use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::registry::State;
use crate::upstream::{Credentials, environment_variable};

/// A missing credential of an exposition. Holds names only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingCredential {
    /// The Secret with the callers' keys. Without it, the exposition rejects every call.
    Callers {
        /// The Secret's name.
        secret: String,
    },
    /// A credential towards the upstream.
    Upstream {
        /// The Secret's name.
        secret: String,
        /// The key in it.
        key: String,
        /// The tools of the exposition that cannot be called.
        tools: BTreeSet<String>,
    },
}

impl MissingCredential {
    /// Returns how to provide the credential to `tamis serve`.
    #[must_use]
    pub fn remedy(&self) -> String {
        // The user chooses the callers' names; `robot` is an example.
        let (secret, key, what) = match self {
            Self::Callers { secret } => (secret, "robot", "=sha256:.. for a caller named robot"),
            Self::Upstream { secret, key, .. } => (secret, key.as_str(), ""),
        };
        let variable = environment_variable(&CredentialRef { name: secret.clone(), key: key.to_owned() });
        format!("set {variable}{what}, or pass --secrets DIR with the file DIR/{secret}/{key}")
    }
}

impl fmt::Display for MissingCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Callers { secret } => {
                write!(f, "nobody can call it: the Secret {secret} with the callers' keys is missing")
            }
            Self::Upstream { secret, key, tools } => {
                let tools = tools.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                write!(f, "{tools} cannot be called: the credential {secret}/{key} is missing")
            }
        }
    }
}

impl Gateway {
    /// Returns the credentials that are missing now, by exposition. Reads each named credential. Empty in a cluster,
    /// where a document waits for its credentials and the operator reports missing ones.
    #[must_use]
    pub fn missing_credentials(&self) -> BTreeMap<ExpositionId, Vec<MissingCredential>> {
        if self.options.admin_token.is_some() {
            return BTreeMap::new();
        }
        let slots = self.registry.all();
        let store = &*self.options.credentials;
        let missing = slots.values().map(|slot| {
            let missing = match slot.state().as_ref() {
                State::Serving(exposition) => missing(exposition, store),
                State::Bundle(bundle) => {
                    missing_callers(bundle.access.as_ref(), &slot.id.namespace, store).into_iter().collect()
                }
                State::Stopped(_) => Vec::new(),
            };
            (ExpositionId::clone(&slot.id), missing)
        });
        missing.filter(|(_, missing)| !missing.is_empty()).collect()
    }
}

/// Returns the Secret with the callers' keys, if it is missing.
fn missing_callers(access: Option<&Access>, namespace: &str, store: &dyn Credentials) -> Option<MissingCredential> {
    let (secret, handle) = access.and_then(Access::secret)?;
    let is_missing = store.callers(namespace, secret, handle).is_none();
    is_missing.then(|| MissingCredential::Callers { secret: secret.to_owned() })
}

fn missing(exposition: &Exposition, store: &dyn Credentials) -> Vec<MissingCredential> {
    let callers = missing_callers(exposition.access.as_ref(), &exposition.id.namespace, store);
    let mut missing: Vec<_> = callers.into_iter().collect();
    let scope = exposition.credentials(store);
    let mut tools: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for tool in exposition.callables() {
        let document = &exposition.service.document;
        let Some(declared) = document.callable(tool) else { continue };
        for credential in document.credentials(declared) {
            tools.entry((&credential.name, &credential.key)).or_default().insert(tool.clone());
        }
    }
    for ((name, key), tools) in tools {
        let credential = CredentialRef { name: name.to_owned(), key: key.to_owned() };
        if scope.get(&credential).is_none() {
            missing.push(MissingCredential::Upstream { secret: credential.name, key: credential.key, tools });
        }
    }
    missing
}
