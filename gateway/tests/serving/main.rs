//! The serving path over real connections: a real upstream, a gateway, a real HTTP client.

mod access;
mod answers;
mod boundaries;
mod bundles;
mod calls;
mod eras;
mod expressions;
mod following;
mod generations;
mod hostile;
mod keys;
mod log;
mod loops;
mod mcp_servers;
mod memory;
mod offload;
mod operations;
mod reloads;
mod stdio;
mod streams;
mod support;
mod tls;
mod watching;
mod wire;
mod withheld;
mod workers;
