//! Reconciles custom resources into the configuration that gateways load.

pub mod object;
pub mod verdict;
