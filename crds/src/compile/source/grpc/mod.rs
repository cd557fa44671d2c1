//! Tools from the methods of a gRPC server: .proto texts, or a descriptor set.
//!
//! A gateway gets the descriptors that the methods need, without comments, and knows nothing of .proto texts.

mod comments;
mod http;
mod pool;
mod print;
mod prune;
mod report;
mod schema;
#[cfg(test)]
mod tests;
mod text;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use prost_reflect::MethodDescriptor;
use tamis_config::{Call, GrpcCall, Risk, ServiceTool, matches_pattern};
use tamis_engine::{JsonText, ResponseType};
use tamis_schema::Patterns;

use self::comments::Comments;
pub(crate) use self::pool::Source;
use self::pool::{Descriptors, at, read};
pub use self::print::ProtoText;
pub use self::report::{GrpcReport, ProtoFile, examine_grpc, proto_imports};
pub(crate) use self::text::Text;
use super::names::{bounded, tool_name};
use super::{Converted, LeftOut, Selection};
use crate::Diagnostic;

/// The most tools of one service.
const MAX_SERVICE_TOOLS: usize = crate::definitions::MAX_TOOLS as usize;
/// Bytes of the schemas of all tools of one service together.
const MAX_BYTES: usize = 16 << 20;
/// Bytes of the descriptors that gateways get.
const MAX_DESCRIPTORS: usize = 4 << 20;
/// Tools that are left out and reported one by one.
const REPORTED: usize = 10;
/// Bytes of a tool's description.
const MAX_TEXT: usize = 2048;

/// What the documents become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversion {
    /// The tools by name, in the order of the documents.
    pub(crate) tools: IndexMap<String, Converted>,
    /// The methods that were selected and become no tool.
    pub(crate) left_out: Vec<LeftOut>,
    /// How many methods were not selected.
    pub(crate) unselected: usize,
    /// Names by which a pattern can mean a method.
    pub(crate) names: Vec<String>,
    /// The descriptors that the tools need, in base64; none if the documents cannot be read.
    pub(crate) descriptors: Option<String>,
    /// The findings, errors among them.
    pub(crate) findings: Vec<Diagnostic>,
}

/// Returns the names by which a pattern can mean a method: alone, with its service, and also with its package.
fn names(method: &MethodDescriptor) -> [String; 3] {
    let (service, name) = (method.parent_service(), method.name());
    [name.to_owned(), format!("{}/{name}", service.name()), format!("{}/{name}", service.full_name())]
}

impl super::super::conversions::Conversion for Conversion {
    fn findings(&self) -> &[Diagnostic] {
        &self.findings
    }

    fn weight(&self) -> usize {
        let names: usize = self.names.iter().map(String::len).sum();
        let descriptors = self.descriptors.as_ref().map_or(0, String::len);
        names + descriptors + self.tools.values().map(Converted::weight).sum::<usize>()
    }
}

/// Converts the documents of a manifest.
pub(crate) fn convert(source: Source<'_>, selection: Selection<'_>) -> Conversion {
    match read(source) {
        Ok(descriptors) => of(&descriptors, selection).0,
        Err(finding) => Conversion { findings: vec![*finding], ..Conversion::default() },
    }
}

/// Converts descriptors. Also returns the methods that become tools.
fn of(descriptors: &Descriptors<'_>, selection: Selection<'_>) -> (Conversion, Vec<MethodDescriptor>) {
    let mut conversion = Conversion::default();
    let kept = select(descriptors, selection, &mut conversion);
    let encoded = prune::encode(&descriptors.pool, &kept);
    let root = descriptors.roots.first().map_or("", String::as_str);
    if encoded.len() > MAX_DESCRIPTORS {
        let message = format!("the descriptors of the tools have more than {} MiB", MAX_DESCRIPTORS >> 20);
        conversion.findings.push(descriptors.error(root, None, message, "select fewer with `methods.include`"));
    }
    conversion.descriptors = Some(BASE64_STANDARD.encode(encoded));
    (conversion, kept)
}

