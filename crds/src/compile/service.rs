//! Compiles manifests to service documents.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{
    Digest, FIRST_VERSION, HttpSource, Reason, ServiceContent, ServiceDocument, ServiceTool, Source, is_tool_name,
    lowest_service_version,
};
use tamis_engine::{Reads, ResponseType, ToolFilter};
use url::{Host, Url};

use super::content::ContentIndex;
use super::credentials::ACCOUNT_HEADERS;
use super::custom::CustomToolsIndex;
use super::documents::Library;
use super::source::graphql::Queries;
use super::unusable::Unusables;
use super::{CompileEnv, action, auth, command, duplicate_names, graphql, grpc, mcp, openapi, size};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{
    ActionSpec, AuthSpec, AuthType, HttpSpec, Resources, ServiceManifestSpec, ServiceRef, SourceSpec, override_of,
};
use crate::sink::DiagnosticSink;
use crate::{Diagnostic, Resource};

/// A manifest and the result of compiling it.
pub(super) struct Service<'r> {
    pub(super) resource: &'r Arc<Resource<ServiceManifestSpec>>,
    /// The document, or the reason why the manifest has errors.
    pub(super) document: Result<(Digest, Arc<ServiceDocument>), Reason>,
    /// The tools of a document and the shapes of their outputs. `None` if the document cannot be read.
    converted: Option<IndexMap<String, Option<ResponseType>>>,
    /// What makes the queries of a GraphQL API.
    queries: Option<Queries>,
    /// The wrapped tool of each tool of CustomTools.
    aliases: BTreeMap<String, String>,
    /// Whether CustomTools of the service have errors or cannot be read.
    pub(super) lacks_aliases: bool,
}

impl Service<'_> {
    /// Returns the name that other resources refer to.
    pub(super) fn name(&self) -> &str {
        self.resource.spec.name.as_deref().unwrap_or(&self.resource.name.name)
    }

    /// Returns the tool names in the order of the manifest, then those of CustomTools.
    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        self.own_tools().chain(self.aliases.keys().map(String::as_str))
    }

    /// Returns the tool names in the order of the manifest.
    pub(super) fn own_tools(&self) -> impl Iterator<Item = &str> {
        let source = self.resource.spec.source().filter(|source| source.overrides().is_none());
        let converted = self.converted.iter().flat_map(IndexMap::keys).map(String::as_str);
        source.into_iter().flat_map(SourceSpec::tools).chain(converted)
    }

    /// Returns whether the tools are known. Those that an MCP server lists at run time are not, nor are those of a document that
    /// cannot be read.
    pub(super) fn knows_tools(&self) -> bool {
        match self.resource.spec.source() {
            Some(SourceSpec::Mcp(mcp)) => mcp.follow != Some(true),
            Some(SourceSpec::OpenApi(_) | SourceSpec::GraphQl(_) | SourceSpec::Grpc(_)) => self.converted.is_some(),
            Some(SourceSpec::Http(_) | SourceSpec::Command(_) | SourceSpec::AppleScript(_)) | None => true,
        }
    }

    /// Returns the declared shape of a tool's output.
    pub(super) fn response_type(&self, tool: &str) -> Option<ResponseType> {
        let tool = self.aliases.get(tool).map_or(tool, String::as_str);
        if let Some(kind) = self.converted.as_ref().and_then(|tools| tools.get(tool)) {
            return *kind;
        }
        self.resource.spec.source()?.response(tool)?.kind
    }

    /// Returns the filter inside the manifest.
    pub(super) fn embedded(&self, tool: &str) -> Option<&Arc<ToolFilter>> {
        self.resource.spec.source()?.response(tool)?.filter.as_ref()
    }

    /// Returns the path of [`Service::embedded`].
    pub(super) fn embedded_path(&self, tool: &str) -> FieldPath {
        match self.resource.spec.source().and_then(SourceSpec::overrides) {
            Some((source, overrides)) => {
                let name = override_of(overrides, tool).map_or(tool, |(name, _)| name);
                FieldPath::spec([source, "overrides", name, "response", "filter"])
            }
            None => {
                let source = self.resource.spec.source().map_or("http", SourceSpec::field);
                FieldPath::spec([source, "actions", tool, "response", "filter"])
            }
        }
    }

    /// Returns whether tools may have queries other than their own.
    pub(super) fn derives_queries(&self) -> bool {
        self.queries.is_some()
    }

    /// Returns the query of a GraphQL tool whose filter reads a part of the output; none if the service's own query is right. An
    /// alias has the query of the tool that it wraps.
    pub(super) fn query(&self, tool: &str, reads: &Reads) -> Option<String> {
        let tool = self.aliases.get(tool).map_or(tool, String::as_str);
        self.queries.as_ref()?.query(tool, reads)
    }
}

