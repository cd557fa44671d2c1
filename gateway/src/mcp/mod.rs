//! The Model Context Protocol as messages: what a request is, which era it belongs to, how answers are written.
//!
//! Pure: bytes in, bytes out. Released versions come in two eras. The *legacy* ones begin with `initialize`; the
//! *modern* one (2026-07-28) is stateless and says its version in each request.

pub(crate) mod arguments;
pub(crate) mod encode;
pub(crate) mod era;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod message;

pub(crate) use era::Era;
pub(crate) use error::RpcError;
pub(crate) use message::{Incoming, Params};
