//! What is logged, for tests to look at.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;

use crate::support::until;

/// What every audit record contains.
const RECORD: &str = " INFO audit: tool call ";

/// Lines of a log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Holds what the gateway logs on this thread from now on, from this level.
    pub(crate) fn start(level: &str) -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_env_filter(filter(level))
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Holds what the gateway logs on all threads, of all tests of this program; to be called once.
    pub(crate) fn of_all(level: &str) -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt().with_env_filter(filter(level)).with_writer(move || writer.clone()).init();
        log
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The audit records, once there are `count` of them. They are written a few milliseconds after the answers.
    pub(crate) async fn records(&self, count: usize) -> Vec<String> {
        until("every call has a record", || self.lines(RECORD).len() >= count).await;
        let records = self.lines(RECORD);
        assert_eq!(records.len(), count, "{records:?}");
        records
    }

    /// The lines that contain `part`.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("off,tamis_gateway={level},audit={level}"))
}
