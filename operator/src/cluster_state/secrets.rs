//! Secrets with the credentials label, with their values, and the known facts about Secrets without it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use tamis_config::{CredentialHandle, names, parse_uses};
use tamis_crds::ObjectName;
use tamis_crds::cluster::{SecretFacts, SecretRole, SecretState};

/// A Secret with the credentials label. `Debug` shows no value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) facts: SecretFacts,
    data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Credential {
    /// Reads a Secret. Returns `None` if it does not have the credentials label with a known role.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let metadata = &secret.metadata;
        let role = match metadata.labels.as_ref()?.get(names::CREDENTIALS_LABEL)?.as_str() {
            "upstream" => SecretRole::Upstream,
            "callers" => SecretRole::Callers,
            _ => return None,
        };
        let annotation = metadata.annotations.as_ref().and_then(|a| a.get(names::ALLOWED_USE_ANNOTATION));
        let (uses, invalid_uses) = annotation.map(|text| parse_uses(text)).unwrap_or_default();
        let data: BTreeMap<_, _> =
            secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
        Some(Self {
            facts: SecretFacts {
                role,
                keys: data.keys().cloned().collect(),
                uses,
                invalid_uses,
                version: format!("{}.{}", metadata.uid.as_deref()?, metadata.resource_version.as_deref()?),
            },
            data,
        })
    }

    /// Returns all values, by the handles that documents use.
    fn values(&self) -> impl Iterator<Item = (CredentialHandle, Vec<u8>)> {
        let keys = self.data.iter().map(|(key, value)| (self.facts.handle(key), value.clone()));
        let whole = (self.facts.role == SecretRole::Callers).then(|| {
            let text = |value: &Vec<u8>| String::from_utf8_lossy(value).trim().to_owned();
            let all: BTreeMap<_, _> = self.data.iter().map(|(caller, hash)| (caller, text(hash))).collect();
            (self.facts.whole(), serde_json::to_vec(&all).unwrap_or_default())
        });
        let keys = keys.filter(|_| self.facts.role == SecretRole::Upstream);
        keys.chain(whole)
    }
}

/// The known Secrets of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct SecretStore {
    found: HashMap<ObjectName, Arc<Credential>>,
    /// The Secret that each value comes from.
    origins: HashMap<CredentialHandle, ObjectName>,
    /// Secrets that an object names and that do not have the label, and whether they exist.
    probed: BTreeMap<ObjectName, bool>,
    /// Namespaces whose Secrets the operator may not read.
    forbidden: BTreeSet<String>,
}

impl SecretStore {
    /// Stores a Secret. Returns whether anything has changed.
    pub(crate) fn put(&mut self, name: ObjectName, secret: &Secret) -> bool {
        self.probed.remove(&name);
        self.forbidden.remove(&name.namespace);
        let Some(credential) = Credential::read(secret) else {
            return self.remove(&name);
        };
        if self.found.get(&name).is_some_and(|known| **known == credential) {
            return false;
        }
        self.remove(&name);
        for (handle, _) in credential.values() {
            self.origins.insert(handle, name.clone());
        }
        self.found.insert(name, Arc::new(credential));
        true
    }

    /// Removes a Secret. Returns whether it was known.
    pub(crate) fn remove(&mut self, name: &ObjectName) -> bool {
        self.probed.remove(name);
        let Some(before) = self.found.remove(name) else { return false };
        for (handle, _) in before.values() {
            self.origins.remove(&handle);
        }
        true
    }

    /// Returns the names of all Secrets with the label in a namespace.
    pub(crate) fn names(&self, namespace: &str) -> Vec<ObjectName> {
        self.found.keys().filter(|name| name.namespace == namespace).cloned().collect()
    }

    /// Records that the operator may not read the Secrets of a namespace. Returns whether that is new.
    pub(crate) fn forbid(&mut self, namespace: &str) -> bool {
        self.forbidden.insert(namespace.to_owned())
    }

    /// Records that the operator may read the Secrets of a namespace. Returns whether that is new.
    pub(crate) fn permit(&mut self, namespace: &str) -> bool {
        self.forbidden.remove(namespace)
    }

    /// Forgets whether Secrets without the label exist, except for those that an object still names.
    pub(crate) fn forget_probes(&mut self, is_named: impl Fn(&ObjectName) -> bool) {
        self.probed.retain(|name, _| is_named(name));
    }

    /// Records whether a Secret without the label exists. Returns whether that is new.
    pub(crate) fn probed(&mut self, name: &ObjectName, exists: bool) -> bool {
        self.probed.insert(name.clone(), exists) != Some(exists)
    }

    /// Returns whether it is unknown if a Secret exists, so that the API server has to be asked.
    pub(crate) fn needs_probe(&self, name: &ObjectName) -> bool {
        !self.found.contains_key(name) && !self.probed.contains_key(name) && !self.forbidden.contains(&name.namespace)
    }

