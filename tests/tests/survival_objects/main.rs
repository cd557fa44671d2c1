//! What people do to objects, Secrets and namespaces at the wrong moment, against a real API server: no answer comes
//! unfiltered, no upstream sees another's credential, and everything converges. The table is in `docs/survival.md`.

mod calls;
mod credentials;
mod malformed;
mod namespaces;
mod ownership;
mod steps;
