//! `--sample`: runs the filters of one tool on a saved answer.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use anyhow::bail;
use serde::Serialize;
use tamis_crds::{CompileEnv, Resources, compile};
use tamis_engine::{Call, CompileOptions, Enforcement, Input, ResponseType, ToolFilter};

/// The result of one filter on the sample.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    /// The exposition that applies the filter, or the filter set if no exposition uses it.
    pub(super) used_by: String,
    /// The name of the tool.
    pub(super) tool: String,
    /// The size of the sample in bytes.
    pub(super) original_bytes: usize,
    /// The size of the model's output in bytes, or `None` if the filter rejects the sample.
    pub(super) output_bytes: Option<usize>,
    /// Paths of the filter that match nothing in the sample.
    pub(super) missed: Vec<String>,
    /// The stage that failed, and the reason if it may be shown.
    pub(super) error: Option<String>,
}

/// Runs every filter of the tool on the sample, each as its exposition would.
pub(super) fn run(resources: &Resources, tool: Option<&str>, sample: &[u8]) -> anyhow::Result<Vec<Sample>> {
    let filters = filters(resources);
    let tools: BTreeSet<&str> = filters.iter().map(|f| f.tool.as_str()).collect();
    let tool = match (tool, tools.len()) {
        (Some(tool), _) if tools.contains(tool) => tool,
        (Some(tool), _) => bail!("the documents have no filter for tool `{tool}`; they filter {}", list(&tools)),
        (None, 1) => tools.first().copied().unwrap_or_default(),
        (None, 0) => bail!("the documents filter no tool"),
        (None, _) => {
            bail!("the documents filter several tools; choose the tool of the sample with --tool: {}", list(&tools))
        }
    };
    Ok(filters.iter().filter(|f| f.tool == tool).map(|f| f.apply(sample)).collect())
}

fn list(tools: &BTreeSet<&str>) -> String {
    tools.iter().copied().collect::<Vec<_>>().join(", ")
}

struct Filter {
    used_by: String,
    tool: String,
    filter: Arc<ToolFilter>,
    enforcement: Enforcement,
    response_type: Option<ResponseType>,
}

/// Returns the filters as expositions apply them. A set that no exposition uses applies with its own enforcement.
fn filters(resources: &Resources) -> Vec<Filter> {
    let snapshot = compile(resources, &CompileEnv::default()).snapshot;
    let mut used = BTreeSet::new();
    let mut filters = Vec::new();
    for (id, exposition) in &snapshot.expositions {
        let service = &snapshot.services[&exposition.service];
        for (tool, published) in &exposition.tools {
            let Some(filter) = &published.filter else { continue };
            used.extend(published.filter_set.as_deref().map(|set| (set.to_owned(), tool.clone())));
            filters.push(Filter {
                used_by: format!("exposition {id}"),
                tool: tool.clone(),
                filter: Arc::clone(filter),
                enforcement: exposition.enforcement,
                response_type: service.tools.get(tool).and_then(|tool| tool.response_type),
            });
        }
    }
    for set in &resources.filters {
        for (tool, filter) in &set.spec.filters {
            if !used.contains(&(set.name.to_string(), tool.clone())) {
                filters.push(Filter {
                    used_by: format!("filter set {}", set.name),
                    tool: tool.clone(),
                    filter: Arc::clone(filter),
                    enforcement: set.spec.enforcement,
                    response_type: None,
                });
            }
        }
    }
    filters
}

impl Filter {
    fn apply(&self, sample: &[u8]) -> Sample {
        let mut outcome = Sample {
            used_by: self.used_by.clone(),
            tool: self.tool.clone(),
            original_bytes: sample.len(),
            output_bytes: None,
            missed: Vec::new(),
            error: None,
        };
        let options = CompileOptions {
            enforcement: self.enforcement,
            response_type: self.response_type,
            ..CompileOptions::default()
        };
        let Some(program) = tamis_engine::compile(&self.filter, &options).program else {
            outcome.error = Some("the filter does not compile".to_owned());
            return outcome;
        };
        let input = match self.response_type {
            Some(ResponseType::Text) => Input::Text(sample),
            _ => Input::Json(sample),
        };
        let report = match program.apply(input, &Call::default()) {
            Ok(filtered) => {
                outcome.output_bytes = Some(filtered.report.output_bytes);
                filtered.report
            }
            Err(refused) => {
                outcome.error = Some(format!("stage {} failed", refused.stage.as_str()));
                *refused.report
            }
        };
        if let Some(failed) = &report.error {
            outcome.error = Some(format!("stage {} failed: {}", failed.stage.as_str(), failed.message));
        }
        outcome.missed = report.partial_miss.into_iter().chain(report.unresolved).collect();
        outcome
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, tool {}: ", self.used_by, self.tool)?;
        match self.output_bytes {
            Some(bytes) => write!(f, "{} bytes become {bytes}", self.original_bytes)?,
            None => write!(f, "{} bytes, and nothing passes", self.original_bytes)?,
        }
        if let Some(error) = &self.error {
            write!(f, "; error: {error}")?;
        }
        if !self.missed.is_empty() {
            write!(f, "; not in the sample: {}", self.missed.join(", "))?;
        }
        Ok(())
    }
}
