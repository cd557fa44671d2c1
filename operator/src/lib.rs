//! Reconciles custom resources into the configuration that gateways load.

pub mod acks;
pub mod group;
pub mod leader;
pub mod object;
pub mod options;
mod plan;
pub mod status;
pub mod verdict;
mod watch;
mod world;
