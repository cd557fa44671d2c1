//! What MCP servers announce to single clients: subscriptions to resources in both eras, and log messages of legacy sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mcp::McpRequest;
use crate::call;
use crate::dispatch::{Listen, Subscribe};
use crate::feeds::{Feed, Listener, TooMany, Verdict};
use crate::mcp::level::Level;
use crate::mcp::{Era, RpcError};
use crate::sealed::CallerSession;

/// How long a server may take to answer a subscription.
const ANSWERING: Duration = Duration::from_secs(10);
/// How long a call waits for the stream that its log messages may come in.
const OPENING: Duration = Duration::from_secs(2);

impl McpRequest<'_> {
    /// Returns the feed of a session, if there is one. `own`: the session, if its id is sealed.
    fn known_feed(&self, own: Option<&CallerSession>) -> Option<Arc<Feed>> {
        let exposition = self.target.announcing()?;
        self.gateway.feeds.known(&exposition.id, &self.caller, own)
    }

    /// Returns what passes announcements to the stream of a legacy session; none if there may be none.
    pub(super) fn join(&self) -> Option<Listener> {
        let (exposition, session) = (self.target.announcing()?, self.session()?);
        // Without a feed the stream still has the changes of the lists.
        let own = self.caller_session().ok()?;
        let feed = self.gateway.feeds.of(&exposition.id, &self.caller, own.as_deref()).ok()?;
        let level = self.gateway.levels.get(&session);
        let listener = feed.join(session, level);
        feed.start(self.gateway);
        Some(listener)
    }

    /// Sets the level of log messages of the session.
    pub(super) fn set_level(&self, level: Level) {
        let Some(session) = self.session() else { return };
        self.gateway.levels.set(&session, level);
        let own = self.caller_session();
        if let Some(feed) = own.ok().and_then(|own| self.known_feed(own.as_deref())) {
            feed.set_level(&session, level);
            feed.start(self.gateway);
        }
    }

    /// Waits until the log messages of a call can come in the stream of the session, where a legacy client reads one. `own`: the
    /// session, if its id is sealed.
    pub(super) async fn opened(&self, own: Option<&CallerSession>) {
        if let Some(feed) = self.known_feed(own) {
            feed.opened(OPENING).await;
        }
    }

    /// Begins or ends the subscription of a legacy session to a resource.
    ///
    /// # Errors
    /// A limit, or the server, rejected it.
    pub(super) async fn subscribe(&self, wanted: &Subscribe) -> Result<(), RpcError> {
        let Subscribe { exposition, uri, begins } = wanted;
        let session = self.session().ok_or_else(|| {
            RpcError::invalid_request("a subscription belongs to a session: send the Mcp-Session-Id of the handshake")
        })?;
        let own = self.caller_session()?;
        let of_exposition = (&exposition.limiter, &*exposition.series, &*exposition.id);
        let _admitted = call::admit_by(self.gateway, of_exposition, Instant::now())?;
        if !begins {
            if let Some(feed) = self.known_feed(own.as_deref()) {
                feed.remove(&session, uri);
            }
            return Ok(());
        }
        let feed = self.gateway.feeds.of(&exposition.id, &self.caller, own.as_deref()).map_err(too_many)?;
        feed.add(&self.gateway.feeds, &session, uri).map_err(too_many)?;
        feed.start(self.gateway);
        let error = match feed.verdict(uri, ANSWERING).await {
            Some(Verdict::Refused(code)) => RpcError::not_subscribed(Era::Legacy, uri, code),
            Some(Verdict::Accepted | Verdict::Lost) => return Ok(()),
            None => RpcError::upstream("the server did not answer the subscription in time"),
        };
        feed.remove(&session, uri);
        Err(error)
    }

    /// Subscribes a stream of a modern client to the resources that it asks for, and notes which of them the server has accepted.
    /// Returns what passes announcements to the stream; none if there may be none.
    ///
    /// # Errors
    /// A limit rejected it.
    pub(super) async fn listen(&self, listen: &mut Listen) -> Result<Option<Listener>, RpcError> {
        let Some(exposition) = self.target.announcing().filter(|_| !listen.uris().is_empty()) else { return Ok(None) };
        let of_exposition = (&exposition.limiter, &*exposition.series, &*exposition.id);
        let _admitted = call::admit_by(self.gateway, of_exposition, Instant::now())?;
        let feed = self.gateway.feeds.of(&exposition.id, &self.caller, None).map_err(too_many)?;
        let (name, until) = (self.gateway.feeds.name_stream(), Instant::now() + ANSWERING);
        // From here on, the end of the stream ends its subscriptions.
        let listener = feed.join(name.clone(), None);
        for uri in listen.uris() {
            feed.add(&self.gateway.feeds, &name, uri).map_err(too_many)?;
        }
        feed.start(self.gateway);
        let mut accepted = Vec::new();
        for uri in listen.uris() {
            let left = until.saturating_duration_since(Instant::now());
            match feed.verdict(uri, left).await {
                Some(Verdict::Accepted) => accepted.push(Arc::clone(uri)),
                Some(Verdict::Refused(_) | Verdict::Lost) | None => feed.remove(&name, uri),
            }
        }
        listen.accept(accepted);
        Ok(Some(listener))
    }
}

fn too_many(TooMany(whose): TooMany) -> RpcError {
    RpcError::too_many_subscriptions(whose)
}
