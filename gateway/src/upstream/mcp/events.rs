//! Servers of the transport of 2024-11-05: a `GET` opens a stream of events that carries every answer, and the stream's first event
//! names the address that messages are sent to (MCP 2024-11-05, "Transports", "HTTP with SSE").
//!
//! A stream is a session. The calls of a caller share it, and answers find their call by id, as those of a program do.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http::header::HeaderMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::message::{self, Reply};
use super::program::{Line, Lost, Next, Shared};
use super::request::refusal;
use super::sse::EventParser;
use super::wire::{Answered, Http, Letter, Outgoing, Wire, is_event_stream, malformed};
use crate::mcp::level::Level;
use crate::memory::{Exhausted, Reservation, STEP};
use crate::upstream::UpstreamError;
use crate::upstream::http::MAX_URL;
use crate::upstream::incoming::{Fault, Incoming, Pieces};
use crate::upstream::origin::{Origin, Target};
use crate::upstream::pace::Turn;
use crate::upstream::returned::Search;

/// Why there is no answer, as the category of an error: the stream had too much that is no answer, and was closed.
pub(in crate::upstream) const FLOODED: &str = "stream_flooded";
/// How long a server may take to open a stream, and to name the address for messages.
const OPENING: Duration = Duration::from_secs(10);
/// Bytes of a stream before it has named the address.
const MAX_PREAMBLE: usize = 64 << 10;
/// Bytes of an address.
const MAX_ADDRESS: usize = 8 << 10;
/// A stream that nothing used for this long ends.
const IDLE: Duration = Duration::from_secs(300);
const IDLE_CHECK: Duration = Duration::from_secs(30);
/// Requests of the server that wait to be refused.
const REFUSALS: usize = 16;
/// What an event costs, however short it is, in bytes.
const PER_EVENT: usize = 512;
/// Bytes that are searched for a credential at once.
const SEARCHED: usize = 64 << 10;

/// An open stream, and the address that goes with it. Dropping it ends the stream.
pub(super) struct Connection {
    shared: Arc<Shared>,
    target: Target,
    used: Arc<LastUse>,
    /// The level of log messages that the server was asked for.
    level: Mutex<Option<Level>>,
    stop: CancellationToken,
}

/// Without the address, which holds the id of a session.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection(..)")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// When a stream was used last.
#[derive(Debug)]
struct LastUse(Mutex<Instant>);

impl LastUse {
    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_past(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > IDLE
    }
}

impl Connection {
    /// Returns whether the stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }

    /// Notes that the server is asked for log messages of this level. Returns whether it was not asked for as much before.
    pub(super) fn lower_level(&self, level: Level) -> bool {
        let mut known = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lower = known.is_none_or(|known| level < known);
        if is_lower {
            *known = Some(level);
        }
        is_lower
    }

    /// Returns the address that messages are sent to.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns whether the server has said that its list of tools changed, since the last time.
    pub(super) fn take_list_changed(&self) -> bool {
        self.shared.take_list_changed()
    }

    /// Waits until the server announces a change, or the stream ends. Returns what was announced of prompts and resources; none at
    /// the end of the stream.
    pub(super) async fn announced(&self) -> Option<message::Received> {
        loop {
            if let Some(received) = self.shared.take_announced() {
                return Some(received);
            }
            if self.has_ended() {
                return None;
            }
            // The stream is in use while the watch listens to it.
            self.used.touch();
            let _ = tokio::time::timeout(IDLE_CHECK, self.shared.until_announced()).await;
        }
    }
}

/// A stream that is being read.
struct Stream {
    incoming: Incoming,
    pieces: Pieces,
    /// What has been received and not parsed.
    rest: Bytes,
}

