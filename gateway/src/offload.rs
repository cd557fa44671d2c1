//! Decides which work of a call runs outside the serving threads. Work with an estimate above 100 microseconds runs in
//! the pool of [`Compute`], and is counted by its kind.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tamis_config::ExpositionId;

use crate::compute::{Compute, NotRun};
use crate::memory::Reservation;
use crate::metrics::Metrics;

/// Maximum bytes of JSON that are scanned inline for the position of a few members.
pub(crate) const LIGHT_READ: usize = 32 << 10;
/// Maximum bytes of an answer that are escaped and copied inline.
pub(crate) const LIGHT_WRITTEN: usize = 192 << 10;
/// Maximum bytes that are copied or measured inline.
pub(crate) const LIGHT_COPIED: usize = 512 << 10;

/// A kind of work; the label of `tamis_offloaded_work_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reading a request.
    Request,
    /// Reading and validating arguments.
    Arguments,
    /// Extracting a part of an upstream's answer, and merging pages.
    Upstream,
    /// Filtering an output.
    Filter,
    /// Writing an answer.
    Answer,
}

impl Work {
    /// All kinds of work.
    pub(crate) const ALL: [Self; 5] = [Self::Request, Self::Arguments, Self::Upstream, Self::Filter, Self::Answer];

    /// The name in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Arguments => "arguments",
            Self::Upstream => "upstream",
            Self::Filter => "filter",
            Self::Answer => "answer",
        }
    }
}

/// Runs heavy work of one exposition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offload<'a> {
    compute: &'a Arc<Compute>,
    metrics: &'a Metrics,
    exposition: &'a ExpositionId,
}

impl<'a> Offload<'a> {
    /// Creates a runner for the calls of an exposition.
    pub(crate) fn new(compute: &'a Arc<Compute>, metrics: &'a Metrics, exposition: &'a ExpositionId) -> Self {
        Self { compute, metrics, exposition }
    }

    /// Returns the exposition whose work it runs.
    pub(crate) fn exposition(self) -> &'a ExpositionId {
        self.exposition
    }

    /// Runs `work` in the pool, as [`Compute::run`] does.
    ///
    /// # Errors
    /// [`NotRun`].
    pub(crate) fn run<'f, T: Send + 'static>(
        self,
        kind: Work,
        deadline: Instant,
        memory: Option<(&'f mut Reservation, u64)>,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<T, NotRun>> + Send + 'f>>
    where
        'a: 'f,
    {
        self.metrics.offloaded(kind);
        // In a box, so that the futures of calls have no room for work that is rare.
        Box::pin(self.compute.run(self.exposition, deadline, memory, work))
    }
}
