//! Follows a folder: calls back when its documents may have changed.
//!
//! The operating system's notifications trigger a look. A slow rescan makes up for missing notifications (a target of
//! a symbolic link in another folder, network file systems), and a fast one replaces them where there are none (the
//! limit on inotify watches).

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use super::debounce::{Change, Debounce};

/// The time between two looks without notifications about a change.
const RESCAN: Duration = Duration::from_secs(2);
/// The same time where no notifications work.
const POLL: Duration = Duration::from_millis(30);
/// `errno` of a process that has too many open files.
const EMFILE: i32 = 24;
/// File times are no finer than the kernel's clock tick.
const TICK: Duration = Duration::from_millis(20);

/// Follows a folder until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    /// Something below the folder has changed.
    Change(Change),
    /// The path of the folder may lead to another folder now.
    Root,
    Stop,
}

impl Follower {
    /// Follows `root`, a folder or a file. `list` returns its documents, and `seen` is their fingerprint before they
    /// were last read. When they may have changed, `changed` is called on a thread of its own, never twice at a time,
    /// and again at the instant that it returns.
    pub(crate) fn start(
        root: &Path,
        list: fn(&Path) -> Vec<PathBuf>,
        seen: Fingerprint,
        mut changed: impl FnMut() -> Option<Instant> + Send + 'static,
    ) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        let (messages, inbox) = mpsc::channel();
        let notifications = Notifications::start(root.clone(), messages.clone());
        let thread = thread::Builder::new().name("follow".into()).spawn(move || {
            let look = move || Fingerprint::of(&list(&root));
            follow(&inbox, notifications, seen, look, &mut changed);
        })?;
        Ok(Self { messages, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn follow(
    inbox: &Receiver<Message>,
    mut notifications: Notifications,
    mut seen: Fingerprint,
    look: impl Fn() -> Fingerprint,
    changed: &mut impl FnMut() -> Option<Instant>,
) {
    let mut debounce = Debounce::default();
    let mut candidate = None;
    let mut rescan = Instant::now();
    let mut again: Option<Instant> = None;
    loop {
        // Not while files are being written: the end of writing triggers a look of its own.
        let asked = again.filter(|_| debounce.due().is_none() && candidate.is_none());
        let due = debounce.due().or(asked).map_or(rescan, |due| due.min(rescan));
        match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Message::Change(change)) => {
                debounce.record(change, Instant::now());
                continue;
            }
            Ok(Message::Root) => {
                notifications.watched = None;
                debounce.record(Change::Other, Instant::now());
                continue;
            }
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        let by_event = debounce.due().is_some_and(|due| due <= now);
        let asked = asked.is_some_and(|asked| asked <= now);
        if now >= rescan {
            rescan = now + if notifications.work() { RESCAN } else { POLL };
            // A periodic look must not read a file that is being written.
            if !by_event && debounce.due().is_some() {
                continue;
            }
        } else if !by_event && !asked {
            continue;
        }
        let written = by_event && debounce.take();
        notifications.keep_up();
        let found = look();
        let differs = written || seen.may_differ(&found);
        // Without notifications there is no sign that a file is complete: wait until it stays the same.
        if differs && (notifications.work() || candidate.as_ref() == Some(&found)) {
            candidate = None;
            seen = found;
            again = changed();
        } else {
            candidate = differs.then_some(found);
            if asked && candidate.is_none() {
                again = changed();
            }
        }
    }
}

/// The operating system's notifications for a folder, and for its parent: the folder itself may be replaced.
#[derive(Debug)]
struct Notifications {
    root: PathBuf,
    watcher: Option<RecommendedWatcher>,
    watched: Option<Identity>,
}

impl Notifications {
    fn start(root: PathBuf, messages: Sender<Message>) -> Self {
        let of = root.clone();
        let handler = move |event: notify::Result<notify::Event>| {
            for message in event.map_or_else(|_| vec![Message::Change(Change::Other)], |event| meaning(&event, &of)) {
                let _ = messages.send(message);
            }
        };
        let watcher = notify::recommended_watcher(handler).map_err(|error| polling(&root, &error)).ok();
        let mut this = Self { root, watcher, watched: None };
        if let (Some(watcher), Some(parent)) = (&mut this.watcher, this.root.parent()) {
            // Without the parent, only the next rescan notices that the folder was replaced.
            let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
        }
        this.keep_up();
        this
    }

    /// Watches the folder that the path leads to now. A single file is watched through its parent.
    fn keep_up(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let current = fs::metadata(&self.root).ok().filter(Metadata::is_dir).as_ref().map(Identity::of);
        if current == self.watched {
            return;
        }
        let _ = watcher.unwatch(&self.root);
        self.watched = None;
        if current.is_none() {
            return;
        }
        match watcher.watch(&self.root, RecursiveMode::Recursive) {
            Ok(()) => self.watched = current,
            // The folder, or one below it, has vanished again; the parent or the next look will notice.
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound | notify::ErrorKind::WatchNotFound) => {}
            Err(error) => {
                polling(&self.root, &error);
                self.watcher = None;
            }
        }
    }

    fn work(&self) -> bool {
        self.watcher.is_some()
    }
}

fn polling(root: &Path, error: &notify::Error) {
    let folder = root.display();
    tracing::warn!(%folder, reason = why(error), "change notifications are unavailable; polling every {POLL:?} instead");
}

/// Returns why a folder cannot be watched, and the remedy.
fn why(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit on watches is reached; raise fs.inotify.max_user_watches".to_owned()
        }
        notify::ErrorKind::Io(error) if error.raw_os_error() == Some(EMFILE) => {
            "the limit on watchers or open files is reached; raise fs.inotify.max_user_instances".to_owned()
        }
        notify::ErrorKind::Io(error) => error.to_string(),
        notify::ErrorKind::PathNotFound | notify::ErrorKind::WatchNotFound => {
            "the folder does not exist any more".to_owned()
        }
        notify::ErrorKind::Generic(_) | notify::ErrorKind::InvalidConfig(_) => {
            "the system's notifications do not work for this folder".to_owned()
        }
    }
}