impl Wire<'_> {
    /// Opens a stream; none if the server has none at this address.
    ///
    /// # Errors
    /// [`Fault`]: the server cannot be reached, or its stream is not one of this transport.
    pub(super) async fn open_events(&mut self, http: Http<'_>) -> Result<Option<Connection>, Fault> {
        let no_headers = HeaderMap::new();
        // The stream outlives the call, and with it would its span.
        let trace = self.context.trace.take();
        let sent = Box::pin(self.send_as(http, Method::GET, "GET", &no_headers, Bytes::new()));
        let opened = tokio::time::timeout(OPENING, sent).await;
        self.context.trace = trace;
        let overdue = || Fault::Final(UpstreamError::Timeout { sent: false });
        let mut incoming = opened.map_err(|_| overdue())??;
        if incoming.status().is_redirection() {
            return Err(Fault::refused("redirect", false));
        }
        if incoming.status().as_u16() != 200 || !is_event_stream(incoming.headers()) {
            return Ok(None);
        }
        let pieces = incoming.pieces()?;
        let mut stream = Stream { incoming, pieces, rest: Bytes::new() };
        let address = tokio::time::timeout(OPENING, stream.address()).await.map_err(|_| overdue())??;
        let target = resolve(http.target, &address)
            .ok_or_else(|| malformed("names an address for messages that is not of the server's origin"))?;
        if !http.authentication.may_go_to(&target) {
            return Err(malformed("names an address for messages to which the credential may not go"));
        }
        let memory = &mut self.context.memory;
        memory.take(STEP).await.map_err(|Exhausted| Fault::Final(UpstreamError::Exhausted { sent: false }))?;
        let held = memory.split(STEP);
        let letter =
            Http { target: &target, ..http }.letter(&no_headers).ok_or_else(|| malformed("names no address"))?;
        let (shared, stop) = (Arc::<Shared>::default(), CancellationToken::new());
        let used = Arc::new(LastUse(Mutex::new(Instant::now())));
        let reader = Reader { shared: Arc::clone(&shared), used: Arc::clone(&used), held };
        let stopped = stop.clone();
        tokio::spawn(async move {
            let shared = Arc::clone(&reader.shared);
            let why = tokio::select! {
                why = reader.run(stream, letter) => why,
                () = stopped.cancelled() => "reset",
            };
            shared.end(why);
        });
        Ok(Some(Connection { shared, target, used, level: Mutex::default(), stop }))
    }

    /// Sends a message to the address of a stream, and waits for the answer in the stream.
    pub(super) async fn post_events(
        &mut self,
        http: Http<'_>,
        connection: &Connection,
        outgoing: Outgoing<'_>,
    ) -> Result<Answered, Fault> {
        let Outgoing { method, headers, body, id, limit, refuse_with: _ } = outgoing;
        let http = Http { target: &connection.target, ..http };
        connection.used.touch();
        let Some(id) = id else {
            let refused = self.post_message(http, method, &headers, body).await?;
            return Ok(refused.unwrap_or(Answered::Accepted));
        };
        let relay = self.relay().map(|relay| (Arc::clone(relay), http.authentication.needles.clone()));
        let mut expected = connection.shared.wait_for(id, limit, relay)?;
        let (text, held) = {
            let posted = Box::pin(self.post_message(http, method, &headers, body));
            // Some servers answer the message only after they have sent the answer.
            tokio::select! {
                biased;
                answer = expected.answer() => answer?,
                refused = posted => match refused? {
                    Some(refused) => return Ok(refused),
                    None => expected.answer().await?,
                },
            }
        };
        connection.used.touch();
        let exhausted = |Exhausted| Fault::Final(UpstreamError::Exhausted { sent: true });
        self.context.memory.take(text.len() as u64).await.map_err(exhausted)?;
        drop(held);
        if let Some(needles) = &http.authentication.needles {
            let (mut search, mut turn) = (Search::new(needles), Turn::new());
            for piece in text.chunks(SEARCHED) {
                turn.spend(piece.len()).await;
                if search.feed(piece) {
                    return Err(Fault::Final(UpstreamError::CredentialReturned));
                }
            }
        }
        let message::Received { answer, .. } = self.read_message(text, id).await?;
        Ok(match answer.ok_or_else(|| malformed("holds no answer to the request"))? {
            Reply::Result(result) => Answered::Result(result, None),
            Reply::Error(error) => Answered::Error(error),
        })
    }

    /// Sends a message whose answer comes elsewhere. Returns the server's refusal, if it refuses the message.
    async fn post_message(
        &mut self,
        http: Http<'_>,
        method: &'static str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Option<Answered>, Fault> {
        let mut incoming = Box::pin(self.send_as(http, Method::POST, method, headers, body)).await?;
        let status = incoming.status();
        if status.is_redirection() {
            return Err(incoming.failed(Fault::refused("redirect", true)));
        }
        if !status.is_success() {
            return Box::pin(self.error_status(http, incoming)).await.map(Some);
        }
        incoming.finish().await;
        Ok(None)
    }
}

/// Resolves the address for messages against that of the stream; none if it is of another origin, or no request can go there.
fn resolve(stream: &Target, address: &str) -> Option<Target> {
    let origin = stream.origin();
    let base = format!("{}://{}{}", origin.scheme(), origin.authority(), stream.path_and_query());
    let url = Url::parse(&base).ok()?.join(address).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if !is_plain || Origin::of(&url)? != **origin {
        return None;
    }
    Target::of(&url, origin).filter(|target| target.len() <= MAX_URL)
}

