//! The figures of a run. `serde` makes JSON of them, `markdown.rs` the tables.

use serde::Serialize;

use crate::call::Era;
use crate::client::Protocol;
use crate::memory::{Expositions, Held, Idle};
use crate::plan::Target;
use crate::stall::Stall;
use crate::stats::{Basis, Latency};

/// The figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) cases: Vec<Measured>,
    /// Published gateways, or why they were not measured.
    pub(crate) peers: Option<Result<Peers, String>>,
    pub(crate) expositions: Vec<Expositions>,
    /// The memory of idle connections, or why it was not measured.
    pub(crate) idle: Option<Result<Idle, String>>,
    /// The memory of calls in flight, or why it was not measured.
    pub(crate) held: Option<Result<Held, String>>,
    /// Calls while a worker was held up, or why they were not measured.
    pub(crate) stall: Option<Result<Stall, String>>,
}

/// What a figure depends on, apart from the code.
#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    /// Which processes share which cores.
    pub(crate) cores: String,
    pub(crate) tamis: String,
    /// Commit and profile.
    pub(crate) build: String,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
}

/// The figures of the published gateways.
#[derive(Serialize)]
pub(crate) struct Peers {
    /// Package and version of each.
    pub(crate) versions: Vec<String>,
    pub(crate) measured: Measured,
}

/// A measured case.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) case: String,
    pub(crate) kb: usize,
    pub(crate) protocol: Protocol,
    pub(crate) concurrency: usize,
    pub(crate) basis: Basis,
    pub(crate) rows: Vec<MeasuredRow>,
}

/// A measured server.
#[derive(Serialize)]
pub(crate) struct MeasuredRow {
    pub(crate) target: Target,
    pub(crate) era: Option<Era>,
    pub(crate) name: String,
    pub(crate) answer_bytes: usize,
    pub(crate) calls_per_second: f64,
    /// Calls a second of the basis.
    pub(crate) per_core: f64,
    /// The share of the time in which the target's core had no work.
    pub(crate) idle: Option<f64>,
    /// The share of the time in which other processes used the target's core.
    pub(crate) others: f64,
    /// The rate of the open loop.
    pub(crate) offered_per_second: Option<f64>,
    pub(crate) latency: Option<Latency>,
}

impl Measured {
    /// Returns the row that the others are compared with, if it was measured.
    pub(crate) fn reference(&self) -> Option<&MeasuredRow> {
        self.rows.iter().find(|row| row.target.is_reference())
    }

    /// Returns the first row of a target.
    pub(crate) fn row(&self, target: Target) -> Option<&MeasuredRow> {
        self.rows.iter().find(|row| row.target == target)
    }
}

impl Report {
    /// Returns a report without figures.
    pub(crate) fn new(machine: Machine, rounds: usize, seconds: f64) -> Self {
        Self {
            machine,
            rounds,
            seconds,
            cases: Vec::new(),
            peers: None,
            expositions: Vec::new(),
            idle: None,
            held: None,
            stall: None,
        }
    }
}
