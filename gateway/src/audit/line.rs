//! The log line of a record, as an event and in the two formats of `tracing_subscriber::fmt`. Its formatter takes about
//! ten times the processor time, so the lines are written here; tests compare their bytes with those of the library.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::TARGET;

const MESSAGE: &str = "tool call";

/// The fields of a record, in their order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) namespace: &'a str,
    pub(super) exposition: &'a str,
    /// The bundle that the call came through, in the namespace of the exposition.
    pub(super) bundle: Option<&'a str>,
    pub(super) tool: &'a str,
    pub(super) caller: &'a str,
    pub(super) verdict: &'static str,
    pub(super) failed_stage: Option<&'static str>,
    pub(super) upstream_status: u16,
    pub(super) output_bytes: usize,
    pub(super) result_bytes: usize,
    /// Empty if there is no signature.
    pub(super) result_hmac: &'a str,
    pub(super) hmac_key: &'a str,
    pub(super) took: Duration,
    pub(super) trace_id: Option<&'a str>,
    /// Empty if there is none.
    pub(super) file: &'a str,
}

/// Receives the fields of a line.
trait Fields {
    /// A text that is quoted.
    fn text(&mut self, name: &str, value: &str);
    /// A text that is not quoted where lines are for people.
    fn display(&mut self, name: &str, value: &str);
    fn number(&mut self, name: &str, value: u64);
}

impl Line<'_> {
    fn took_us(&self) -> u64 {
        u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX)
    }

    /// Logs the line as an event.
    pub(super) fn event(&self) {
        let Self { namespace, exposition, bundle, tool, caller, verdict, failed_stage, upstream_status, .. } = *self;
        let Self { output_bytes, result_bytes, result_hmac, hmac_key, trace_id, file, .. } = *self;
        tracing::info!(
            target: TARGET,
            namespace,
            exposition,
            bundle,
            tool,
            caller = %caller,
            verdict,
            failed_stage,
            upstream_status,
            output_bytes,
            result_bytes,
            result_hmac,
            hmac_key,
            took_us = self.took_us(),
            trace_id,
            file,
            "{MESSAGE}"
        );
    }

    fn fields(&self, out: &mut impl Fields) {
        let Self { namespace, exposition, bundle, tool, caller, verdict, failed_stage, upstream_status, .. } = *self;
        let Self { output_bytes, result_bytes, result_hmac, hmac_key, took: _, trace_id, file, .. } = *self;
        out.text("namespace", namespace);
        out.text("exposition", exposition);
        if let Some(bundle) = bundle {
            out.text("bundle", bundle);
        }
        out.text("tool", tool);
        out.display("caller", caller);
        out.text("verdict", verdict);
        if let Some(stage) = failed_stage {
            out.text("failed_stage", stage);
        }
        out.number("upstream_status", upstream_status.into());
        out.number("output_bytes", output_bytes as u64);
        out.number("result_bytes", result_bytes as u64);
        out.text("result_hmac", result_hmac);
        out.text("hmac_key", hmac_key);
        out.number("took_us", self.took_us());
        if let Some(id) = trace_id {
            out.text("trace_id", id);
        }
        out.text("file", file);
    }

    /// Appends the line as one JSON object.
    pub(super) fn json(&self, time: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"timestamp\":\"");
        out.extend_from_slice(time.as_bytes());
        out.extend_from_slice(b"\",\"level\":\"INFO\"");
        let mut object = Json(out);
        object.text("message", MESSAGE);
        self.fields(&mut object);
        object.text("target", TARGET);
        out.extend_from_slice(b"}\n");
    }

    /// Appends the line for people.
    pub(super) fn text(&self, time: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(time.as_bytes());
        out.extend_from_slice(b"  INFO ");
        out.extend_from_slice(MESSAGE.as_bytes());
        self.fields(&mut Text(out));
        out.push(b'\n');
    }
}

struct Json<'a>(&'a mut Vec<u8>);

impl Json<'_> {
    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }
}

impl Fields for Json<'_> {
    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        tamis_engine::json::write_string(value, self.0);
    }

    fn display(&mut self, name: &str, value: &str) {
        self.text(name, value);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        // Writing to memory does not fail.
        let _ = write!(self.0, "{value}");
    }
}

struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn name(&mut self, name: &str) {
        self.0.push(b' ');
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'=');
    }
}

impl Fields for Text<'_> {
    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        if value.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
            self.0.push(b'"');
            self.0.extend_from_slice(value.as_bytes());
            self.0.push(b'"');
        } else {
            let _ = write!(self.0, "{value:?}");
        }
    }

    fn display(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.extend_from_slice(value.as_bytes());
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        let _ = write!(self.0, "{value}");
    }
}

/// Writes times as RFC 3339 with microseconds. The part up to the second is kept, because most records are of the same
/// second as the one before.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: Option<u64>,
    text: String,
    /// Length of the part up to the second.
    kept: usize,
}

impl Clock {
    /// Returns the text of a time.
    pub(super) fn text(&mut self, time: SystemTime) -> &str {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs();
        if self.second != Some(second) {
            self.second = Some(second);
            let shown = i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
            self.text = shown.unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S").to_string();
            self.kept = self.text.len();
        }
        self.text.truncate(self.kept);
        let _ = write!(self.text, ".{:06}Z", since.subsec_micros());
        &self.text
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
