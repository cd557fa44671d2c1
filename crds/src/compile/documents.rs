//! The document of an API that a manifest holds, or names as a file or as a key of a ConfigMap.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use tamis_config::names::DOCUMENT_LABEL;
use tamis_config::{Digest, Reason};

use super::CompileEnv;
use super::conversions::Conversion;
use super::source::DocumentAt;
use crate::Diagnostic;
use crate::cluster::ConfigMapState;
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::read::{api, excerpt};
use crate::resources::{ApiDocument, ApiTree, ConfigMap, ConfigMapKeyRef, ObjectName, document_name};
use crate::sink::DiagnosticSink;
use crate::yaml::{MAX_API_BYTES, Node, Position};

/// Where a manifest holds a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The path, as messages name it.
    pub(super) field: &'static str,
    /// The path as steps below `spec`.
    pub(super) steps: &'static [&'static str],
    /// Whether the document is a text in a language of its own, unless its name ends in that of JSON or YAML.
    pub(super) is_text: bool,
}

/// What a manifest says about where a document is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'m> {
    /// Whether the manifest holds it.
    pub(super) inline: bool,
    /// The file.
    pub(super) file: Option<&'m str>,
    /// The key of a ConfigMap.
    pub(super) config_map: Option<&'m ConfigMapKeyRef>,
}

/// Where documents outside manifests are.
#[derive(Clone, Copy)]
pub(super) struct Library<'s, 'e> {
    pub(super) apis: &'s [Arc<ApiDocument>],
    pub(super) config_maps: &'s [Arc<ConfigMap>],
    /// The namespace of the manifest.
    pub(super) namespace: &'s str,
    pub(super) env: &'e CompileEnv<'e>,
}

/// A document that is there.
#[derive(Debug)]
pub(super) enum Document<'s> {
    /// A part of the manifest.
    Inline(DocumentAt<'s>),
    /// A file.
    File(&'s ApiDocument),
    /// A key of a ConfigMap, which is unpacked when it is needed.
    Stored(Stored),
}

/// A key of a ConfigMap that exists.
#[derive(Debug)]
pub(super) struct Stored {
    map: Arc<ConfigMap>,
    key: String,
    /// How messages name it.
    file: Arc<str>,
    /// Where the manifest names it.
    at: FieldPath,
    is_text: bool,
}

/// Returns the document that a manifest holds at `place`, or names. Reports why there is none.
pub(super) fn find<'s>(
    given: Given<'_>,
    place: Place,
    at: &FieldPath,
    library: Library<'s, '_>,
    sink: &mut DiagnosticSink<'s>,
) -> Option<Document<'s>> {
    let Given { inline, file, config_map } = given;
    let fields = [("inline", inline), ("file", file.is_some()), ("configMapRef", config_map.is_some())];
    let mut fields = fields.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field);
    match (fields.next(), fields.next()) {
        (Some(first), Some(second)) => {
            let message = format!("and `{first}` are mutually exclusive");
            sink.error(&at.key(second), message, "remove one of them");
            return None;
        }
        (None, _) => {
            let remedy = "name the document's `file`, or a `configMapRef`, or write it into `inline`";
            sink.error(at, "has no document", remedy);
            return None;
        }
        (Some(_), None) => {}
    }
    match (file, config_map) {
        (Some(name), _) => named_file(name, library, &at.key("file"), sink),
        (None, Some(named)) => {
            let at = at.key("configMapRef");
            let map = config_map_of(&named.name, library, &at, sink)?;
            key_of(map, &named.key, place.is_text, at, sink).map(Document::Stored)
        }
        (None, None) => {
            let origin = sink.origin();
            let node = place.steps.iter().try_fold(origin.tree.get("spec")?, |node, step| node.get(step))?;
            Some(Document::Inline(DocumentAt { file: &origin.file, field: place.field, node }))
        }
    }
}

/// Returns the document in a file that a manifest names. Reports why there is none.
fn named_file<'s>(
    name: &str,
    Library { apis, env, .. }: Library<'s, '_>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'s>,
) -> Option<Document<'s>> {
    if env.cluster.is_some() {
        let message = "names a file, and a cluster has no files next to a manifest";
        let remedy = "name a ConfigMap in `configMapRef`, or write the document into `inline`";
        sink.because(Reason::UnsupportedSource).error(at, message, remedy);
        return None;
    }
    let path = match api::path(&sink.origin().file, name) {
        Ok(path) => path,
        Err((message, remedy)) => {
            sink.error(at, message, remedy);
            return None;
        }
    };
    match apis.iter().find(|api| *api.file == *path) {
        Some(api) => {
            let ApiTree::Parsed(Err(finding)) = &api.tree else { return Some(Document::File(api)) };
            sink.push((**finding).clone());
            let remedy = "correct the document, or name another";
            sink.error(at, format!("`{}` cannot be read", excerpt(name)), remedy);
            None
        }
        None => {
            let message = format!("`{}` is not among the files that were read", excerpt(name));
            sink.error(at, message, "save the document there, or correct the name");
            None
        }
    }
}

