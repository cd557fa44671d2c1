//! The `grpc` source of a `ServiceManifest`: the .proto texts of a gRPC server, and which of its methods become tools.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuthSpec, ConfigMapKeyRef, OverrideSpec};

/// A gRPC server, whose methods become tools. Set one of `inline`, `file` and `configMapRef`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcSpec {
    /// The .proto texts, by the path that `import` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<IndexMap<String, String>>,
    /// A file, relative to the manifest's, in the same folder or below: `.proto`, or `.binpb`, `.pb` or `.desc` for a descriptor
    /// set. Imports are found in the folder of the file that imports, and in those above it up to the manifest's. Only where
    /// documents are files: a cluster has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The key of a ConfigMap with the label `tamis.dev/document` that holds a .proto text, or a descriptor set (`.binpb`, `.pb`,
    /// `.desc`). Imports of a text are other keys, with `.` in place of each `/`: `google.api.http.proto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeyRef>,
    /// Whether gateways ask the server for its descriptors. `true` is not implemented yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<bool>,
    /// The scheme, host and port of the server, for example `https://grpc.example.com`. `https`, except for loopback and in-cluster
    /// names.
    pub endpoint: String,
    /// How calls are authenticated: `header`, `bearer` or `basic`, in the metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// The methods that become tools. Defaults to all of what `file` or `configMapRef` names, or of all texts in `inline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<GrpcMethodsSpec>,
    /// What the descriptors do not say, by the name that a tool has without an override.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub overrides: IndexMap<String, OverrideSpec>,
}

/// Chooses methods. An entry is the name of a method (`Range`), with the name of its service (`KV/Range`) or also with its package
/// (`etcdserverpb.KV/Range`). `*` matches any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcMethodsSpec {
    /// The methods that become tools. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// The methods among them that do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}
