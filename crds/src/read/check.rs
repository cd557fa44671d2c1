//! Checks of a single document beyond its shape. Checks that involve other documents belong to the compile step, and so do
//! those of manifests and filters: an error in those stops less than the whole file.

use crate::compile::MAX_CONTENT;
use crate::definitions::MAX_TOOLS;
use crate::origin::FieldPath;
use crate::resources::{
    BundlePartSpec, ConfigurationPlanSpec, CustomToolsSpec, ExpositionSpec, GatewayGroupSpec, GraphQlFieldsSpec,
    GrpcMethodsSpec, LimitsSpec, Memory, NamespacesFrom, OperationsSpec, OutputLimitsSpec, PromptsSpec, Quantity,
    ResourcesSpec, ServiceManifestSpec, ServiceRef, SourceSpec, TokensSpec, ToolsFiltersSpec,
};
use crate::sink::DiagnosticSink;
use serde::de::DeserializeOwned;
use tamis_config::{BundleDocument, BundlePart, Reason};
use tamis_engine::{Enforcement, ReservedInput};
use url::{Host, Url};

/// The longest duration, of a call or of a list: an hour.
const MAX_DURATION_MS: u64 = 3_600_000;
/// The most patterns that choose operations, and the most overrides.
const MAX_PATTERNS: usize = 256;
/// The largest output that can be configured.
const MAX_RESPONSE_BYTES: u64 = 1 << 30;

/// A kind's `spec`.
pub(super) trait Spec: DeserializeOwned {
    /// Whether to check the rest although some field has an error: where fields are independent, one error does not cause
    /// several findings.
    const INDEPENDENT: bool = false;
    /// The reason in the condition of an invalid document.
    const REASON: Reason = Reason::InvalidManifest;

    /// Reports errors.
    fn check(&self, sink: &mut DiagnosticSink<'_>);
}

impl Spec for ServiceManifestSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        match self.source() {
            Some(SourceSpec::Http(http)) => {
                bounded(http.actions.len(), &FieldPath::spec(["http", "actions"]), sink);
            }
            Some(SourceSpec::Mcp(mcp)) => {
                let at = FieldPath::spec(["mcp", "tools"]);
                bounded(mcp.pinned().count(), &at, sink);
                let follows = mcp.follow == Some(true);
                if follows && mcp.pinned().next().is_some() {
                    let message = "pins tools, but `follow: true` publishes what the server lists";
                    sink.error(&at, message, "remove `tools`, or `follow`");
                }
                // Without either, compiling says that first.
                if !follows && mcp.tools.is_none() && (mcp.url.is_some() || mcp.command.is_some()) {
                    let remedy = "run `tamis import mcp` to pin the server's tools, or write `follow: true`";
                    sink.error(&at, "is missing", remedy);
                }
            }
            Some(SourceSpec::GraphQl(graphql)) => {
                at_most(MAX_PATTERNS, graphql.overrides.len(), &FieldPath::spec(["graphql", "overrides"]), sink);
                if let Some(GraphQlFieldsSpec { include, exclude }) = &graphql.fields {
                    let at = FieldPath::spec(["graphql", "fields"]);
                    at_most(MAX_PATTERNS, include.as_ref().map_or(0, Vec::len), &at.key("include"), sink);
                    at_most(MAX_PATTERNS, exclude.len(), &at.key("exclude"), sink);
                }
            }
            Some(SourceSpec::OpenApi(openapi)) => {
                at_most(MAX_PATTERNS, openapi.overrides.len(), &FieldPath::spec(["openapi", "overrides"]), sink);
                if let Some(OperationsSpec { include, exclude }) = &openapi.operations {
                    let at = FieldPath::spec(["openapi", "operations"]);
                    at_most(MAX_PATTERNS, include.as_ref().map_or(0, Vec::len), &at.key("include"), sink);
                    at_most(MAX_PATTERNS, exclude.len(), &at.key("exclude"), sink);
                }
            }
            Some(SourceSpec::Command(command)) => {
                bounded(command.actions.len(), &FieldPath::spec(["command", "actions"]), sink);
            }
            Some(SourceSpec::AppleScript(scripts)) => {
                bounded(scripts.actions.len(), &FieldPath::spec(["appleScript", "actions"]), sink);
            }
            Some(SourceSpec::Grpc(grpc)) => {
                at_most(MAX_PATTERNS, grpc.overrides.len(), &FieldPath::spec(["grpc", "overrides"]), sink);
                if let Some(GrpcMethodsSpec { include, exclude }) = &grpc.methods {
                    let at = FieldPath::spec(["grpc", "methods"]);
                    at_most(MAX_PATTERNS, include.as_ref().map_or(0, Vec::len), &at.key("include"), sink);
                    at_most(MAX_PATTERNS, exclude.len(), &at.key("exclude"), sink);
                }
            }
            None => {}
        }
    }
}

