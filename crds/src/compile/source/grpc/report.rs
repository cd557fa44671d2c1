//! What an import says about descriptors: the tools that they become, and the part of the texts that they need.

use std::sync::Arc;

use super::super::report::{ApiReport, ApiTool};
use super::super::{DocumentAt, Selection};
use super::pool::read;
use super::print::{self, ProtoText};
use super::text::Text;
use super::{Conversion, Source, of};
use crate::read::api;
use crate::yaml::Node;

/// A document to be imported.
#[derive(Debug, Clone)]
pub struct ProtoFile {
    /// The path by which others import it. The first one's is its file name.
    pub path: String,
    /// The file, for messages.
    pub file: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What becomes of the descriptors of a gRPC server.
#[derive(Debug, Clone, Default)]
pub struct GrpcReport {
    /// The tools, and what is wrong.
    pub api: ApiReport,
    /// The texts, pruned to what the tools need, imports first. Empty if they cannot be pruned, which is a finding.
    pub texts: Vec<ProtoText>,
    /// The paths of those with methods.
    pub roots: Vec<String>,
}

/// Returns the paths that a .proto text imports; none for what is no .proto text.
#[must_use]
pub fn proto_imports(text: &str) -> Vec<String> {
    protox_parse::parse("a.proto", text).map(|file| file.dependency).unwrap_or_default()
}

/// Reads the descriptors of a gRPC server: the first of `files`, a .proto text or a descriptor set, and what it imports. `include`
/// chooses methods as `methods.include` of a manifest does.
#[must_use]
pub fn examine_grpc(files: &[ProtoFile], include: Option<&[String]>) -> GrpcReport {
    let mut nodes: Vec<(&ProtoFile, Arc<str>, Node)> = Vec::new();
    for file in files {
        let shown: Arc<str> = file.file.as_str().into();
        match api::tree_of(&shown, &file.bytes) {
            Ok(node) => nodes.push((file, shown, node)),
            Err(finding) => {
                let api = ApiReport { findings: vec![*finding], ..ApiReport::default() };
                return GrpcReport { api, ..GrpcReport::default() };
            }
        }
    }
    let texts = nodes.iter().map(|(file, shown, node)| Text {
        name: file.path.clone(),
        path: &file.path,
        document: DocumentAt { file: shown, field: "", node },
        is_key: false,
    });
    let all: Vec<Text<'_>> = texts.collect();
    let Some(root) = all.first().cloned() else { return GrpcReport::default() };
    let source = if api::is_descriptor_set(root.document.file) {
        Source::Set(root.document)
    } else {
        Source::Texts { roots: vec![root], all }
    };
    let selection = Selection { include, exclude: &[] };
    let descriptors = match read(source) {
        Ok(descriptors) => descriptors,
        Err(finding) => {
            let unmatched = include.unwrap_or_default().to_vec();
            let api = ApiReport { findings: vec![*finding], unmatched, ..ApiReport::default() };
            return GrpcReport { api, ..GrpcReport::default() };
        }
    };
    let (conversion, methods) = of(&descriptors, selection);
    let Conversion { tools, left_out, unselected, names, descriptors: _, findings } = conversion;
    let is_meant = |pattern: &String| names.iter().any(|name| tamis_config::matches_pattern(pattern, name));
    let mut report = GrpcReport {
        api: ApiReport {
            left_out: left_out.into_iter().map(|left| (left.operation, left.reason)).collect(),
            unselected,
            unmatched: include.unwrap_or_default().iter().filter(|pattern| !is_meant(pattern)).cloned().collect(),
            findings,
            ..ApiReport::default()
        },
        ..GrpcReport::default()
    };
    match print::texts(&descriptors, &methods) {
        Ok(texts) => {
            let mut roots: Vec<String> =
                methods.iter().map(|method| method.parent_service().parent_file().name().to_owned()).collect();
            roots.dedup();
            (report.texts, report.roots) = (texts, roots);
        }
        Err(reason) => {
            let message = format!("a file {reason}");
            let finding = descriptors.error("", None, message, "name the document in the manifest as it is");
            report.api.findings.push(finding);
        }
    }
    report.api.tools = tools.into_iter().map(|(name, tool)| ApiTool::new(name, tool)).collect();
    report
}
