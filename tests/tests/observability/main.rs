//! What Prometheus sees of gateways: the rules, the dashboards and the reference, against real calls.

mod files;
mod ledger;
mod serving;
mod tokens;