/// Checks the number of entries that the API server accepts.
fn bounded(entries: usize, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    at_most(MAX_TOOLS as usize, entries, at, sink);
}

fn at_most(most: usize, entries: usize, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if entries > most {
        sink.error(at, format!("has {entries} entries, more than the limit of {most}"), "split it");
    }
}

impl Spec for ToolsFiltersSpec {
    const INDEPENDENT: bool = true;
    const REASON: Reason = Reason::InvalidFilter;

    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        service_ref(&self.service, sink);
        if self.name.as_deref().is_some_and(|name| name.trim().is_empty()) {
            let remedy = "name the set, or remove the field to make it the service's default";
            sink.error(&FieldPath::spec(["name"]), "is empty", remedy);
        }
        bounded(self.filters.len(), &FieldPath::spec(["filters"]), sink);
        if self.filters.is_empty() {
            sink.warning(&FieldPath::spec(["filters"]), "filters no tool", "add a filter");
        }
    }
}

impl Spec for ExpositionSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        let both = |sink: &mut DiagnosticSink<'_>, message: &str| {
            let remedy = "set `service` to publish a service, or `expositions` to bundle other expositions";
            sink.error(&FieldPath::spec(["service"]), message, remedy);
        };
        match (&self.service, &self.expositions) {
            (Some(service), None) => service_ref(service, sink),
            (None, Some(parts)) => check_bundle(self, parts, sink),
            (Some(_), Some(_)) => both(sink, "cannot be combined with `expositions`"),
            (None, None) => both(sink, "is missing"),
        }
        if let Some(limits) = &self.limits {
            check_limits(limits, sink);
        }
        if let Some(TokensSpec { factor: Some(factor), .. }) = self.tokens.filter(|tokens| tokens.factor().is_none()) {
            let remedy = "write one, or remove the field to count without a factor";
            sink.error(
                &FieldPath::spec(["tokens", "factor"]),
                format!("{factor} is not a number from 0.01 to 100"),
                remedy,
            );
        }
        if let Some(inputs) = self.output.as_ref().and_then(|output| output.inputs.as_ref()) {
            check_inputs(inputs, sink);
        }
        if let Some(lists) = &self.lists
            && let Some(text) = &lists.ttl
        {
            duration(text, lists.ttl_ms(), &FieldPath::spec(["lists", "ttl"]), sink);
        }
        if let Some(keys) = self.access.as_ref().and_then(|access| access.api_keys.as_ref())
            && !is_secret_name(&keys.secret_ref.name)
        {
            let path = FieldPath::spec(["access", "apiKeys", "secretRef"]).key("name");
            sink.error(&path, "is not a valid Kubernetes name", "use only a-z A-Z 0-9 - _ and .");
        }
        if self.enforcement == Enforcement::Enforced && self.filters.as_ref().is_some_and(Vec::is_empty) {
            let remedy = "name the filter sets that protect it";
            sink.warning(
                &FieldPath::spec(["filters"]),
                "an Enforced exposition without filter sets publishes nothing",
                remedy,
            );
        }
    }
}

