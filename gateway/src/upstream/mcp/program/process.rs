//! One process of a program: the calls that wait for its answers, and the task that reads and writes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ENDED;
use super::reader::{self, Line};
use super::skim::Kind;
use crate::memory::Reservation;
use crate::programs::{Programs, Started};
use crate::registry::ListKind;
use crate::relay::Relay;
use crate::upstream::incoming::Fault;
use crate::upstream::mcp::message::{self, Received};
use crate::upstream::mcp::peers::Peer;
use crate::upstream::mcp::request::refusal;
use crate::upstream::mcp::wire::MAX_RELAYED_BYTES;
use crate::upstream::returned::{Needles, Search};
use crate::upstream::{Secret, UpstreamError};

/// Messages that wait for the program to read them.
const OUTBOX: usize = 32;
/// Messages that may come without an answer among them, while calls wait.
const MAX_OTHERS: u64 = 10_000;
/// Bytes of such messages.
const MAX_OTHER_BYTES: u64 = 4 << 20;
/// How long the rest of the output of a program that ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Bytes of standard error that are read at once, and in each [`ERROR_PAUSE`].
const ERROR_PIECE: usize = 8 << 10;
const ERROR_RATE: u64 = 1 << 20;
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A message to the program.
#[derive(Debug)]
struct Message {
    body: Bytes,
    /// The memory of the message.
    _held: Option<Reservation>,
}

/// What is counted of a service's programs. Nothing that they wrote is kept.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Processes that were started.
    pub(super) starts: AtomicU64,
    /// Bytes of standard error.
    pub(super) error_bytes: AtomicU64,
    /// Lines of standard output that are for no call.
    pub(super) other_lines: AtomicU64,
}

/// A process. Dropping it ends the program.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct Process {
    /// What is known of the server: its era, and which tools are withheld.
    pub(in crate::upstream::mcp) peer: Arc<Peer>,
    shared: Arc<Shared>,
    outbox: mpsc::Sender<Message>,
    stop: CancellationToken,
    /// The credentials that it was started with.
    pub(super) secrets: Vec<Secret>,
    pub(super) started: Instant,
}

/// What the calls share with the task.
#[derive(Debug, Default)]
pub(in crate::upstream::mcp) struct Shared {
    state: Mutex<State>,
    /// Notified when a call begins to wait.
    work: Notify,
    list_changed: AtomicBool,
    /// Whether the lists of prompts and of resources were announced as changed.
    content_changed: [AtomicBool; 2],
    /// Notified of an announcement, and of the end.
    announced: Notify,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, Waiting>,
    /// Why the program has ended, and when.
    ended: Option<(&'static str, Instant)>,
    /// Messages and bytes since the last answer, or since nothing waited.
    others: u64,
    other_bytes: u64,
    /// Bytes of messages to callers since then.
    relayed: u64,
}

/// What passes messages of the server to the caller, and what they may not contain.
type Relayed = (Arc<Relay>, Option<Arc<Needles>>);

#[derive(Debug)]
struct Waiting {
    limit: u64,
    /// What passes messages of the program to the caller, and what they may not contain.
    relay: Option<Relayed>,
    answer: oneshot::Sender<Result<(Bytes, Reservation), Fault>>,
}

/// What a reader may do next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::upstream::mcp) enum Next {
    Read,
    /// Too much has come while nothing waits.
    Pause,
    /// Too much has come while calls wait.
    End,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes a line may have: what the call with the largest limit allows.
    pub(in crate::upstream::mcp) fn limit(&self) -> u64 {
        self.lock().waiting.values().map(|waiting| waiting.limit).max().unwrap_or(reader::IDLE_LIMIT)
    }

