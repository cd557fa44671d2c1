//! `ToolsFilters`: selects the parts of each tool's output that may pass.

use std::sync::Arc;

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::{Enforcement, ToolFilter};

use super::{ResourceStatus, ServiceRef};

/// Selects the parts of each tool's output that may pass.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "ToolsFilters",
    plural = "toolsfilters",
    namespaced,
    shortname = "tf",
    category = "tamis",
    status = "ResourceStatus",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.name",
    selectable = ".spec.service.name",
    printcolumn(name = "Set", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name"),
    printcolumn(name = "Enforcement", type_ = "string", json_path = ".spec.enforcement"),
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
pub struct ToolsFiltersSpec {
    /// The name by which an Exposition refers to the set. A set without a name is a default set of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The service whose tools the set filters.
    pub service: ServiceRef,
    /// `Advisory` saves context, `Enforced` protects data. One `Enforced` set makes the whole exposition `Enforced`.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Filters by tool name.
    #[serde(deserialize_with = "tamis_config::shared::deserialize")]
    pub filters: IndexMap<String, Arc<ToolFilter>>,
}
