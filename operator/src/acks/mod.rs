//! Tracks which documents each gateway has loaded: the way back from the gateways to the status of the resources.
//!
//! ```text
//! client   one task per endpoint: streams /acks and forwards the events           I/O
//! sse      bytes -> events                                                        pure
//! table    events and required documents -> what every ready gateway has loaded   pure
//! upstream what gateways have seen of MCP servers -> the worst of it              pure
//! ```
//!
//! The caller passes the list of gateways to [`Endpoints::set`] and [`Table::set_endpoints`], passes each
//! [`GatewayEvent`] to [`Table::on_stream_event`], calls [`Table::require`] when a document has been written to the
//! API, and calls [`Table::tick`] at [`Table::next_tick`]. Each call returns [`AckChanges`]: the caller updates the
//! status of those expositions and of the objects that they use.

mod client;
mod member;
mod sse;
mod table;
mod upstream;

pub use client::{Endpoint, Endpoints, GatewayEvent, Trust};
pub use member::Readiness;
pub use table::{AckChanges, Table};

use tamis_config::acks::AckEvent;

/// Whether the gateways have loaded all documents that an object needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programmed {
    /// The object needs no document.
    NotUsed,
    /// Every ready gateway has processed the documents, and at least one gateway is ready.
    Loaded,
    /// Not known yet: the documents were written a moment ago, or the first snapshot of a gateway has not arrived. The
    /// status stays as it is until the table reports another state.
    Settling,
    /// Some documents have not been loaded for longer than loading takes.
    Pending {
        /// Names the gateways that lack them.
        message: String,
    },
    /// No gateway is ready.
    Unavailable {
        /// Names the group.
        message: String,
    },
    /// A gateway does not know the documents' format.
    TooOld {
        /// Names the gateway.
        message: String,
    },
    /// A gateway cannot load a document.
    Refused {
        /// Names the gateway and the reason.
        message: String,
    },
}

/// Bytes into and out of the filters of an exposition, summed over gateways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes received from upstreams.
    pub input_bytes: u64,
    /// Bytes returned to callers.
    pub output_bytes: u64,
}

impl Totals {
    /// Adds two totals. Saturates instead of overflowing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_bytes: self.input_bytes.saturating_add(other.input_bytes),
            output_bytes: self.output_bytes.saturating_add(other.output_bytes),
        }
    }
}

/// An event on the `/acks` stream of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The gateway sent an event.
    Ack(AckEvent),
    /// The stream has ended, or could not be opened. Sent once, not for each failed attempt.
    Disconnected,
}
