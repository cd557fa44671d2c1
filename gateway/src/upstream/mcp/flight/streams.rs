//! Servers of the transport of 2024-11-05: finding out that a server is one, and the stream of a caller.

use std::sync::Arc;

use super::{Flight, NotReady, Whose};
use crate::upstream::UpstreamError;
use crate::upstream::mcp::Server;
use crate::upstream::mcp::watch::StreamEnd;
use crate::upstream::mcp::wire::Transport;

impl Flight<'_> {
    /// Tries the transport of 2024-11-05 after a server has refused `initialize` as the specification says that one of that transport
    /// does (MCP, "Transports", "Backwards Compatibility"). Returns what was `refused` if the server has no such stream.
    ///
    /// # Errors
    /// [`NotReady`].
    pub(super) async fn or_events(&mut self, refused: Result<Server, NotReady>) -> Result<Server, NotReady> {
        let Err(NotReady::Refused(_, UpstreamError::Status { status: 400 | 404 | 405, .. })) = &refused else {
            return refused;
        };
        match Box::pin(self.open_stream()).await? {
            Some(server) => Ok(server),
            None => refused,
        }
    }

    /// Opens a stream and begins a session in it. Returns none if the server has no stream of this transport.
    async fn open_stream(&mut self) -> Result<Option<Server>, NotReady> {
        let Transport::Http(http) = self.wire.transport else { return Ok(None) };
        let Some(connection) = Box::pin(self.wire.open_events(http)).await? else { return Ok(None) };
        let connection = Arc::new(connection);
        self.wire.transport = Transport::Events(http, Arc::clone(&connection));
        let initialized = Box::pin(self.initialize(Whose::Caller)).await;
        if initialized.is_err() {
            self.wire.transport = Transport::Http(http);
        }
        let (server, _) = initialized?;
        self.peer.keep_stream(&self.caller, &connection);
        Ok(Some(server))
    }

    /// Uses the stream of the caller, after opening it if it is not open. If the server has no streams any more, nothing that is known of
    /// it is true.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn attach_stream(&mut self) -> Result<(), UpstreamError> {
        let Transport::Http(http) = self.wire.transport else { return Ok(()) };
        let peer = Arc::clone(&self.peer);
        let mut opening = None;
        loop {
            if let Some(connection) = peer.stream(&self.caller) {
                if connection.take_list_changed() {
                    peer.expire();
                }
                self.wire.transport = Transport::Events(http, connection);
                return Ok(());
            }
            if opening.is_some() {
                break;
            }
            opening = Some(peer.opening.lock().await);
        }
        match self.open_stream().await {
            Ok(Some(server)) => peer.set_server(server),
            Ok(None) | Err(NotReady::Refused(..)) => peer.forget(),
            Err(error @ NotReady::Failed(_)) => return Err(error.into_error()),
        }
        Ok(())
    }

    /// Listens to the announcements in the stream of the background.
    pub(in crate::upstream::mcp) async fn listen_in_stream(&mut self, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        if self.attach().await.is_err() {
            return StreamEnd::Ended;
        }
        let Transport::Events(_, connection) = &self.wire.transport else { return StreamEnd::Ended };
        let connection = Arc::clone(connection);
        opened();
        while let Some(received) = connection.announced().await {
            if received.list_changed {
                self.peer.expire();
            }
            self.wire.announcements.note(&received);
        }
        StreamEnd::Ended
    }
}
