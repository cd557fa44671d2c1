//! Compiles the `grpc` source of a manifest: the descriptors of a server, and what the manifest says in addition.

use indexmap::IndexMap;
use tamis_config::{Auth, AuthKind, GrpcSource, Reason, ServiceDocument, ServiceTool, Source};
use url::Url;

use super::auth;
use super::documents::{Document, Given, Library, Place, converted, find};
use super::expose::Stop;
use super::overrides::{Selects, check_patterns, overridden};
use super::service::base_url;
use super::source::grpc::{self, Conversion, Text, convert};
use super::source::{DocumentAt, Selection};
use crate::origin::FieldPath;
use crate::read::api;
use crate::resources::{ConfigurationPlanSpec, GrpcSpec, document_name};
use crate::sink::DiagnosticSink;
use crate::yaml::Value;

/// What becomes a tool.
const METHOD: &str = "method";
/// The path of inline texts.
const INLINE: Place = Place { field: "spec.grpc.inline", steps: &["grpc", "inline"], is_text: true };

/// Converts the documents of a manifest. `None` if they cannot be read, so that the tools are not known; that has been reported.
pub(super) fn compile<'s>(
    spec: &GrpcSpec,
    library: Library<'s, '_>,
    sink: &mut DiagnosticSink<'s>,
) -> Option<(GrpcSource, IndexMap<String, ServiceTool>)> {
    let GrpcSpec { inline, file, config_map_ref, reflection, endpoint, auth: auth_spec, methods, overrides } = spec;
    let at = FieldPath::spec(["grpc"]);
    if *reflection == Some(true) {
        let remedy =
            "write its descriptors with `tamis import grpc --reflection`, and name them in `file` or `configMapRef`";
        sink.because(Reason::UnsupportedSource).error(&at.key("reflection"), "is not implemented yet", remedy);
        return None;
    }
    check_endpoint(endpoint, &at.key("endpoint"), sink);
    let auth = auth_spec.as_ref().map(|spec| auth::compile(spec, &at.key("auth"), sink));
    if let Some((field, message, remedy)) = auth.as_ref().and_then(unsuitable) {
        sink.error(&at.key("auth").key(field), message, remedy);
    }
    let given = Given { inline: inline.is_some(), file: file.as_deref(), config_map: config_map_ref.as_ref() };
    let root = find(given, INLINE, &at, library, sink)?;
    let key = config_map_ref.as_ref().map(|named| document_name(&named.key));
    let named = file.as_deref().or(key);
    let has_imports = named.is_some_and(api::is_proto);
    // The texts that the root may import: files by their paths from the manifest, and keys.
    let protos = file.as_ref().filter(|_| has_imports).map(|_| sink.origin().file.clone());
    let files = protos.iter().flat_map(|manifest| api::protos(manifest, library.apis)).filter_map(|(path, api)| {
        let at = DocumentAt { file: &api.file, field: "", node: api.tree.as_ref().ok()? };
        Some((path, Document::File(at, &api.digest)))
    });
    let keys = root.others(|name| has_imports && api::is_proto(name));
    let (paths, texts): (Vec<&str>, Vec<Document<'s>>) = files.chain(keys).unzip();
    let documents: Vec<&Document<'s>> = std::iter::once(&root).chain(&texts).collect();
    let methods = methods.clone().unwrap_or_default();
    let selection = Selection { include: methods.include.as_deref(), exclude: &methods.exclude };
    let chosen = ("grpc", named, key.is_some(), &paths, &methods);
    let (conversion, failed) = converted(&documents, &chosen, library.env, sink, |documents| {
        convert(source(documents, (named, key.is_some()), &paths), selection)
    })?;
    let Conversion { tools, left_out: _, unselected: _, names, descriptors, findings: _ } = conversion;
    let is_readable = !failed;
    if is_readable {
        let remedy = "write the name of a method, or that of its service and its own, as in `KV/Range`";
        let selects = Selects { what: METHOD, remedy };
        check_patterns((methods.include.as_ref(), &methods.exclude), &names, selects, &at.key("methods"), sink);
    }
    let tools = overridden(tools, overrides, (is_readable, METHOD), &at.key("overrides"), sink);
    if is_readable && tools.is_empty() {
        sink.warning(&at, "no method becomes a tool", "select others in `methods.include`");
    }
    let descriptors = descriptors.filter(|_| is_readable)?;
    Some((GrpcSource { endpoint: endpoint.clone(), auth, headers: IndexMap::new(), descriptors }, tools))
}

/// Returns where the descriptors come from. `named`: the file or the key that the manifest names, which is the first of `documents`; the
/// others have the paths `paths`. Without it, the only document holds the texts.
fn source<'n>(
    documents: &[DocumentAt<'n>],
    (named, is_key): (Option<&'n str>, bool),
    paths: &[&'n str],
) -> grpc::Source<'n> {
    let [root, texts @ ..] = documents else { return grpc::Source::Texts { roots: Vec::new(), all: Vec::new() } };
    let text = |path: &'n str, document: DocumentAt<'n>| Text { name: path.to_owned(), path, document, is_key };
    match named {
        None => {
            let entries = match &root.node.value {
                Value::Map(entries) => &entries[..],
                Value::Scalar(_) | Value::List(_) => &[],
            };
            let entries = entries.iter().map(|entry| text(&entry.key, DocumentAt { node: &entry.value, ..*root }));
            let all: Vec<Text<'n>> = entries.collect();
            grpc::Source::Texts { roots: all.clone(), all }
        }
        Some(named) if api::is_proto(named) => {
            let all = paths.iter().zip(texts).map(|(path, document)| text(path, *document));
            grpc::Source::Texts { roots: vec![text(named, *root)], all: all.collect() }
        }
        Some(_) => grpc::Source::Set(*root),
    }
}

/// Checks the URL of a server, which has no path.
fn check_endpoint(text: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    base_url(text, at, "write the scheme, the host and the port alone", sink);
    if has_path(text) {
        sink.error(at, "has a path, and gRPC has no place for it", "write the scheme, the host and the port alone");
    }
}

fn has_path(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| !matches!(url.path(), "" | "/"))
}

/// Returns whether the protocol sets a header, given in lower case.
fn is_of_protocol(name: &str) -> bool {
    matches!(name, "content-type" | "accept-encoding" | "content-encoding" | "user-agent") || name.starts_with("grpc-")
}

/// Returns what is wrong with the name of metadata, and the remedy.
fn metadata_problem(name: &str) -> Option<(&'static str, &'static str)> {
    let name = name.to_ascii_lowercase();
    if is_of_protocol(&name) {
        return Some(("this header is part of the protocol", "name the header that the server's documentation names"));
    }
    let is_binary = name.ends_with("-bin");
    is_binary.then_some(("metadata with bytes is not supported", "name a header that does not end in `-bin`"))
}

/// Returns the field, message and remedy for authentication that calls of gRPC cannot carry.
fn unsuitable(auth: &Auth) -> Option<(&'static str, &'static str, &'static str)> {
    match auth.kind {
        AuthKind::Query | AuthKind::Body => {
            Some(("type", "a call of gRPC has no place for types query and body", "use header, bearer or basic"))
        }
        AuthKind::Header => {
            let (message, remedy) = metadata_problem(auth.name.as_deref().unwrap_or_default())?;
            Some(("name", message, remedy))
        }
        AuthKind::Bearer | AuthKind::Basic | AuthKind::None => None,
    }
}

/// Stops an exposition whose ConfigurationPlan changes calls in a way that gRPC does not allow. `document` is the service as the
/// plan has modified it.
pub(super) fn check_plan(
    document: &ServiceDocument,
    plan: &ConfigurationPlanSpec,
    path: &FieldPath,
) -> Result<(), Stop> {
    let Source::Grpc(GrpcSource { endpoint, auth, headers, descriptors: _ }) = &document.source else { return Ok(()) };
    let stop = |message: String, remedy: &str| Err(Stop::new(Reason::InvalidManifest, path.clone(), message, remedy));
    if plan.endpoint.is_some() && has_path(endpoint) {
        let message = "the plan's `endpoint` has a path, and gRPC has no place for it".to_owned();
        return stop(message, "write the scheme, the host and the port alone");
    }
    let named = headers.keys().find_map(|name| Some((name, metadata_problem(name)?)));
    if let Some((name, (message, _))) = named {
        let message = format!("the plan's `headers.set` cannot have {name} for `grpc`: {message}");
        return stop(message, "remove the header from the plan, or use a plan without it");
    }
    match auth.as_ref().filter(|_| plan.auth.is_some()).and_then(unsuitable) {
        Some((field, message, remedy)) => stop(format!("the plan's `auth.{field}` cannot be used: {message}"), remedy),
        None => Ok(()),
    }
}
