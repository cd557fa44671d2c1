//! Who sees which service, how.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::{Budget, Bytes, Enforcement, Factor, ReservedInput, Tokens, ToolFilter};
use tamis_tokens::TokenizerName;

use crate::{AllowedUse, Digest, NamePatterns, PublishedContent};

/// An exposition's name, unique in a gateway: the last two segments of its URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpositionId {
    /// `default` where a document names none.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for ExpositionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One exposition: the service by digest, the tools that are published and the filter of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpositionDocument {
    /// The lowest format version that expresses the document: [`Self::at_lowest_version`].
    pub format_version: u32,
    /// Its name.
    pub id: ExpositionId,
    /// The service document that it publishes.
    pub service: Digest,
    /// The enforcement of every tool.
    pub enforcement: Enforcement,
    /// The published tools, in the order of the service.
    #[serde(deserialize_with = "crate::shared::deserialize")]
    pub tools: IndexMap<String, ExpositionTool>,
    /// The service's credentials by `name/key` of the Secret: where each value lies, and how it may be used. Empty
    /// under `tamis serve`, which reads them by their names. A document that names a value is loaded when the value is
    /// there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, CredentialGrant>,
    /// Who may call; `None` is what `tamis serve` on loopback allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Bounds on calls.
    #[serde(default)]
    pub limits: CallLimits,
    /// What an audit record holds.
    #[serde(default)]
    pub audit: Audit,
    /// How tokens are counted.
    #[serde(default, skip_serializing_if = "TokenSettings::is_default")]
    pub tokens: TokenSettings,
    /// The reserved inputs that the tools advertise, as far as they can have them. `None` leaves it to each tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<ReservedInput>>,
    /// Milliseconds for which clients may keep the lists of tools, prompts and resources; 0 asks them to keep none.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub list_ttl_ms: u64,
    /// Set if the service is an MCP server whose tools are published as it lists them. `tools` then holds the filters, by the
    /// names of tools that the server may list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<NamePatterns>,
    /// The prompts and resources that are published.
    #[serde(default, skip_serializing_if = "PublishedContent::is_empty")]
    pub content: PublishedContent,
}

impl ExpositionDocument {
    /// Every credential value that has to be there before the document can be loaded, each once, in order.
    #[must_use]
    pub fn handles(&self) -> Vec<CredentialHandle> {
        let callers = self.access.as_ref().and_then(Access::secret).and_then(|(_, handle)| handle.cloned());
        let mut handles: Vec<_> = self.credentials.values().map(|grant| grant.handle.clone()).chain(callers).collect();
        handles.sort();
        handles.dedup();
        handles
    }

    /// Returns whether a tool of this name is published, or would be if the followed server listed it.
    #[must_use]
    pub fn may_publish(&self, tool: &str) -> bool {
        self.follow.as_ref().map_or_else(|| self.tools.contains_key(tool), |follow| follow.selects(tool))
    }

    /// Returns the document with the format version that gateways need to read it. To be called after every change.
    #[must_use]
    pub fn at_lowest_version(mut self) -> Self {
        self.format_version = crate::lowest_version(&self);
        self
    }

    /// Returns the names of everything published that sends requests to the service: tools and resource templates.
    pub fn callables(&self) -> impl Iterator<Item = &String> {
        self.tools.keys().chain(&self.content.templates)
    }

    /// How many of the published tools are unfiltered.
    #[must_use]
    pub fn unfiltered(&self) -> usize {
        self.tools.values().filter(|tool| tool.is_unfiltered()).count()
    }
}

/// One published tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpositionTool {
    /// The filter; none publishes the output as it is (`Advisory` only). Held once by all expositions of a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Arc<ToolFilter>>,
    /// The ToolsFilters resource that the filter comes from, `namespace/name`, or `manifest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_set: Option<Box<str>>,
    /// For a GraphQL tool: the query that asks for what the filter reads, in place of the service's. Not sent for a caller who
    /// asks for the unfiltered output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // A thin pointer: all tools of all expositions have this field.
    pub query: Option<Arc<String>>,
}

impl ExpositionTool {
    /// Whether callers get the output as the upstream sent it: no filter applies, or one that says `passthrough`.
    #[must_use]
    pub fn is_unfiltered(&self) -> bool {
        match self.filter.as_deref() {
            None => true,
            Some(ToolFilter::Single(spec)) => spec.passthrough,
            Some(ToolFilter::Branches(_)) => false,
        }
    }
}