impl Stream {
    /// Reads up to the event `endpoint`, and returns its data.
    ///
    /// # Errors
    /// [`Fault`]: the stream ends, or has too much before it.
    async fn address(&mut self) -> Result<String, Fault> {
        let mut parser = EventParser::of_kind(b"endpoint", MAX_ADDRESS);
        let mut read = 0;
        loop {
            let piece = self.incoming.piece(&mut self.pieces).await?;
            let piece =
                piece.ok_or_else(|| malformed("is a stream of events that ends before the event `endpoint`"))?;
            read += piece.len();
            if read > MAX_PREAMBLE {
                return Err(malformed("is a stream of events without the event `endpoint` at its beginning"));
            }
            let mut rest = &piece[..];
            let event = parser.next(&mut rest).map_err(|_| malformed("names an address of more than 8 KiB"))?;
            if let Some(address) = event {
                self.rest = piece.slice(piece.len() - rest.len()..);
                return String::from_utf8(address).map_err(|_| malformed("names an address that is not text"));
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if !self.rest.is_empty() {
            return Some(std::mem::take(&mut self.rest));
        }
        self.incoming.piece(&mut self.pieces).await.ok().flatten()
    }
}

/// The task that reads a stream.
struct Reader {
    shared: Arc<Shared>,
    used: Arc<LastUse>,
    held: Reservation,
}

impl Reader {
    /// Reads until the stream ends, or nothing used it for long. Returns why it ended, as the category of an error.
    async fn run(self, stream: Stream, letter: Letter) -> &'static str {
        let Self { shared, used, mut held } = self;
        let (outbox, mut inbox) = mpsc::channel::<Bytes>(REFUSALS);
        let idle = async {
            loop {
                tokio::time::sleep(IDLE_CHECK).await;
                if used.is_past() && shared.is_idle() {
                    return;
                }
            }
        };
        let refuse = async {
            while let Some(id) = inbox.recv().await {
                letter.send(refusal(&id)).await;
            }
        };
        tokio::select! {
            why = read(stream, &shared, &mut held, &outbox) => why,
            () = idle => "reset",
            () = refuse => "reset",
        }
    }
}

async fn read(
    mut stream: Stream,
    shared: &Shared,
    held: &mut Reservation,
    outbox: &mpsc::Sender<Bytes>,
) -> &'static str {
    let mut parser = EventParser::skimming();
    let mut turn = Turn::new();
    // Bytes since the end of the last event, and memory of the event that is being received.
    let (mut unfinished, mut reserved) = (0_u64, 0_u64);
    loop {
        let skipped = if parser.keeps_nothing() { unfinished } else { 0 };
        match shared.next(skipped) {
            Next::Read => {}
            Next::Pause => shared.until_work().await,
            Next::End => return FLOODED,
        }
        let Some(piece) = stream.next().await else { return "reset" };
        turn.spend(piece.len()).await;
        unfinished += piece.len() as u64;
        parser.set_limit(usize::try_from(shared.limit()).unwrap_or(usize::MAX));
        if let Some(capacity) = parser.growth(piece.len()) {
            // The old buffer exists until it has been copied.
            let (old, new) = (parser.capacity() as u64, capacity as u64);
            match held.take(new).await {
                Ok(()) => {
                    parser.grow(capacity);
                    held.release(old.min(reserved));
                    reserved = (reserved + new).saturating_sub(old.min(reserved));
                }
                Err(Exhausted) => parser.lose(Lost::Exhausted),
            }
        }
        let mut rest = &piece[..];
        while let Ok(Some(event)) = parser.next(&mut rest) {
            unfinished = rest.len() as u64;
            turn.spend(PER_EVENT).await;
            let (kind, length, lost) = parser.skimmed();
            let text = match lost {
                Some(lost) => Err(lost),
                None => keep(event, held, &mut reserved).await,
            };
            if let Some(id) = shared.take(Line { kind, length, text }) {
                // A server that does not read answers cannot be refused.
                let _ = outbox.try_send(id);
            }
            match shared.next(0) {
                Next::Read => {}
                Next::Pause => shared.until_work().await,
                Next::End => return FLOODED,
            }
        }
        let now = parser.capacity() as u64;
        if reserved > now {
            held.release(reserved - now);
            reserved = now;
        }
    }
}

/// Moves the memory of an event from what is `reserved` for the parser.
async fn keep(event: Vec<u8>, held: &mut Reservation, reserved: &mut u64) -> Result<(Bytes, Reservation), Lost> {
    let bytes = event.capacity() as u64;
    let missing = bytes.saturating_sub(*reserved);
    if held.take(missing).await.is_err() {
        return Err(Lost::Exhausted);
    }
    *reserved = reserved.saturating_sub(bytes);
    Ok((Bytes::from(event), held.split(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_messages_is_of_the_origin_of_the_stream() {
        let base = Url::parse("http://a.example:8080/base/sse?x=1").unwrap();
        let origin = Arc::new(Origin::of(&base).unwrap());
        let stream = Target::of(&base, &origin).unwrap();
        for (address, expected) in [
            ("/messages?sessionId=1", Some("/messages?sessionId=1")),
            ("messages/1", Some("/base/messages/1")),
            ("?session=1", Some("/base/sse?session=1")),
            ("http://a.example:8080/m", Some("/m")),
            ("HTTP://A.example:8080/m", Some("/m")),
            ("", Some("/base/sse?x=1")),
            ("//a.example:8080/m", Some("/m")),
            ("//b.example:8080/m", None),
            ("http://a.example/m", None),
            ("https://a.example:8080/m", None),
            ("http://127.0.0.1:8080/m", None),
            ("http://user@a.example:8080/m", None),
            ("http://a.example:8080@b.example/m", None),
            ("/m#fragment", None),
            ("file:///etc/passwd", None),
            ("http://", None),
        ] {
            let found = resolve(&stream, address).map(|target| target.path_and_query().to_string());
            assert_eq!(found.as_deref(), expected, "{address}");
        }
        assert!(resolve(&stream, &format!("/{}", "x".repeat(MAX_URL))).is_none());
    }
}
