//! The serving path over real connections: a real upstream, a gateway, a real HTTP client.

mod boundaries;
mod calls;
mod eras;
mod operations;
mod reloads;
mod stdio;
mod support;
mod withheld;