/// Converts the selected methods. Returns those that become tools.
fn select(
    descriptors: &Descriptors<'_>,
    selection: Selection<'_>,
    conversion: &mut Conversion,
) -> Vec<MethodDescriptor> {
    let roots = descriptors.roots.iter().filter_map(|root| descriptors.pool.get_file_by_name(root));
    let all: Vec<MethodDescriptor> = roots
        .flat_map(|file| file.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect::<Vec<_>>())
        .collect();
    let root = descriptors.roots.first().map_or("", String::as_str);
    let (mut comments, mut patterns) = (Comments::default(), Patterns::default());
    let (mut kept, mut left_out, mut bytes) = (Vec::new(), Vec::new(), 0);
    for method in all {
        let names = names(&method);
        let is_selected = selection.selects(|pattern| names.iter().any(|name| matches_pattern(pattern, name)));
        let [_, operation, full] = &names;
        let (operation, full) = (operation.clone(), full.clone());
        conversion.names.extend(names);
        if !is_selected {
            conversion.unselected += 1;
            continue;
        }
        if kept.len() >= MAX_SERVICE_TOOLS {
            let message = format!("more than {MAX_SERVICE_TOOLS} methods are selected");
            conversion.findings.push(descriptors.error(root, None, message, "select fewer with `methods.include`"));
            return kept;
        }
        let name = tool_name(Some(&operation), "", "");
        if let Some(other) = conversion.tools.get(&name) {
            left_out.push((method, full, format!("would have the name `{name}`, as {}", other.operation)));
            continue;
        }
        match tool(&method, descriptors.risk(&method), &mut comments, &mut patterns) {
            Ok((tool, omitted)) => {
                let output = tool.output_schema.as_ref().map_or(0, |schema| schema.as_str().len());
                bytes += tool.input_schema.as_str().len() + output;
                conversion.tools.insert(name, Converted { operation: full, tool, omitted });
                kept.push(method);
            }
            Err(reason) => left_out.push((method, full, reason)),
        }
    }
    conversion.names.sort();
    conversion.names.dedup();
    if bytes > MAX_BYTES {
        let message = format!("the schemas of the tools have more than {} MiB", MAX_BYTES >> 20);
        conversion.findings.push(descriptors.error(root, None, message, "select fewer with `methods.include`"));
    }
    for (method, full, reason) in left_out.iter().take(REPORTED) {
        let file = method.parent_service().parent_file();
        let at = at(file.file_descriptor_proto(), method.path());
        let message = format!("the method `{full}` is left out: it {reason}");
        conversion.findings.push(descriptors.warning(file.name(), at, message, "exclude it in `methods.exclude`"));
    }
    if left_out.len() > REPORTED {
        let message = format!("{} more methods are left out", left_out.len() - REPORTED);
        let remedy = "`tamis import grpc` lists them with the reasons";
        conversion.findings.push(descriptors.warning(root, None, message, remedy));
    }
    conversion.left_out = left_out.into_iter().map(|(_, operation, reason)| LeftOut { operation, reason }).collect();
    kept
}

/// Makes a tool. Also returns what is no part of it.
///
/// # Errors
/// The reason why it cannot be made, as the end of a sentence about it.
fn tool(
    method: &MethodDescriptor,
    risk: Risk,
    comments: &mut Comments,
    patterns: &mut Patterns,
) -> Result<(ServiceTool, Vec<String>), String> {
    if method.is_client_streaming() {
        return Err("takes a stream of messages, which a call cannot send".to_owned());
    }
    let full = format!("{}/{}", method.parent_service().full_name(), method.name());
    let comment = comments.of(&method.parent_service().parent_file(), method.path()).map(str::to_owned);
    let description = comment.unwrap_or_else(|| full.clone());
    let options = method.method_descriptor_proto().options.as_ref();
    let is_deprecated = options.is_some_and(prost_types::MethodOptions::deprecated);
    let description = if is_deprecated { format!("Deprecated. {description}") } else { description };
    let (schema, omitted) = schema::input(&method.input(), comments)?;
    let unusable = |_| "has a schema that cannot be used".to_owned();
    let input_schema = JsonText::parse(schema).map_err(unusable)?;
    tamis_schema::compile(input_schema.as_str(), patterns)
        .map_err(|_| "has a schema that cannot be used".to_owned())?;
    let streams = method.is_server_streaming();
    let (output_schema, response_type) = if streams {
        (None, Some(ResponseType::Array))
    } else {
        let schema = schema::output(&method.output(), comments).and_then(|schema| JsonText::parse(schema).ok());
        (schema, schema::is_object(&method.output()).then_some(ResponseType::Object))
    };
    let tool = ServiceTool {
        title: None,
        description: Some(bounded(&description, MAX_TEXT)),
        input_schema,
        output_schema,
        response_type,
        risk,
        pagination: None,
        call: Call::Grpc(Box::new(GrpcCall {
            path: format!("/{full}"),
            streams,
            extract: None,
            retry: None,
            error_mapping: IndexMap::new(),
        })),
    };
    Ok((tool, omitted))
}