    /// Returns what the reader may do, given the bytes that it has skipped of an unfinished line.
    pub(in crate::upstream::mcp) fn next(&self, skipped: u64) -> Next {
        let state = self.lock();
        let is_over = state.others > MAX_OTHERS || state.other_bytes > MAX_OTHER_BYTES;
        match state.waiting.is_empty() {
            true if is_over || skipped > MAX_OTHER_BYTES => Next::Pause,
            false if is_over || skipped > reader::MAX_SKIPPED => Next::End,
            _ => Next::Read,
        }
    }

    /// Waits until a call waits.
    pub(in crate::upstream::mcp) async fn until_work(&self) {
        loop {
            let work = self.work.notified();
            if !self.lock().waiting.is_empty() {
                return;
            }
            work.await;
        }
    }

    /// Takes a line from the program. Returns the id of a request that must be refused.
    pub(in crate::upstream::mcp) fn take(&self, line: Line) -> Option<Bytes> {
        let Line { kind, length, text } = line;
        let mut state = self.lock();
        if let Kind::Answer(id) = kind
            && let Some(waiting) = state.waiting.remove(&id)
        {
            (state.others, state.other_bytes, state.relayed) = (0, 0, 0);
            drop(state);
            let answer = match text {
                Ok((bytes, _)) if bytes.len() as u64 > waiting.limit => Err(too_large(waiting.limit)),
                Ok(text) => Ok(text),
                Err(reader::Lost::TooLarge) => Err(too_large(waiting.limit)),
                Err(reader::Lost::Exhausted) => Err(Fault::Final(UpstreamError::Exhausted { sent: true })),
            };
            // The call may have been given up.
            let _ = waiting.answer.send(answer);
            return None;
        }
        if let (Kind::Notice, Ok((text, _))) = (&kind, &text)
            && state.relayed < MAX_RELAYED_BYTES
            && state.relay(text)
        {
            state.relayed += length;
            return None;
        }
        state.others += 1;
        state.other_bytes = state.other_bytes.saturating_add(length);
        drop(state);
        self.counts.other_lines.fetch_add(1, Ordering::Relaxed);
        match kind {
            Kind::Request(id) => Some(id),
            Kind::Changed(list) => {
                let changed = match list {
                    ListKind::Tools => &self.list_changed,
                    ListKind::Prompts => &self.content_changed[0],
                    ListKind::Resources => &self.content_changed[1],
                };
                changed.store(true, Ordering::SeqCst);
                self.announced.notify_one();
                None
            }
            Kind::Answer(_) | Kind::Notice | Kind::Other => None,
        }
    }

    /// Begins to wait for the answer to a request, before the request is sent. `limit`: the bytes that the line may have.
    ///
    /// # Errors
    /// This has ended.
    pub(in crate::upstream::mcp) fn wait_for(
        &self,
        id: u64,
        limit: u64,
        relay: Option<Relayed>,
    ) -> Result<Expected<'_>, Fault> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.lock();
        if let Some((why, _)) = state.ended {
            return Err(Fault::Unsent(why));
        }
        if state.waiting.is_empty() {
            (state.others, state.other_bytes, state.relayed) = (0, 0, 0);
        }
        state.waiting.insert(id, Waiting { limit, relay, answer: sender });
        drop(state);
        self.work.notify_one();
        Ok(Expected { id, shared: self, answer })
    }

    /// Returns whether no call waits.
    pub(in crate::upstream::mcp) fn is_idle(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Returns whether this has ended.
    pub(in crate::upstream::mcp) fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// Returns whether the server has said that its list of tools changed, since the last time.
    pub(in crate::upstream::mcp) fn take_list_changed(&self) -> bool {
        self.list_changed.swap(false, Ordering::SeqCst)
    }

    /// Returns what the server has announced since the last time, if it has announced anything.
    pub(in crate::upstream::mcp) fn take_announced(&self) -> Option<Received> {
        let [prompts, resources] = &self.content_changed;
        let received = Received {
            list_changed: self.take_list_changed(),
            prompts_changed: prompts.swap(false, Ordering::SeqCst),
            resources_changed: resources.swap(false, Ordering::SeqCst),
            ..Received::default()
        };
        (received != Received::default()).then_some(received)
    }

    /// Waits until something is announced, or this ends.
    pub(in crate::upstream::mcp) async fn until_announced(&self) {
        self.announced.notified().await;
    }

    /// Ends everything that waits.
    pub(in crate::upstream::mcp) fn end(&self, why: &'static str) {
        let mut state = self.lock();
        state.ended.get_or_insert((why, Instant::now()));
        for (_, Waiting { answer, .. }) in state.waiting.drain() {
            let _ = answer.send(Err(Fault::Broken(why)));
        }
        drop(state);
        self.announced.notify_one();
    }
}

