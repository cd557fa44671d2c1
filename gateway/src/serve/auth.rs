//! The authenticated sender of a request. Streams check it again while they are open, because keys are withdrawn.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use http::HeaderMap;

use crate::access::{self, AuthError, KeyDigest};
use crate::bundle::{Sender, View};
use crate::call::Caller;
use crate::gateway::Gateway;
use crate::registry::{Slot, State};
use crate::target::Target;

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
    /// Authenticates a request. Returns what it addresses too, as far as its sender may see it; none if nothing is served.
    ///
    /// # Errors
    /// [`AuthError`] if the address does not admit the sender.
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        slot: &Arc<Slot>,
        state: &State,
        headers: &HeaderMap,
    ) -> Result<Option<(Self, Target)>, AuthError> {
        let store = gateway.options.credentials.as_ref();
        let mut presented = None;
        let mut present = || {
            presented = access::presented(headers);
            presented
        };
        let (name, target) = match state {
            State::Serving(exposition) => {
                (exposition.admit(store, present)?, Target::Exposition(Arc::clone(exposition)))
            }
            State::Bundle(bundle) => {
                // The parts compare the key with their own callers, whether the bundle asks for one or not.
                let key = present();
                let name = bundle.admit(store, || key)?;
                (name, Target::Bundle(Arc::new(View::new(gateway, bundle, Sender::Key(key)))))
            }
            State::Stopped(_) => return Ok(None),
        };
        Ok(Some((Self { gateway: Arc::clone(gateway), slot: Arc::downgrade(slot), presented, name }, target)))
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
        let store = self.gateway.options.credentials.as_ref();
        let admitted = match slot.state().as_ref() {
            State::Serving(exposition) => exposition.admit(store, || self.presented),
            State::Bundle(bundle) => bundle.admit(store, || self.presented),
            State::Stopped(_) => return Access::Granted,
        };
        if admitted.is_ok_and(|name| name == self.name) { Access::Granted } else { Access::Withdrawn }
    }
}
