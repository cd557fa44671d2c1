//! One watch: reads the list when it is due, and listens for announcements in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::ExpositionId;
use tokio::sync::{Notify, SemaphorePermit};
use tokio::time::sleep;

use super::follow::follow;
use super::{Problem, Reach, Watch, backoff};
use crate::backoff::random;
use crate::gateway::Gateway;
use crate::input::CannotAsk;
use crate::memory::Reservation;
use crate::upstream::{CallBounds, CallContext, StreamEnd, UpstreamError};

/// How long reading a list may take.
const READING: Duration = Duration::from_secs(30);
/// Bytes of one answer. The list has a limit of its own.
const MAX_ANSWER: u64 = 4 << 20;
/// How long a stream of announcements is kept. A connection may be dead without a sign of it.
const STREAM: Duration = Duration::from_secs(3_600);
/// A stream that lasted for this long was a good one.
const LASTING: Duration = Duration::from_secs(60);
/// As many failures in a row as a server without streams counts for.
const UNSUPPORTED: u32 = 16;
/// How long callers are not notified again of the server's prompts and resources.
const BETWEEN_ANNOUNCEMENTS: Duration = Duration::from_secs(1);
/// Failures in a row after which a server that was reachable is not.
const PATIENCE: u32 = 2;

/// Runs a watch until the last exposition that holds it is gone.
pub(super) async fn run(gateway: Arc<Gateway>, watch: Arc<Watch>) {
    let signals = Signals::default();
    tokio::select! {
        () = watch.ended.cancelled() => {}
        () = read_lists(&gateway, &watch, &signals) => {}
        () = listen(&gateway, &watch, &signals) => {}
        () = pass_announcements(&gateway, &watch) => {}
    }
}

/// What the two halves of a watch tell each other.
#[derive(Debug, Default)]
struct Signals {
    /// The list has been read.
    read: Notify,
    /// A stream has been opened: the list may have changed just before.
    opened: Notify,
}

async fn read_lists(gateway: &Arc<Gateway>, watch: &Arc<Watch>, signals: &Signals) {
    let mut failures = 0;
    loop {
        let (begun, result) = {
            let _turn = turn(gateway, failures > 0).await;
            let begun = Instant::now();
            (begun, read_list(gateway, watch).await)
        };
        let took = begun.elapsed();
        gateway.note_read(watch, &result, failures);
        let peer = watch.service.upstream.peer(watch.credentials(gateway.options.credentials.as_ref()));
        match (result, peer) {
            (Ok(()), Some(Ok(peer))) => {
                failures = 0;
                signals.read.notify_one();
                let share = backoff::share(random());
                loop {
                    follow(gateway, watch).await;
                    tokio::select! {
                        () = peer.due(share) => break,
                        () = signals.opened.notified() => break,
                        () = watch.listed.notified() => {}
                    }
                }
                sleep(backoff::between_reads(took).saturating_sub(begun.elapsed())).await;
            }
            (_, peer) => {
                failures += 1;
                let wait = backoff::after_failures(failures, random());
                // A call may reach the server before.
                match peer {
                    Some(Ok(peer)) => _ = tokio::time::timeout(wait, peer.listed_after(begun)).await,
                    Some(Err(_)) | None => sleep(wait).await,
                }
            }
        }
    }
}

/// Waits for a place among the lists that are read at once.
async fn turn(gateway: &Gateway, again: bool) -> (Option<SemaphorePermit<'_>>, Option<SemaphorePermit<'_>>) {
    let watches = &gateway.watches;
    // The semaphores are never closed.
    let retry = if again { watches.retries.acquire().await.ok() } else { None };
    (retry, watches.reads.acquire().await.ok())
}

async fn read_list(gateway: &Gateway, watch: &Watch) -> Result<(), UpstreamError> {
    let exhausted = |_| UpstreamError::Exhausted { sent: false };
    let mut memory = Reservation::open(&gateway.background).await.map_err(exhausted)?;
    let context = context(gateway, watch, Instant::now() + READING, &mut memory);
    watch.service.upstream.read_list(context).await
}