/// Returns a ConfigMap of the manifest's namespace. Reports why there is none.
pub(super) fn config_map_of(
    name: &str,
    Library { config_maps, namespace, env, .. }: Library<'_, '_>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Arc<ConfigMap>> {
    let full = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
    let shown = excerpt(name);
    let state = match &env.cluster {
        Some(cluster) => cluster.config_maps.find(&full),
        None => config_maps
            .iter()
            .find(|map| map.name == full)
            .map_or(ConfigMapState::Missing, |map| ConfigMapState::Found(Arc::clone(map))),
    };
    let (reason, message, remedy) = match state {
        ConfigMapState::Found(map) => return Some(map),
        ConfigMapState::Refused(message) => (Reason::QuotaExceeded, message, "ask for a larger quota".to_owned()),
        ConfigMapState::Forbidden => {
            let message = format!("the operator may not read ConfigMaps of namespace {namespace}");
            let remedy = "bind the role `tamis-documents` there, see docs/rbac.md".to_owned();
            (Reason::ConfigMapNotFound, message, remedy)
        }
        ConfigMapState::Missing if env.cluster.is_some() => {
            let message =
                format!("no ConfigMap `{shown}` with the label {DOCUMENT_LABEL} exists in namespace {namespace}");
            let remedy =
                format!("create it, or label it: kubectl -n {namespace} label configmap {shown} {DOCUMENT_LABEL}=true");
            (Reason::ConfigMapNotFound, message, remedy)
        }
        ConfigMapState::Missing => {
            let message = format!(
                "no ConfigMap `{shown}` of namespace {namespace} with the label {DOCUMENT_LABEL} is among the files that were \
                 read"
            );
            (Reason::ConfigMapNotFound, message, "add it to the folder, or correct the name".to_owned())
        }
    };
    sink.because(reason).error(&at.key("name"), message, remedy);
    sink.because(Reason::InvalidManifest);
    None
}

/// Returns a key of a ConfigMap. Reports that there is none.
fn key_of(
    map: Arc<ConfigMap>,
    key: &str,
    is_text: bool,
    at: FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Stored> {
    if map.digest(key).is_none() {
        let remedy = match did_you_mean(key, map.keys()) {
            Some(known) => format!("did you mean `{}`?", excerpt(known)),
            None => "add the document to it, or correct the key".to_owned(),
        };
        let message = format!("ConfigMap {} has no key `{}`", map.name, excerpt(key));
        sink.because(Reason::ConfigMapNotFound).error(&at.key("key"), message, remedy);
        sink.because(Reason::InvalidManifest);
        return None;
    }
    let name = document_name(key).to_ascii_lowercase();
    let is_text = is_text && ![".json", ".yaml", ".yml"].iter().any(|ending| name.ends_with(ending));
    let file = format!("ConfigMap {}[{key}]", map.name).into();
    Some(Stored { map, key: key.to_owned(), file, at, is_text })
}

impl Stored {
    /// Unpacks and parses the document. `left`: how many bytes may still be unpacked.
    fn tree(&self, left: &mut u64) -> Result<Node, Box<Diagnostic>> {
        let Self { map, key, file, at: _, is_text } = self;
        let error =
            |message: String, remedy: &str| Box::new(Diagnostic::error(file, Position::START, "", message, remedy));
        let bytes = map.document(key).ok_or_else(|| error("is missing".to_owned(), "add it"))?;
        let bytes: Cow<'_, [u8]> = bytes.map_err(|(message, remedy)| error(message, remedy))?;
        *left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let message =
                format!("has, with the documents before it, more than {MAX_API_BYTES} bytes once they are unpacked");
            error(message, "prune them with `tamis import`")
        })?;
        api::tree(file, document_name(key), &bytes, *is_text)
    }
}

impl<'s> Document<'s> {
    /// Returns the file, as messages name it.
    fn file(&self) -> &Arc<str> {
        match self {
            Self::Inline(at) => at.file,
            Self::File(api) => &api.file,
            Self::Stored(stored) => &stored.file,
        }
    }

