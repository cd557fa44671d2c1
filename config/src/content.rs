//! Prompts and resources of a service: what the documents of `Prompts` and `Resources` become.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use crate::{NamePatterns, ServiceTool};

/// The prompts and resources of a service that do not come from its source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceContent {
    /// Prompts by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub prompts: IndexMap<String, ServicePrompt>,
    /// Resources by URI.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub resources: IndexMap<String, ServiceResource>,
    /// Resource templates by URI template.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub templates: IndexMap<String, ServiceTemplate>,
}

impl ServiceContent {
    /// Returns whether there are no prompts and no resources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { prompts, resources, templates } = self;
        prompts.is_empty() && resources.is_empty() && templates.is_empty()
    }
}

/// A prompt: messages whose `{name}` are arguments of the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServicePrompt {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the prompt is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments, in the order in which they are listed.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub arguments: IndexMap<String, PromptArgument>,
    /// The messages.
    pub messages: Vec<PromptMessage>,
}

/// An argument of a prompt. Arguments of prompts are strings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptArgument {
    /// What the argument is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a caller has to give it.
    #[serde(default)]
    pub required: bool,
    /// The value of an argument that a caller leaves out. Without one, the placeholder becomes an empty text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The values that it may have; empty allows every value.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptMessage {
    /// Who says it.
    pub role: PromptRole,
    /// The text, in which `{name}` stands for an argument of the prompt.
    pub text: String,
}

/// Who says a message of a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptRole {
    /// The person, or the program that acts for one.
    #[default]
    User,
    /// The model.
    Assistant,
}

impl PromptRole {
    /// Returns the word of the protocol.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// What lists show of a resource or of a resource template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceInfo {
    /// A short name.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Annotations of the protocol, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<JsonText>,
    /// Icons of the protocol, a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<JsonText>,
}

/// A resource with its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceResource {
    /// What lists show.
    pub info: ResourceInfo,
    /// The content.
    pub content: ResourceContent,
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceContent {
    /// Text.
    Text(String),
    /// Bytes in base64, with padding.
    Blob(String),
}

/// A resource template. Its content is read from the service by an HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceTemplate {
    /// What lists show.
    pub info: ResourceInfo,
    /// The values that a variable may have, by variable. A variable that is not here may have every value.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub values: IndexMap<String, Vec<String>>,
    /// The request: a `GET` whose arguments are the variables of the URI template, all of them required strings.
    pub read: ServiceTool,
}

/// The prompts and resources that an exposition publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedContent {
    /// Names of prompts of the service, in the order of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    /// URIs of resources of the service, in the order of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// URI templates of the service, in the order of the service. Not under `Enforced`: no filter sees what they read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<String>,
    /// Which prompts of the MCP server are passed on; `None` passes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_prompts: Option<NamePatterns>,
    /// Which resources and resource templates of the MCP server are passed on; `None` passes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_resources: Option<NamePatterns>,
}

impl PublishedContent {
    /// Returns whether nothing is published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Removes what holds data of the upstream that no filter has seen: all that `Enforced` forbids.
    pub fn enforce(&mut self) {
        self.templates.clear();
        (self.server_prompts, self.server_resources) = (None, None);
    }

    /// Removes what `other` does not publish too.
    pub fn retain_common(&mut self, other: &Self) {
        self.prompts.retain(|name| other.prompts.contains(name));
        self.resources.retain(|uri| other.resources.contains(uri));
        self.templates.retain(|template| other.templates.contains(template));
        let both =
            |own: &Option<NamePatterns>, other: &Option<NamePatterns>| Some(own.as_ref()?.narrowed(other.as_ref()?));
        self.server_prompts = both(&self.server_prompts, &other.server_prompts);
        self.server_resources = both(&self.server_resources, &other.server_resources);
    }
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
