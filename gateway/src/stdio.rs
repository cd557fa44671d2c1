//! MCP over standard input and output: one message a line, one exposition, one client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::value::RawValue;
use tamis_config::ExpositionId;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{self, Caller, ToolCall};
use crate::dispatch::{self, LIST_CHANGED, Listen, Task};
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::mcp::era::{self, BATCHES, negotiate};
use crate::mcp::message::{self, Unreadable, string};
use crate::mcp::{Era, Incoming, Params, RpcError, encode, headers};
use crate::memory::{Exhausted, Held, Reservation};
use crate::registry::{Slot, State};

/// Answers that wait to be written.
const QUEUE: usize = 64;

/// The session could not be had, or broke.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// No document names the exposition.
    #[error("no exposition {0}")]
    NoSuchExposition(ExpositionId),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// One client's session.
struct Session {
    gateway: Arc<Gateway>,
    slot: Arc<Slot>,
    out: mpsc::Sender<Held>,
    tasks: TaskTracker,
    /// Requests under way by id, for `notifications/cancelled`.
    under_way: Mutex<HashMap<Box<str>, CancellationToken>>,
    /// Whether a legacy client has shaken hands, and so is told of changes.
    legacy: AtomicBool,
    /// Whether the version that was settled on has batches.
    batches: AtomicBool,
    shutdown: CancellationToken,
}

impl Gateway {
    /// Serves one exposition to one client until its input ends or `shutdown`; calls under way end first.
    ///
    /// # Errors
    /// [`StdioError`] where there is no such exposition, or reading or writing fails.
    pub async fn serve_stdio(
        self: Arc<Self>,
        exposition: &ExpositionId,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        shutdown: CancellationToken,
    ) -> Result<(), StdioError> {
        let slot = self.registry.find(&exposition.to_string());
        let slot = slot.ok_or_else(|| StdioError::NoSuchExposition(exposition.clone()))?;
        let (out, lines) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(output, lines));
        let limits = self.options.limits;
        let session = Arc::new(Session {
            gateway: self,
            slot,
            out,
            tasks: TaskTracker::new(),
            under_way: Mutex::default(),
            legacy: AtomicBool::new(false),
            batches: AtomicBool::new(false),
            shutdown: shutdown.child_token(),
        });
        let follower = tokio::spawn(Arc::clone(&session).follow());
        let read = tokio::select! {
            read = session.read(input, limits.request_bytes) => read,
            () = shutdown.cancelled() => Ok(()),
        };
        // Subscriptions end now, calls when they are done.
        session.shutdown.cancel();
        session.tasks.close();
        if tokio::time::timeout(limits.drain, session.tasks.wait()).await.is_err() {
            tracing::warn!("calls were still under way when the time to end them was over");
        }
        let _ = follower.await;
        drop(session);
        let written = writer.await.map_err(std::io::Error::other)?;
        Ok(read.and(written)?)
    }
}

/// Makes a call, with memory of its own.
async fn run(gateway: &Gateway, exposition: &Exposition, call: &ToolCall) -> Result<Held, RpcError> {
    let held = Reservation::open(&exposition.share).await.map_err(|Exhausted| RpcError::exhausted())?;
    call::run(gateway, exposition, call, held).await
}

