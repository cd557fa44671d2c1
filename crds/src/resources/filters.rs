//! `ToolsFilters`: what may pass.

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::{Enforcement, ToolFilter};

use super::ServiceRef;

/// What of each tool's output may pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsFiltersSpec {
    /// The set's name, by which an Exposition asks for it. A set without one is the default of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The service whose tools are filtered.
    pub service: ServiceRef,
    /// `Advisory` saves context, `Enforced` protects data: an exposition with one `Enforced` set is `Enforced` altogether.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Tool name to filter.
    pub filters: IndexMap<String, Arc<ToolFilter>>,
}