/// All services by namespace, name and version.
pub(super) struct Services<'r> {
    by_ref: HashMap<(&'r str, &'r str, &'r str), usize>,
    all: Vec<Service<'r>>,
}

impl<'r> Services<'r> {
    pub(super) fn new(
        resources: &'r Resources,
        (customs, contents): (&CustomToolsIndex<'r>, &ContentIndex<'r>),
        unusable: &Unusables<'r>,
        env: &CompileEnv<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let Resources { manifests, apis, config_maps, .. } = resources;
        duplicate_names("ServiceManifest", manifests, diagnostics);
        let mut services = Self { by_ref: HashMap::new(), all: Vec::new() };
        for resource in manifests {
            let before = diagnostics.len();
            let mut sink = DiagnosticSink::new(&resource.origin, diagnostics);
            let library = Library { apis, config_maps, namespace: &resource.name.namespace, env };
            let (mut document, is_known, queries) = document(resource, library, &mut sink);
            let is_converted = resource.spec.source().is_some_and(|source| source.overrides().is_some());
            let kinds = || document.tools.iter().map(|(name, tool)| (name.clone(), tool.response_type)).collect();
            let converted = (is_converted && is_known).then(kinds);
            let mut failed = sink.failed.then_some(Reason::InvalidManifest);
            let is_absent = |finding: &Diagnostic| finding.is_error() && finding.reason == Reason::ConfigMapNotFound;
            if diagnostics[before..].iter().any(is_absent) {
                failed = Some(Reason::ConfigMapNotFound);
            }
            let name = resource.spec.name.as_deref().unwrap_or(&resource.name.name);
            let key = (resource.name.namespace.as_str(), name, resource.spec.version.as_str());
            let mut lacks_aliases = false;
            if let Some(first) = services.by_ref.get(&key) {
                let first = &services.all[*first].resource.origin;
                let message =
                    format!("service {name} {} is already defined in {}", resource.spec.version, first.place());
                let error = resource.origin.error(
                    &FieldPath::spec(["name"]),
                    message,
                    "change the name or version of one of them",
                );
                diagnostics.push(error.because(Reason::Conflict));
            } else {
                services.by_ref.insert(key, services.all.len());
                lacks_aliases = customs.add_to(&mut document, key, &resource.origin.place(), diagnostics);
                contents.add_to(&mut document, key, diagnostics);
                document.format_version = lowest_service_version(&document);
            }
            let wanted = ServiceRef { name: name.to_owned(), version: resource.spec.version.clone() };
            lacks_aliases |= unusable.tools(key.0, &wanted).is_some();
            let json = serde_json::to_vec(&document).unwrap_or_default();
            let too_large = env.cluster.and_then(|_| size::service(&document, json.len()));
            if let (None, Some(message)) = (failed, too_large) {
                failed = Some(Reason::TooLarge);
                let error = resource.origin.error(&FieldPath::spec([]), message, "split it into several services");
                diagnostics.push(error.because(Reason::TooLarge));
            }
            let made =
                |(name, tool): (&String, &ServiceTool)| tool.alias().map(|alias| (name.clone(), alias.tool.clone()));
            let aliases = document.tools.iter().filter_map(made).collect();
            let document = failed.map_or_else(|| Ok((Digest::of(&json), Arc::new(document))), Err);
            services.all.push(Service { resource, document, converted, queries, aliases, lacks_aliases });
        }
        services
    }

    pub(super) fn all(&self) -> &[Service<'r>] {
        &self.all
    }

