//! Reconciles custom resources into the configuration that gateways load.

pub mod acks;
pub mod admin;
mod cluster_state;
pub mod events;
mod fair_queue;
pub mod group;
pub mod leader;
pub mod metrics;
pub mod object;
pub mod options;
mod plan;
pub mod quota;
mod run;
pub mod status;
pub mod verdict;
mod watch;
mod watched_object;

pub use run::run;