    /// Unpacks and parses the document, unless it is parsed already. `left`: how many bytes may still be unpacked.
    fn tree(&self, left: &mut u64) -> Result<Cow<'_, Node>, Box<Diagnostic>> {
        match self {
            Self::Inline(at) => Ok(Cow::Borrowed(at.node)),
            Self::File(api) => api.tree(),
            Self::Stored(stored) => stored.tree(left).map(Cow::Owned),
        }
    }

    /// Returns the documents in other keys of the same ConfigMap, each with its name, that have the kind of name that `is_meant`
    /// accepts.
    pub(super) fn others(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(&str, Self)> {
        let Self::Stored(Stored { map, key: own, at, is_text, file: _ }) = self else { return Vec::new() };
        let keys = map.keys().filter(|key| key != own).map(|key| (document_name(key), key));
        let other = |(name, key): (_, &str)| {
            let (map, at, file) = (Arc::clone(map), at.clone(), format!("ConfigMap {}[{key}]", map.name).into());
            (name, Self::Stored(Stored { map, key: key.to_owned(), file, at, is_text: *is_text }))
        };
        keys.filter(|(name, _)| is_meant(name)).map(other).collect()
    }

    /// Returns the document's place. `node`: what [`Document::tree`] has returned.
    fn at<'a>(&'a self, node: &'a Node) -> DocumentAt<'a> {
        let field = match self {
            Self::Inline(at) => at.field,
            Self::File(_) | Self::Stored(_) => "",
        };
        DocumentAt { file: self.file(), field, node }
    }

    /// Returns what identifies the document's content. `None` for a part of a manifest.
    fn identity(&self) -> Option<(&Digest, String)> {
        match self {
            Self::Inline(_) => None,
            Self::File(api) => Some((&api.digest, syntax(&api.file))),
            Self::Stored(Stored { map, key, .. }) => Some((map.digest(key)?, syntax(key))),
        }
    }
}

/// Returns the endings of a name, which decide how a document is read.
fn syntax(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    let endings: Vec<&str> = name.rsplit('.').take(2).collect();
    endings.join(".").to_ascii_lowercase()
}

/// Returns what documents become: of an earlier compilation, or by `convert`. Reports the findings, and why a document cannot be
/// read. `selection`: everything else that `convert` depends on.
///
/// Also returns whether any finding is an error.
pub(super) fn converted<'s, C: Conversion + Clone>(
    documents: &[&Document<'s>],
    selection: &impl Serialize,
    env: &CompileEnv<'_>,
    sink: &mut DiagnosticSink<'s>,
    convert: impl FnOnce(&[DocumentAt<'_>]) -> C,
) -> Option<(C, bool)> {
    let identities: Option<Vec<_>> = documents.iter().map(|document| document.identity()).collect();
    let key = identities.and_then(|identities| serde_json::to_vec(&(identities, selection)).ok());
    let key = key.map(|key| Digest::of(&key));
    let files: Vec<Arc<str>> = documents.iter().map(|document| Arc::clone(document.file())).collect();
    let known = key.as_ref().zip(env.conversions).and_then(|(key, known)| known.find::<C>(key, &files));
    let (conversion, findings) = match known {
        Some(known) => known,
        None => {
            let mut left = MAX_API_BYTES;
            let trees: Result<Vec<_>, _> = documents.iter().map(|document| document.tree(&mut left)).collect();
            let trees = match trees {
                Ok(trees) => trees,
                Err(finding) => {
                    say(documents, *finding, env, sink);
                    return None;
                }
            };
            let places: Vec<_> = documents.iter().zip(&trees).map(|(document, tree)| document.at(tree)).collect();
            let conversion = Arc::new(convert(&places));
            if let Some(conversions) = env.conversions {
                conversions.keep(key, files, &conversion);
            }
            let findings = conversion.findings().to_vec();
            (conversion, findings)
        }
    };
    let failed = findings.iter().any(Diagnostic::is_error);
    for finding in findings {
        say(documents, finding, env, sink);
    }
    Some((Arc::unwrap_or_clone(conversion), failed))
}

/// Reports a finding about a document. In a cluster, one about a ConfigMap is reported where the manifest names the ConfigMap,
/// since a ConfigMap has no status.
fn say<'s>(documents: &[&Document<'s>], finding: Diagnostic, env: &CompileEnv<'_>, sink: &mut DiagnosticSink<'s>) {
    let stored = documents.iter().find_map(|document| match document {
        Document::Stored(stored) if stored.file == finding.file => Some(stored),
        _ => None,
    });
    let Some(stored) = stored.filter(|_| env.cluster.is_some()) else { return sink.push(finding) };
    let Diagnostic { severity, file, line, column, field, message, remedy, reason } = finding;
    let field = if field.is_empty() { field } else { format!("{field}: ") };
    let message = format!("{file}:{line}:{column}: {field}{message}");
    let place = sink.origin().error(&stored.at, message, remedy);
    sink.push(Diagnostic { severity, reason, ..place });
}
