//! Determines the kind of a document, and checks its envelope: `apiVersion`, `kind`, `metadata`.

use std::sync::Arc;

use tamis_config::Reason;

use super::check::Spec;
use super::head::head;
use super::schema::{
    CONFIGURATION_PLAN, CUSTOM_TOOLS, EXPOSITION, GATEWAY_GROUP, PROMPTS, RESOURCES, SERVICE_MANIFEST, SpecSchema,
    TOOLS_FILTERS,
};
use super::{config_map, excerpt, kimbap, shape, spelling};
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;
use crate::origin::Origin;
use crate::resources::{
    API_VERSION, COMMON_WORDS, DEFAULT_NAMESPACE, GROUPS, KINDS, ObjectName, RESHAPR_API_VERSION, Resource, Resources,
    Unusable,
};
use crate::sink::DiagnosticSink;
use crate::yaml::{Entry, Node, Resolved, Value};

/// Members that Kubernetes writes to `metadata` itself; `kubectl get -o yaml` shows them.
const METADATA: &[&str] = &[
    "name",
    "namespace",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const ENVELOPE: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
/// Fields of the flat format, in which the seed documents write ToolsFilters, CustomTools, Prompts and Resources.
const FLAT: &[&str] =
    &["name", "service", "enforcement", "filters", "customTools", "prompts", "resources", "resourceTemplates"];

/// Parses the documents of one file, one after the other.
pub(super) struct Reader<'a> {
    file: &'a Arc<str>,
    resources: Resources,
    diagnostics: Vec<Diagnostic>,
    /// The number of documents so far, to name those without a name.
    count: usize,
    /// The identity of each Tamis document; of a broken document, the part that could be read.
    heads: Vec<Unusable>,
    is_object: bool,
}

impl<'a> Reader<'a> {
    /// `is_object`: the file is an object of the Kubernetes API.
    pub(super) fn new(file: &'a Arc<str>, is_object: bool) -> Self {
        Self { file, resources: Resources::default(), diagnostics: Vec::new(), count: 0, heads: Vec::new(), is_object }
    }

    /// Returns the result. If there is an error, every document of the file is among the unusable ones, including valid ones,
    /// because none of the file is used.
    pub(super) fn finish(mut self) -> (Resources, Vec<Diagnostic>) {
        if let Some(error) = self.diagnostics.iter().find(|d| d.is_error()) {
            let first = error.statement();
            self.resources.unusable = self
                .heads
                .into_iter()
                .map(|head| {
                    let message = if head.message.is_empty() { first.clone() } else { head.message };
                    Arc::new(Unusable { message, ..head })
                })
                .collect();
        }
        (self.resources, self.diagnostics)
    }

    /// Parses one document.
    pub(super) fn read(&mut self, document: Node) {
        let (before, head) = (self.diagnostics.len(), head(self.file, &document));
        let known = self.heads.len();
        self.document(document);
        let own = self.diagnostics[before..].iter().find(|d| d.is_error()).map(Diagnostic::statement);
        // A list is represented by its items, and documents of other products are skipped.
        if let Some(mut head) = head.filter(|_| self.heads.len() == known) {
            head.message = own.unwrap_or_default();
            self.heads.push(head);
        }
    }

    fn document(&mut self, document: Node) {
        self.count += 1;
        let Some(entries) = document.entries() else {
            let message = format!("expected a mapping, found {}", document.describe());
            return self.error(&document, "", message, "start the document with apiVersion, kind, metadata and spec");
        };
        match (document.get("apiVersion"), document.get("kind")) {
            (None, None) if kimbap::is_manifest(entries) => {
                if let Some(document) = kimbap::convert(self.file, document, &mut self.diagnostics) {
                    self.manifest(document);
                }
            }
            (None, None) => {
                let remedy = format!("add apiVersion: {API_VERSION} and a kind");
                self.error(&document, "", "the document has no apiVersion and no kind", remedy);
            }
            (None, Some(_)) => self.error(&document, "apiVersion", "is missing", format!("set it to {API_VERSION}")),
            (Some(_), None) => self.error(&document, "kind", "is missing", "add it"),
            (Some(version), Some(kind)) => self.object(&version.clone(), &kind.clone(), document),
        }
    }

