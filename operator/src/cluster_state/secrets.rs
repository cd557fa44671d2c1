//! Secrets that take part, with their values, and what is known of those that do not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use tamis_config::{CredentialHandle, names, parse_uses};
use tamis_crds::ObjectName;
use tamis_crds::cluster::{SecretFacts, SecretRole, SecretState};

/// A Secret that takes part. Its `Debug` shows no value.
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
    /// None where the Secret's label does not let it take part.
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

    /// All values by the names that documents give them.
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

/// What is known of the Secrets of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct SecretStore {
    found: HashMap<ObjectName, Arc<Credential>>,
    /// The Secret that each value comes from.
    origins: HashMap<CredentialHandle, ObjectName>,
    /// Named by somebody and not found among those with a label: whether it is there at all.
    probed: BTreeMap<ObjectName, bool>,
    /// Namespaces whose Secrets the operator may not read.
    forbidden: BTreeSet<String>,
}

impl SecretStore {
    /// Takes note of a Secret. Whether anything is another than before.
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

    /// Whether it was there.
    pub(crate) fn remove(&mut self, name: &ObjectName) -> bool {
        self.probed.remove(name);
        let Some(before) = self.found.remove(name) else { return false };
        for (handle, _) in before.values() {
            self.origins.remove(&handle);
        }
        true
    }

    /// The names of all in a namespace.
    pub(crate) fn names(&self, namespace: &str) -> Vec<ObjectName> {
        self.found.keys().filter(|name| name.namespace == namespace).cloned().collect()
    }

    /// Notes that a namespace may not be read. Whether that is news.
    pub(crate) fn forbid(&mut self, namespace: &str) -> bool {
        self.forbidden.insert(namespace.to_owned())
    }

    /// Notes that a namespace may be read. Whether that is news.
    pub(crate) fn permit(&mut self, namespace: &str) -> bool {
        self.forbidden.remove(namespace)
    }

    /// Forgets of which Secrets it was asked whether they are there, unless somebody still names them.
    pub(crate) fn forget_probes(&mut self, is_named: impl Fn(&ObjectName) -> bool) {
        self.probed.retain(|name, _| is_named(name));
    }

    /// Notes whether a Secret without the label exists. Whether that is news.
    pub(crate) fn probed(&mut self, name: &ObjectName, exists: bool) -> bool {
        self.probed.insert(name.clone(), exists) != Some(exists)
    }

    /// Whether it is not known what to say of this one.
    pub(crate) fn wants_probe(&self, name: &ObjectName) -> bool {
        !self.found.contains_key(name) && !self.probed.contains_key(name) && !self.forbidden.contains(&name.namespace)
    }

    /// Some that were asked for and may be there, or gone, by now: no watch tells of Secrets that do not take part.
    /// Beginning after `last`, and again from the first.
    pub(crate) fn asked_for(&self, last: Option<&ObjectName>, count: usize) -> Vec<ObjectName> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.probed.range((after, Bound::Unbounded)).chain(self.probed.iter());
        names.take(count.min(self.probed.len())).map(|(name, _)| name.clone()).collect()
    }

    /// What a Secret may be used for; none where it does not take part.
    pub(crate) fn role(&self, name: &ObjectName) -> Option<SecretRole> {
        self.found.get(name).map(|credential| credential.facts.role)
    }

    /// What compiling is told.
    pub(crate) fn state(&self, name: &ObjectName) -> SecretState<'_> {
        match (self.found.get(name), self.probed.get(name)) {
            (Some(credential), _) => SecretState::Found(&credential.facts),
            (None, _) if self.forbidden.contains(&name.namespace) => SecretState::Forbidden,
            (None, Some(true)) => SecretState::Unlabelled,
            (None, _) => SecretState::Missing,
        }
    }

    /// The value that a document names.
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
    fn all_that_were_asked_for_have_their_turn() {
        let mut store = SecretStore::default();
        let names = ["a", "b", "c"].map(|name| ObjectName { namespace: "team".to_owned(), name: name.to_owned() });
        assert_eq!(store.asked_for(None, 2), []);
        for name in &names {
            assert!(store.probed(name, false));
        }
        let [a, b, c] = names;
        assert_eq!(store.asked_for(None, 2), [a.clone(), b.clone()]);
        assert_eq!(store.asked_for(Some(&b), 2), [c.clone(), a.clone()]);
        assert_eq!(store.asked_for(Some(&c), 9), [a.clone(), b.clone(), c]);
        assert!(!store.probed(&a, false) && store.probed(&a, true));
    }

    #[test]
    fn a_handle_names_one_value_for_ever() {
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
    fn callers_go_as_a_whole_and_never_to_an_upstream() {
        let mut store = SecretStore::default();
        store.put(name(), &secret("1", "callers", &[("ann", "sha256:00\n"), ("bob", "sha256:11")]));
        let SecretState::Found(facts) = store.state(&name()) else { panic!("is there") };
        let whole = store.value(&facts.whole()).expect("is there");
        assert_eq!(String::from_utf8(whole).expect("is text"), r#"{"ann":"sha256:00","bob":"sha256:11"}"#);
        assert_eq!(store.value(&facts.handle("ann")), None);
    }

    #[test]
    fn a_secret_without_its_owners_word_is_told_from_a_missing_one() {
        let mut store = SecretStore::default();
        assert_eq!((store.state(&name()), store.wants_probe(&name())), (SecretState::Missing, true));
        store.probed(&name(), true);
        assert_eq!((store.state(&name()), store.wants_probe(&name())), (SecretState::Unlabelled, false));
        store.forbid("n");
        assert_eq!(store.state(&name()), SecretState::Forbidden);
        store.put(name(), &secret("1", "upstream", &[]));
        assert!(matches!(store.state(&name()), SecretState::Found(_)));
        store.put(name(), &secret("2", "other", &[]));
        assert_eq!((store.state(&name()), store.wants_probe(&name())), (SecretState::Missing, true));
    }
}