impl Spec for GatewayGroupSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        let egress = self.egress.iter().flat_map(|egress| [("allow", &egress.allow), ("deny", &egress.deny)]);
        for (field, destinations) in egress {
            for (index, text) in destinations.iter().enumerate().filter(|(_, text)| !is_destination(text)) {
                let path = FieldPath::spec(["egress", field]).index(index);
                let message = format!("`{}` is not an address, network or host", super::excerpt(text));
                sink.error(&path, message, "write 10.1.0.0/16, 192.0.2.7, api.internal or *.example.com");
            }
        }
        let allowed = self.allowed_namespaces.as_ref();
        if allowed.is_some_and(|allowed| allowed.from == NamespacesFrom::Selector && allowed.selector.is_none()) {
            let path = FieldPath::spec(["allowedNamespaces", "selector"]);
            sink.error(&path, "is missing, so no namespace is allowed", "add `matchLabels`, or write `from: Same`");
        }
        if allowed.is_some_and(|allowed| allowed.from != NamespacesFrom::Selector && allowed.selector.is_some()) {
            let path = FieldPath::spec(["allowedNamespaces", "selector"]);
            sink.error(&path, "has no effect without `from: Selector`", "add that, or remove it");
        }
        if let Some(quantity) = &self.max_response_bytes {
            response_bytes(quantity, &FieldPath::spec(["maxResponseBytes"]), sink);
        }
        if let Some(text) = &self.max_timeout {
            duration(text, self.max_timeout_ms(), &FieldPath::spec(["maxTimeout"]), sink);
        }
        if let Some(Memory(Quantity(text))) = self.memory.as_ref().filter(|memory| memory.bytes().is_none()) {
            let message = format!("`{}` is not a number of bytes from 16Mi to 1024Gi", super::excerpt(text));
            sink.error(&FieldPath::spec(["memory"]), message, "write a number, optionally with k, M, G, Ki, Mi or Gi");
        }
        if let (Some(number), None) = (self.workers, self.worker_threads()) {
            let message = format!("{number} is not a number from 1 to {}", Self::MAX_WORKERS);
            sink.error(&FieldPath::spec(["workers"]), message, "write one, or remove the field");
        }
        if let Some(tls) = self.listener.as_ref().and_then(|listener| listener.tls.as_ref())
            && !is_secret_name(&tls.secret_ref.name)
        {
            let path = FieldPath::spec(["listener", "tls", "secretRef"]).key("name");
            sink.error(&path, "is not a valid Kubernetes name", "use only a-z A-Z 0-9 - _ and .");
        }
        let url = self.listener.as_ref().and_then(|listener| listener.external_url.as_deref());
        if url.is_some_and(|url| !Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))) {
            let path = FieldPath::spec(["listener", "externalUrl"]);
            sink.error(&path, "is not a URL", "write https://HOST");
        }
        if let Some(tracing) = &self.tracing {
            if !is_collector(&tracing.endpoint) {
                let path = FieldPath::spec(["tracing", "endpoint"]);
                let problem = "is not the base URL of a collector without user, password and query";
                sink.error(&path, problem, "write http://HOST:4318");
            }
            if tracing.sampling_rate_per_million.is_some_and(|rate| rate > 1_000_000) {
                let path = FieldPath::spec(["tracing", "samplingRatePerMillion"]);
                sink.error(&path, "is greater than 1000000", "write at most 1000000");
            }
        }
    }
}

/// Returns whether spans can be sent to an endpoint.
fn is_collector(endpoint: &str) -> bool {
    Url::parse(endpoint).is_ok_and(|url| {
        let bare = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && bare && url.query().is_none() && url.fragment().is_none()
    })
}

impl Spec for CustomToolsSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        service_ref(&self.service, sink);
        bounded(self.custom_tools.len(), &FieldPath::spec(["customTools"]), sink);
        if self.custom_tools.is_empty() {
            sink.warning(&FieldPath::spec(["customTools"]), "makes no tool", "add one");
        }
    }
}

impl Spec for PromptsSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        service_ref(&self.service, sink);
        at_most(MAX_CONTENT, self.prompts.len(), &FieldPath::spec(["prompts"]), sink);
        if self.prompts.is_empty() {
            sink.warning(&FieldPath::spec(["prompts"]), "has no prompt", "add one");
        }
    }
}

