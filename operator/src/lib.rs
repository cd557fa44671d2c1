//! Reconciles custom resources into the configuration that gateways load.

pub mod object;
mod watch;
mod world;
pub mod verdict;
