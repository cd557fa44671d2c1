//! The messages of the Model Context Protocol: how requests are parsed and checked, and how answers are written.
//!
//! Pure: bytes in, bytes out. The released versions form two eras. The *legacy* versions begin with `initialize`. The *modern*
//! one (2026-07-28) is stateless, and names its version in each request.

pub(crate) mod arguments;
pub(crate) mod encode;
pub(crate) mod era;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod level;
pub(crate) mod message;

pub(crate) use era::Era;
pub(crate) use error::RpcError;
pub(crate) use message::{Incoming, Params};