impl Spec for ResourcesSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        service_ref(&self.service, sink);
        at_most(MAX_CONTENT, self.resources.len(), &FieldPath::spec(["resources"]), sink);
        at_most(MAX_CONTENT, self.resource_templates.len(), &FieldPath::spec(["resourceTemplates"]), sink);
        if self.resources.is_empty() && self.resource_templates.is_empty() {
            sink.warning(&FieldPath::spec(["resources"]), "has no resource", "add one");
        }
    }
}

impl Spec for ConfigurationPlanSpec {
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        let call = self.timeouts.as_ref().and_then(|timeouts| timeouts.call.as_deref());
        if let Some(text) = call {
            duration(text, self.call_timeout_ms(), &FieldPath::spec(["timeouts", "call"]), sink);
        }
    }
}

/// Returns whether a name is valid for a Secret. It is also a file name (`--secrets`), so it must not lead out of its
/// folder.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 253 && !name.starts_with('.') && name.chars().all(allowed)
}

fn duration(text: &str, ms: Option<u64>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if !ms.is_some_and(|ms| (1..=MAX_DURATION_MS).contains(&ms)) {
        let message = format!("`{}` is not a duration from 1ms to 1h", super::excerpt(text));
        sink.error(at, message, "write a number with ms, s, m or h, for example 30s");
    }
}

fn service_ref(service: &ServiceRef, sink: &mut DiagnosticSink<'_>) {
    for (field, text) in [("name", &service.name), ("version", &service.version)] {
        if text.trim().is_empty() {
            sink.error(&FieldPath::spec(["service", field]), "is empty", "write the value of the ServiceManifest");
        }
    }
}

fn check_limits(limits: &LimitsSpec, sink: &mut DiagnosticSink<'_>) {
    let at = FieldPath::spec(["limits"]);
    let counts =
        [("requestsPerSecond", limits.requests_per_second), ("burst", limits.burst), ("concurrent", limits.concurrent)];
    for (field, _) in counts.iter().filter(|(_, count)| *count == Some(0)) {
        sink.error(&at.key(field), "0 rejects every call", "set a larger number, or remove the field for no limit");
    }
    if limits.burst.is_some() && limits.requests_per_second.is_none() {
        sink.error(&at.key("burst"), "has no effect without `requestsPerSecond`", "add that, or remove it");
    }
    if let Some(text) = &limits.timeout {
        duration(text, limits.timeout_ms(), &at.key("timeout"), sink);
    }
    if let Some(quantity) = &limits.max_response_bytes {
        response_bytes(quantity, &at.key("maxResponseBytes"), sink);
    }
    if let Some(OutputLimitsSpec { bytes, tokens }) = limits.output {
        let at = at.key("output");
        if bytes.is_none() && tokens.is_none() {
            sink.error(&at, "sets no limit", "set `bytes` or `tokens`, or remove it");
        }
        for (field, _) in [("bytes", bytes), ("tokens", tokens)].iter().filter(|(_, limit)| *limit == Some(0)) {
            sink.error(&at.key(field), "0 allows no answer", "set a larger number, or remove the field for no limit");
        }
    }
}

/// The fields of an exposition that say how a service is published, and why a bundle has none of them.
const OF_A_SERVICE: [(&str, &str); 9] = [
    ("filters", "set it in the expositions of the bundle"),
    ("enforcement", "set it in the expositions of the bundle"),
    ("tools", "select tools in the expositions of the bundle"),
    ("prompts", "select prompts in the expositions of the bundle"),
    ("resources", "select resources in the expositions of the bundle"),
    ("configurationPlan", "set it in the expositions of the bundle"),
    ("tokens", "set it in the expositions of the bundle; `limits.output.tokens` is counted as each of them says"),
    ("output", "set it in the expositions of the bundle"),
    ("audit", "set it in the expositions of the bundle; each call is recorded as its exposition says"),
];

