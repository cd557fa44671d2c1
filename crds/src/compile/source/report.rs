//! What an import says about the document of an API.

use tamis_config::Digest;

use super::Converted;
use crate::Diagnostic;
use crate::resources::AuthType;

/// What becomes of the document of an API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiReport {
    /// The title that the document has.
    pub title: Option<String>,
    /// The version that the document has.
    pub version: Option<String>,
    /// The URL of the API, if the document says it.
    pub base_url: Option<String>,
    /// How its operations are authenticated, and the header or parameter, where the document says so in a way that a manifest can
    /// express.
    pub auth: Option<(AuthType, Option<String>)>,
    /// The tools, in the order of the document.
    pub tools: Vec<ApiTool>,
    /// Each selected operation or field that becomes no tool, and why, as the end of a sentence about it.
    pub left_out: Vec<(String, String)>,
    /// How many operations or fields were not selected.
    pub unselected: usize,
    /// The patterns that match nothing.
    pub unmatched: Vec<String>,
    /// The document, pruned to what the tools need. `None` if it cannot be pruned.
    pub pruned: Option<String>,
    /// The findings. With an error, no manifest can use the document.
    pub findings: Vec<Diagnostic>,
}

/// A tool, and the operation that it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiTool {
    /// The tool's name.
    pub name: String,
    /// Method and path, or type and field.
    pub operation: String,
    /// What is not part of the tool, with the reason: optional parameters, or fields that need arguments.
    pub omitted: Vec<String>,
    /// Differs if the tool differs.
    pub digest: Digest,
}

impl ApiTool {
    pub(super) fn new(name: String, converted: Converted) -> Self {
        let Converted { operation, tool, omitted } = converted;
        // Tools serialize without errors.
        let digest = Digest::of(&serde_json::to_vec(&tool).unwrap_or_default());
        Self { name, operation, omitted, digest }
    }
}