/// Writes answers, one a line.
async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Held>) -> std::io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.bytes.push(b'\n');
        output.write_all(&line.bytes).await?;
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
                self.send(encode::error(None, &RpcError::invalid_request("the message is too long"), Era::Legacy))
                    .await;
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
                self.line(Bytes::copy_from_slice(text)).await;
            }
        }
    }

    async fn send(&self, message: impl Into<Held>) {
        // A client that is gone hears nothing; its input ends too.
        let _ = self.out.send(message.into()).await;
    }

    /// One line: a message, or a batch of them.
    async fn line(self: &Arc<Self>, source: Bytes) {
        let Ok(text) = std::str::from_utf8(&source) else {
            return self.send(encode::error(None, &RpcError::parse_error(), Era::Legacy)).await;
        };
        let Some(batch) = message::batch(text, self.gateway.options.limits.batch) else {
            if let Some(answer) = self.message(&source, text, false).await {
                self.send(answer).await;
            }
            return;
        };
        let limit = self.gateway.options.limits.batch;
        let refuse = |error: &RpcError| encode::error(None, error, Era::Legacy);
        let batch = match batch {
            Err(error) => return self.send(refuse(&error)).await,
            Ok(_) if !self.batches.load(Ordering::Relaxed) => {
                return self.send(refuse(&RpcError::invalid_request("this version has no batches"))).await;
            }
            Ok(batch) if batch.is_empty() || batch.len() > limit => {
                return self.send(refuse(&RpcError::batch_size(limit))).await;
            }
            Ok(batch) => batch,
        };
        let mut answers = Vec::with_capacity(batch.len());
        for raw in batch {
            answers.extend(self.message(&source, raw.get(), true).await);
        }
        if !answers.is_empty() {
            self.send(Held::list(answers)).await;
        }
    }

    /// Acts on one message. The answer, where it is there at once; a call answers later, but in a batch.
    async fn message(self: &Arc<Self>, source: &Bytes, text: &str, batched: bool) -> Option<Held> {
        match message::parse(text) {
            Err(Unreadable { id, error }) => {
                Some(encode::error(id.map(|id| id.get().as_bytes()), &error, Era::Legacy).into())
            }
            Ok(Incoming::Response) => None,
            Ok(Incoming::Notification { method, params }) => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.request_id
                    && let Some(token) = self.under_way().get(id.get())
                {
                    token.cancel();
                }
                None
            }
            Ok(Incoming::Request { id, method, params }) => {
                let era = era::decide(None, params.meta_version().as_deref(), Some(&method));
                match self.request(source, id, &method, &params, era, batched).await {
                    Ok(answer) => answer,
                    Err(error) => Some(encode::error(Some(id.get().as_bytes()), &error, era).into()),
                }
            }
        }
    }

    async fn request(
        self: &Arc<Self>,
        source: &Bytes,
        id: &RawValue,
        method: &str,
        params: &Params<'_>,
        era: Era,
        batched: bool,
    ) -> Result<Option<Held>, RpcError> {
        if era == Era::Modern {
            headers::check_meta(params)?;
            let version = params.meta_version().unwrap_or_default();
            if !era::MODERN_VERSIONS.contains(&version.as_ref()) {
                return Err(era::unsupported(&version));
            }
        }
        let state = self.slot.state();
        let exposition = match state.as_ref() {
            State::Serving(exposition) => Arc::clone(exposition),
            State::Stopped(stopped) => {
                return Err(RpcError::stopped(format!("not served: {}: {}", stopped.reason, stopped.message)));
            }
        };
        let request = dispatch::Request {
            exposition: &exposition,
            source,
            id,
            method,
            params,
            era,
            headers: None,
            caller: &Caller::Parent,
            is_traced: self.gateway.options.traces.is_some(),
        };
        let task = dispatch::dispatch(&request)?;
        if era == Era::Legacy && method == "initialize" {
            let version = negotiate(params.protocol_version.and_then(string).as_deref());
            self.batches.store(version == BATCHES, Ordering::Relaxed);
            self.legacy.store(true, Ordering::Relaxed);
        }
        match task {
            Task::Answer(body) => Ok(Some(body.into())),
            Task::Call(call) if batched => run(&self.gateway, &exposition, &call).await.map(Some),
            Task::Call(call) => {
                let token = CancellationToken::new();
                self.under_way().insert(id.get().into(), token.clone());
                let (session, id) = (Arc::clone(self), id.to_owned());
                self.tasks.spawn(async move {
                    let answered = tokio::select! {
                        answered = run(&session.gateway, &exposition, &call) => Some(answered),
                        () = token.cancelled() => None,
                    };
                    session.under_way().remove(id.get());
                    // A cancelled request is not answered.
                    if let Some(answered) = answered {
                        let error = |e| encode::error(Some(id.get().as_bytes()), &e, call.era).into();
                        session.send(answered.unwrap_or_else(error)).await;
                    }
                });
                Ok(None)
            }
            Task::Listen(listen) => {
                let token = CancellationToken::new();
                self.under_way().insert(id.get().into(), token.clone());
                let server = exposition.service.server_meta.clone();
                self.tasks.spawn(Arc::clone(self).listen(listen, server, id.get().into(), token));
                Ok(None)
            }
        }
    }

    /// A modern subscription.
    async fn listen(self: Arc<Self>, listen: Listen, server: String, id: Box<str>, cancelled: CancellationToken) {
        let mut changes = self.slot.changes();
        self.send(listen.acknowledgement().into_bytes()).await;
        loop {
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) if listen.tools => self.send(listen.changed().into_bytes()).await,
                    Ok(()) => {}
                    Err(_) => break,
                },
                () = self.shutdown.cancelled() => break,
                () = cancelled.cancelled() => {
                    self.under_way().remove(&id);
                    return;
                }
            }
        }
        self.under_way().remove(&id);
        self.send(listen.end(&server).into_bytes()).await;
    }

    /// Tells a legacy client of changes.
    async fn follow(self: Arc<Self>) {
        let mut changes = self.slot.changes();
        loop {
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) if self.legacy.load(Ordering::Relaxed) => self.send(LIST_CHANGED.as_bytes().to_vec()).await,
                    Ok(()) => {}
                    Err(_) => return,
                },
                () = self.shutdown.cancelled() => return,
            }
        }
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, CancellationToken>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
