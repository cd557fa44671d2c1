//! Tools from the operations of an OpenAPI document.
//!
//! The document is a tree whose places keep their lines, so that a mistake in it is reported where it is. What the request of an
//! operation needs and the gateway cannot send leaves the operation out, by name and with the reason. A mistake in an operation
//! that is not selected is not looked at.

mod answer;
mod body;
mod content;
mod document;
mod expand;
mod operation;
mod parameter;
mod prune;
mod report;
mod schema;
mod select;
mod server;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use indexmap::IndexMap;
use tamis_config::Auth;

use self::document::{Document, Halt};
pub use self::expand::{Expansion, expand_api};
pub use self::report::examine_api;
use self::schema::KnownPatterns;
use super::{Converted, DocumentAt, LeftOut, Selection};
use crate::Diagnostic;

/// The most tools of one service.
const MAX_TOOLS: usize = crate::definitions::MAX_TOOLS as usize;
/// Bytes of the schemas of all tools of one service together.
const MAX_BYTES: usize = 16 << 20;
/// Operations that are left out and reported one by one.
const REPORTED: usize = 10;

/// What a document becomes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversion {
    /// The URL of the document's first server.
    pub(crate) base_url: Option<String>,
    /// The tools by name, in the order of the document.
    pub(crate) tools: IndexMap<String, Converted>,
    /// The operations that were selected and become no tool.
    pub(crate) left_out: Vec<LeftOut>,
    /// How many operations were not selected.
    pub(crate) unselected: usize,
    /// Names by which a pattern can mean an operation.
    pub(crate) names: Vec<String>,
    /// The findings, errors among them.
    pub(crate) findings: Vec<Diagnostic>,
}

impl super::super::conversions::Conversion for Conversion {
    fn findings(&self) -> &[Diagnostic] {
        &self.findings
    }

    fn weight(&self) -> usize {
        let names: usize = self.names.iter().map(String::len).sum();
        names + self.tools.values().map(Converted::weight).sum::<usize>()
    }
}

/// Converts the selected operations of a document. `auth`: how the service is authenticated. `own_url`: the `baseUrl` of
/// the manifest, which stands for the document's own server.
pub(crate) fn convert(
    document: DocumentAt<'_>,
    selection: Selection<'_>,
    auth: Option<&Auth>,
    own_url: Option<&str>,
) -> Conversion {
    let document = match Document::new(document.file, document.field, document.node) {
        Ok(document) => document,
        Err(finding) => return Conversion { findings: vec![finding], ..Conversion::default() },
    };
    let mut conversion = Conversion::default();
    // A mistake has been reported, and everything else is looked at all the same.
    if own_url.is_none()
        && let Ok(base_url) = server::base_url(&document)
    {
        conversion.base_url = base_url;
    }
    if let Ok(found) = select::operations(&document) {
        operations(&document, &found, selection, (auth, own_url), &mut conversion);
    }
    conversion.findings = document.into_findings();
    conversion
}

fn operations<'n>(
    document: &Document<'n>,
    found: &select::Operations<'n>,
    selection: Selection<'_>,
    service: (Option<&Auth>, Option<&str>),
    conversion: &mut Conversion,
) {
    let mut patterns = KnownPatterns::default();
    let mut left_out = Vec::new();
    let mut taken: HashMap<String, String> = HashMap::new();
    let mut bytes = 0;
    for operation in &found.all {
        conversion.names.extend(operation.id().map(str::to_owned));
        conversion.names.extend(operation.tags().map(str::to_owned));
        conversion.names.push(operation.key());
    }
    conversion.names.sort();
    conversion.names.dedup();
    let chosen: Vec<_> =
        found.all.iter().filter(|operation| selection.selects(|pattern| select::matches(pattern, operation))).collect();
    conversion.unselected = found.all.len() - chosen.len();
    if chosen.len() > MAX_TOOLS {
        let message = format!("{} operations are selected, more than the limit of {MAX_TOOLS}", chosen.len());
        document.mistake(document.root(), message, "select fewer with `operations.include`");
        return;
    }
    for operation in
        found.others.iter().filter(|operation| selection.selects(|pattern| select::matches(pattern, operation)))
    {
        left_out.push((operation, format!("has a method that the gateway does not send, {}", operation.method)));
    }
    for operation in chosen {
        let name = super::names::tool_name(operation.id(), &operation.method, operation.path);
        if let Some(other) = taken.get(&name) {
            left_out.push((operation, format!("would have the name `{name}`, as {other}")));
            continue;
        }
        match operation::tool(document, operation, service, &mut patterns) {
            Ok(operation::Made { tool, omitted }) => {
                bytes += tool.input_schema.as_str().len();
                bytes += tool.output_schema.as_ref().map_or(0, |schema| schema.as_str().len());
                if bytes > MAX_BYTES {
                    let message = format!("the schemas of the tools have more than {} MiB", MAX_BYTES >> 20);
                    document.mistake(&operation.at, message, "select fewer operations with `operations.include`");
                    return;
                }
                taken.insert(name.clone(), operation.key());
                conversion.tools.insert(name, Converted { operation: operation.key(), tool, omitted });
            }
            Err(Halt::LeftOut(reason)) => left_out.push((operation, reason)),
            // It has been reported, and the other operations may have mistakes too.
            Err(Halt::Mistake) => {}
        }
    }
    for (operation, reason) in left_out.iter().take(REPORTED) {
        let remedy = "exclude it in `operations.exclude`, or describe it as an action of `http`";
        document.warn(&operation.at, format!("the operation is left out: it {reason}"), remedy);
    }
    if left_out.len() > REPORTED {
        let message = format!("{} more operations are left out", left_out.len() - REPORTED);
        document.warn(document.root(), message, "`tamis import openapi` lists them with the reasons");
    }
    let named =
        |(operation, reason): (&operation::Operation<'_>, String)| LeftOut { operation: operation.key(), reason };
    conversion.left_out = left_out.into_iter().map(named).collect();
}