impl State {
    /// Passes a message of the program to the call that it is for: progress by its token, and a log message to the call that has
    /// waited for longest. Returns whether there is such a call.
    fn relay(&self, text: &Bytes) -> bool {
        if text.len() as u64 > reader::IDLE_LIMIT || self.waiting.values().all(|waiting| waiting.relay.is_none()) {
            return false;
        }
        let (to, sent) = match message::notification(text) {
            Some((Some(id), sent)) => (self.waiting.get(&id), sent),
            Some((None, sent)) => {
                let wants_logs =
                    |waiting: &Waiting| waiting.relay.as_ref().is_some_and(|(relay, _)| relay.kinds().logs);
                let waiting = self.waiting.iter().filter(|(_, waiting)| wants_logs(waiting));
                (waiting.min_by_key(|(id, _)| **id).map(|(_, waiting)| waiting), sent)
            }
            None => return false,
        };
        let Some((relay, needles)) = to.and_then(|waiting| waiting.relay.as_ref()) else { return false };
        // What contains a credential that the program got is dropped.
        if !needles.as_ref().is_some_and(|needles| Search::is_in(needles, text)) {
            relay.take_in(&sent);
        }
        true
    }
}

fn too_large(limit: u64) -> Fault {
    Fault::Final(UpstreamError::TooLarge { limit })
}

/// An answer that is waited for. Dropping it gives the answer up.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct Expected<'p> {
    id: u64,
    shared: &'p Shared,
    answer: oneshot::Receiver<Result<(Bytes, Reservation), Fault>>,
}

impl Expected<'_> {
    /// Waits for the line with the answer. Its memory is reserved until the second part is dropped.
    ///
    /// # Errors
    /// [`Fault`].
    pub(in crate::upstream::mcp) async fn answer(&mut self) -> Result<(Bytes, Reservation), Fault> {
        (&mut self.answer).await.unwrap_or(Err(Fault::Broken(ENDED)))
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.shared.lock().waiting.remove(&self.id);
    }
}

impl Process {
    /// Starts a program. `held` is the memory of its reader, and grows with the lines of the program.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn start(
        programs: &Programs,
        start: impl FnOnce() -> std::io::Result<Started>,
        counts: &Arc<Counts>,
        secrets: Vec<Secret>,
        held: Reservation,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { counts: Arc::clone(counts), ..Shared::default() });
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let stop = programs.stop_token();
        let task = Task { shared: Arc::clone(&shared), refusals: outbox.downgrade(), inbox, stop: stop.clone(), held };
        programs.run(start, |started| started.group.id(), |started| task.run(started))?;
        counts.starts.fetch_add(1, Ordering::Relaxed);
        Ok(Self { peer: Arc::default(), shared, outbox, stop, secrets, started: Instant::now() })
    }

    /// Sends a message, when the program has read those before.
    ///
    /// # Errors
    /// The program has ended. The message was not sent.
    pub(in crate::upstream::mcp) async fn send(&self, body: Bytes, held: Reservation) -> Result<(), Fault> {
        let message = Message { body, _held: Some(held) };
        self.outbox.send(message).await.map_err(|_| Fault::Unsent(self.why_ended()))
    }

    /// Sends a message if the program reads messages.
    pub(in crate::upstream::mcp) fn send_now(&self, body: Bytes) {
        // A program that does not read cannot be notified.
        let _ = self.outbox.try_send(Message { body, _held: None });
    }

    /// Begins to wait for the answer to a request, before the request is sent. `limit`: the bytes that the line may have.
    ///
    /// # Errors
    /// The program has ended.
    pub(in crate::upstream::mcp) fn wait_for(
        &self,
        id: u64,
        limit: u64,
        relay: Option<Relayed>,
    ) -> Result<Expected<'_>, Fault> {
        self.shared.wait_for(id, limit, relay)
    }

    /// Notes that the server's list of tools is read now.
    pub(super) fn note_comparison(&self) {
        self.shared.list_changed.store(false, Ordering::SeqCst);
    }

    /// Returns whether the server has said since then that its list changed.
    pub(in crate::upstream::mcp) fn list_has_changed(&self) -> bool {
        self.shared.list_changed.load(Ordering::SeqCst)
    }

    /// Returns when the program ended, if it has.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.shared.lock().ended.map(|(_, at)| at)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended().is_some()
    }

    fn why_ended(&self) -> &'static str {
        self.shared.lock().ended.map_or(ENDED, |(why, _)| why)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The task that owns the program.
