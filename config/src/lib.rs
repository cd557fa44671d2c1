//! The documents that the compile step writes and a gateway reads: one for each service, named by the digest of its
//! content, and a small one for each exposition, which names the service and carries the filters.
//!
//! No I/O. Every struct refuses unknown fields: a gateway that dropped a field it does not know could
//! drop a filter stage.

pub mod acks;
pub mod addresses;
mod allowed_use;
pub mod bundle;
pub mod carrier;
mod command;
mod content;
mod exposition;
pub mod group_keys;
mod grpc;
pub mod names;
mod pattern;
pub mod placeholder;
pub mod proof;
mod reason;
mod request;
mod same_json;
mod service;
pub mod shared;
mod snapshot;
mod version;
mod watch;

pub use allowed_use::{AllowedUse, CredentialUse, InvalidUse, parse_uses};
pub use bundle::{BundleDocument, BundleLimits, BundlePart};
pub use carrier::{ExpositionPayload, GatewayConfig, GatewayConfigSpec, PayloadKind, StopDocument};
pub use command::{CommandArgument, CommandCall, CommandLimits, CommandSource, CommandStyle};
pub use content::{
    PromptArgument, PromptMessage, PromptRole, PublishedContent, ResourceContent, ResourceInfo, ServiceContent,
    ServicePrompt, ServiceResource, ServiceTemplate,
};
pub use exposition::{
    Access, Audit, CallLimits, CredentialGrant, CredentialHandle, ExpositionDocument, ExpositionId, ExpositionTool,
    OutputLimits, TokenSettings,
};
pub use grpc::{GrpcCall, GrpcSource};
pub use pattern::{NamePatterns, is_tool_name, matches_pattern, selects};
pub use reason::{Condition, Reason};
pub use request::{
    ArgumentStyle, BodyTemplate, ContentKind, ContentTemplate, CookieStyle, CookieTemplate, MemberStyle,
    RequestTemplate,
};
pub use same_json::{same_annotations, same_json};
pub use service::{
    Alias, Auth, AuthKind, Call, CredentialRef, Digest, GraphQlCall, HttpCall, HttpSource, McpCall, McpSource,
    Pagination, PaginationKind, ProgramSource, Retry, Risk, SentCredential, ServiceDocument, ServiceTool, Source,
};
pub use snapshot::{Snapshot, Stopped};
pub use version::{FIRST_VERSION, lowest_service_version, lowest_version};
pub use watch::{watch_backoff, watch_status};

/// Returns whether a number of a document is its default.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The newest version of the documents that this build writes and reads. A document carries the lowest one that expresses
/// it: see [`lowest_version`] and [`lowest_service_version`].
pub const FORMAT_VERSION: u32 = 4;

/// Whether this build reads documents of `version`: it reads every version up to its own. What is newer is refused with
/// `GatewayTooOld`, since a field that is not known could be a stage of a filter.
#[must_use]
pub fn reads(version: u32) -> bool {
    (1..=FORMAT_VERSION).contains(&version)
}
