//! Streams of notifications that are open, and how many each caller may have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tamis_config::ExpositionId;

use crate::call::Caller;
use crate::gateway::Gateway;
use crate::mcp::RpcError;
use crate::memory;
use crate::metrics::Rejection;
use crate::shares::{Grant, Resource};
use crate::target::Target;

/// One caller of one exposition may have one in this many of the gateway's streams.
const OF_A_CALLER: usize = 4;

/// The number of open streams by exposition and caller (a key's name or an address).
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<Listener, usize>>);

type Listener = (Arc<ExpositionId>, String);

/// A place among the open streams of the gateway and of a caller.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    gateway: Arc<Gateway>,
    listener: Listener,
    _streams: Grant,
    _memory: Grant,
}

impl StreamPlace {
    /// Takes a place.
    ///
    /// # Errors
    /// There are too many streams. That is counted.
    pub(crate) fn take(gateway: &Arc<Gateway>, target: &Target, caller: &Caller) -> Result<Self, RpcError> {
        Self::reserve(gateway, target, caller).ok_or_else(|| {
            target.series().rejected(&gateway.metrics, Rejection::Streams);
            RpcError::busy(503, "too many open streams", 5)
        })
    }

    fn reserve(gateway: &Arc<Gateway>, target: &Target, caller: &Caller) -> Option<Self> {
        let streams = target.share().take(Resource::Streams, 1).ok()?;
        let memory = target.share().take(Resource::Bytes, memory::STREAM).ok()?;
        let listener = (Arc::clone(target.id()), caller.listener());
        let most = (gateway.options.limits.streams / OF_A_CALLER).max(1);
        gateway.listeners.begin(&listener, most).then(|| Self {
            gateway: Arc::clone(gateway),
            listener,
            _streams: streams,
            _memory: memory,
        })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.gateway.listeners.end(&self.listener);
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, HashMap<Listener, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more stream, unless there are `most` already.
    fn begin(&self, listener: &Listener, most: usize) -> bool {
        let mut open = self.lock();
        let count = open.entry(listener.clone()).or_default();
        let fits = *count < most;
        *count += usize::from(fits);
        fits
    }

    fn end(&self, listener: &Listener) {
        let mut open = self.lock();
        if let Some(count) = open.get_mut(listener) {
            *count -= 1;
            if *count == 0 {
                open.remove(listener);
            }
        }
    }
}
