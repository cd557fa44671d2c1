//! The `graphql` source of a `ServiceManifest`: a GraphQL schema, and what of it becomes tools.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuthSpec, ConfigMapKeyRef, OverrideSpec};

/// A GraphQL API. Its tools are operations that the user writes, and fields of the schema's root types. Set one of
/// `inline`, `file` and `configMapRef`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphQlSpec {
    /// The schema itself: GraphQL's schema definition language, or the JSON of an introspection query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// The schema's file, relative to the manifest's, in the same folder or below: `.graphql`, `.graphqls`, `.gql`, or `.json` for
    /// the result of an introspection query. Only where documents are files: a cluster has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The key of a ConfigMap that holds the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeyRef>,
    /// The URL of the endpoint, for example `https://api.example.com/graphql`. `https`, except for loopback and in-cluster names.
    pub base_url: String,
    /// How requests are authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// Operations, each of which becomes a tool. Its variables are the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<GraphQlOperationsSpec>,
    /// Fields of the root types that become tools. Defaults to all fields of the query type if there are no `operations`, and to
    /// none otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<GraphQlFieldsSpec>,
    /// What the schema does not say, by the name that a tool has without an override.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub overrides: IndexMap<String, OverrideSpec>,
}

/// A GraphQL document with named queries and mutations. Set one of `inline`, `file` and `configMapRef`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphQlOperationsSpec {
    /// The document itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// The document's file, as for the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The key of a ConfigMap that holds the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeyRef>,
}

/// Chooses fields of the root types. An entry is the name of a field (`viewer`), or that of its type and its own
/// (`Mutation.addStar`). `*` matches any text. A mutation becomes a tool only if an entry names it, or begins with its type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphQlFieldsSpec {
    /// The fields that become tools. Defaults to all of the query type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// The fields among them that do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl GraphQlSpec {
    /// Returns the files that the source names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        let operations = self.operations.as_ref().and_then(|operations| operations.file.as_deref());
        self.file.as_deref().into_iter().chain(operations)
    }

    /// Returns the keys of ConfigMaps that the source names.
    pub(super) fn config_maps(&self) -> impl Iterator<Item = &ConfigMapKeyRef> {
        let operations = self.operations.as_ref().and_then(|operations| operations.config_map_ref.as_ref());
        self.config_map_ref.as_ref().into_iter().chain(operations)
    }
}
