//! Selects the filters of an exposition whose service follows an MCP server: which tools there are is known at run time only.

use indexmap::IndexMap;
use tamis_config::{ExpositionTool, NamePatterns, Reason, ServiceDocument, is_tool_name};
use tamis_engine::Enforcement;

use super::Degraded;
use super::expose::{Chosen, Exposer, Stop, conditions};
use super::tools::no_filter;
use crate::origin::FieldPath;
use crate::resources::ToolSelection;

impl Exposer<'_, '_> {
    /// Returns the filters by the names of the tools that they are for, and which of the listed tools are published.
    ///
    /// A tool whose filter has errors, and has no last good one, is not published. A tool that no set names is published
    /// unfiltered, as for any other service under `Advisory`.
    pub(super) fn followed_tools(
        &mut self,
        document: &ServiceDocument,
        chosen: &Chosen<'_>,
        enforcement: Enforcement,
    ) -> Result<(IndexMap<String, ExpositionTool>, NamePatterns), Stop> {
        if enforcement == Enforcement::Enforced {
            let message =
                "the service follows its MCP server (`mcp.follow`), and `Enforced` needs tools that are pinned";
            let remedy = "pin the tools with `tamis import mcp` and remove `follow` from the ServiceManifest, or publish it \
                          under `Advisory` alone";
            return Err(Stop::new(Reason::InvalidManifest, FieldPath::spec(["service"]), message, remedy));
        }
        if chosen.by_default && chosen.sets.is_empty() && chosen.unreadable.is_none() {
            return Err(no_filter(document));
        }
        let ToolSelection { include, exclude } = self.resource.spec.tools.clone().unwrap_or_default();
        let mut follow = NamePatterns { include, exclude };
        let mut tools: IndexMap<String, ExpositionTool> = IndexMap::new();
        let last_good = self.previous.filter(|previous| previous.document.enforcement == enforcement);
        let last_good = |tool: &str, set: &str| {
            let last = last_good.and_then(|previous| previous.document.tools.get(tool));
            last.filter(|last| last.filter.is_some() && last.filter_set.as_deref() == Some(set)).cloned()
        };
        let inputs = self.resource.spec.output.as_ref().and_then(|output| output.inputs.clone());
        for set in &chosen.sets {
            let name = set.name.to_string();
            for (tool, filter) in &set.spec.filters {
                if tools.contains_key(tool) {
                    let path = FieldPath::spec(["filters", tool]);
                    let message = format!(
                        "another set also names the tool and takes precedence in exposition {}",
                        self.resource.name
                    );
                    let remedy = "remove one of the filters, or reorder the sets";
                    self.diagnostics.push(set.origin.warning(&path, message, remedy).because(Reason::Conflict));
                    continue;
                }
                let conditions = conditions(tool, enforcement, None, inputs.as_deref());
                let path = FieldPath::spec(["filters", tool]);
                let judged = self.sets.judge(&set.origin, &path, tool, filter, conditions);
                if judged.is_good() {
                    self.record_open_filter(tool, &name, judged);
                    let published = ExpositionTool {
                        filter: Some(filter.clone()),
                        filter_set: Some(name.as_str().into()),
                        query: None,
                    };
                    tools.insert(tool.clone(), published);
                } else if let Some(last) = last_good(tool, &name) {
                    self.degraded.push(Degraded::PreviousFilter(tool.clone()));
                    tools.insert(tool.clone(), last);
                } else if is_tool_name(tool) {
                    self.degraded.push(Degraded::Unpublished(tool.clone()));
                    follow.exclude.push(tool.clone());
                }
            }
        }
        // A set that cannot be read may name any of the tools that it named before.
        if let (Some(_), Some(previous)) = (&chosen.unreadable, self.previous) {
            for (tool, last) in previous.document.tools.iter().filter(|(_, last)| last.filter.is_some()) {
                tools.entry(tool.clone()).or_insert_with(|| last.clone());
            }
        }
        Ok((tools, follow))
    }
}
