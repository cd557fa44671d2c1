//! MCP over standard input and output: one message or batch a line, one exposition, one client.

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use tamis_config::ExpositionId;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, BufWriter,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bundle::{Sender, View};
use crate::call::{self, Caller, ToolCall};
use crate::dispatch::{Listen, Task, list_changed};
use crate::gateway::Gateway;
use crate::mcp::level::Level;
use crate::mcp::{Era, RpcError};
use crate::memory::{Exhausted, Held, Reservation};
use crate::registry::{ListKind, Slot, State};
use crate::relay::Relay;
use crate::session::{
    self, Action, Handshake, InFlight, Input, Notice, Notifications, Reader, Refusal, Request, StreamPlace, Transport,
    Unserved, in_flight,
};
use crate::target::Target;

/// Answers that wait to be written.
const QUEUE: usize = 64;
/// The one session of [`InFlight`].
const SESSION: &str = "";

/// Why a session cannot begin, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// No document has the exposition.
    #[error("no exposition {0}")]
    NoSuchExposition(ExpositionId),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// One client's session.
struct Session {
    gateway: Arc<Gateway>,
    /// The exposition, as `namespace/name`. Each message looks it up, because a session that held the slot of a deleted
    /// exposition would keep the streams of that slot open.
    path: String,
    /// The slot whose changes a legacy client is notified of.
    followed: Mutex<Weak<Slot>>,
    out: mpsc::Sender<Held>,
    tasks: TaskTracker,
    in_flight: Arc<InFlight>,
    /// The version that the legacy handshake negotiated. From then on the client is notified of changes.
    negotiated: Mutex<Option<&'static str>>,
    /// The level of log messages that the legacy client has set.
    level: Mutex<Option<Level>>,
    shutdown: CancellationToken,
}

impl Gateway {
    /// Serves one exposition to one client until its input ends or `shutdown`. Calls in flight finish first, and
    /// their audit records are written.
    ///
    /// When the exposition is deleted, its subscriptions end as over HTTP, and later requests are answered with the error of
    /// HTTP's 404. When it is created again, the session serves it again.
    ///
    /// # Errors
    /// [`StdioError`] if there is no such exposition, or reading or writing fails.
    pub async fn serve_stdio(
        self: Arc<Self>,
        exposition: &ExpositionId,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        shutdown: CancellationToken,
    ) -> Result<(), StdioError> {
        let path = exposition.to_string();
        let slot = self.registry.find(&path);
        if slot.is_none_or(|slot| is_hidden(&slot.state())) {
            return Err(StdioError::NoSuchExposition(exposition.clone()));
        }
        let (out, lines) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(output, lines));
        let limits = self.options.limits;
        let gateway = Arc::clone(&self);
        let session = Arc::new(Session {
            gateway: self,
            path,
            followed: Mutex::default(),
            out,
            tasks: TaskTracker::new(),
            in_flight: Arc::default(),
            negotiated: Mutex::default(),
            level: Mutex::default(),
            shutdown: shutdown.child_token(),
        });
        session.follow();
        let read = tokio::select! {
            read = session.read(input, limits.request_bytes) => read,
            // Ends at shutdown only.
            () = gateway.watch_upstreams(&shutdown) => Ok(()),
            () = shutdown.cancelled() => Ok(()),
        };
        // Subscriptions end now, calls when they are done.
        session.shutdown.cancel();
        session.tasks.close();
        if tokio::time::timeout(limits.drain, session.tasks.wait()).await.is_err() {
            tracing::warn!("drain timed out with calls in flight");
        }
        drop(session);
        let written = writer.await.map_err(std::io::Error::other);
        gateway.auditor.flush(limits.drain).await;
        Ok(read.and(written?)?)
    }
}

/// Returns whether an exposition is called through bundles only, and so does not exist for a session.
fn is_hidden(state: &State) -> bool {
    state.serving().is_some_and(|exposition| exposition.is_bundle_only())
}