/// Who may call an exposition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Access {
    /// Everyone who reaches the address.
    Anonymous,
    /// Callers with a key of their own.
    #[serde(rename_all = "camelCase")]
    ApiKeys {
        /// The Secret: caller's name to `sha256:` and the hex SHA-256 of the caller's key.
        secret: String,
        /// Where its content lies; absent under `tamis serve`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<CredentialHandle>,
    },
    /// Callers of a bundle that has the exposition as a part, as that bundle says. Its own address answers as one that
    /// does not exist.
    BundleOnly,
}

impl Access {
    /// Whether callers prove who they are.
    #[must_use]
    pub fn authenticates(&self) -> bool {
        match self {
            Self::Anonymous | Self::BundleOnly => false,
            Self::ApiKeys { .. } => true,
        }
    }

    /// The Secret that callers are compared with, and where its content lies, if that is known.
    #[must_use]
    pub fn secret(&self) -> Option<(&str, Option<&CredentialHandle>)> {
        match self {
            Self::Anonymous | Self::BundleOnly => None,
            Self::ApiKeys { secret, handle } => Some((secret, handle.as_ref())),
        }
    }

    /// As [`Self::secret`], to say where its content lies now.
    pub fn secret_mut(&mut self) -> Option<(&str, &mut Option<CredentialHandle>)> {
        match self {
            Self::Anonymous | Self::BundleOnly => None,
            Self::ApiKeys { secret, handle } => Some((secret, handle)),
        }
    }
}

/// A key in a group's credential shards. Made of the uid and the resourceVersion of the Secret that the value comes
/// from, so that it names one value for ever and tells nothing about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CredentialHandle(pub String);

/// A credential of an exposition: its value, and what its owner lets the exposition do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialGrant {
    /// Where the value lies.
    pub handle: CredentialHandle,
    /// The lines of the owner's annotation that allow what the exposition's tools do. A gateway checks each request
    /// against them; none allows nothing.
    pub uses: Vec<AllowedUse>,
}

/// Bounds on the calls of one exposition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CallLimits {
    /// Calls a second, over time; none is unlimited.
    pub requests_per_second: Option<u32>,
    /// Calls at once beyond that rate.
    pub burst: Option<u32>,
    /// Calls under way at once; none leaves only the gateway's own limit.
    pub concurrent: Option<u32>,
    /// Milliseconds that one call may take, retries and pages included.
    pub timeout_ms: u64,
    /// Bytes of one output after decompression; more is never read.
    pub max_response_bytes: u64,
    /// The largest answer, whatever a filter or a caller says.
    #[serde(skip_serializing_if = "OutputLimits::is_none")]
    pub output: OutputLimits,
}

/// The largest answer of an exposition: the larger of its text blocks and its structured content counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OutputLimits {
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// In tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl OutputLimits {
    /// Returns whether there is no limit.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the limits as the engine takes them.
    #[must_use]
    pub fn budget(&self) -> Budget {
        let limit = |limit: Option<u64>| limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Budget { bytes: limit(self.bytes).map(Bytes), tokens: limit(self.tokens).map(Tokens) }
    }

    /// Returns the smaller limit of each unit.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self { bytes: least(self.bytes, other.bytes), tokens: least(self.tokens, other.tokens) }
    }
}

/// How an exposition counts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TokenSettings {
    /// What counts them.
    pub tokenizer: TokenizerName,
    /// What the count is multiplied by; from 0.01 to 100.
    pub factor: f64,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self { tokenizer: TokenizerName::default(), factor: 1.0 }
    }
}

impl TokenSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the factor as the engine takes it; `None` if it is out of range.
    #[must_use]
    pub fn factor(&self) -> Option<Factor> {
        Factor::new(self.factor)
    }
}

impl CallLimits {
    /// The largest `max_response_bytes` of an exposition, where its gateway group names none.
    pub const MAX_RESPONSE_BYTES_CEILING: u64 = 64 << 20;
    /// The largest `timeout_ms` of an exposition, where its gateway group names none.
    pub const TIMEOUT_MS_CEILING: u64 = 5 * 60 * 1_000;
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            burst: None,
            concurrent: None,
            timeout_ms: 30_000,
            max_response_bytes: 16 << 20,
            output: OutputLimits::default(),
        }
    }
}

/// What an audit record holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Audit {
    /// A keyed signature of the answer, sizes and verdict.
    #[default]
    Digest,
    /// The output before filtering too, in a file of its own.
    Full,
}
