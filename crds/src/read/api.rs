//! OpenAPI, GraphQL and gRPC documents in files: how to tell one, and which file a manifest names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tamis_config::Digest;

use super::ParsedFile;
use crate::Diagnostic;
use crate::resources::{ApiDocument, ApiTree, GraphQlSpec, Resources};
use crate::yaml::{self, MAX_API_BYTES, MAX_FILE_BYTES, Node, Position};

/// The keys that say which version of OpenAPI, or of its predecessor, a document is written in.
const MARKS: [&str; 2] = ["openapi", "swagger"];

/// Returns the document if it is one of OpenAPI, and the only one of its file.
pub(super) fn only(mut documents: Vec<Node>) -> Result<Node, Vec<Node>> {
    let is_api = |document: &Node| {
        let has = |key: &str| document.get(key).and_then(Node::as_source).is_some();
        MARKS.iter().any(|mark| has(mark)) && !has("apiVersion") && !has("kind")
    };
    match documents.pop() {
        Some(document) if documents.is_empty() && is_api(&document) => Ok(document),
        last => {
            documents.extend(last);
            Err(documents)
        }
    }
}

/// Returns whether a file's name is that of a text in GraphQL's own language.
pub(crate) fn is_graphql(file: &str) -> bool {
    let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("graphql" | "graphqls" | "gql"))
}

/// Returns whether a file's name is that of a .proto text.
pub(crate) fn is_proto(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("proto"))
}

/// Returns whether a file's name is that of a descriptor set of protobuf.
pub(crate) fn is_descriptor_set(file: &str) -> bool {
    let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("binpb" | "pb" | "desc"))
}

/// Returns whether a file's name says that it is no YAML and no JSON.
pub(crate) fn is_by_name(file: &str) -> bool {
    is_graphql(file) || is_proto(file) || is_descriptor_set(file)
}

/// Returns the .proto texts that can be read in a manifest's folder and below, each with its path from there.
pub(crate) fn protos<'a>(
    manifest: &str,
    apis: &'a [Arc<ApiDocument>],
) -> impl Iterator<Item = (&'a str, &'a Arc<ApiDocument>)> {
    let folder = Path::new(manifest).parent().unwrap_or(Path::new("")).to_owned();
    apis.iter().filter(|api| is_proto(&api.file)).filter_map(move |api| {
        let name = Path::new(&*api.file).strip_prefix(&folder).ok()?.to_str()?;
        api.is_readable().then_some((name, api))
    })
}

/// Returns the file that a source of a manifest names, or what is wrong with the name and the remedy. `manifest`: the manifest's
/// own file.
pub(crate) fn path(manifest: &str, file: &str) -> Result<String, (&'static str, &'static str)> {
    let inner = if is_graphql(file) {
        "name a file in the manifest's folder or below, for example schema.graphql"
    } else {
        "name a file in the manifest's folder or below, for example petstore.yaml"
    };
    if file.is_empty() {
        return Err(("is empty", inner));
    }
    if file.starts_with('/') || file.contains(['\\', ':']) || file.chars().any(char::is_control) {
        return Err(("is not a relative path", inner));
    }
    if file.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        return Err(("has an empty part, or one that begins with a dot", inner));
    }
    if !crate::load::is_document(file.rsplit('/').next().unwrap_or(file)) {
        return Err(("does not end in .yaml, .yml, .json, .graphql, .proto or .binpb", "rename the document"));
    }
    let folder = Path::new(manifest).parent().unwrap_or(Path::new(""));
    Ok(folder.join(file).to_string_lossy().into_owned())
}

/// Returns the files that manifests name.
pub(crate) fn named<'r>(all: impl Iterator<Item = &'r Resources>) -> BTreeSet<String> {
    let manifests = all.flat_map(|resources| &resources.manifests);
    let files = |manifest: &'r Arc<crate::Resource<crate::resources::ServiceManifestSpec>>| {
        let openapi = manifest.spec.openapi.iter().filter_map(|openapi| openapi.file.as_deref());
        let graphql = manifest.spec.graphql.iter().flat_map(GraphQlSpec::files);
        let grpc = manifest.spec.grpc.iter().filter_map(|grpc| grpc.file.as_deref());
        openapi.chain(graphql).chain(grpc).filter_map(|file| path(&manifest.origin.file, file).ok())
    };
    manifests.flat_map(files).collect()
}

