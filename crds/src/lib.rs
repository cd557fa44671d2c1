//! The resources of `tamis.dev/v1alpha1`, the loader of the documents that hold them, and the compile step.
//!
//! [`load`] reads files and folders into [`Resources`]; [`FolderState`] keeps what a broken edit would lose; [`compile()`]
//! turns them into the [`tamis_config::Snapshot`] that a gateway serves. All errors are reported at once as [`Diagnostic`]s
//! with file, line, column, field and remedy. Only `load` does any I/O.

pub mod cluster;
mod compile;
pub mod definitions;
mod diagnostic;
mod import;
mod load;
mod lookup;
mod origin;
mod plain;
mod read;
pub mod resources;
mod sink;
mod state;
mod tighten;
pub mod yaml;

pub use compile::{
    ApiReport, ApiTool, Bundled, Compilation, CompileEnv, Conversions, Degraded, Expansion, GraphQlDocuments,
    GraphQlOperations, GrpcReport, Part, Paused, ProtoFile, ProtoText, compile, diagnose, diagnose_part, examine_api,
    examine_graphql, examine_grpc, expand_api, graphql_operations, pause, proto_imports,
};
pub use diagnostic::{Diagnostic, Severity};
pub use import::import;
pub use load::{FolderReader, Loaded, documents, file as load_file, is_document, load};
pub use lookup::{FoundFilter, NotFound};
pub use origin::{EntryPlace, Origin};
pub use plain::plain;
pub use read::{MAX_CONFIG_MAP_BYTES, ParsedFile, document_schema, parse_document, read_object};
pub use resources::{ObjectName, Resource, Resources, Unusable};
pub use state::{FolderState, Update};
pub use tighten::{is_bare, tighten};
