//! The `openapi` source of a `ServiceManifest`: an OpenAPI document, and which of its operations become tools.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use super::{AuthSpec, ConfigMapKeyRef, PaginationSpec, ResponseSpec, RetrySpec, RiskSpec};

/// An OpenAPI document (3.0 to 3.2), whose operations become tools. Set one of `inline`, `file` and `configMapRef`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenApiSpec {
    /// The document itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<JsonText>,
    /// The document's file, relative to the manifest's, in the same folder or below. Only where documents are files: a cluster
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The key of a ConfigMap that holds the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeyRef>,
    /// Scheme, host, port and path prefix. Defaults to the first of the document's `servers`. `https`, except for loopback and
    /// in-cluster names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// How requests are authenticated. An operation with `security: []` sends no credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// The operations that become tools. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<OperationsSpec>,
    /// What the document does not say, by the name that a tool has without an override.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub overrides: IndexMap<String, OverrideSpec>,
}

/// Chooses operations. An entry is an `operationId`, a tag, or a method and a path (`GET /pets/{id}`). `*` matches any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OperationsSpec {
    /// The operations that become tools. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// The operations among them that do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// What a document does not say about a tool, or should say differently.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideSpec {
    /// Another name for the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the answer is read and filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSpec>,
    /// When a failed request is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
    /// How the gateway fetches further pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<PaginationSpec>,
    /// The text that the caller receives, by status code.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<String, String>,
    /// How much harm a call can do. Defaults to what the method implies, or for GraphQL the kind of operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskSpec>,
}

/// Returns the override of a published tool, with the name that the tool has without it.
pub(crate) fn override_of<'o>(
    overrides: &'o IndexMap<String, OverrideSpec>,
    tool: &str,
) -> Option<(&'o str, &'o OverrideSpec)> {
    let renamed = overrides.iter().find(|(_, spec)| spec.name.as_deref() == Some(tool));
    let (name, spec) = renamed.or_else(|| overrides.get_key_value(tool).filter(|(_, spec)| spec.name.is_none()))?;
    Some((name, spec))
}

/// Returns the tools that `overrides` names, as they are published.
pub(super) fn overridden(overrides: &IndexMap<String, OverrideSpec>) -> impl Iterator<Item = &str> {
    overrides.iter().map(|(name, spec)| spec.name.as_deref().unwrap_or(name))
}
