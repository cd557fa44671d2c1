//! The threads that serve connections.
//!
//! Each worker is one thread with a runtime of its own: a call starts, waits for its upstream, and is filtered and answered
//! on the thread that its connection was given to, so no task moves between cores and no other thread is woken. The runtime
//! that [`crate::Gateway::serve`] is called on accepts connections and keeps the background work: configuration, the admin
//! port, audit records. See `docs/decisions/0038-a-worker-per-core.md`.

mod pulse;

use std::cell::{Cell, OnceCell};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use pulse::{Pulse, Verdict};

/// How long a stopping worker may take to end its thread. What it still runs has outlived the drain.
const END: Duration = Duration::from_secs(1);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    /// The runtime that started the workers; none on other threads.
    static BACKGROUND: OnceCell<Handle> = const { OnceCell::new() };
}

/// Returns the number of the worker that this thread is, counted from 1; 0 on any other thread.
pub(crate) fn current() -> usize {
    NUMBER.get()
}

/// Runs work that would hold a worker up on the threads of the runtime that started the workers; on any other thread, on those of
/// its own runtime.
pub(crate) fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    background().spawn_blocking(work)
}

/// Returns the runtime that started the workers, which outlives them; on any other thread than a worker's, its own runtime.
pub(crate) fn background() -> Handle {
    BACKGROUND.with(|background| background.get().cloned()).unwrap_or_else(Handle::current)
}

/// Returns the number of cores that the process may use, by its affinity and the quota of its control group; at least 1.
#[must_use]
pub fn available_cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// What a worker has to do.
#[derive(Debug, Default)]
pub(crate) struct Load {
    connections: AtomicUsize,
    requests: AtomicUsize,
    /// Pulses that the worker has answered.
    answered: AtomicU64,
    is_stalled: AtomicBool,
}

impl Load {
    /// Counts a request, until [`Load::request_ended`].
    pub(crate) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a request that was counted.
    pub(crate) fn request_ended(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    fn rank(&self) -> Rank {
        Rank {
            is_stalled: self.is_stalled.load(Ordering::Relaxed),
            work: self.requests.load(Ordering::Relaxed) + self.connections.load(Ordering::Relaxed),
        }
    }
}

/// What decides which worker gets a connection: the least is chosen, field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_stalled: bool,
    /// Requests in flight and connections. Their sum, since each alone misleads: a stream of notifications is a request that
    /// may last for days, and a connection that is idle now may have requests later.
    work: usize,
}

/// Returns the index of the least rank; among equals, the first at or after `start`, in a circle.
fn least(ranks: impl ExactSizeIterator<Item = Rank>, start: usize) -> usize {
    let count = ranks.len().max(1);
    let from_start = |index: usize| (index + count - start % count) % count;
    ranks.enumerate().min_by_key(|&(index, rank)| (rank, from_start(index))).map_or(0, |(index, _)| index)
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    load: Arc<Load>,
}

/// A worker, with a connection counted for it. Dropped with the connection.
#[derive(Debug)]
pub(crate) struct Assigned {
    runtime: Handle,
    load: Arc<Load>,
}

impl Assigned {
    /// Returns the runtime that serves the connection.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the counters of the worker.
    pub(crate) fn load(&self) -> &Arc<Load> {
        &self.load
    }
}

impl Drop for Assigned {
    fn drop(&mut self) {
        self.load.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The workers of one listener.
#[derive(Debug)]
pub(crate) struct Workers {
    workers: Vec<Worker>,
    next: AtomicUsize,
    stop: CancellationToken,
    /// Closed when the last thread has ended.
    ended: mpsc::Receiver<()>,
}

impl Workers {
    /// Starts `count` threads. Where the system allows fewer, there are fewer; where it allows none, the runtime of the caller
    /// serves.
    pub(crate) fn start(count: NonZero<usize>) -> Self {
        let stop = CancellationToken::new();
        let (alive, ended) = mpsc::channel(1);
        let mut workers = Vec::new();
        for number in 1..=count.get() {
            match start(number, &stop, &alive) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    tracing::error!(started = workers.len(), workers = count, "a worker cannot be started: {error}");
                    break;
                }
            }
        }
        if workers.is_empty() {
            workers.push(Worker { runtime: Handle::current(), load: Arc::default() });
        }
        Self { workers, next: AtomicUsize::new(0), stop, ended }
    }

    /// Serves on the runtime of the caller alone.
    pub(crate) fn on_this_runtime() -> Self {
        let (_, ended) = mpsc::channel(1);
        let worker = Worker { runtime: Handle::current(), load: Arc::default() };
        Self { workers: vec![worker], next: AtomicUsize::new(0), stop: CancellationToken::new(), ended }
    }

    /// Chooses the worker with the least to do for a new connection.
    pub(crate) fn assign(&self) -> Assigned {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let Worker { runtime, load } =
            &self.workers[least(self.workers.iter().map(|worker| worker.load.rank()), start)];
        load.connections.fetch_add(1, Ordering::Relaxed);
        Assigned { runtime: runtime.clone(), load: Arc::clone(load) }
    }

    /// Finds workers that do not come to run a task within [`pulse::STALLED`]: they get no connections until they do, and
    /// `stalled` is called once for each time. Never returns.
    pub(crate) async fn watch(&self, stalled: impl Fn()) {
        let mut pulses: Vec<Pulse> = self.workers.iter().map(|_| Pulse::new(Instant::now())).collect();
        let mut ticks = tokio::time::interval(pulse::INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            ticks.tick().await;
            // A process that did not run at all has no worker to blame.
            let late = last.elapsed().saturating_sub(2 * pulse::INTERVAL);
            last = Instant::now();
            pulses.iter_mut().for_each(|pulse| pulse.excuse(late));
            for (number, (worker, pulse)) in (1_usize..).zip(self.workers.iter().zip(&mut pulses)) {
                let load = &worker.load;
                let verdict = pulse.tick(load.answered.load(Ordering::Relaxed), Instant::now());
                match verdict {
                    Verdict::Waits => continue,
                    Verdict::Answered => {}
                    Verdict::Stalled => {
                        load.is_stalled.store(true, Ordering::Relaxed);
                        tracing::warn!(
                            worker = number,
                            "worker held up; it gets no new connections until it runs again"
                        );
                        stalled();
                        continue;
                    }
                    Verdict::Recovered(after) => {
                        load.is_stalled.store(false, Ordering::Relaxed);
                        tracing::info!(worker = number, ?after, "worker runs again");
                    }
                }
                let load = Arc::clone(load);
                worker.runtime.spawn(async move { load.answered.fetch_add(1, Ordering::Relaxed) });
            }
        }
    }

    /// Ends the threads and drops the tasks that they still have. Waits for [`END`] at most.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.workers.clear();
        if tokio::time::timeout(END, self.ended.recv()).await.is_err() {
            tracing::warn!("a worker is held up and was left behind");
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn start(number: usize, stop: &CancellationToken, alive: &mpsc::Sender<()>) -> io::Result<Worker> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, alive, background) = (stop.clone(), alive.clone(), Handle::current());
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    thread::Builder::new().name(format!("tamis-worker-{number}")).spawn(move || {
        NUMBER.set(number);
        BACKGROUND.with(|cell| _ = cell.set(background));
        // A worker logs to where the thread that started it logs.
        let _logs = tracing::dispatcher::set_default(&dispatch);
        runtime.block_on(stop.cancelled());
        // Work in the pool may not have noticed yet that its caller is gone.
        runtime.shutdown_background();
        drop(alive);
    })?;
    Ok(Worker { runtime: handle, load: Arc::default() })
}

#[cfg(test)]
mod tests;