/// Converts an event. Only documents that are being written delay a look: an editor's swap file stays open.
fn meaning(event: &notify::Event, root: &Path) -> Vec<Message> {
    let each = |change: fn(PathBuf) -> Change| {
        event.paths.iter().filter(|path| is_document(path)).map(|path| Message::Change(change(path.clone()))).collect()
    };
    if event.need_rescan() {
        return vec![Message::Change(Change::Other)];
    }
    // Other children of the parent.
    if !event.paths.iter().any(|path| path.starts_with(root)) {
        return Vec::new();
    }
    match event.kind {
        // Waiting is possible only where the system reports that a file is closed.
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => each(Change::Writing),
        EventKind::Create(CreateKind::File) if cfg!(target_os = "linux") && !event.paths.iter().any(|p| is_link(p)) => {
            each(Change::Writing)
        }
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => each(Change::Written),
        EventKind::Access(_) => Vec::new(),
        _ if event.paths.iter().any(|path| path == root) => vec![Message::Root],
        _ => vec![Message::Change(Change::Other)],
    }
}

fn is_document(path: &Path) -> bool {
    path.file_name().is_some_and(|name| tamis_crds::is_document(&name.to_string_lossy()))
}

/// Returns whether the path is a symbolic link, or a hard link of several. Links are complete as soon as they appear:
/// there is no close event.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink() || links(&metadata) > 1)
}

#[cfg(unix)]
fn links(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_: &Metadata) -> u64 {
    1
}

/// The identity of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

/// The metadata of a folder's documents, by which to decide whether to read them again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    files: BTreeMap<PathBuf, Option<(Identity, SystemTime, u64)>>,
    /// Whether a file is so new that a later change might leave its time unchanged.
    fresh: bool,
}

impl Fingerprint {
    /// Reads the metadata of each file; symbolic links are followed.
    pub(crate) fn of(files: &[PathBuf]) -> Self {
        let now = SystemTime::now();
        let mut fresh = false;
        let files = files
            .iter()
            .map(|path| {
                let look = fs::metadata(path).ok().and_then(|metadata| {
                    let modified = metadata.modified().ok()?;
                    fresh |= now.duration_since(modified).is_ok_and(|age| age < TICK);
                    Some((Identity::of(&metadata), modified, metadata.len()))
                });
                (path.clone(), look)
            })
            .collect();
        Self { files, fresh }
    }

    fn may_differ(&self, newer: &Self) -> bool {
        self.fresh || self.files != newer.files
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
