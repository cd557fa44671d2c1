//! The files of full audit records: one for each output before filtering. A separate thread writes them, so that a slow
//! disk delays no call.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use tamis_config::ExpositionId;

use crate::memory::Reservation;

/// Maximum number of files that wait to be written.
const QUEUE: usize = 1_024;

/// Writes files into a folder.
#[derive(Debug)]
pub(super) struct Files {
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

impl Files {
    /// Starts the thread.
    ///
    /// # Errors
    /// The folder cannot be created, or the thread cannot be started.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = folder.to_owned();
        let (queue, jobs) = sync_channel(QUEUE);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&waiting);
        std::thread::Builder::new()
            .name("audit-files".to_owned())
            .spawn(move || write_all(&folder, &jobs, &counter))?;
        Ok(Self { queue, waiting, count: AtomicU64::new(0) })
    }

    /// Queues an output to be written. Returns the name of its file, or `dropped`.
    pub(super) fn keep(&self, id: &ExpositionId, tool: &str, output: &Bytes, held: &mut Reservation) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.6fZ");
        let name = plain(&format!("{now}-{count:06}-{}-{}-{tool}", id.namespace, id.name));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let job = Job { name: name.clone(), output: output.clone(), _held: held.split(output.len() as u64) };
        if self.queue.try_send(job).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(exposition = %id, "full audit record dropped: the disk is too slow");
            return "dropped".to_owned();
        }
        name
    }

    /// Returns whether all files are written.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
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
        let files = Files::new(&folder.path().join("audit")).unwrap();
        let id = ExpositionId { namespace: "team".to_owned(), name: "api".to_owned() };
        let output = Bytes::from_static(b"{\"secret\":1}");
        let mut held = Reservation::alone(1 << 20).unwrap();
        let mut names = [(); 2].map(|()| files.keep(&id, "../list/all", &output, &mut held));
        while !files.is_idle() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let written = fs::read_dir(folder.path().join("audit")).unwrap();
        let mut written: Vec<_> = written.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        written.sort();
        names.sort();
        assert_eq!(written, names);
        for name in names {
            assert!(name.ends_with("team-api-.._list_all"), "{name}");
            assert_eq!(fs::read(folder.path().join("audit").join(name)).unwrap(), output);
        }
    }
}
