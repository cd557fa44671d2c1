//! `Exposition`: who sees which service, how.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::Enforcement;

use super::{ExpositionStatus, Later, LocalName, NamespacedName, Quantity, ServiceRef};

/// One service, published for one audience.
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
    /// The service that is published.
    pub service: ServiceRef,
    /// The gateways that publish it; by default the group `default` of the same namespace, else the default group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_group: Option<NamespacedName>,
    /// Which tools are published; all, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSelection>,
    /// Names of filter sets, in order. Absent: the unnamed sets of the service, and at least one of them or a filter in
    /// the manifest; `[]`: none, so that the tools are published unfiltered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// Raises the enforcement of all its sets.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// How the upstream is reached; as the manifest says, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_plan: Option<LocalName>,
    /// Who may call. Without it only `tamis serve` on loopback publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessSpec>,
    /// Bounds on calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsSpec>,
    /// What an audit record holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSpec>,
}

/// Tool names, or patterns of them in which `*` stands for anything and `?` for one character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSelection {
    /// What is published; all, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// What is left out of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Who may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessSpec {
    /// `true`: everyone who reaches the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<bool>,
    /// Callers with an API key, which they send as `Authorization: Bearer KEY` or as `X-API-Key: KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeysSpec>,
    /// Not implemented yet: callers with a token of an issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Later>,
}

/// Callers with an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeysSpec {
    /// The Secret with one entry a caller: the caller's name, and `sha256:` with the hex SHA-256 of the caller's key.
    pub secret_ref: LocalName,
}

/// Bounds on the calls of one exposition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsSpec {
    /// Calls a second, over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Calls at once beyond that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Calls under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
    /// How long one call may take, retries and pages included, with a unit: `30s`, `500ms`, `1m30s`. 30 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub timeout: Option<String>,
    /// Bytes of one output after decompression: `16Mi` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_response_bytes: Option<Quantity>,
}

/// What an audit record holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditSpec {
    /// `Digest`, or `Full` where the group's sink is a file.
    pub mode: AuditMode,
}

/// What an audit record holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AuditMode {
    /// A keyed signature of the answer, sizes and verdict.
    #[default]
    Digest,
    /// The output before filtering too, in a file of its own.
    Full,
}

impl LimitsSpec {
    /// `timeout` in milliseconds; none where it is absent or no duration.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        duration_ms(self.timeout.as_deref()?)
    }
}

/// Kubernetes' durations: numbers with `ms`, `s`, `m` or `h`, added up.
pub(super) fn duration_ms(mut text: &str) -> Option<u64> {
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
