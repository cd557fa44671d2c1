//! Validation rules of the kinds, beyond the types of their fields: bounds and CEL rules.
//!
//! The compile step checks all of this again, and more: files never meet an API server, and neither does an object that was
//! stored under an older definition. Messages state the constraint and, where it is not obvious, the remedy; the API server
//! prefixes the field. Bounds are generous. Most exist because the API server must estimate the cost of a rule.

mod exposition;
mod group;

use serde_json::{Value as Json, json};

use super::structural::{RULES, rule};

/// Maximum number of tools of one service, and of filters of one set.
pub(crate) const MAX_TOOLS: u32 = 5000;
/// Maximum number of entries of `retain`, `patches`, `select` and `exclude`, and of branches of a filter, as in the engine.
const MAX_STAGE_ENTRIES: u32 = 1000;
/// Maximum number of regular expressions in `text.strip` and in `text.keep`, and of characters of each, as in the engine.
const MAX_PATTERNS: (u32, u32) = (256, 4096);
/// Maximum number of characters of a JSON Pointer or of a source path.
const MAX_PATH: u32 = 4096;
/// Maximum number of characters of a template, as in the engine.
const MAX_TEMPLATE: u32 = 65_536;
/// Maximum number of levels of a filter, as in the engine.
const MAX_LEVELS: u32 = 8;
/// Maximum number of file patterns with weights, and of characters of a noun, as in the engine.
const MAX_WEIGHTS: u32 = 256;
const MAX_NOUN: u32 = 40;
/// Maximum number of filter sets of one exposition.
const MAX_SETS: u32 = 64;
/// Maximum number of entries of other lists and maps.
const MAX_ENTRIES: u32 = 256;
/// The most arguments of a program, and the most variables.
pub(crate) const MAX_WORDS: u32 = 64;
/// Maximum number of characters of a name or version.
pub(super) const MAX_NAME: u32 = 128;
/// Maximum number of characters of a URL.
const MAX_URL: u32 = 2048;

/// Returns the keywords to add to the schemas, by place.
pub(super) fn additions() -> Vec<(&'static str, Json)> {
    [
        common(),
        manifest(),
        filters(),
        super::content::additions(),
        exposition::additions(),
        plan(),
        group::additions(),
        carrier(),
    ]
    .concat()
}

/// Returns the rules on whole objects of a kind. Only metadata and `spec` as a whole are visible there.
pub(super) fn on_object(kind: &str) -> Vec<Json> {
    let name = "self.metadata.name.size() <= 63";
    match kind {
        // `tamis-<group>-credentials-<shard>` is the longest name made of it, and a Deployment's pods add 17 characters:
        // 40 leaves room in the 63 of a label.
        "GatewayGroup" => vec![rule(
            "self.metadata.name.size() <= 40 && !self.metadata.name.contains('.')",
            "metadata.name must have at most 40 characters of a-z, 0-9 and -; it becomes part of the names of Services, Secrets and pods",
        )],
        "GatewayConfig" => Vec::new(),
        "Exposition" => vec![rule(name, "metadata.name must have at most 63 characters; it becomes a label")],
        _ => vec![rule(name, "metadata.name must have at most 63 characters")],
    }
}

/// Some document is named.
const ANY_DOCUMENT: &str = "has(self.inline) || has(self.file) || has(self.configMapRef)";
/// Not two of them, with what is said otherwise.
const ONE_DOCUMENT: (&str, &str) = (
    "!has(self.inline) || !has(self.configMapRef)",
    "`configMapRef` and `inline` are mutually exclusive; remove one of them",
);

fn rules<const N: usize>(rules: [(&str, &str); N]) -> Json {
    json!({ RULES: rules.map(|(cel, message)| rule(cel, message)).to_vec() })
}

/// A non-empty string of at most `longest` characters.
pub(super) fn text(longest: u32) -> Json {
    json!({ "minLength": 1, "maxLength": longest })
}

/// A map with at most [`MAX_ENTRIES`] entries.
fn entries() -> Json {
    json!({ "maxProperties": MAX_ENTRIES })
}

fn entries_of_a_list() -> Json {
    json!({ "maxItems": MAX_ENTRIES })
}

/// A list of distinct names of filter sets. The order matters, so the API server must not treat it as a set.
fn set_names() -> Json {
    json!({
        "maxItems": MAX_SETS,
        RULES: [rule("self.all(set, self.exists_one(other, other == set))", "a filter set occurs twice; remove the duplicate")],
    })
}

