//! Runs long work outside the serving threads. As many jobs run at once as there are cores; the rest waits in a queue
//! that serves the expositions in turn.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tamis_config::ExpositionId;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::memory::{Exhausted, Reservation};
use crate::workers;

/// The slots for long work, and the queue for them.
#[derive(Debug)]
pub(crate) struct Compute {
    slots: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    busy: usize,
    waiting: Fair<ExpositionId, oneshot::Sender<()>>,
}

/// Why work was not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRun {
    /// Its deadline passed in the queue.
    Overdue,
    /// There was no memory for it.
    Exhausted,
}

impl Default for Compute {
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    }
}

impl Compute {
    /// Creates a pool with this many slots, at least one.
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), state: Mutex::default() }
    }

    /// Runs `work` for an exposition when a slot is free and its memory is reserved.
    ///
    /// `memory` is the call's reservation, and the bytes that `work` needs. They are reserved for as long as `work`
    /// runs, even if the caller disconnects, and stay in the reservation afterwards. The closure passed to `work`
    /// returns true when the deadline has passed or when this future was dropped because the caller disconnected.
    /// `work` should then end.
    ///
    /// # Errors
    /// [`NotRun::Overdue`] if the deadline passed in the queue. If it passes later, `work` reports that in its result.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        exposition: &ExpositionId,
        deadline: Instant,
        mut memory: Option<(&mut Reservation, u64)>,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, NotRun> {
        let ready = timeout_at(deadline.into(), self.ready(exposition, &mut memory)).await;
        let slot = ready.map_err(|_| NotRun::Overdue)?.map_err(|Exhausted| NotRun::Exhausted)?;
        let part = memory.as_mut().map(|(held, bytes)| held.split(*bytes));
        let left = SetOnDrop(Arc::default());
        let gone = Arc::clone(&left.0);
        let task = workers::spawn_blocking(move || {
            // The slot is held until the thread ends, even if the caller disconnects.
            let _slot = slot;
            (work(&|| gone.load(Ordering::Relaxed) || Instant::now() >= deadline), part)
        });
        // The task fails only when the runtime shuts down, and then the answer is not needed.
        let (done, part) = task.await.map_err(|_| NotRun::Overdue)?;
        if let (Some((held, _)), Some(part)) = (memory, part) {
            held.absorb(part);
        }
        Ok(done)
    }

    /// Waits for a slot and for memory. Memory is waited for without a slot, so that other work can run.
    async fn ready(
        self: &Arc<Self>,
        exposition: &ExpositionId,
        memory: &mut Option<(&mut Reservation, u64)>,
    ) -> Result<Slot, Exhausted> {
        let slot = self.slot(exposition).await;
        let Some((held, bytes)) = memory else { return Ok(slot) };
        if held.try_take(*bytes) {
            return Ok(slot);
        }
        drop(slot);
        held.take(*bytes).await?;
        Ok(self.slot(exposition).await)
    }

    async fn slot(self: &Arc<Self>, exposition: &ExpositionId) -> Slot {
        let receiver = {
            let mut state = self.lock();
            if state.busy < self.slots {
                state.busy += 1;
                return Slot(Arc::clone(self));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push(exposition, sender);
            receiver
        };
        let mut turn = Turn { receiver, compute: Arc::clone(self), taken: false };
        // The sender is dropped only when it is sent to.
        let _ = (&mut turn.receiver).await;
        turn.taken = true;
        Slot(Arc::clone(self))
    }

    /// Passes a slot to the next job that still waits.
    fn release(&self) {
        let mut state = self.lock();
        while let Some(next) = state.waiting.pop() {
            if next.send(()).is_ok() {
                return;
            }
        }
        state.busy -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run one job.
#[derive(Debug)]
struct Slot(Arc<Compute>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A place in the queue. If its owner has left when a slot arrives, the slot goes to the next job.
struct Turn {
    receiver: oneshot::Receiver<()>,
    compute: Arc<Compute>,
    taken: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.receiver.close();
        if !self.taken && self.receiver.try_recv().is_ok() {
            self.compute.release();
        }
    }
}

/// Sets a flag when the future that holds it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A queue that serves keys in turn, and the items of a key in order of arrival.
#[derive(Debug)]
struct Fair<K, T> {
    /// Keys with waiting items, the next one first.
    order: VecDeque<K>,
    waiting: HashMap<K, VecDeque<T>>,
}

impl<K, T> Default for Fair<K, T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), waiting: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone, T> Fair<K, T> {
    fn push(&mut self, key: &K, item: T) {
        match self.waiting.get_mut(key) {
            Some(queue) => queue.push_back(item),
            None => {
                self.order.push_back(key.clone());
                self.waiting.insert(key.clone(), VecDeque::from([item]));
            }
        }
    }

    fn pop(&mut self) -> Option<T> {
        let key = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&key)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.order.push_back(key);
        }
        item
    }
}

#[cfg(test)]
#[path = "compute_tests.rs"]
mod tests;