/// Checks an exposition that bundles others.
fn check_bundle(spec: &ExpositionSpec, parts: &[BundlePartSpec], sink: &mut DiagnosticSink<'_>) {
    for (field, remedy) in OF_A_SERVICE.iter().filter(|(field, _)| sink.sets(field)).collect::<Vec<_>>() {
        sink.error(&FieldPath::spec([field]), "is not allowed in a bundle", format!("remove it; {remedy}"));
    }
    if spec.access.as_ref().is_some_and(|access| access.bundle_only == Some(true)) {
        let remedy = "remove it; bundles cannot be nested";
        sink.error(&FieldPath::spec(["access", "bundleOnly"]), "is not allowed in a bundle", remedy);
    }
    let at = FieldPath::spec(["expositions"]);
    if parts.is_empty() {
        sink.error(&at, "names no exposition", "add one, for example {name: github, prefix: gh_}");
    }
    if parts.len() > BundleDocument::MAX_PARTS {
        let message = format!("has {} entries, more than the limit of {}", parts.len(), BundleDocument::MAX_PARTS);
        sink.error(&at, message, "split the bundle");
    }
    for (index, BundlePartSpec { name, prefix }) in parts.iter().enumerate() {
        let at = at.index(index);
        if !is_object_name(name) {
            let message = format!("`{}` is not the name of an Exposition", super::excerpt(name));
            let remedy = "write the metadata.name of an Exposition of the same namespace";
            sink.error(&at.key("name"), message, remedy);
        } else if parts[..index].iter().any(|earlier| earlier.name == *name) {
            sink.error(&at.key("name"), format!("`{name}` occurs twice"), "remove the duplicate");
        }
        if !BundlePart::is_prefix(prefix) {
            let message = format!("`{}` cannot begin the name of a tool", super::excerpt(prefix));
            let remedy = format!("use at most {} of A-Z a-z 0-9 _ . / -", BundlePart::MAX_PREFIX);
            sink.error(&at.key("prefix"), message, remedy);
        }
    }
}

/// Returns whether a text can be the name of an object of the API (RFC 1123).
fn is_object_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= 253 && name.chars().all(inner) && end(name.chars().next()) && end(name.chars().next_back())
}

/// Checks which reserved inputs the tools advertise.
fn check_inputs(inputs: &[ReservedInput], sink: &mut DiagnosticSink<'_>) {
    let at = FieldPath::spec(["output", "inputs"]);
    for (index, input) in inputs.iter().enumerate().filter(|(index, input)| inputs[..*index].contains(input)) {
        sink.error(&at.index(index), format!("`{input}` occurs twice"), "remove the duplicate");
    }
    let has = |input| inputs.contains(&input);
    for (one, other) in [(ReservedInput::Offset, ReservedInput::Limit), (ReservedInput::Limit, ReservedInput::Offset)] {
        if has(one) && !has(other) {
            let remedy = format!("add `{other}`, or remove `{one}`");
            sink.error(&at, format!("has `{one}` without `{other}`"), remedy);
        }
    }
}

fn response_bytes(quantity: &Quantity, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if !quantity.bytes().is_some_and(|bytes| (1..=MAX_RESPONSE_BYTES).contains(&bytes)) {
        let Quantity(text) = quantity;
        let message = format!("`{}` is not a number of bytes up to 1Gi", super::excerpt(text));
        sink.error(at, message, "write a number, optionally with k, M, G, Ki, Mi or Gi");
    }
}

/// Returns whether a text is a network, an address, a host name, or `*.` and a domain.
fn is_destination(text: &str) -> bool {
    let address = |text: &str| text.parse::<std::net::IpAddr>().ok();
    if let Some((network, bits)) = text.split_once('/') {
        let longest = address(network).map(|ip| if ip.is_ipv4() { 32 } else { 128 });
        return longest.is_some_and(|longest| bits.parse::<u8>().is_ok_and(|bits| bits <= longest));
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    address(text).is_some() || matches!(Host::parse(name), Ok(Host::Domain(_)))
}
