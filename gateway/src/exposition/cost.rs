//! What the reserved inputs of an exposition cost those who list its tools.

use serde_json::Value;
use tamis_config::{ExpositionDocument, ServiceDocument};
use tamis_engine::ReservedInputs;

use super::list::describe;
use super::toolset::Tool;
use crate::mcp::arguments::Reserved;
use crate::registry::Programs;
use crate::service::{argument_names, declared_input};

/// The tools of an exposition as its callers get them from `tools/list`, and as they would be without reserved inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTools {
    /// Number of tools.
    pub tools: usize,
    /// The tools, as a JSON array.
    pub listed: String,
    /// The same without the reserved inputs.
    pub without_inputs: String,
}

impl ListedTools {
    /// Lists the tools of an exposition of this service. Nothing is called or loaded.
    ///
    /// # Errors
    /// Names the tool and the field, if a gateway could not load the documents.
    pub fn new(exposition: &ExpositionDocument, service: &ServiceDocument) -> Result<Self, String> {
        let mut programs = Programs::default();
        let mut lists = [Vec::new(), Vec::new()];
        for name in exposition.tools.keys() {
            let declared = service.tools.get(name).ok_or_else(|| format!("tool {name} is not in the service"))?;
            let schema = declared_input(declared).map_err(|error| format!("tool {name}: input schema: {error}"))?;
            let arguments = argument_names(&schema);
            let tool = Tool::load(exposition, &exposition.limits, (declared, &arguments), name, &mut programs)?;
            lists[0].push(describe(name, declared, &tool));
            let reserved = Reserved::new(ReservedInputs::default(), false, |_| false);
            lists[1].push(describe(name, declared, &Tool { reserved, ..tool }));
        }
        let [listed, without_inputs] = lists.map(|tools| Value::Array(tools).to_string());
        Ok(Self { tools: exposition.tools.len(), listed, without_inputs })
    }
}