    /// Returns the service that a resource of `namespace` refers to, or the message and remedy if it does not exist.
    pub(super) fn find(&self, namespace: &str, wanted: &ServiceRef) -> Result<&Service<'r>, (String, String)> {
        if let Some(index) = self.by_ref.get(&(namespace, wanted.name.as_str(), wanted.version.as_str())) {
            return Ok(&self.all[*index]);
        }
        let here = || self.all.iter().filter(|s| s.resource.name.namespace == namespace);
        let versions: Vec<&str> =
            here().filter(|s| s.name() == wanted.name).map(|s| s.resource.spec.version.as_str()).collect();
        let elsewhere = self.all.iter().find(|s| s.name() == wanted.name && s.resource.spec.version == wanted.version);
        let message = format!("service {} {} does not exist in namespace {namespace}", wanted.name, wanted.version);
        let remedy = if !versions.is_empty() {
            format!("existing versions: {}", versions.join(", "))
        } else if let Some(name) = did_you_mean(&wanted.name, here().map(Service::name)) {
            format!("did you mean `{name}`?")
        } else if let Some(other) = elsewhere {
            format!("namespace {} has one, but references cannot cross namespaces", other.resource.name.namespace)
        } else {
            "add its ServiceManifest".to_owned()
        };
        Err((message, remedy))
    }
}

/// Also returns whether the tools are known, and what makes the queries of a GraphQL API.
fn document<'s>(
    resource: &Resource<ServiceManifestSpec>,
    library: Library<'s, '_>,
    sink: &mut DiagnosticSink<'s>,
) -> (ServiceDocument, bool, Option<Queries>) {
    let spec = &resource.spec;
    let name = spec.name.clone().unwrap_or_else(|| resource.name.name.clone());
    for (field, text) in [("name", &name), ("version", &spec.version)] {
        if text.trim().is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
            sink.error(
                &FieldPath::spec([field]),
                "must be one line of 1 to 128 characters",
                "write 1 to 128 characters",
            );
        }
    }
    let sources: Vec<&str> = spec.sources().collect();
    if let [first, second, ..] = sources[..] {
        let error = format!("`{first}` and `{second}` are mutually exclusive");
        sink.error(&FieldPath::spec([second]), error, "remove one of them, or write two manifests");
    }
    // The manifest has an error, so this source is never published.
    let nowhere = || HttpSource { base_url: String::new(), auth: None };
    let (mut is_known, mut queries) = (true, None);
    let (source, tools) = match spec.source() {
        Some(SourceSpec::Http(http)) => {
            let (source, tools) = http_source(http, sink);
            (Source::Http(source), tools)
        }
        Some(SourceSpec::Mcp(server)) => mcp::compile(server, library.env, sink),
        Some(SourceSpec::OpenApi(api)) => {
            let compiled = openapi::compile(api, library, sink);
            is_known = compiled.is_some();
            let (source, tools) = compiled.unwrap_or_else(|| (nowhere(), IndexMap::new()));
            (Source::Http(source), tools)
        }
        Some(SourceSpec::GraphQl(api)) => match graphql::compile(api, library, sink) {
            Some(graphql::Compiled { source, tools, queries: made }) => {
                queries = Some(made);
                (Source::Http(source), tools)
            }
            None => {
                is_known = false;
                (Source::Http(nowhere()), IndexMap::new())
            }
        },
        Some(SourceSpec::Command(program)) => command::compile(program, library.env, sink),
        Some(SourceSpec::AppleScript(scripts)) => {
            command::compile_scripts(scripts, command::ON_MACOS, library.env, sink)
        }
        Some(SourceSpec::Grpc(api)) => match grpc::compile(api, library, sink) {
            Some((source, tools)) => (Source::Grpc(source), tools),
            None => {
                is_known = false;
                (Source::Http(nowhere()), IndexMap::new())
            }
        },
        None => {
            let remedy = "add `http`, `mcp`, `openapi`, `graphql`, `grpc`, `command` or `appleScript`";
            sink.because(Reason::UnsupportedSource).error(&FieldPath::spec([]), "has no source", remedy);
            (Source::Http(nowhere()), IndexMap::new())
        }
    };
    let mut document = ServiceDocument {
        // Raised below.
        format_version: FIRST_VERSION,
        name,
        version: spec.version.clone(),
        description: spec.description.clone(),
        source,
        tools,
        content: ServiceContent::default(),
    };
    document.format_version = lowest_service_version(&document);
    (document, is_known, queries)
}