    fn object(&mut self, version: &Node, kind: &Node, document: Node) {
        let (Some(version_text), Some(kind_text)) = (version.as_source(), kind.as_source()) else {
            return self.error(&document, "apiVersion", "apiVersion and kind must be strings", "write their names");
        };
        if version_text != API_VERSION && (self.is_object || version_text != RESHAPR_API_VERSION) {
            return self.foreign(version, version_text, kind_text, document);
        }
        match kind_text {
            "ServiceManifest" => self.manifest(document),
            "ToolsFilters" | "ToolsOutputFilters" => {
                if let Some(read) = self.resource(nested(document), &TOOLS_FILTERS) {
                    self.resources.filters.push(read);
                }
            }
            "Exposition" => {
                if let Some(read) = self.resource(document, &EXPOSITION) {
                    self.resources.expositions.push(read);
                }
            }
            "GatewayGroup" => {
                if let Some(read) = self.resource(document, &GATEWAY_GROUP) {
                    self.resources.groups.push(read);
                }
            }
            "CustomTools" => {
                if let Some(read) = self.resource(nested(document), &CUSTOM_TOOLS) {
                    self.resources.tools.push(read);
                }
            }
            "ConfigurationPlan" => {
                if let Some(read) = self.resource(document, &CONFIGURATION_PLAN) {
                    self.resources.plans.push(read);
                }
            }
            "Prompts" => {
                if let Some(read) = self.resource(nested(document), &PROMPTS) {
                    self.resources.prompts.push(read);
                }
            }
            "Resources" => {
                if let Some(read) = self.resource(nested(document), &RESOURCES) {
                    self.resources.contents.push(read);
                }
            }
            "GatewayConfig" => {
                self.error(kind, "kind", "only the operator writes GatewayConfigs", "remove the document");
            }
            unknown => {
                let known = KINDS.iter().filter(|(_, implemented)| *implemented).map(|(name, _)| *name);
                let remedy = match did_you_mean(unknown, known.clone()) {
                    Some(name) => format!("did you mean {name}?"),
                    None => format!("write one of {}", known.collect::<Vec<_>>().join(", ")),
                };
                self.error(kind, "kind", format!("`{}` is not a kind", excerpt(unknown)), remedy);
            }
        }
    }

    /// Handles another `apiVersion`: a list, a misspelling, or an object of another product.
    fn foreign(&mut self, version: &Node, version_text: &str, kind_text: &str, document: Node) {
        if (version_text, kind_text) == ("v1", "List") {
            let Value::Map(entries) = document.value else { return };
            let items = entries.into_iter().find(|e| &*e.key == "items").map(|e| e.value.value);
            if let Some(Value::List(items)) = items {
                items.into_iter().for_each(|item| self.read(item));
            }
            return;
        }
        if (version_text, kind_text) == ("v1", "ConfigMap") && !self.is_object && config_map::takes_part(&document) {
            if let Some((name, _)) = self.name(&document)
                && let Some(read) = config_map::read(self.file, &document, name, &mut self.diagnostics)
            {
                self.resources.config_maps.push(read);
            }
            return;
        }
        let is_kind = KINDS.iter().any(|(name, _)| *name == kind_text && !COMMON_WORDS.contains(name))
            || kind_text == "ToolsOutputFilters";
        let group = version_text.split('/').next().unwrap_or("");
        if is_kind || did_you_mean(group, GROUPS).is_some() {
            let message = format!("`{}` is not a supported apiVersion", excerpt(version_text));
            self.error(version, "apiVersion", message, format!("write {API_VERSION}"));
        } else {
            let message =
                format!("{} of {} is not a Tamis document and is skipped", excerpt(kind_text), excerpt(version_text));
            let remedy = "move it to another folder to silence this warning";
            self.diagnostics.push(Diagnostic::warning(self.file, document.position, "", message, remedy));
        }
    }

    fn manifest(&mut self, document: Node) {
        if let Some(read) = self.resource(document, &SERVICE_MANIFEST) {
            self.resources.manifests.push(read);
        }
    }

    fn resource<S: Spec>(&mut self, document: Node, schema: &SpecSchema) -> Option<Arc<Resource<S>>> {
        let before = self.diagnostics.len();
        let read = self.read_resource(document, schema);
        for diagnostic in &mut self.diagnostics[before..] {
            if diagnostic.reason == Reason::InvalidManifest {
                diagnostic.reason = S::REASON;
            }
        }
        read
    }

