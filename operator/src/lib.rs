//! Reconciles custom resources into the configuration that gateways load.

pub mod acks;
pub mod events;
pub mod object;
pub mod status;
pub mod verdict;