    /// Returns some of the probed Secrets to probe again, since no watch covers Secrets without the label. Continues
    /// after `last`, and wraps around.
    pub(crate) fn next_probes(&self, last: Option<&ObjectName>, count: usize) -> Vec<ObjectName> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.probed.range((after, Bound::Unbounded)).chain(self.probed.iter());
        names.take(count.min(self.probed.len())).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the role of a Secret. Returns `None` if it does not have the label.
    pub(crate) fn role(&self, name: &ObjectName) -> Option<SecretRole> {
        self.found.get(name).map(|credential| credential.facts.role)
    }

    /// Returns the state of a Secret for the compiler.
    pub(crate) fn state(&self, name: &ObjectName) -> SecretState<'_> {
        match (self.found.get(name), self.probed.get(name)) {
            (Some(credential), _) => SecretState::Found(&credential.facts),
            (None, _) if self.forbidden.contains(&name.namespace) => SecretState::Forbidden,
            (None, Some(true)) => SecretState::Unlabelled,
            (None, _) => SecretState::Missing,
        }
    }

    /// Returns the value of a handle.
    pub(crate) fn value(&self, handle: &CredentialHandle) -> Option<Vec<u8>> {
        let credential = self.found.get(self.origins.get(handle)?)?;
        credential.values().find(|(name, _)| name == handle).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn secret(version: &str, role: &str, data: &[(&str, &str)]) -> Secret {
        Secret {
            metadata: ObjectMeta {
                uid: Some("u".to_owned()),
                resource_version: Some(version.to_owned()),
                labels: Some([(names::CREDENTIALS_LABEL.to_owned(), role.to_owned())].into()),
                annotations: Some(
                    [(
                        names::ALLOWED_USE_ANNOTATION.to_owned(),
                        "API.example.com bearer\nb.example.com\nb.example.com query key".to_owned(),
                    )]
                    .into(),
                ),
                ..ObjectMeta::default()
            },
            data: Some(data.iter().map(|(k, v)| ((*k).to_owned(), ByteString(v.as_bytes().to_vec()))).collect()),
            ..Secret::default()
        }
    }

    fn name() -> ObjectName {
        ObjectName { namespace: "n".to_owned(), name: "s".to_owned() }
    }

    #[test]
    fn probes_every_secret_in_turn() {
        let mut store = SecretStore::default();
        let names = ["a", "b", "c"].map(|name| ObjectName { namespace: "team".to_owned(), name: name.to_owned() });
        assert_eq!(store.next_probes(None, 2), []);
        for name in &names {
            assert!(store.probed(name, false));
        }
        let [a, b, c] = names;
        assert_eq!(store.next_probes(None, 2), [a.clone(), b.clone()]);
        assert_eq!(store.next_probes(Some(&b), 2), [c.clone(), a.clone()]);
        assert_eq!(store.next_probes(Some(&c), 9), [a.clone(), b.clone(), c]);
        assert!(!store.probed(&a, false) && store.probed(&a, true));
    }

    #[test]
    fn a_handle_never_names_another_value() {
        let mut store = SecretStore::default();
        assert!(store.put(name(), &secret("1", "upstream", &[("token", "old")])));
        let SecretState::Found(facts) = store.state(&name()) else { panic!("is there") };
        let old = facts.handle("token");
        let uses: Vec<_> = facts.uses.iter().map(ToString::to_string).collect();
        assert_eq!(uses, ["api.example.com bearer", "b.example.com query key"]);
        assert_eq!(facts.invalid_uses, [2]);
        assert_eq!(store.value(&old).as_deref(), Some(&b"old"[..]));
        assert!(!store.put(name(), &secret("1", "upstream", &[("token", "old")])));
        assert!(store.put(name(), &secret("2", "upstream", &[("token", "new")])));
        assert_eq!(store.value(&old), None);
        let SecretState::Found(facts) = store.state(&name()) else { panic!("is there") };
        assert_eq!(store.value(&facts.handle("token")).as_deref(), Some(&b"new"[..]));
        assert!(!format!("{store:?}").contains("new"));
    }

    #[test]
    fn callers_keys_are_one_value_and_never_credentials_for_an_upstream() {
        let mut store = SecretStore::default();
        store.put(name(), &secret("1", "callers", &[("ann", "sha256:00\n"), ("bob", "sha256:11")]));
        let SecretState::Found(facts) = store.state(&name()) else { panic!("is there") };
        let whole = store.value(&facts.whole()).expect("is there");
        assert_eq!(String::from_utf8(whole).expect("is text"), r#"{"ann":"sha256:00","bob":"sha256:11"}"#);
        assert_eq!(store.value(&facts.handle("ann")), None);
    }

    #[test]
    fn distinguishes_an_unlabelled_secret_from_a_missing_one() {
        let mut store = SecretStore::default();
        assert_eq!((store.state(&name()), store.needs_probe(&name())), (SecretState::Missing, true));
        store.probed(&name(), true);
        assert_eq!((store.state(&name()), store.needs_probe(&name())), (SecretState::Unlabelled, false));
        store.forbid("n");
        assert_eq!(store.state(&name()), SecretState::Forbidden);
        store.put(name(), &secret("1", "upstream", &[]));
        assert!(matches!(store.state(&name()), SecretState::Found(_)));
        store.put(name(), &secret("2", "other", &[]));
        assert_eq!((store.state(&name()), store.needs_probe(&name())), (SecretState::Missing, true));
    }
}
