//! Which gateway has loaded what: the way back from the gateways to the status of the resources.
//!
//! ```text
//! client   one task an endpoint: streams /acks, hands on what it hears     I/O
//! sse      bytes -> events                                                pure
//! table    what was heard, what is wanted -> what is loaded everywhere    pure
//! ```
//!
//! Who uses it tells [`Endpoints`] and [`Table::set_endpoints`] which gateways there are, hands each [`GatewayEvent`] to
//! [`Table::on_stream_event`], says [`Table::want`] once a document is in the API, calls [`Table::tick`] at [`Table::next_tick`], and
//! looks again at the status of whatever is [`AckChanges`] and of what those expositions use.

mod client;
mod member;
mod sse;
mod table;

pub use client::{Endpoint, Endpoints, GatewayEvent, Trust};
pub use member::Readiness;
pub use table::{AckChanges, Table};

use tamis_config::acks::AckEvent;

/// Whether gateways have loaded all documents that an object needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programmed {
    /// There is none.
    NotUsed,
    /// Every ready gateway has processed them, and at least one is ready.
    Loaded,
    /// It cannot be told yet: they were written a moment ago, or a gateway has not been heard yet. What was said before
    /// may stand for the moment; the table says when it no longer may.
    Settling,
    /// They have not all been loaded, for longer than loading takes.
    Pending {
        /// Which gateways lack them.
        message: String,
    },
    /// No gateway is ready.
    Unavailable {
        /// Of which group.
        message: String,
    },
    /// A gateway does not know the documents' format.
    TooOld {
        /// Which one.
        message: String,
    },
    /// A gateway cannot load a document.
    Refused {
        /// Which one, and why.
        message: String,
    },
}

/// What the filters of an exposition were given and what they let pass, in all gateways together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes that came from upstreams.
    pub input_bytes: u64,
    /// Bytes that went to callers.
    pub output_bytes: u64,
}

impl Totals {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_bytes: self.input_bytes.saturating_add(other.input_bytes),
            output_bytes: self.output_bytes.saturating_add(other.output_bytes),
        }
    }
}

/// What was heard of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// It says something.
    Ack(AckEvent),
    /// It cannot be heard any more. Said once, not for each attempt that fails.
    Disconnected,
}