/// The URL of an upstream. `instead`: the remedy for a query.
fn upstream_url(instead: &str) -> Json {
    // A match on the text, not on `url(self).getHostname()`, whose length the API server cannot bound.
    let http = "self.matches('(?i)^(https:|http://(([^/:@]*[.])?localhost|[^/:@]*[.]svc([.]cluster[.]local)?|127[.][0-9.]+|\\\\[::1\\\\])[.]?([:/]|$))') || !isURL(self)";
    json!({
        "minLength": 1,
        "maxLength": MAX_URL,
        RULES: [
            rule(
                "isURL(self) && url(self).getScheme() in ['http', 'https']",
                "must be an HTTP or HTTPS URL, for example https://HOST",
            ),
            rule("!self.contains('?') && !self.contains('#')", &format!("must have no query and no fragment; {instead}")),
            rule(http, "http is allowed for loopback and in-cluster names only; use https"),
        ],
    })
}

fn secret_name() -> Json {
    // The name is also a file name under `tamis serve --secrets`.
    json!({ "minLength": 1, "maxLength": 253, "pattern": "^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$" })
}

/// A reference is written as a whole: two writers of one half each would create a reference that neither intended.
fn atomic() -> Json {
    json!({ "x-kubernetes-map-type": "atomic" })
}

/// A map by tool, with one owner under server-side apply. For a map that is not atomic, the API server records the owner of
/// every field below it, in quadratic time if the map is open, and it turns the map into null when its last entry is removed.
fn tools() -> Json {
    json!({ "maxProperties": MAX_TOOLS, "x-kubernetes-map-type": "atomic" })
}

fn common() -> Vec<(&'static str, Json)> {
    let named = |field: &str| {
        format!("['header', 'query', 'body'].exists(type, type == self.type) ? has(self.{field}) : !has(self.{field})")
    };
    let auth = json!({ RULES: [
        rule(&named("name"), "`name` is required for types header, query and body, and not allowed for other types"),
        rule("!has(self.prefix) || self.type == 'header'", "`prefix` is allowed for type header only; remove it"),
        rule("!has(self.username) || self.type == 'basic'", "`username` is allowed for type basic only; remove it"),
        rule(
            "(self.type == 'none') != has(self.secretRef)",
            "`secretRef: {name: .., key: ..}` is required for every type but none, and not allowed for type none",
        ),
    ] });
    vec![
        ("ServiceRef", atomic()),
        ("ServiceRef.name", text(MAX_NAME)),
        ("ServiceRef.version", text(MAX_NAME)),
        ("NamespacedName", atomic()),
        ("NamespacedName.name", text(253)),
        ("NamespacedName.namespace", text(63)),
        ("LocalName", atomic()),
        ("LocalName.name", text(253)),
        ("SecretKeyRef", atomic()),
        ("SecretKeyRef.name", secret_name()),
        ("SecretKeyRef.key", secret_name()),
        ("ConfigMapKeyRef", atomic()),
        ("ConfigMapKeyRef.name", text(253)),
        ("ConfigMapKeyRef.key", secret_name()),
        ("AuthSpec", auth),
        ("AuthSpec.name", text(256)),
        ("AuthSpec.prefix", json!({ "maxLength": 256 })),
        ("AuthSpec.username", json!({ "maxLength": 256, "pattern": "^[^:]*$" })),
        (
            "Memory",
            json!({
                "maxLength": 16,
                RULES: [rule(
                    "type(self) == int ? self >= 16777216 && self <= 1099511627776 : \
                     self.matches('^[0-9]+(k|M|G|Ki|Mi|Gi)?$') && !quantity(self).isLessThan(quantity('16Mi')) && \
                     !quantity(self).isGreaterThan(quantity('1024Gi'))",
                    "must be a number of bytes from 16Mi to 1024Gi; write a number, optionally with k, M, G, Ki, Mi or Gi",
                )],
            }),
        ),
        (
            "Quantity",
            json!({
                "maxLength": 16,
                RULES: [rule(
                    "type(self) == int ? self >= 1 && self <= 1073741824 : \
                     self.matches('^[0-9]+(k|M|G|Ki|Mi|Gi)?$') && !quantity(self).isLessThan(quantity('1')) && \
                     !quantity(self).isGreaterThan(quantity('1Gi'))",
                    "must be a number of bytes from 1 to 1Gi; write a number, optionally with k, M, G, Ki, Mi or Gi",
                )],
            }),
        ),
    ]
}

