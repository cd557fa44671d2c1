//! `Exposition`: publishes a service for one audience.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::{Enforcement, Factor, ReservedInput};
use tamis_tokens::TokenizerName;

use super::{ExpositionStatus, Later, LocalName, NamespacedName, Quantity, ServiceRef};

/// One service, published for one audience, or several expositions behind one address.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "Exposition",
    plural = "expositions",
    namespaced,
    shortname = "expo",
    category = "tamis",
    status = "ExpositionStatus",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.service.name",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.tools"),
    printcolumn(name = "Unfiltered", type_ = "integer", priority = 1, json_path = ".status.unfiltered"),
    printcolumn(name = "Saved", type_ = "string", json_path = ".status.saved"),
    printcolumn(
        name = "Upstream",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Upstream\")].reason"
    ),
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
pub struct ExpositionSpec {
    /// The service to publish. Exactly one of `service` and `expositions` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRef>,
    /// In place of `service`: other expositions of the same namespace whose tools are published behind this address, in
    /// this order. Such an exposition is a bundle. Each of them keeps its filters, enforcement, limits and audit; a bundle
    /// sets `gatewayGroup`, `access`, `limits` and `lists` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expositions: Option<Vec<BundlePartSpec>>,
    /// The gateway group that publishes the service. Defaults to the group `default` of the same namespace, then to the
    /// operator's default group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_group: Option<NamespacedName>,
    /// The tools to publish. Defaults to all tools of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSelection>,
    /// The prompts to publish. Defaults to all prompts of the service, except that those of an MCP server are not published
    /// under `Enforced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ContentSelection>,
    /// The resources and resource templates to publish, by URI. Defaults to all of the service, except that resource
    /// templates and the resources of an MCP server are not published under `Enforced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContentSelection>,
    /// Names of the filter sets to apply, in order. If absent, the unnamed sets of the service apply, and at least one of
    /// them or a filter in the manifest must exist. `[]` publishes the tools unfiltered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// The minimum enforcement of all filter sets of the exposition.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// The ConfigurationPlan that says how to reach the upstream. Defaults to the settings of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_plan: Option<LocalName>,
    /// Who may call the tools. Required in a cluster; without it, only `tamis serve` on loopback publishes the exposition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessSpec>,
    /// Limits on calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsSpec>,
    /// What each audit record holds. Not for a bundle: each of its expositions says so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSpec>,
    /// How tokens are counted, where a budget or a format asks for it. Defaults to `o200k_base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensSpec>,
    /// What the tools offer to their callers in addition to the arguments of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ExpositionOutputSpec>,
    /// How long clients may keep the lists of tools, prompts and resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<ListsSpec>,
}

/// One exposition of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BundlePartSpec {
    /// `metadata.name` of an Exposition of the same namespace that publishes a service.
    pub name: String,
    /// The text that its tools' names begin with in the bundle, for example `gh_`. Defaults to none. A tool whose name would
    /// be longer than 64 characters, or is the name of a tool of an earlier exposition, is not published.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

/// What an exposition publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published<'a> {
    /// A service.
    Service(&'a ServiceRef),
    /// The tools of other expositions.
    Bundle(&'a [BundlePartSpec]),
}

impl ExpositionSpec {
    /// Returns what the exposition publishes. A document with both or neither was rejected earlier.
    #[must_use]
    pub fn published(&self) -> Published<'_> {
        match &self.service {
            Some(service) => Published::Service(service),
            None => Published::Bundle(self.expositions.as_deref().unwrap_or_default()),
        }
    }

    /// Returns the service, unless the exposition is a bundle.
    #[must_use]
    pub fn of_service(&self) -> Option<&ServiceRef> {
        match self.published() {
            Published::Service(service) => Some(service),
            Published::Bundle(_) => None,
        }
    }
}

/// How long clients may keep what an exposition lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListsSpec {
    /// The time for which a client may use a list before it asks again, with a unit: `90s`, `5m`. Clients of protocol version
    /// 2026-07-28 get it as `ttlMs`. Without it, `ttlMs` is 0, which asks clients not to keep lists. A client that listens for
    /// changes gets each change at once, whatever the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub ttl: Option<String>,
}