/// Writes answers, one a line.
async fn write(output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Held>) -> std::io::Result<()> {
    // Small answers are one write with the end of their line.
    let mut output = BufWriter::new(output);
    while let Some(mut line) = lines.recv().await {
        line.chain.put(b"\n");
        output.write_all_buf(&mut line.chain).await?;
        if lines.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}

impl Session {
    /// Reads lines and starts what they ask for.
    async fn read(self: &Arc<Self>, input: impl AsyncRead + Unpin, limit: usize) -> std::io::Result<()> {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut input).take(limit as u64 + 1).read_until(b'\n', &mut line).await?;
            if read == 0 {
                return Ok(());
            }
            if read > limit && !line.ends_with(b"\n") {
                let error = RpcError::invalid_request("the message is too long");
                self.send(Refusal { id: None, error, era: Era::Legacy }.encode()).await;
                // The rest of the line is not a message.
                while !line.ends_with(b"\n") {
                    line.clear();
                    if (&mut input).take(limit as u64).read_until(b'\n', &mut line).await? == 0 {
                        return Ok(());
                    }
                }
                continue;
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                self.line(&Bytes::copy_from_slice(text)).await;
            }
        }
    }

    async fn send(&self, message: impl Into<Held>) {
        // If the client is gone, its input ends too.
        let _ = self.out.send(message.into()).await;
    }

    fn negotiated(&self) -> Option<&'static str> {
        *self.negotiated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn level(&self) -> Option<Level> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on one line.
    async fn line(self: &Arc<Self>, source: &Bytes) {
        let state = self.follow().map(|slot| slot.state()).filter(|state| !is_hidden(state));
        let target = match state.as_deref() {
            Some(State::Serving(exposition)) => Ok(Target::Exposition(Arc::clone(exposition))),
            Some(State::Bundle(bundle)) => {
                Ok(Target::Bundle(Arc::new(View::new(&self.gateway, bundle, Sender::Parent))))
            }
            Some(State::Stopped(stopped)) => Err(Unserved::Stopped(stopped)),
            None => Err(Unserved::Deleted),
        };
        let reader = Reader {
            target: target.as_ref().map_err(|unserved| *unserved),
            transport: Transport::Stdio(self.negotiated()),
            caller: &Caller::Parent,
            is_traced: self.gateway.options.traces.is_some(),
            batch: self.gateway.options.limits.batch,
        };
        match session::read(reader, source) {
            Input::Message(action) => self.act(action).await,
            Input::Batch(messages) => {
                let begin = |message| self.begin(session::read_of_batch(reader, message));
                let answers: Vec<_> = messages.iter().map(begin).collect();
                let session = Arc::clone(self);
                self.tasks.spawn(async move {
                    let answers: Vec<_> = join_all(answers).await.into_iter().flatten().collect();
                    if !answers.is_empty() {
                        session.send(Held::list(answers)).await;
                    }
                });
            }
        }
    }

    /// Acts on a single message. Calls and subscriptions become tasks.
    async fn act(self: &Arc<Self>, action: Action) {
        match action {
            // Sessions over standard input declare nothing to servers, which therefore ask nothing.
            Action::Nothing | Action::Respond(_) => {}
            Action::Cancel(id) => self.in_flight.cancel(SESSION, &id),
            Action::Refuse(refusal) => self.send(refusal.encode()).await,
            Action::Perform(Request { id, era, target, handshake, task }) => match task {
                Task::Answer(answer) => {
                    if let Some(Handshake { version, .. }) = handshake {
                        *self.negotiated.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
                    }
                    self.send(answer).await;
                }
                Task::SetLevel(level, answer) => {
                    *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
                    self.send(answer).await;
                }
                Task::Call(call) => {
                    let relay = call.relay(|| self.level(), || None);
                    let (session, answer) = (Arc::clone(self), self.call(target, call, relay.clone()));
                    self.tasks.spawn(async move {
                        let answer = match relay {
                            Some(relay) => Box::pin(session.relayed(answer, &relay)).await,
                            None => answer.await,
                        };
                        if let Some(answer) = answer {
                            session.send(answer).await;
                        }
                    });
                }
                Task::Subscribe(_) => {
                    let error = RpcError::method_not_found(era);
                    self.send(Refusal { id: Some(id), error, era }.encode()).await;
                }
                Task::Listen(listen) => {
                    if let Err(error) = self.listen(listen, &target) {
                        self.send(Refusal { id: Some(id), error, era }.encode()).await;
                    }
                }
            },
        }
    }

    /// Begins to act on a message of a batch, so that the next line can cancel it, and returns its answer.
    fn begin(self: &Arc<Self>, action: Action) -> BoxFuture<'static, Option<Held>> {
        let answer = match action {
            Action::Nothing | Action::Respond(_) => None,
            Action::Cancel(id) => {
                self.in_flight.cancel(SESSION, &id);
                None
            }
            Action::Refuse(refusal) => Some(refusal.encode()),
            Action::Perform(Request { id, era, target, handshake: _, task }) => match task {
                Task::Answer(answer) => Some(answer),
                Task::SetLevel(level, answer) => {
                    *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
                    Some(answer)
                }
                Task::Call(call) => return self.call(target, call, None).boxed(),
                Task::Listen(_) | Task::Subscribe(_) => {
                    let error = RpcError::method_not_found(era);
                    Some(Refusal { id: Some(id), error, era }.encode())
                }
            },
        };
        ready(answer.map(Held::from)).boxed()
    }

    /// Waits for the answer to a call, and meanwhile sends what the server sends for the caller. The call does not wait for a client
    /// that reads slowly. What waits when the answer comes is sent before it.
    async fn relayed(&self, answer: impl Future<Output = Option<Held>>, relay: &Relay) -> Option<Held> {
        let mut answer = pin!(answer);
        loop {
            let place = async {
                relay.due().await;
                self.out.reserve().await
            };
            let place = tokio::select! {
                biased;
                answer = &mut answer => {
                    if answer.is_some() {
                        for message in relay.take_out() {
                            self.send(message.into_bytes()).await;
                        }
                    }
                    return answer;
                }
                place = place => place,
            };
            match place {
                Ok(place) => place.send(relay.take_out().join("\n").into_bytes().into()),
                // The client is gone.
                Err(_) => return answer.await,
            }
        }
    }

    /// Registers a call, and returns the future that makes it, with memory of its own. A cancelled call has no answer.
    fn call(
        &self,
        target: Target,
        call: ToolCall,
        relay: Option<Arc<Relay>>,
    ) -> impl Future<Output = Option<Held>> + Send + use<> {
        let gateway = Arc::clone(&self.gateway);
        let registered = self.in_flight.begin(SESSION, call.id());
        async move {
            let run = async {
                let held = Reservation::open(target.share()).await.map_err(|Exhausted| RpcError::exhausted())?;
                call::run(&gateway, &call, relay.as_ref(), held).await
            };
            let answered = tokio::select! {
                answered = run => answered,
                () = in_flight::cancelled(registered.as_ref()) => return None,
            };
            let refused = |error| Refusal { id: Some(call.id.clone()), error, era: call.era }.encode().into();
            Some(answered.unwrap_or_else(refused))
        }
    }

    /// Spawns a modern subscription.
    ///
    /// # Errors
    /// There are too many, or the exposition was deleted meanwhile.
    fn listen(self: &Arc<Self>, listen: Listen, target: &Target) -> Result<(), RpcError> {
        let slot = self.slot().ok_or_else(RpcError::no_such_exposition)?;
        let place = StreamPlace::take(&self.gateway, target, &Caller::Parent)?;
        let registered = self.in_flight.begin(SESSION, listen.id());
        let subscription = Some((listen, Arc::clone(target.server_meta())));
        let mut notifications = Notifications::new(&slot, &self.shutdown, subscription);
        let session = Arc::clone(self);
        self.tasks.spawn(async move {
            let _place = place;
            if let Some(first) = notifications.acknowledgement() {
                session.send(first.into_bytes()).await;
            }
            loop {
                let notice = tokio::select! {
                    biased;
                    () = in_flight::cancelled(registered.as_ref()) => return,
                    notice = notifications.next() => notice,
                };
                match notice {
                    Notice::Message(text) => session.send(text.into_owned().into_bytes()).await,
                    Notice::End(None) => return,
                    Notice::End(Some(last)) => return session.send(last.into_bytes()).await,
                }
            }
        });
        Ok(())
    }

    fn slot(&self) -> Option<Arc<Slot>> {
        self.gateway.registry.find(&self.path)
    }

    /// Returns the slot of the exposition, and begins to notify a legacy client of its changes unless it is followed already.
    /// An exposition that was deleted and created again has another slot.
    fn follow(self: &Arc<Self>) -> Option<Arc<Slot>> {
        let slot = self.slot()?;
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if std::ptr::eq(followed.as_ptr(), Arc::as_ptr(&slot)) {
            return Some(slot);
        }
        let before = std::mem::replace(&mut *followed, Arc::downgrade(&slot));
        drop(followed);
        let is_back = !before.ptr_eq(&Weak::new());
        let mut notifications = Notifications::new(&slot, &self.shutdown, None);
        // The task must not hold the slot: its end is what the task waits for.
        let (session, followed, mut lists) = (Arc::clone(self), Arc::downgrade(&slot), lists_of(&slot));
        self.tasks.spawn(async move {
            if is_back {
                session.notify_lists(&lists).await;
            }
            while let Notice::Message(text) = notifications.next().await {
                session.notify_legacy(&text).await;
                lists = followed.upgrade().map_or(lists, |slot| lists_of(&slot));
            }
            // No stream of a legacy session could end, so the client learns in this way that the tools are gone.
            if !session.shutdown.is_cancelled() {
                session.notify_lists(&lists).await;
            }
        });
        Some(slot)
    }

    /// Tells a legacy client that these lists have changed.
    async fn notify_lists(&self, lists: &[ListKind]) {
        for list in lists {
            self.notify_legacy(list_changed(*list)).await;
        }
    }

    /// Sends a notification to a legacy client.
    async fn notify_legacy(&self, text: &str) {
        if self.negotiated().is_some() {
            self.send(text.as_bytes().to_vec()).await;
        }
    }
}

/// Returns the lists of an address.
fn lists_of(slot: &Slot) -> Vec<ListKind> {
    slot.state().lists().collect()
}
