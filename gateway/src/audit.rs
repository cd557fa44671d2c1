//! Writes one record for each call: the caller, the tool, the outcome, the sizes, and a signature of the answer.
//!
//! Records are events of the target `audit`, without payload. If an exposition asks for it, the output before filtering
//! goes into a separate file. A separate thread writes these files, so that a slow disk delays no call.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use tamis_config::{Audit, ExpositionId};
use tamis_engine::Stage;

use crate::call::Caller;
use crate::memory::Reservation;
use crate::metrics::Outcome;
use crate::trace::CallTrace;

/// The target of the events.
pub(crate) const TARGET: &str = "audit";
/// Maximum number of files that wait to be written.
const QUEUE: usize = 1_024;

/// Returns whether records are logged. If not, signatures are skipped, which cost more than the rest of a record.
pub(crate) fn is_logged() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

/// The record of one call.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) exposition: &'a ExpositionId,
    pub(crate) tool: &'a str,
    pub(crate) caller: &'a Caller,
    pub(crate) outcome: Outcome,
    /// The filter stage that failed although the output passed (`Advisory`).
    pub(crate) failed_stage: Option<Stage>,
    /// The upstream's status; 0 if there was none.
    pub(crate) status: u16,
    /// The output before filtering.
    pub(crate) output: Option<&'a Bytes>,
    /// Bytes that went to the caller.
    pub(crate) result_bytes: usize,
    /// The signature of the answer, and the id of its key; none if the gateway has no keys. A keyed signature does not
    /// let readers of the log guess a short result. It covers the answer, not the output: a signature of the output
    /// would show whether removed data is equal.
    pub(crate) signature: Option<(String, String)>,
    pub(crate) took: Duration,
    /// The trace that the call is part of.
    pub(crate) trace: Option<&'a CallTrace>,
}

impl Record<'_> {
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
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    queue: SyncSender<Job>,
    waiting: Arc<AtomicUsize>,
    count: AtomicU64,
}

#[derive(Debug)]
struct Job {
    name: String,
    output: Bytes,
    /// Memory of the output, taken over from its call.
    _held: Reservation,
}

impl Auditor {
    /// Starts the writing thread if there is a folder.
    ///
    /// # Errors
    /// The folder cannot be created, or the thread cannot be started.
    pub(crate) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self { files: None }) };
        fs::create_dir_all(&folder)?;
        let (queue, jobs) = sync_channel(QUEUE);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&waiting);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || write_all(&folder, &jobs, &counter))?;
        Ok(Self { files: Some(Files { queue, waiting, count: AtomicU64::new(0) }) })
    }

    /// Returns whether full records can be written.
    pub(crate) fn keeps_files(&self) -> bool {
        self.files.is_some()
    }

    /// Writes one record. An output that waits to be written takes its memory over from the call.
    pub(crate) fn record(&self, record: &Record<'_>, audit: Audit, held: &mut Reservation) {
        let file = match (audit, record.output) {
            (Audit::Full, Some(output)) => self.keep(record, output, held),
            _ => None,
        };
        if !is_logged() {
            return;
        }
        let (signature, key) = record.signature.as_ref().map_or(("", ""), |(signature, key)| (signature, key));
        tracing::info!(
            target: TARGET,
            namespace = record.exposition.namespace,
            exposition = record.exposition.name,
            tool = record.tool,
            caller = %record.caller,
            verdict = record.verdict(),
            failed_stage = record.failed_stage.map(Stage::as_str),
            upstream_status = record.status,
            output_bytes = record.output.map_or(0, Bytes::len),
            result_bytes = record.result_bytes,
            result_hmac = signature,
            hmac_key = key,
            took_us = u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX),
            trace_id = record.trace.and_then(CallTrace::sampled_id),
            file = file.as_deref().unwrap_or_default(),
            "tool call"
        );
    }

    /// Queues an output to be written. Returns the name of its file, or `dropped`.
    fn keep(&self, record: &Record<'_>, output: &Bytes, held: &mut Reservation) -> Option<String> {
        let files = self.files.as_ref()?;
        let count = files.count.fetch_add(1, Ordering::Relaxed);
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.6fZ");
        let id = record.exposition;
        let name = plain(&format!("{now}-{count:06}-{}-{}-{}", id.namespace, id.name, record.tool));
        files.waiting.fetch_add(1, Ordering::Relaxed);
        let job = Job { name: name.clone(), output: output.clone(), _held: held.split(output.len() as u64) };
        if files.queue.try_send(job).is_err() {
            files.waiting.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(exposition = %id, "full audit record dropped: the disk is too slow");
            return Some("dropped".to_owned());
        }
        Some(name)
    }

    /// Returns whether all files are written.
    pub(crate) fn is_idle(&self) -> bool {
        self.files.as_ref().is_none_or(|files| files.waiting.load(Ordering::Acquire) == 0)
    }
}

fn write_all(folder: &Path, jobs: &Receiver<Job>, waiting: &AtomicUsize) {
    for job in jobs {
        if let Err(e) = write(&folder.join(&job.name), &job.output) {
            tracing::error!("full audit record {} not written: {e}", job.name);
        }
        drop(job);
        waiting.fetch_sub(1, Ordering::Release);
    }
}

fn write(path: &Path, output: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(output)
}

/// Returns a safe file name: any character except letters, digits, `-`, `_` and `.` becomes `_`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_full_record_is_a_separate_file() {
        let folder = tempfile::tempdir().unwrap();
        let auditor = Auditor::new(Some(folder.path().join("audit"))).unwrap();
        let id = ExpositionId { namespace: "team".to_owned(), name: "api".to_owned() };
        let output = Bytes::from_static(b"{\"secret\":1}");
        let record = Record {
            exposition: &id,
            tool: "../list/all",
            caller: &Caller::Parent,
            outcome: Outcome::Ok,
            failed_stage: None,
            status: 200,
            output: Some(&output),
            result_bytes: 2,
            signature: None,
            took: Duration::from_millis(1),
            trace: None,
        };
        let mut held = Reservation::alone(1 << 20).unwrap();
        auditor.record(&record, Audit::Full, &mut held);
        auditor.record(&record, Audit::Full, &mut held);
        auditor.record(&record, Audit::Digest, &mut held);
        while !auditor.is_idle() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let files: Vec<_> = fs::read_dir(folder.path().join("audit")).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for file in files {
            assert_eq!(fs::read(&file).unwrap(), output);
            assert!(file.file_name().unwrap().to_str().unwrap().ends_with("team-api-.._list_all"));
        }
    }
}
