//! Writes queued records: one thread signs and formats many of them, and writes them with one system call.

use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use tracing::Dispatch;

use super::line::{Clock, Line};
use super::queue::{Pushed, Queue};
use super::{AuditLog, Record};
use crate::exposition::hex;
use crate::memory::Shared;
use crate::seal::Keyring;

/// Bytes that are written at once.
const CHUNK: usize = 64 << 10;
/// Interval between two attempts to write to a standard error that does not block.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The log of records. Its thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct Log(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    queue: Queue<Record>,
    /// Locked while entries are taken and written, so that they are written in the order of the queue.
    writer: Mutex<Writer>,
}

impl Log {
    /// Starts the thread. Lines go to `output`, events to the current subscriber of this thread.
    pub(super) fn start(log: AuditLog, keyring: Arc<Keyring>, output: Box<dyn Write + Send>) -> io::Result<Self> {
        let shared = Arc::new(Parts { queue: Queue::new(), writer: Mutex::new(Writer::new(log, keyring, output)) });
        let run = {
            let shared = Arc::clone(&shared);
            move || {
                while shared.queue.wait() {
                    shared.write();
                }
            }
        };
        let builder = std::thread::Builder::new().name("audit".to_owned());
        match log {
            AuditLog::Events => {
                let subscriber = tracing::dispatcher::get_default(Dispatch::clone);
                builder.spawn(move || tracing::dispatcher::with_default(&subscriber, run))?;
            }
            AuditLog::Text | AuditLog::Json => drop(builder.spawn(run)?),
        }
        Ok(Self(shared))
    }

    /// Queues a record. If the queue is full, writes its records first.
    pub(super) fn record(&self, record: Record) {
        let mut record = record;
        loop {
            let held = record.answer.as_ref().map_or(0, Shared::len);
            match self.0.queue.push(record, held) {
                Pushed::Queued => return,
                Pushed::Take => return self.0.write(),
                Pushed::Full(again) => {
                    record = again;
                    self.0.write();
                }
            }
        }
    }

    /// Lets [`Log::record`] return once its record is written, from now on.
    pub(super) fn write_through(&self) {
        self.0.queue.write_through();
    }

    /// Returns whether all records are written.
    pub(super) fn is_idle(&self) -> bool {
        // What is not in the queue any more was taken under the lock.
        self.0.queue.len() == 0 && !matches!(self.0.writer.try_lock(), Err(TryLockError::WouldBlock))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

impl Parts {
    /// Writes all records that are in the queue.
    fn write(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = std::mem::take(&mut writer.batch);
        self.queue.take(&mut batch);
        writer.write(&mut batch);
        writer.batch = batch;
    }
}

/// Signs, formats and writes records.
struct Writer {
    log: AuditLog,
    keyring: Arc<Keyring>,
    output: Box<dyn Write + Send>,
    /// Lines that are not written yet, and their number.
    lines: Vec<u8>,
    count: usize,
    clock: Clock,
    caller: String,
    /// Empty; kept for its memory.
    batch: Vec<Record>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Writer {
    fn new(log: AuditLog, keyring: Arc<Keyring>, output: Box<dyn Write + Send>) -> Self {
        let (lines, batch) = (Vec::new(), Vec::new());
        Self { log, keyring, output, lines, count: 0, clock: Clock::default(), caller: String::new(), batch }
    }

    /// Writes the records of a batch. A panic, which is a bug, costs one record, and the log says which.
    fn write(&mut self, batch: &mut Vec<Record>) {
        let now = (Instant::now(), SystemTime::now());
        for record in batch.drain(..) {
            let len = self.lines.len();
            if catch_unwind(AssertUnwindSafe(|| self.format(&record, now))).is_err() {
                self.lines.truncate(len);
                let (id, tool) = (&record.exposition.id, record.tool_name());
                tracing::error!(exposition = %id, tool, "audit record lost: its formatter panicked");
            }
            if self.lines.len() >= CHUNK {
                self.flush();
            }
        }
        self.flush();
    }

    fn format(&mut self, record: &Record, (now, time): (Instant, SystemTime)) {
        let Record {
            exposition,
            bundle,
            tool: _,
            caller,
            outcome: _,
            failed_stage,
            status,
            output_bytes,
            result_bytes,
            answer,
            ended,
            took,
            trace,
            file,
        } = record;
        self.caller.clear();
        // Writing to a string does not fail.
        let _ = std::fmt::Write::write_fmt(&mut self.caller, format_args!("{caller}"));
        let signature = answer.as_ref().and_then(|answer| self.keyring.sign(answer.buffers()));
        let signature = signature.map(|signature| (hex(&signature.hmac), hex(&signature.key)));
        let (result_hmac, hmac_key) = signature.as_ref().map_or(("", ""), |(hmac, key)| (hmac, key));
        let line = Line {
            namespace: &exposition.id.namespace,
            exposition: &exposition.id.name,
            bundle: bundle.as_ref().map(|bundle| bundle.id.name.as_str()),
            tool: record.tool_name(),
            caller: &self.caller,
            verdict: record.verdict(),
            failed_stage: failed_stage.map(tamis_engine::Stage::as_str),
            upstream_status: *status,
            output_bytes: *output_bytes,
            result_bytes: *result_bytes,
            result_hmac,
            hmac_key,
            took: *took,
            trace_id: trace.as_deref(),
            file: file.as_deref().unwrap_or_default(),
        };
        let ended = time.checked_sub(now.saturating_duration_since(*ended)).unwrap_or(time);
        match self.log {
            AuditLog::Events => line.event(),
            AuditLog::Text => line.text(self.clock.text(ended), &mut self.lines),
            AuditLog::Json => line.json(self.clock.text(ended), &mut self.lines),
        }
        self.count += 1;
    }

    /// Writes the lines. If standard error is closed, they are lost like all other log lines.
    fn flush(&mut self) {
        let Self { output, lines, count, .. } = self;
        if catch_unwind(AssertUnwindSafe(|| write_all(output, lines))).is_err() {
            tracing::error!(count, "audit records lost: the writer of the log panicked");
        }
        lines.clear();
        *count = 0;
    }
}

/// Writes all bytes. A standard error that does not block, because a process that shares it has set that, is tried
/// again.
fn write_all(output: &mut dyn Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(RETRY_INTERVAL),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
