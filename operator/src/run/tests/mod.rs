//! Tests of the operator's decisions without an API server: events in, writes out.

mod credentials;
mod harness;
mod leadership;
mod writes;
