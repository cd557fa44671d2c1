//! The servers that this program starts as processes of their own: the upstream, the two bare proxies, and an MCP
//! server.

mod mcp;
mod per_core;
mod proxy;
mod upstream;

use mcp::Tools;
pub(crate) use mcp::{HELD, HELD_SECONDS, serve as mcp};
pub(crate) use per_core::{Local, serve as per_core};
pub(crate) use proxy::serve as proxy;
pub(crate) use upstream::serve as upstream;