struct Task {
    shared: Arc<Shared>,
    /// Refusals of the server's requests go out with the other messages.
    refusals: mpsc::WeakSender<Message>,
    inbox: mpsc::Receiver<Message>,
    stop: CancellationToken,
    held: Reservation,
}

impl Task {
    /// Reads and writes until the program ends or is ended, then ends its group.
    async fn run(self, started: Started) {
        let Self { shared, refusals, inbox, stop, mut held } = self;
        let Started { stdin, stdout, stderr, mut group } = started;
        let why = {
            let refuse = |id: Bytes| {
                if let Some(outbox) = refusals.upgrade() {
                    let _ = outbox.try_send(Message { body: refusal(&id), _held: None });
                }
            };
            let mut reads = std::pin::pin!(reader::read(stdout, &shared, &mut held, refuse));
            let works = async {
                tokio::select! {
                    why = &mut reads => Some(why.unwrap_or(ENDED)),
                    // The program does not read any more.
                    () = write(stdin, inbox) => Some(ENDED),
                    () = count(stderr, &shared.counts.error_bytes) => None,
                    () = group.exited() => None,
                }
            };
            let why = tokio::select! {
                () = stop.cancelled() => Some(ENDED),
                why = works => why,
            };
            match why {
                Some(why) => why,
                // What it wrote last may be an answer.
                None => tokio::time::timeout(LAST_WORDS, reads).await.ok().flatten().unwrap_or(ENDED),
            }
        };
        shared.end(why);
        group.end().await;
    }
}

/// Writes messages, one in a line, until there are no more or the program does not read any more.
async fn write(mut stdin: impl AsyncWrite + Unpin, mut inbox: mpsc::Receiver<Message>) {
    while let Some(Message { body, _held }) = inbox.recv().await {
        let line = line(&body);
        let written = async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// Returns a message as a line. Line ends in JSON are white space: within strings they are escaped.
fn line(body: &[u8]) -> Vec<u8> {
    let mut line: Vec<u8> = Vec::with_capacity(body.len() + 1);
    line.extend(body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.push(b'\n');
    line
}

/// Reads and counts standard error. Its end says nothing, so this never returns.
async fn count(mut stderr: impl AsyncRead + Unpin, bytes: &AtomicU64) {
    let mut piece = vec![0; ERROR_PIECE];
    let mut since = 0;
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        bytes.fetch_add(read as u64, Ordering::Relaxed);
        since += read as u64;
        if since > ERROR_RATE {
            // A program that floods its standard error waits.
            tokio::time::sleep(ERROR_PAUSE).await;
            since = 0;
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(line(b"{\"a\":\r\n [1,\n2]}"), b"{\"a\":   [1, 2]}\n");
    }
}
