//! Reconciles custom resources into the configuration that gateways load.

pub mod admin;
pub mod group;
pub mod leader;
pub mod metrics;
pub mod object;
pub mod options;
pub mod verdict;
