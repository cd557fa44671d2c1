//! The documents that the compile step writes and a gateway reads: one for each service, named by the digest of its
//! content, and a small one for each exposition, which names the service and carries the filters.
//!
//! Types only, no I/O. Every struct refuses unknown fields: a gateway that dropped a field it does not know could
//! drop a filter stage.

mod exposition;
mod service;
mod snapshot;

pub use exposition::{Access, Audit, CallLimits, ExpositionDocument, ExpositionId, ExpositionTool};
pub use service::{
    ArgumentStyle, Auth, AuthKind, BodyTemplate, CredentialRef, Digest, HttpCall, HttpSource, Pagination,
    PaginationKind, RequestTemplate, Retry, Risk, ServiceDocument, ServiceTool, Source,
};
pub use snapshot::{Snapshot, Stopped};

/// The version of both documents. A gateway refuses any other.
pub const FORMAT_VERSION: u32 = 1;