/// Returns the .proto texts that manifests name, each with the folder of its manifest.
pub(crate) fn named_protos<'r>(all: impl Iterator<Item = &'r Resources>) -> Vec<(PathBuf, String)> {
    let manifests = all.flat_map(|resources| &resources.manifests);
    let named = manifests.filter_map(|manifest| {
        let file = manifest.spec.grpc.as_ref()?.file.as_deref().filter(|file| is_proto(file))?;
        let folder = Path::new(&*manifest.origin.file).parent().unwrap_or(Path::new(""));
        Some((folder.to_owned(), path(&manifest.origin.file, file).ok()?))
    });
    named.collect()
}

/// Returns whether a path leads to a folder or below, and to nothing hidden.
pub(crate) fn is_below(path: &str) -> bool {
    !path.contains(['\\', ':']) && path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
}

/// Parses a file that a manifest names, whatever it holds.
pub(crate) fn parse(file: &Arc<str>, bytes: &[u8]) -> ApiDocument {
    let tree = ApiTree::Parsed(tree_of(file, bytes));
    ApiDocument { file: Arc::clone(file), digest: Digest::of(bytes), tree }
}

/// Parses the document in a file, whose name says what it is.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn tree_of(file: &Arc<str>, bytes: &[u8]) -> Result<Node, Box<Diagnostic>> {
    tree(file, file, bytes, is_by_name(file))
}

/// Parses a document. `name` distinguishes JSON from YAML, and `file` is only for messages. `is_text`: whether the document is a
/// text in GraphQL's own language, or a .proto text.
pub(crate) fn tree(file: &Arc<str>, name: &str, bytes: &[u8], is_text: bool) -> Result<Node, Box<Diagnostic>> {
    if is_text && is_descriptor_set(name) {
        return Ok(Node::text(Position::START, BASE64_STANDARD.encode(bytes)));
    }
    if is_text {
        return yaml::decode(file, bytes, MAX_FILE_BYTES).map(|text| Node::text(Position::START, text));
    }
    yaml::parse_named(file, name, bytes, MAX_API_BYTES).and_then(|mut documents| {
        let last = documents.pop();
        match last {
            Some(document) if documents.is_empty() => Ok(document),
            Some(document) => {
                let message =
                    "holds several documents, and a document that a manifest names is the only one of its file";
                let remedy = "move the others to files of their own";
                Err(Box::new(Diagnostic::error(file, document.position, "", message, remedy)))
            }
            None => Err(Box::new(Diagnostic::error(file, Position::START, "", "is empty", "save the document"))),
        }
    })
}

/// Returns a file that holds an OpenAPI, GraphQL or gRPC document and nothing else.
pub(crate) fn file(document: ApiDocument) -> ParsedFile {
    let file = Arc::clone(&document.file);
    let resources = Resources { apis: vec![Arc::new(document)], ..Resources::default() };
    ParsedFile { file, resources, documents: 0, foreign: false, diagnostics: Vec::new(), source: Arc::default() }
}

/// Returns a notice for each OpenAPI, GraphQL or gRPC document that no manifest names.
pub(crate) fn unnamed<'a>(files: impl Iterator<Item = &'a ParsedFile>, named: &BTreeSet<String>) -> Vec<Diagnostic> {
    // What a .proto file imports has no name in a manifest.
    let imports = named.iter().any(|file| is_proto(file));
    let is_named = |api: &&Arc<ApiDocument>| named.contains(&*api.file) || (imports && is_proto(&api.file));
    let apis = files.flat_map(|file| &file.resources.apis).filter(|api| !is_named(api));
    let notice = |api: &Arc<ApiDocument>| {
        let name = api.file.rsplit('/').next().unwrap_or_default();
        let (what, source) = match name {
            _ if is_graphql(name) => ("a GraphQL document", "graphql"),
            _ if is_proto(name) => ("a .proto text", "grpc"),
            _ if is_descriptor_set(name) => ("a descriptor set", "grpc"),
            _ => ("an OpenAPI document", "openapi"),
        };
        let remedy =
            format!("write a ServiceManifest with `{source}: {{file: {name}}}`, or move the file to another folder");
        let message = format!("the file is {what}, and no ServiceManifest names it");
        Diagnostic::warning(&api.file, Position::START, "", message, remedy)
    };
    apis.map(notice).collect()
}