    fn read_resource<S: Spec>(&mut self, mut document: Node, schema: &SpecSchema) -> Option<Arc<Resource<S>>> {
        let before = self.diagnostics.len();
        let Value::Map(entries) = &mut document.value else { return None };
        for entry in entries.iter().filter(|e| !ENVELOPE.contains(&&*e.key)) {
            let remedy = match did_you_mean(&entry.key, ["apiVersion", "kind", "metadata", "spec"]) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "move it into `spec`, or remove it".to_owned(),
            };
            let field = entry.key.to_string();
            self.diagnostics.push(Diagnostic::error(self.file, entry.position, field, "unknown field", remedy));
        }
        let mut json = String::new();
        if let Some(spec) = entries.iter_mut().find(|e| &*e.key == "spec") {
            let field = spec.spelling().unwrap_or("").to_owned();
            spelling::normalise(self.file, &mut spec.value, schema.view(), &field, &mut self.diagnostics);
            json = shape::check(self.file, &spec.value, schema.view(), &field, &mut self.diagnostics);
        } else {
            self.error(&document, "spec", "is missing", "add it");
        }
        let name = self.name(&document);
        let (name, unnamed) = name?;
        let told: Vec<_> = self.diagnostics[before..].iter().filter(|d| d.is_error()).map(Diagnostic::spot).collect();
        match serde_json::from_str::<S>(&json) {
            Ok(spec) => {
                let tree = Arc::new(document);
                let origin = Origin { file: Arc::clone(self.file), tree, is_object: self.is_object };
                let mut found = Vec::new();
                let mut sink = DiagnosticSink::new(&origin, &mut found);
                spec.check(&mut sink);
                let failed = sink.failed || !told.is_empty();
                // One finding per field is enough.
                self.diagnostics.extend(found.into_iter().filter(|d| !told.contains(&d.spot())));
                if failed && !S::INDEPENDENT {
                    return None;
                }
                Some(Arc::new(Resource { name, unnamed, spec, origin }))
            }
            Err(_) if !told.is_empty() => None,
            // The shape check covers everything that serde checks. Should it ever not, the document is still rejected.
            Err(error) => {
                self.error(&document, "spec", format!("cannot be read: {error}"), "compare it with `tamis schema`");
                None
            }
        }
    }

    /// Returns the name from `metadata`, or a generated one.
    fn name(&mut self, document: &Node) -> Option<(ObjectName, bool)> {
        let Some(metadata) = document.entry("metadata") else {
            let spec = document.entry("spec")?;
            if spec.spelling().is_some() {
                self.error(document, "metadata", "is missing", "add it, with a name");
                return None;
            }
            // kimbap's manifests have a name; the flat format uses the file's name.
            let own = ["baseUrl", "http", "mcp", "openapi", "graphql", "command", "appleScript"]
                .iter()
                .find_map(|key| spec.value.get(key))
                .and(spec.value.get("name"));
            let name = own.and_then(Node::as_source).map_or_else(|| self.file_name(), slug);
            return Some((ObjectName { namespace: DEFAULT_NAMESPACE.to_owned(), name }, true));
        };
        let Some(entries) = metadata.value.entries() else {
            let message = format!("expected a mapping, found {}", metadata.value.describe());
            self.error(&metadata.value, "metadata", message, "write name and namespace");
            return None;
        };
        for entry in entries.iter().filter(|e| !METADATA.contains(&&*e.key)) {
            let remedy = match did_you_mean(&entry.key, METADATA.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "remove it, or write it into `annotations`".to_owned(),
            };
            let field = format!("metadata.{}", entry.key);
            self.diagnostics.push(Diagnostic::error(self.file, entry.position, field, "unknown field", remedy));
        }
        let namespace = match metadata.value.entry("namespace") {
            None => Some(DEFAULT_NAMESPACE.to_owned()),
            Some(entry) => self.object_name(entry, "metadata.namespace", 63),
        };
        let name = match metadata.value.entry("name") {
            None => {
                self.error(&metadata.value, "metadata.name", "is missing", "add it");
                None
            }
            Some(entry) => self.object_name(entry, "metadata.name", 253),
        };
        Some((ObjectName { namespace: namespace?, name: name? }, false))
    }

    /// Parses a name by the rules of Kubernetes (RFC 1123).
    fn object_name(&mut self, entry: &Entry, field: &str, longest: usize) -> Option<String> {
        let remedy = format!("use at most {longest} of a-z, 0-9, `-` and `.`, a letter or digit first and last");
        let Value::Scalar(scalar) = &entry.value.value else {
            self.error(&entry.value, field, format!("expected a name, found {}", entry.value.describe()), remedy);
            return None;
        };
        let name = &*scalar.source;
        let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || (c == '.' && longest > 63);
        let valid = name.len() <= longest && name.chars().all(inner) && !name.contains("..");
        if !valid || !end(name.chars().next()) || !end(name.chars().next_back()) {
            self.error(&entry.value, field, format!("`{}` is not a valid Kubernetes name", excerpt(name)), remedy);
            return None;
        }
        if matches!(scalar.resolved, Resolved::Number(_) | Resolved::Bool(_) | Resolved::Null)
            || scalar.kubectl_reads().is_some()
        {
            let message = format!("kubectl does not read `{name}` as a string");
            let diagnostic =
                Diagnostic::warning(self.file, entry.value.position, field, message, format!("quote it: \"{name}\""));
            self.diagnostics.push(diagnostic);
        }
        Some(name.to_owned())
    }

    fn file_name(&self) -> String {
        let base = self.file.rsplit(['/', '\\']).next().unwrap_or(self.file);
        let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
        if self.count > 1 { format!("{}-{}", slug(stem), self.count) } else { slug(stem) }
    }

    fn error(&mut self, node: &Node, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(self.file, node.position, field, message, remedy));
    }
}

/// Moves the fields of a flat document into a `spec`. The seed documents have no `metadata` and no `spec`: their fields are
/// at the top level.
fn nested(mut document: Node) -> Node {
    let flat = document.get("spec").is_none() && FLAT.iter().any(|key| document.get(key).is_some());
    if let (true, Value::Map(entries)) = (flat, &mut document.value) {
        let (envelope, spec): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(entries).into_iter().partition(|e| ENVELOPE.contains(&&*e.key));
        *entries = envelope;
        let spec = Node::map(document.position, spec);
        entries.push(Entry::absent("spec", spec));
    }
    document
}

/// Converts any text to a valid Kubernetes name.
fn slug(text: &str) -> String {
    let mut name = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(63);
    let name = name.trim_end_matches('-');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}
