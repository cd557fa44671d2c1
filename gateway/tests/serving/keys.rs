//! Callers that a test changes while the gateway serves.

use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};
use tamis_config::{CredentialHandle, CredentialRef};
use tamis_gateway::Callers;
use tamis_gateway::upstream::{Credentials, Secret};

/// The handle of the callers' Secret.
pub(crate) const HANDLE: &str = "u.1.all";

/// The callers of the Secret `default/partners`. Any other Secret is not there.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    callers: Arc<Mutex<Option<Arc<Callers>>>>,
    /// What the Secret has to be asked for by; none: its name.
    handle: Option<&'static str>,
}

impl Keys {
    /// Known by their handle.
    pub(crate) fn of(callers: &[(&str, &str)]) -> Self {
        let keys = Self { callers: Arc::default(), handle: Some(HANDLE) };
        keys.set(callers);
        keys
    }

    /// Known by the name of their Secret.
    pub(crate) fn named(callers: &[(&str, &str)]) -> Self {
        Self { handle: None, ..Self::of(callers) }
    }

    pub(crate) fn set(&self, callers: &[(&str, &str)]) {
        let hex = |key: &str| Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let entries = callers.iter().map(|(name, key)| (*name, format!("sha256:{}", hex(key))));
        *self.callers.lock().unwrap() = Some(Arc::new(Callers::new("partners", entries).unwrap()));
    }

    pub(crate) fn remove(&self) {
        *self.callers.lock().unwrap() = None;
    }
}

impl Credentials for Keys {
    fn get(&self, _: &str, _: &CredentialRef) -> Option<Secret> {
        None
    }

    fn callers(&self, namespace: &str, secret: &str, handle: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        assert_eq!((namespace, handle.map(|h| h.0.as_str())), ("default", self.handle));
        if secret == "partners" { self.callers.lock().unwrap().clone() } else { None }
    }
}