fn http_source(http: &HttpSpec, sink: &mut DiagnosticSink<'_>) -> (HttpSource, IndexMap<String, ServiceTool>) {
    let HttpSpec { base_url: url, auth, actions } = http;
    let at = FieldPath::spec(["http"]);
    base_url(url, &at.key("baseUrl"), QUERY, sink);
    let source = HttpSource {
        base_url: url.clone(),
        auth: auth.as_ref().map(|spec| auth::compile(spec, &at.key("auth"), sink)),
    };
    let tools = tools_of(actions, &at.key("actions"), sink, |action, at, sink| {
        account_headers(action, auth.as_ref(), at, sink);
        action::compile(action, at, sink)
    });
    (source, tools)
}

/// Rejects headers that identify an account, because they decide where a credential in the same request ends up.
fn account_headers(action: &ActionSpec, service: Option<&AuthSpec>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let auth = action.auth.as_ref().or(service);
    if auth.is_none_or(|auth| auth.kind == AuthType::None) {
        return;
    }
    let at = at.key("request").key("headers");
    for name in action.request.iter().flat_map(|request| request.headers.keys()) {
        if ACCOUNT_HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header)) {
            sink.error(&at.key(name), "cannot be combined with `auth`", "remove the header, or the `auth`");
        }
    }
}

/// Makes the tools of the actions that a manifest declares. `make`: makes one of an action and its path.
pub(super) fn tools_of<'s, A>(
    actions: &IndexMap<String, A>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'s>,
    make: impl Fn(&A, &FieldPath, &mut DiagnosticSink<'s>) -> ServiceTool,
) -> IndexMap<String, ServiceTool> {
    let mut tools = IndexMap::new();
    for (name, action) in actions {
        let at = at.key(name);
        tool_name(name, &at, sink);
        tools.insert(name.clone(), make(action, &at, sink));
    }
    if tools.is_empty() {
        sink.warning(at, "has no action, so there is no tool", "add one");
    }
    tools
}

/// Checks a tool name.
pub(super) fn tool_name(name: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if !is_tool_name(name) {
        sink.error(at, "is not a valid tool name", "use 1 to 64 of A-Z a-z 0-9 _ . / -");
    }
}

/// The remedy for a query in a base URL.
pub(super) const QUERY: &str = "move parameters to `request.query`";

/// Checks the URL of an upstream. `instead`: the remedy for a query.
pub(super) fn base_url(text: &str, at: &FieldPath, instead: &'static str, sink: &mut DiagnosticSink<'_>) {
    for (message, remedy) in base_url_problems(text, instead) {
        sink.error(at, message, remedy);
    }
}

/// Returns what is wrong with the URL of an upstream, each with the remedy.
pub(super) fn base_url_problems(text: &str, instead: &'static str) -> Vec<(String, &'static str)> {
    let Ok(url) = Url::parse(text) else {
        return vec![("is not a URL".to_owned(), "write https://HOST")];
    };
    if !matches!(url.scheme(), "http" | "https") {
        return vec![(format!("unsupported scheme {}", url.scheme()), "write https://HOST")];
    }
    let mut problems = Vec::new();
    let mut problem = |message: &str, remedy| problems.push((message.to_owned(), remedy));
    // An empty `?` or `#` is rejected too: text after it would not be part of the path.
    if url.query().is_some() || url.fragment().is_some() {
        problem("must have no query and no fragment", instead);
    }
    if !url.username().is_empty() || url.password().is_some() {
        problem("must have no user and no password", "use `auth` with a secretRef");
    }
    if text.contains(['{', '}', ' ', '\\']) || text.chars().any(char::is_control) {
        problem("must have no brace, space or backslash", "write the host out, because arguments cannot change it");
    }
    let near = match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let tail = |ending: &str| name.ends_with(ending);
            name == "localhost" || tail(".localhost") || tail(".svc") || tail(".svc.cluster.local")
        }
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    if url.scheme() == "http" && !near {
        problem("http is allowed for loopback and in-cluster names only", "use https");
    }
    problems
}