fn manifest() -> Vec<(&'static str, Json)> {
    let sources = "[has(self.http), has(self.command), has(self.appleScript), has(self.openapi), has(self.graphql), \
        has(self.grpc), has(self.mcp), has(self.llm)].filter(given, given).size() == 1";
    vec![
        (
            "ServiceManifestSpec",
            rules([(sources, "must have exactly one source; set `http`, `mcp`, `openapi`, `graphql` or `grpc`")]),
        ),
        ("ServiceManifestSpec.name", text(MAX_NAME)),
        ("ServiceManifestSpec.version", text(MAX_NAME)),
        ("HttpSpec.baseUrl", upstream_url("move parameters to `request.query`")),
        ("HttpSpec.actions", tools()),
        (
            "McpSpec",
            rules([
                ("has(self.url) != has(self.command)", "must have either `url` or `command`; set one of them"),
                (
                    "has(self.command) || (!has(self.env) && !has(self.secretEnv))",
                    "`env` and `secretEnv` are for a program; set `command`, or remove them",
                ),
                (
                    "!has(self.command) || !has(self.auth)",
                    "`auth` is for `url`; give a program its credential in `secretEnv`",
                ),
                (
                    "!has(self.follow) || !self.follow || !has(self.tools) || size(self.tools) == 0",
                    "must not pin tools if `follow` is true; remove `tools`, or `follow`",
                ),
                (
                    "has(self.tools) || (has(self.follow) && self.follow)",
                    "must have `tools`, or `follow: true`; run `tamis import mcp` to pin the server's tools",
                ),
            ]),
        ),
        // A field of any type is not visible to rules.
        ("OpenApiSpec", json!({ "oneOf": [{ "required": ["inline"] }, { "required": ["configMapRef"] }] })),
        (
            "OpenApiSpec",
            rules([(
                "!has(self.file)",
                "`file` names a file next to the manifest, and a cluster has none; name a ConfigMap in `configMapRef`, or write the document into `inline`",
            )]),
        ),
        ("OpenApiSpec.file", text(MAX_NAME)),
        ("OpenApiSpec.baseUrl", upstream_url("move parameters to `request.query`")),
        ("OpenApiSpec.overrides", json!({ "maxProperties": MAX_ENTRIES, "x-kubernetes-map-type": "atomic" })),
        (
            "GraphQlSpec",
            rules([
                (
                    "!has(self.file)",
                    "`file` names a file next to the manifest, and a cluster has none; name a ConfigMap in `configMapRef`, or write the schema into `inline`",
                ),
                (ANY_DOCUMENT, "has no schema; name a ConfigMap in `configMapRef`, or write it into `inline`"),
                ONE_DOCUMENT,
            ]),
        ),
        ("GraphQlSpec.file", text(MAX_NAME)),
        ("GraphQlSpec.baseUrl", upstream_url("write the endpoint alone")),
        ("GraphQlSpec.overrides", json!({ "maxProperties": MAX_ENTRIES, "x-kubernetes-map-type": "atomic" })),
        (
            "GraphQlOperationsSpec",
            rules([
                (
                    "!has(self.file)",
                    "`file` names a file next to the manifest, and a cluster has none; name a ConfigMap in `configMapRef`, or write the operations into `inline`",
                ),
                (ANY_DOCUMENT, "has no document; name a ConfigMap in `configMapRef`, or write it into `inline`"),
                ONE_DOCUMENT,
            ]),
        ),
        ("GraphQlOperationsSpec.file", text(MAX_NAME)),
        (
            "GrpcSpec",
            rules([
                (
                    "!has(self.file)",
                    "`file` names a file next to the manifest, and a cluster has none; name a ConfigMap in `configMapRef`, or write the .proto texts into `inline`",
                ),
                (
                    ANY_DOCUMENT,
                    "has no document; name a ConfigMap in `configMapRef`, or write the .proto texts into `inline`",
                ),
                ONE_DOCUMENT,
                ("!has(self.reflection) || !self.reflection", "`reflection: true` is not implemented yet; remove it"),
            ]),
        ),
        ("GrpcSpec.file", text(MAX_NAME)),
        ("GrpcSpec.inline", entries()),
        ("GrpcSpec.endpoint", upstream_url("write the scheme, the host and the port alone")),
        ("GrpcSpec.overrides", json!({ "maxProperties": MAX_ENTRIES, "x-kubernetes-map-type": "atomic" })),
        ("GrpcMethodsSpec.include", entries_of_a_list()),
        ("GrpcMethodsSpec.exclude", entries_of_a_list()),
        ("GrpcMethodsSpec.include.*", text(MAX_NAME)),
        ("GrpcMethodsSpec.exclude.*", text(MAX_NAME)),
        ("GraphQlFieldsSpec.include", entries_of_a_list()),
        ("GraphQlFieldsSpec.exclude", entries_of_a_list()),
        ("GraphQlFieldsSpec.include.*", text(MAX_NAME)),
        ("GraphQlFieldsSpec.exclude.*", text(MAX_NAME)),
        ("OperationsSpec.include", entries_of_a_list()),
        ("OperationsSpec.exclude", entries_of_a_list()),
        ("OperationsSpec.include.*", text(MAX_URL)),
        ("OperationsSpec.exclude.*", text(MAX_URL)),
        ("OverrideSpec.name", text(64)),
        ("OverrideSpec.errorMapping", entries()),
        ("McpSpec.command", json!({ "minItems": 1, "maxItems": MAX_WORDS })),
        ("McpSpec.command.*", text(4096)),
        ("McpSpec.env", json!({ "maxItems": MAX_WORDS })),
        ("McpSpec.env.*", text(MAX_NAME)),
        ("McpSpec.secretEnv", json!({ "maxProperties": MAX_WORDS })),
        ("McpSpec.url", upstream_url("send a credential with `auth`")),
        ("McpSpec.tools", tools()),
        (
            "ActionSpec.method",
            json!({
                "maxLength": 16,
                RULES: [rule(
                    "self.upperAscii() in ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']",
                    "must be one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS",
                )],
            }),
        ),
        (
            "ActionSpec.path",
            json!({
                "maxLength": MAX_URL,
                RULES: [rule("self.startsWith('/')", "must begin with /; write the path below `baseUrl`, for example /users")],
            }),
        ),
        ("ActionSpec.args", entries()),
        ("ActionSpec.warnings", json!({ "maxItems": MAX_ENTRIES })),
        ("ActionSpec.aliases", json!({ "maxItems": MAX_ENTRIES })),
        ("ActionSpec.errorMapping", entries()),
        ("ArgSpec.enum", json!({ "maxItems": MAX_STAGE_ENTRIES })),
        ("RequestSpec.pathParams", entries()),
        ("RequestSpec.query", entries()),
        ("RequestSpec.headers", entries()),
        ("RetrySpec.maxAttempts", json!({ "minimum": 1, "maximum": 10 })),
        ("RetrySpec.backoffMs", json!({ "maximum": 60_000 })),
        ("RetrySpec.retryOn", json!({ "maxItems": MAX_ENTRIES })),
        ("RetrySpec.retryOn.*", json!({ "minimum": 400, "maximum": 599 })),
        ("PaginationSpec.maxPages", json!({ "minimum": 1, "maximum": 100 })),
        (
            "PaginationSpec",
            rules([(
                "(self.type == 'cursor') == has(self.nextPath)",
                "`nextPath`, the path of the next cursor in an answer, is required for type cursor and not allowed for type offset",
            )]),
        ),
    ]
}

