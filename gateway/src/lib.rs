//! The gateway: loads configuration documents, serves MCP, calls upstreams, filters, counts.
//!
//! [`Gateway::new`] creates a gateway, and [`Gateway::apply`] applies a snapshot. It may be called repeatedly: calls in
//! flight keep the version that they started with. [`Gateway::serve`], [`Gateway::serve_admin`] and
//! [`Gateway::serve_stdio`] serve it.
//!
//! ```text
//! serve, stdio      connections and lines        read, write and spawn
//! session           message -> action            pure, the same for HTTP and stdio
//! mcp               messages, eras, errors       pure
//! dispatch          what a request needs         pure
//! reload            documents -> expositions     only those that differ
//! registry          path -> exposition           swapped one by one
//! cluster           GatewayConfigs, Secrets      watched, cached on disk
//! acks              results of documents         streamed
//! access            callers and their keys       pure
//! exposition        programs, lists, limits      immutable
//! bundle            several expositions          their state is read for each request
//! target            what a request addresses
//! service           upstream, input schemas      held once for equal services
//! call              validate, call, filter, answer, count
//! validation        arguments: parsed, validated, converted for an alias
//! prompts           prompts, filled              pure
//! passing           results of servers, as spans pure
//! refusals          log lines for refused requests, sampled
//! sealed            what travels in the ids that callers get
//! memory            a budget in bytes for all calls
//! shares            resources by exposition      pure
//! sampler           tokens of a sample           a thread
//! upstream          a module for each kind of source
//! programs          programs that are upstreams  started and ended
//! trace             spans of calls
//! ```

mod access;
mod acks;
mod admin;
mod arguments;
mod audit;
mod backoff;
mod bundle;
mod call;
pub mod cluster;
mod compute;
mod descriptors;
mod dispatch;
mod exposition;
mod expressions;
mod feeds;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod hops;
mod input;
mod limiter;
mod mcp;
mod memory;
mod metrics;
mod missing;
mod offload;
mod options;
mod paging;
mod passing;
pub mod programs;
mod prompts;
mod recent;
mod refusals;
mod registry;
mod relay;
mod reload;
mod sampler;
mod seal;
mod sealed;
mod serve;
mod service;
mod session;
mod shares;
mod stdio;
mod target;
mod trace;
pub mod upstream;
mod validation;
mod watch;
mod workers;

pub use access::{Callers, InvalidCallers, KeyDigest};
pub use admin::AdminToken;
pub use audit::AuditLog;
pub use exposition::ListedTools;
pub use gateway::{Exposed, Gateway, Readiness, StartError};
pub use memory::{Basis, Exhausted, MemoryLimit, Reservation};
pub use metrics::every_metric;
pub use missing::MissingCredential;
pub use options::{GatewayLimits, Options};
pub use reload::{Change, Failure, ReloadReport};
pub use seal::Keyring;
pub use serve::{Tls, TlsError, TlsFiles};
pub use stdio::StdioError;
pub use trace::{CallTrace, TraceError, TraceOptions, Traces};
pub use workers::available_cores;
