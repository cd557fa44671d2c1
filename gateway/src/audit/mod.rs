//! Writes one record for each call: the caller, the tool, the outcome, the sizes, and a signature of the answer.
//!
//! A record is one log line with the target `audit`, without payload. The call's thread queues the record, and one
//! thread signs, formats and writes many records at once: [`log`]. If an exposition asks for it, the output before filtering
//! goes into a separate file: [`files`].

mod files;
mod line;
mod log;
mod queue;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tamis_engine::Stage;

use crate::bundle::Bundle;
use crate::call::Caller;
use crate::exposition::Exposition;
use crate::gateway::StartError;
use crate::memory::{Reservation, Shared};
use crate::metrics::Outcome;
use crate::seal::Keyring;
use files::Files;
use log::Log;

/// The target of the log lines.
pub(crate) const TARGET: &str = "audit";
/// Interval between two checks whether everything is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(5);
/// Time for the disk and the reader of the log after a drain that took all of its time.
const MIN_FLUSH: Duration = Duration::from_secs(5);

/// Returns whether records are logged. If not, nothing is kept for a record.
pub(crate) fn is_logged() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

/// How records are logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditLog {
    /// As events of `tracing`, for any subscriber.
    #[default]
    Events,
    /// As lines on standard error, with the bytes that `tracing_subscriber::fmt()` writes without target and colours.
    /// This takes a fraction of the processor time of an event.
    Text,
    /// As lines on standard error, with the bytes that `tracing_subscriber::fmt().json().flatten_event(true)` writes.
    Json,
}

/// The record of one call. Owns its parts, so that the call need not wait until it is written.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) exposition: Arc<Exposition>,
    /// The bundle that the call came through.
    pub(crate) bundle: Option<Arc<Bundle>>,
    /// The number of the tool, or of another call, in the exposition.
    pub(crate) tool: usize,
    pub(crate) caller: Caller,
    pub(crate) outcome: Outcome,
    /// The filter stage that failed although the output passed (`Advisory`).
    pub(crate) failed_stage: Option<Stage>,
    /// The upstream's status; 0 if there was none.
    pub(crate) status: u16,
    /// Bytes of the output before filtering.
    pub(crate) output_bytes: usize,
    /// Bytes that went to the caller.
    pub(crate) result_bytes: usize,
    /// The answer, which is signed when the record is written; none if there is no answer. A keyed signature does not
    /// let readers of the log guess a short result. It covers the answer, not the output: a signature of the output
    /// would show whether removed data is equal.
    pub(crate) answer: Option<Shared>,
    /// When the call ended.
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    /// The trace that the call is part of, if it is sampled.
    pub(crate) trace: Option<String>,
    /// The file that holds the output before filtering.
    pub(crate) file: Option<String>,
}

impl Record {
    fn tool_name(&self) -> &str {
        self.exposition.call_name(self.tool).unwrap_or_default()
    }

    /// Returns how the call ended. An output that passed although a stage failed is not `ok`.
    fn verdict(&self) -> &'static str {
        match (self.outcome, self.failed_stage) {
            (Outcome::Ok, Some(_)) => "filter_failed",
            (outcome, _) => outcome.as_str(),
        }
    }
}

/// Writes records.
#[derive(Debug)]
pub(crate) struct Auditor {
    log: Log,
    files: Option<Files>,
}

impl Auditor {
    /// Starts the thread that writes records and, if there is a folder, the thread that writes files.
    ///
    /// # Errors
    /// The folder cannot be created, or a thread cannot be started.
    pub(crate) fn new(log: AuditLog, keyring: &Arc<Keyring>, folder: Option<PathBuf>) -> Result<Self, StartError> {
        let open = |folder: PathBuf| Files::new(&folder).map_err(|error| StartError::Audit { folder, error });
        let files = folder.map(open).transpose()?;
        let log = Log::start(log, Arc::clone(keyring), Box::new(io::stderr())).map_err(StartError::AuditThread)?;
        Ok(Self { log, files })
    }

    /// Returns whether full records can be written.
    pub(crate) fn keeps_files(&self) -> bool {
        self.files.is_some()
    }

    /// Queues the output of a full record to be written. It takes its memory over from the call. Returns the name of
    /// its file, or `dropped`.
    pub(crate) fn keep(
        &self,
        exposition: &Exposition,
        tool: &str,
        output: &Bytes,
        held: &mut Reservation,
    ) -> Option<String> {
        Some(self.files.as_ref()?.keep(&exposition.id, tool, output, held))
    }

    /// Queues a record to be written. Every record is written, in the order of the calls of this function.
    pub(crate) fn record(&self, record: Record) {
        self.log.record(record);
    }

    /// Waits until all records and files are written, for `limit` or [`MIN_FLUSH`]. Later records are written before
    /// [`Auditor::record`] returns, so that the end of the process loses none.
    pub(crate) async fn flush(&self, limit: Duration) {
        self.log.write_through();
        let written = async {
            while !(self.log.is_idle() && self.files.as_ref().is_none_or(Files::is_idle)) {
                tokio::time::sleep(FLUSH_INTERVAL).await;
            }
        };
        if tokio::time::timeout(limit.max(MIN_FLUSH), written).await.is_err() {
            tracing::warn!("audit records not written in time; the disk or the reader of the log is too slow");
        }
    }
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod signature_tests;
