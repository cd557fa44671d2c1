//! `Prompts` and `Resources`: prompts and resources of a service, as reShapr writes them.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_config::PromptRole;
use tamis_engine::JsonText;

use super::{ResourceStatus, ServiceRef};

/// Prompts of a service: messages that a person chooses in a client, and fills with arguments.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "Prompts",
    root = "PromptsObject",
    plural = "prompts",
    singular = "prompts",
    namespaced,
    shortname = "prm",
    category = "tamis",
    status = "ResourceStatus",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.service.name",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptsSpec {
    /// The service that the prompts belong to. Every Exposition of the service publishes them, subject to its `prompts`.
    pub service: ServiceRef,
    /// Prompts by name.
    pub prompts: IndexMap<String, PromptSpec>,
}

/// One prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptSpec {
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the prompt is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments. All of them are strings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgumentSpec>,
    /// The text of one message of the user, or the messages. `{name}` stands for an argument, and so does `${name}`.
    pub result: PromptResultSpec,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptArgumentSpec {
    /// The name, as it is in braces.
    pub name: String,
    /// What the argument is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a caller has to give it.
    #[serde(default)]
    pub required: bool,
    /// The value if a caller leaves it out. Without one, the placeholder becomes an empty text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The allowed values. Clients offer them as completions.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// The result of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PromptResultSpec {
    /// The text of one message of the user.
    Text(String),
    /// The messages, in their order.
    Messages(Vec<PromptMessageSpec>),
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptMessageSpec {
    /// Who says it. Defaults to `user`.
    #[serde(default)]
    pub role: PromptRole,
    /// The text.
    pub text: String,
}

/// Resources of a service: texts and bytes that are written here, and templates that are read from the service.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "Resources",
    root = "ResourcesObject",
    plural = "resources",
    singular = "resources",
    namespaced,
    shortname = "rsc",
    category = "tamis",
    status = "ResourceStatus",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.service.name",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourcesSpec {
    /// The service that the resources belong to. Every Exposition of the service publishes them, subject to its `resources`.
    pub service: ServiceRef,
    /// Resources by URI.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub resources: IndexMap<String, ResourceSpec>,
    /// Resource templates by URI template, such as `docs://handbook/{page}`. Reading one sends a GET request below the base
    /// URL of the service, to the path and the query of the URI. Not published under `Enforced`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub resource_templates: IndexMap<String, ResourceTemplateSpec>,
}

/// One resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSpec {
    /// A short name.
    pub name: String,
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the resource holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The content as text. Either this or `blob` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content as bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Annotations of MCP: `audience`, `priority`, `lastModified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<JsonText>,
    /// Icons of MCP, a list of `{src, mimeType, sizes}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<JsonText>,
}

/// One resource template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceTemplateSpec {
    /// A short name.
    pub name: String,
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the resources hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of every resource, if all have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Annotations of MCP: `audience`, `priority`, `lastModified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<JsonText>,
    /// Icons of MCP, a list of `{src, mimeType, sizes}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<JsonText>,
    /// What is known about variables of the template, by variable.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub variables: IndexMap<String, TemplateVariableSpec>,
}

/// A variable of a resource template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateVariableSpec {
    /// The allowed values. Clients offer them as completions.
    #[serde(rename = "enum")]
    pub values: Vec<String>,
}