fn filters() -> Vec<(&'static str, Json)> {
    let mut all = vec![
        ("ToolsFiltersSpec.name", text(MAX_NAME)),
        ("ToolsFiltersSpec.filters", tools()),
        ("CustomToolsSpec.customTools", tools()),
        ("CustomToolSpec.tool", text(64)),
        ("CustomToolSpec.arguments", entries()),
    ];
    all.extend(stages());
    all
}

/// The fields of one filter. Constraints between fields are left to the policy `tamis-filters`: a rule here would be
/// multiplied by the tools, branches and operations that the bounds admit, which exceeds what the API server accepts.
fn stages() -> Vec<(&'static str, Json)> {
    // `~2` is a literal `*`, in paths where `*` is a glob.
    let pointer = |escapes: &str| json!({ "maxLength": MAX_PATH, "pattern": format!("^([^~]|~[{escapes}])*$") });
    let (strict, extended) = (pointer("01"), pointer("012"));
    let patterns = || json!({ "maxItems": MAX_PATTERNS.0 });
    let pattern = || json!({ "maxLength": MAX_PATTERNS.1 });
    let template = || json!({ "maxLength": MAX_TEMPLATE });
    vec![
        ("ToolFilter", json!({ "maxItems": MAX_STAGE_ENTRIES, "minItems": 1 })),
        ("TestSpec.path", strict.clone()),
        ("FilterSpec.retain", json!({ "minItems": 1, "maxItems": MAX_STAGE_ENTRIES })),
        ("FilterSpec.retain.*", extended),
        ("FilterSpec.patches", json!({ "maxItems": MAX_STAGE_ENTRIES })),
        ("PatchSpec", json!({ "required": ["op", "path"] })),
        // Not an `enum`: the API server joins the errors of a schema in quadratic time, whereas the policy stops at the first.
        ("PatchSpec.op", json!({ "maxLength": 16 })),
        ("PatchSpec.path", strict.clone()),
        ("PatchSpec.from", strict.clone()),
        ("FilterSpec.root", strict),
        ("FilterSpec.maxItems", json!({ "minimum": 0 })),
        ("FilterSpec.select", json!({ "minProperties": 1, "maxProperties": MAX_STAGE_ENTRIES })),
        ("FilterSpec.select.*", text(MAX_PATH)),
        ("FilterSpec.exclude", json!({ "maxItems": MAX_STAGE_ENTRIES })),
        ("FilterSpec.exclude.*", text(MAX_PATH)),
        ("TextSpec.strip", patterns()),
        ("TextSpec.strip.*", pattern()),
        ("TextSpec.keep", patterns()),
        ("TextSpec.keep.*", pattern()),
        ("TextSpec.maxLines", json!({ "minimum": 0 })),
        ("TextSpec.onEmpty", template()),
        (
            "OutputSpec.preset",
            json!({ "enum": ["issues", "pulls", "merge_requests", "diffs", "comments", "discussions", "logs"] }),
        ),
        ("FormatSpec", json!({ "maxLength": 16, "maxItems": 3 })),
        ("FormatSpec.*", json!({ "maxLength": 16 })),
        ("OutputSpec.structured", json!({ "enum": ["always", "schema", "never"] })),
        ("OutputSpec.inputs", json!({ "maxItems": 16 })),
        ("OutputSpec.inputs.*", json!({ "enum": ["_format", "_budget_tokens"] })),
        ("BudgetSpec.bytes", json!({ "minimum": 1 })),
        ("BudgetSpec.tokens", json!({ "minimum": 1 })),
        ("StrategySpec", json!({ "maxLength": 32 })),
        ("StrategyFields.name", json!({ "maxLength": 32 })),
        ("StrategyFields.group", text(MAX_PATH)),
        ("StrategyFields.newest", json!({ "enum": ["last", "first"] })),
        ("StrategyFields.path", text(MAX_PATH)),
        ("StrategyFields.weights", json!({ "minProperties": 1, "maxProperties": MAX_WEIGHTS })),
        ("StrategyFields.weights.*", json!({ "minimum": 0, "maximum": 1 })),
        ("StrategyFields.resolved", text(MAX_PATH)),
        ("StrategyFields.comments", text(MAX_PATH)),
        ("StrategyFields.boost", json!({ "minItems": 1, "maxItems": MAX_PATTERNS.0 })),
        ("StrategyFields.boost.*", pattern()),
        ("OutputSpec.algorithm", json!({ "enum": ["knapsack", "greedy", "fair", "head_tail"] })),
        ("OutputSpec.levels", json!({ "minProperties": 1, "maxProperties": MAX_LEVELS })),
        ("OutputSpec.levels.*", json!({ "minItems": 1, "maxItems": MAX_STAGE_ENTRIES })),
        ("OutputSpec.levels.*.*", text(MAX_PATH)),
        ("ChunksSpec.noun", text(MAX_NOUN)),
        ("ChunksSpec.summary", template()),
        ("ToonSpec.indent", json!({ "minimum": 1, "maximum": 8 })),
        ("ToonSpec.delimiter", json!({ "enum": ["comma", "tab", "pipe"] })),
        ("CompactSpec", json!({ "required": ["item"] })),
        ("CompactSpec.header", template()),
        ("CompactSpec.item", text(MAX_TEMPLATE)),
        ("CompactSpec.footer", template()),
    ]
}

fn plan() -> Vec<(&'static str, Json)> {
    vec![
        ("ConfigurationPlanSpec.endpoint", upstream_url("move parameters to `request.query`")),
        ("ConfigurationPlanSpec.filters", set_names()),
        ("ConfigurationPlanSpec.filters.*", text(MAX_NAME)),
        ("PlanHeadersSpec.set", entries()),
        ("PlanHeadersSpec.remove", json!({ "maxItems": MAX_ENTRIES })),
        ("PlanHeadersSpec.remove.*", text(256)),
    ]
}

fn carrier() -> Vec<(&'static str, Json)> {
    vec![
        ("GatewayConfigSpec.gatewayGroup", text(253)),
        ("GatewayConfigSpec.digest", json!({ "pattern": "^[0-9a-f]{64}$" })),
        (
            "GatewayConfigSpec",
            rules([(
                "self.part < self.parts",
                "`part` must be less than `parts`; only the operator writes GatewayConfigs",
            )]),
        ),
    ]
}
