//! The authenticated sender of a request. Streams check it again while they are open, because keys are withdrawn.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use http::HeaderMap;

use crate::access::{self, AuthError, KeyDigest};
use crate::call::Caller;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::registry::{Slot, State};

/// Who sent a request to an exposition, and the key that proves it.
#[derive(Debug, Clone)]
pub(super) struct AuthContext {
    gateway: Arc<Gateway>,
    /// Weak, because streams end when the exposition is removed.
    slot: Weak<Slot>,
    presented: Option<KeyDigest>,
    name: Option<Arc<str>>,
}

/// Whether a request that was authenticated once would be authenticated now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Yes, under the same name.
    Granted,
    /// No: its key was withdrawn, or belongs to another caller.
    Withdrawn,
    /// The exposition was removed.
    Removed,
}

impl AuthContext {
    /// Authenticates a request.
    ///
    /// # Errors
    /// [`AuthError`] if the exposition does not admit its sender.
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        slot: &Arc<Slot>,
        exposition: &Exposition,
        headers: &HeaderMap,
    ) -> Result<Self, AuthError> {
        let mut presented = None;
        let name = exposition.admit(gateway.options.credentials.as_ref(), || {
            presented = access::presented(headers);
            presented
        })?;
        Ok(Self { gateway: Arc::clone(gateway), slot: Arc::downgrade(slot), presented, name })
    }

    /// The caller as audit records name it.
    pub(super) fn caller(&self, peer: IpAddr) -> Caller {
        match &self.name {
            Some(name) => Caller::Key(Arc::clone(name), peer),
            None => Caller::Peer(peer),
        }
    }

    /// Authenticates the request again. A stopped exposition publishes nothing that would need protection, so its streams
    /// stay open until it is served again.
    pub(super) fn access(&self) -> Access {
        let Some(slot) = self.slot.upgrade() else { return Access::Removed };
        match slot.state().as_ref() {
            State::Serving(exposition) => {
                let store = self.gateway.options.credentials.as_ref();
                let admitted = exposition.admit(store, || self.presented).is_ok_and(|name| name == self.name);
                if admitted { Access::Granted } else { Access::Withdrawn }
            }
            State::Stopped(_) => Access::Granted,
        }
    }
}
