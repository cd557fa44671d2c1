//! Whoever sent a request and was let in. A stream asks again from time to time: keys are withdrawn.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::watch;

use crate::access::{self, KeyDigest, Turned};
use crate::call::Caller;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::registry::{Slot, State};

/// Somebody who may call, and what that rests on.
#[derive(Debug, Clone)]
pub(super) struct Guest {
    gateway: Arc<Gateway>,
    slot: Arc<Slot>,
    presented: Option<KeyDigest>,
    name: Option<Arc<str>>,
}

impl Guest {
    /// Lets the sender of a request in.
    ///
    /// # Errors
    /// [`Turned`]: away.
    pub(super) fn admit(
        gateway: &Arc<Gateway>,
        slot: &Arc<Slot>,
        exposition: &Exposition,
        headers: &HeaderMap,
    ) -> Result<Self, Turned> {
        let mut presented = None;
        let name = exposition.admit(gateway.options.credentials.as_ref(), || {
            presented = access::presented(headers);
            presented
        })?;
        Ok(Self { gateway: Arc::clone(gateway), slot: Arc::clone(slot), presented, name })
    }

    /// As audit records tell it.
    pub(super) fn caller(&self, peer: IpAddr) -> Caller {
        match &self.name {
            Some(name) => Caller::Key(Arc::clone(name), peer),
            None => Caller::Peer(peer),
        }
    }

    /// Whether it would still be let in, under the same name. Where the exposition is stopped there is nothing to see,
    /// and nothing to ask.
    pub(super) fn is_welcome(&self) -> bool {
        match self.slot.state().as_ref() {
            State::Serving(exposition) => {
                let store = self.gateway.options.credentials.as_ref();
                exposition.admit(store, || self.presented).is_ok_and(|name| name == self.name)
            }
            State::Stopped(_) => true,
        }
    }

    /// Follows the changes of the exposition's tools.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.slot.changes()
    }
}
