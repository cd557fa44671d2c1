//! A gateway in a cluster: its configuration comes through the Kubernetes API.
//!
//! ```text
//! assemble    objects and credentials -> what to serve     pure
//! ```

mod assemble;