impl ListsSpec {
    /// Returns `ttl` in milliseconds, or `None` if it is absent or not a duration.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<u64> {
        duration_ms(self.ttl.as_deref()?)
    }
}

/// How tokens are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokensSpec {
    /// The tokenizer. Defaults to `o200k_base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerName>,
    /// The number, from 0.01 to 100, that counts are multiplied by, for models whose tokenizer is not public. Counts with a
    /// factor are called estimates. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
}

/// What the tools offer to their callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpositionOutputSpec {
    /// The reserved inputs that the tools advertise: `_output_mode`, `_budget`, `_budget_tokens`, `_format`, `chunk`,
    /// `offset` and `limit`, the last two together only. A tool advertises those that it can have. `[]` advertises none. If
    /// absent, each tool advertises `_output_mode` and `_budget`, with a budget also `chunk`, `offset` and `limit`, and the
    /// inputs that its filter adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<ReservedInput>>,
}

/// Tool names or patterns, in which `*` matches any text and `?` matches one character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSelection {
    /// The tools to publish. Defaults to all tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// The tools to leave out of `include`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Names of prompts or URIs of resources, or patterns in which `*` matches any text and `?` matches one character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentSelection {
    /// What to publish. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// What to leave out of `include`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Who may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessSpec {
    /// `true` allows every caller who can reach the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<bool>,
    /// Allows callers with an API key, sent as `Authorization: Bearer KEY` or as `X-API-Key: KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeysSpec>,
    /// `true` withdraws the exposition's own address: its tools are called through bundles only, by the callers that the
    /// bundle allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_only: Option<bool>,
    /// Not implemented yet: callers with a token of an issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Later>,
}

/// Callers who authenticate with an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeysSpec {
    /// The Secret with one entry for each caller: the key is the caller's name, the value `sha256:` and the hex SHA-256 of
    /// the caller's API key.
    pub secret_ref: LocalName,
}

/// Limits on the calls of one exposition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsSpec {
    /// Sustained calls per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Calls that may exceed that rate at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Calls in flight at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
    /// The longest time for one call, retries and pages included, with a unit: `30s`, `500ms`, `1m30s`. Defaults to `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub timeout: Option<String>,
    /// The largest size of one output after decompression. Defaults to `16Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_response_bytes: Option<Quantity>,
    /// The largest answer, whatever a filter or a caller says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputLimitsSpec>,
}

/// The largest answer. Every limit that is set applies to the larger of the answer's text and its structured content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputLimitsSpec {
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// In tokens, as `tokens` counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// What each audit record holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditSpec {
    /// `Digest`, or `Full` if the group writes audit records to files.
    pub mode: AuditMode,
}

/// What each audit record holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AuditMode {
    /// A keyed signature of the answer, the sizes and the verdict.
    #[default]
    Digest,
    /// Additionally the output before filtering, in a separate file.
    Full,
}

impl TokensSpec {
    /// Returns `factor`, which defaults to 1, or `None` if it is out of range.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        Some(self.factor.unwrap_or(1.0)).filter(|factor| Factor::new(*factor).is_some())
    }
}

impl LimitsSpec {
    /// Returns `timeout` in milliseconds, or `None` if it is absent or not a duration.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        duration_ms(self.timeout.as_deref()?)
    }
}

/// Parses a Kubernetes duration: numbers with `ms`, `s`, `m` or `h`, added up.
pub(crate) fn duration_ms(mut text: &str) -> Option<u64> {
    let mut total = 0_u64;
    if text.is_empty() {
        return None;
    }
    while !text.is_empty() {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let unit = text[digits..].find(|c: char| c.is_ascii_digit()).map_or(text.len(), |end| digits + end);
        let factor = match &text[digits..unit] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(text[..digits].parse::<u64>().ok()?.checked_mul(factor)?)?;
        text = &text[unit..];
    }
    Some(total)
}
