//! What the operator decides, without an API server: events in, writes out.

mod credentials;
mod harness;
mod leadership;
mod writes;
