//! Keeps a stream of the server open while a subscription needs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_engine::Enforcement;
use tokio::time::sleep;

use super::Feed;
use crate::backoff::{after_failures, random};
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::input::CannotAsk;
use crate::memory::Reservation;
use crate::upstream::{CallBounds, CallContext, StreamEnd};

/// How long the task stays when no stream is needed.
const LINGER: Duration = Duration::from_secs(30);
/// How long a stream is kept. A connection may be dead without a sign of it.
const STREAM: Duration = Duration::from_secs(3_600);
/// A stream that lasted for this long was a good one.
const LASTING: Duration = Duration::from_secs(60);
/// How long to wait after a failure, and after many.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// As many failures in a row as a server without streams counts for.
const UNSUPPORTED: u32 = 16;
/// How often the exposition is looked at, and subscribers that are gone are forgotten.
const CHECK: Duration = Duration::from_secs(3);
/// Bytes of one answer.
const MAX_ANSWER: u64 = 256 << 10;

/// Marks a feed as one that a task runs for.
pub(super) struct Running {
    feed: Arc<Feed>,
    /// Whether the feed knows that the task is over.
    is_over: bool,
}

impl Running {
    pub(super) fn new(feed: &Arc<Feed>) -> Self {
        Self { feed: Arc::clone(feed), is_over: false }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.feed.change(|state| state.is_running = false);
        }
    }
}

/// Runs until no stream has been needed for a while.
pub(super) async fn run(gateway: Arc<Gateway>, mut running: Running) {
    let feed = &*Arc::clone(&running.feed);
    let (mut failures, mut changes) = (0_u32, feed.changes());
    loop {
        changes.borrow_and_update();
        if !feed.wants_stream() {
            if tokio::time::timeout(LINGER, changes.changed()).await.is_err() && feed.stop_if_unwanted() {
                running.is_over = true;
                return;
            }
            continue;
        }
        let Some(exposition) = exposition_of(&gateway, feed) else {
            // It may come back.
            feed.closed(false);
            sleep(CHECK).await;
            feed.lock().prune(Instant::now());
            continue;
        };
        let streams = &gateway.feeds.streams;
        if streams.available_permits() == 0 {
            // Calls do not wait for a place.
            feed.closed(false);
        }
        let Ok(place) = streams.acquire().await else { return };
        feed.opening();
        let begun = Instant::now();
        let end = tokio::select! {
            end = stream(&gateway, feed, &exposition) => end,
            () = replaced(&gateway, feed, &exposition) => StreamEnd::Ended,
        };
        drop(place);
        if feed.has_ended() {
            // Later requests of the session find out at once.
            feed.session.iter().for_each(|session| gateway.book.end(&session.name));
            return;
        }
        feed.closed(end == StreamEnd::Unsupported);
        failures = match end {
            _ if !feed.wants_stream() => 0,
            StreamEnd::Unsupported => UNSUPPORTED,
            StreamEnd::Ended if begun.elapsed() >= LASTING => 1,
            StreamEnd::Ended => failures.saturating_add(1),
        };
        if failures > 0 {
            sleep(after_failures(failures, WAITS, random())).await;
        }
    }
}

/// Returns the exposition as it is served now, if it passes on what a server announces.
fn exposition_of(gateway: &Gateway, feed: &Feed) -> Option<Arc<Exposition>> {
    let slot = gateway.registry.find(&feed.id.to_string())?;
    let state = slot.state();
    let exposition = state.serving()?;
    (exposition.enforcement == Enforcement::Advisory && exposition.service.upstream.is_watched())
        .then(|| Arc::clone(exposition))
}

/// Waits until another version of the exposition is served.
async fn replaced(gateway: &Gateway, feed: &Feed, exposition: &Arc<Exposition>) {
    loop {
        sleep(CHECK).await;
        feed.lock().prune(Instant::now());
        if !exposition_of(gateway, feed).is_some_and(|now| Arc::ptr_eq(&now, exposition)) {
            return;
        }
        feed.changed.send_replace(());
    }
}

async fn stream(gateway: &Gateway, feed: &Feed, exposition: &Exposition) -> StreamEnd {
    let Ok(mut memory) = Reservation::open(&exposition.share).await else { return StreamEnd::Ended };
    let context = CallContext {
        bounds: CallBounds { deadline: Instant::now() + STREAM, max_response_bytes: MAX_ANSWER, detect_list: false },
        hops: 0,
        credentials: exposition.credentials(gateway.options.credentials.as_ref()),
        caller: Some(&feed.caller),
        through: None,
        trace: None,
        relay: None,
        input: None,
        cannot_ask: CannotAsk::NotACall,
        session: feed.session.as_ref(),
        query: None,
        most_messages: None,
        offload: gateway.offload(&exposition.id),
        memory: &mut memory,
    };
    let published = |uri: &str| {
        exposition_of(gateway, feed)
            .is_some_and(|now| now.content().is_some_and(|content| content.passes_resource(uri)))
    };
    let stream = exposition.service.upstream.feed(context, feed, &published);
    tokio::time::timeout(STREAM, stream).await.unwrap_or(StreamEnd::Ended)
}