async fn listen(gateway: &Arc<Gateway>, watch: &Watch, signals: &Signals) {
    let mut failures = 0;
    // Before the list was read, it is not known which era the server speaks.
    signals.read.notified().await;
    loop {
        let Ok(place) = gateway.watches.streams.acquire().await else { return };
        let begun = Instant::now();
        let end = listen_once(gateway, watch, signals).await;
        drop(place);
        failures = match end {
            // It is asked again nevertheless: it may be of another version by then.
            StreamEnd::Unsupported => UNSUPPORTED,
            StreamEnd::Ended if begun.elapsed() >= LASTING => 1,
            StreamEnd::Ended => failures.saturating_add(1),
        };
        sleep(backoff::after_failures(failures, random())).await;
    }
}

/// Notifies callers of the changes that the server announces of its prompts and resources.
async fn pass_announcements(gateway: &Gateway, watch: &Arc<Watch>) {
    let Some(mut announced) = watch.service.upstream.announced() else { return std::future::pending().await };
    let mut seen = *announced.borrow_and_update();
    while announced.changed().await.is_ok() {
        let now = *announced.borrow_and_update();
        gateway.note_announced(watch, &now.since(seen).collect::<Vec<_>>());
        seen = now;
        // Several that follow each other are one.
        sleep(BETWEEN_ANNOUNCEMENTS).await;
    }
    std::future::pending::<()>().await;
}

async fn listen_once(gateway: &Gateway, watch: &Watch, signals: &Signals) -> StreamEnd {
    let Ok(mut memory) = Reservation::open(&gateway.background).await else { return StreamEnd::Ended };
    let context = context(gateway, watch, Instant::now() + STREAM, &mut memory);
    let opened = || signals.opened.notify_one();
    let stream = watch.service.upstream.listen(context, &opened);
    tokio::time::timeout(STREAM, stream).await.unwrap_or(StreamEnd::Ended)
}

fn context<'a>(
    gateway: &'a Gateway,
    watch: &'a Watch,
    deadline: Instant,
    memory: &'a mut Reservation,
) -> CallContext<'a> {
    CallContext {
        bounds: CallBounds { deadline, max_response_bytes: MAX_ANSWER, detect_list: false },
        hops: 0,
        credentials: watch.credentials(gateway.options.credentials.as_ref()),
        caller: None,
        through: None,
        trace: None,
        relay: None,
        input: None,
        session: None,
        cannot_ask: CannotAsk::NotACall,
        query: None,
        most_messages: None,
        offload: gateway.offload(&watch.id),
        memory,
    }
}

impl Gateway {
    /// Notes the result of reading a server's list, after so many failures.
    fn note_read(&self, watch: &Watch, result: &Result<(), UpstreamError>, failures: u32) {
        let name = &watch.service.document.name;
        let now = match result {
            Ok(()) => Reach::Reachable,
            Err(error) => Reach::Unreachable(problem(error)),
        };
        let known = watch.reach();
        // One failure is not an outage.
        let waits = known == Reach::Reachable && now != Reach::Reachable && failures + 1 < PATIENCE;
        if let (Err(error), true) = (result, waits) {
            tracing::debug!(service = %name, exposition = %watch.id, "the MCP server's list could not be read: {error}");
        }
        let changed = !waits && watch.set_reach(now) != now;
        match now {
            Reach::Unreachable(problem) if changed => tracing::warn!(
                service = %name, exposition = %watch.id,
                "MCP server cannot be reached: {problem}; what is known of its tools stays listed"
            ),
            Reach::Reachable if changed && known != Reach::Unknown => {
                tracing::info!(service = %name, exposition = %watch.id, "MCP server can be reached again");
            }
            _ => {}
        }
        if watch.service.upstream.take_change() || changed {
            self.note_withheld(&watch.service);
        }
    }
}

fn problem(error: &UpstreamError) -> Problem {
    match error {
        UpstreamError::NotReady(error) => problem(error),
        UpstreamError::Status { status, .. } => Problem::Status(*status),
        UpstreamError::Rpc { code, .. } => Problem::Rpc(*code),
        other => Problem::Failed(other.category()),
    }
}

/// The exposition that stands for the background where memory is shared out.
pub(crate) fn background() -> ExpositionId {
    ExpositionId { namespace: String::new(), name: "watch".to_owned() }
}
