//! Objects that the definitions refuse and take.

use serde_json::{Value, json};

use crate::object;

/// The spec of a GatewayConfig; what it holds is nothing to the API server.
pub(crate) fn config() -> Value {
    json!({
        "gatewayGroup": "default", "kind": "Service", "digest": "0".repeat(64), "formatVersion": 1,
        "part": 0, "parts": 1, "data": "YQ==",
    })
}

pub(crate) fn custom_tools() -> Value {
    let tool = json!({
        "tool": "list-issues", "input": { "type": "object", "properties": { "n": { "type": "integer" } } },
        "arguments": { "owner": "acme", "number": 1, "deep": { "a": [null, 1.5] } },
    });
    object("CustomTools", "tools", &json!({ "service": service(), "customTools": { "ours": tool } }))
}

pub(crate) fn prompts() -> Value {
    let arguments = json!([{ "name": "a", "required": true }, { "name": "b", "enum": ["x", "y"], "default": "x" }]);
    let messages = json!([{ "role": "user", "text": "{a}" }, { "role": "assistant", "text": "{b}" }]);
    let talk = json!({ "title": "T", "description": "D", "arguments": arguments, "result": messages });
    object(
        "Prompts",
        "prompts",
        &json!({ "service": service(), "prompts": { "ask": { "result": "Ask" }, "talk": talk } }),
    )
}

pub(crate) fn resources() -> Value {
    let readme = json!({ "name": "readme", "mimeType": "text/plain", "text": "t", "annotations": { "priority": 0.5 },
        "icons": [{ "src": "https://a.example/i.png", "sizes": ["48x48"] }] });
    let page = json!({ "name": "page", "variables": { "page": { "enum": ["a", "b"] } } });
    object(
        "Resources",
        "resources",
        &json!({ "service": service(),
        "resources": { "docs://readme": readme, "docs://logo": { "name": "logo", "blob": "AAEC" } },
        "resourceTemplates": { "docs://pages/{page}": page } }),
    )
}

fn service() -> Value {
    json!({ "name": "s", "version": "1" })
}

fn with(mut base: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    base
}

fn bundle(more: &Value) -> Value {
    object("Exposition", "e", &with(json!({ "expositions": [{ "name": "b", "prefix": "b_" }] }), more))
}

fn exposition(more: &Value) -> Value {
    object("Exposition", "e", &with(json!({ "service": service() }), more))
}

fn group(spec: &Value) -> Value {
    object("GatewayGroup", "g", spec)
}

fn plan(spec: &Value) -> Value {
    object("ConfigurationPlan", "p", spec)
}

fn http(more: &Value) -> Value {
    let http = with(json!({ "baseUrl": "https://a.example", "actions": {} }), more);
    object("ServiceManifest", "m", &json!({ "version": "1", "http": http }))
}

/// A manifest of an MCP server. Its schema holds what the API server could drop or rewrite: null, and whole numbers as doubles.
fn mcp(more: &Value) -> Value {
    let schema =
        json!({ "type": "object", "properties": { "a": { "default": null, "const": [null, 1.5], "x-a": {} } } });
    let tool =
        json!({ "inputSchema": schema, "outputSchema": true, "annotations": { "readOnlyHint": true, "mine": null } });
    let mcp = with(json!({ "url": "https://a.example/mcp", "tools": { "a/b.c": tool } }), more);
    object("ServiceManifest", "m", &json!({ "version": "1", "mcp": mcp }))
}

fn action(more: &Value) -> Value {
    http(&json!({ "actions": { "a": with(json!({ "path": "/a" }), more) } }))
}

pub(crate) fn bad() -> Vec<(Value, &'static str)> {
    let secret = json!({ "name": "s", "key": "k" });
    let mut table = vec![
        // Names.
        (
            object("GatewayGroup", &"g".repeat(41), &json!({})),
            "metadata.name must have at most 40 characters of a-z, 0-9 and -",
        ),
        (object("GatewayGroup", "a.b", &json!({})), "metadata.name must have at most 40 characters of a-z, 0-9 and -"),
        (
            object("Exposition", &"e".repeat(64), &json!({ "service": service() })),
            "metadata.name must have at most 63 characters; it becomes a label",
        ),
        (
            object("ServiceManifest", &"m".repeat(64), &json!({ "version": "1" })),
            "metadata.name must have at most 63 characters",
        ),
        // ServiceManifest.
        (object("ServiceManifest", "m", &json!({ "version": "1" })), "must have exactly one source; set `http`"),
        (
            object(
                "ServiceManifest",
                "m",
                &json!({ "version": "1", "http": { "baseUrl": "https://a.example", "actions": {} },
                "mcp": { "url": "https://a.example", "tools": {} } }),
            ),
            "must have exactly one source; set `http`, `mcp`, `openapi`, `graphql` or `grpc`",
        ),
        (mcp(&json!({ "url": "http://a.example/mcp" })), "http is allowed for loopback and in-cluster names only"),
        (mcp(&json!({ "url": "https://a.example?a=b" })), "no fragment; send a credential with `auth`"),
        (mcp(&json!({ "follow": true })), "must not pin tools if `follow` is true"),
        (mcp(&json!({ "command": ["a", "b"] })), "must have either `url` or `command`; set one of them"),
        (mcp(&json!({ "tools": { "a": { "description": "no schema" } } })), "inputSchema"),
        (mcp(&json!({ "tools": { "a": { "inputSchema": {}, "response": {} } } })), "response"),
        (mcp(&json!({ "auth": { "type": "bearer" } })), "`secretRef: {name: .., key: ..}` is required"),
        (object("ServiceManifest", "m", &json!({ "version": 1 })), "spec.version"),
        (object("ServiceManifest", "m", &json!({ "version": "", "llm": {} })), "spec.version"),
        (
            object("ServiceManifest", "m", &json!({ "version": "1", "llm": {} })),
            "`llm` is not implemented yet; remove it",
        ),
        (
            object("ServiceManifest", "m", &json!({ "version": "1", "graphql": { "baseUrl": "https://a.example" } })),
            "has no schema; name a ConfigMap in `configMapRef`, or write it into `inline`",
        ),
        (
            object(
                "ServiceManifest",
                "m",
                &json!({ "version": "1", "graphql": { "baseUrl": "https://a.example", "file": "a.graphql" } }),
            ),
            "a cluster has none; name a ConfigMap in `configMapRef`, or write the schema into `inline`",
        ),
        (
            object("ServiceManifest", "m", &json!({ "version": "1", "openapi": {} })),
            "spec.openapi.inline: Required value",
        ),
        (
            object("ServiceManifest", "m", &json!({ "version": "1", "openapi": { "inline": {}, "file": "a.yaml" } })),
            "a cluster has none; name a ConfigMap in `configMapRef`, or write the document into `inline`",
        ),
        (
            object(
                "ServiceManifest",
                "m",
                &json!({ "version": "1", "openapi": { "inline": {}, "configMapRef": { "name": "a", "key": "b" } } }),
            ),
            "must validate one and only one schema (oneOf)",
        ),
        (
            object(
                "ServiceManifest",
                "m",
                &json!({ "version": "1", "openapi": { "configMapRef": { "name": "a", "key": "b/c" } } }),
            ),
            "spec.openapi.configMapRef.key",
        ),
        (
            object(
                "ServiceManifest",
                "m",
                &json!({ "version": "1", "graphql": { "baseUrl": "https://a.example", "inline": "type Query { a: Int }",
                "configMapRef": { "name": "a", "key": "b" } } }),
            ),
            "`configMapRef` and `inline` are mutually exclusive; remove one of them",
        ),
        (
            object("ServiceManifest", "m", &json!({ "version": "1", "llm": { "a": 1 } })),
            "spec.llm: Invalid value: `llm` is not implemented",
        ),
        (http(&json!({ "baseUrl": "a.example" })), "must be an HTTP or HTTPS URL, for example https://HOST"),
        (http(&json!({ "baseUrl": "ftp://a.example" })), "must be an HTTP or HTTPS URL"),
        (http(&json!({ "baseUrl": "http://a.example" })), "http is allowed for loopback and in-cluster names only"),
        (http(&json!({ "baseUrl": "http://localhost.evil.example" })), "http is allowed for loopback"),
        (http(&json!({ "baseUrl": "http://a.svc@evil.example" })), "http is allowed for loopback"),
        (http(&json!({ "baseUrl": "https://a.example?a=b" })), "must have no query and no fragment"),
        (http(&json!({ "auth": { "type": "bearer" } })), "`secretRef: {name: .., key: ..}` is required"),
        (http(&json!({ "auth": { "type": "none", "secretRef": secret } })), "not allowed for type none"),
        (
            http(&json!({ "auth": { "type": "header", "secretRef": secret } })),
            "`name` is required for types header, query and body",
        ),
        (
            http(&json!({ "auth": { "type": "bearer", "name": "a", "secretRef": secret } })),
            "not allowed for other types",
        ),
        (
            http(&json!({ "auth": { "type": "bearer", "prefix": "a", "secretRef": secret } })),
            "`prefix` is allowed for type header only",
        ),
        (
            http(&json!({ "auth": { "type": "bearer", "username": "a", "secretRef": secret } })),
            "`username` is allowed for type basic only",
        ),
        (http(&json!({ "auth": { "type": "oauth" } })), "supported values: \"header\", \"bearer\""),
        (http(&json!({ "auth": { "type": "bearer", "secretRef": { "name": "../a", "key": "k" } } })), "secretRef.name"),
        (action(&json!({ "method": "FETCH" })), "must be one of GET, HEAD"),
        (action(&json!({ "path": "a" })), "must begin with /"),
        (action(&json!({ "retry": { "maxAttempts": 11 } })), "less than or equal to 10"),
        (action(&json!({ "retry": { "maxAttempts": 2, "backoffMs": 60_001 } })), "less than or equal to 60000"),
        (action(&json!({ "retry": { "maxAttempts": 2, "retryOn": [200] } })), "greater than or equal to 400"),
        (action(&json!({ "pagination": { "type": "cursor" } })), "is required for type cursor"),
        (action(&json!({ "pagination": { "type": "offset", "nextPath": "a" } })), "not allowed for type offset"),
        (action(&json!({ "command": ["ls"] })), "unknown field; remove it"),
        (action(&json!({ "descripton": "a" })), "unknown field; remove it"),
        // Exposition.
        (exposition(&json!({ "service": { "name": "s" } })), "spec.service.version"),
        (exposition(&json!({ "service": { "name": "", "version": "1" } })), "spec.service.name"),
        (exposition(&json!({ "enforcement": "enforced" })), "supported values: \"Advisory\", \"Enforced\""),
        (exposition(&json!({ "filters": ["a", "b", "a"] })), "a filter set occurs twice; remove the duplicate"),
        (exposition(&json!({ "access": {} })), "allows no caller; set `apiKeys`"),
        (exposition(&json!({ "access": { "anonymous": false } })), "allows no caller"),
        (
            exposition(&json!({ "access": { "anonymous": true, "apiKeys": { "secretRef": { "name": "a" } } } })),
            "`anonymous: true` cannot be combined with `apiKeys` or `jwt`",
        ),
        (
            exposition(&json!({ "access": { "bundleOnly": true, "anonymous": true } })),
            "`bundleOnly: true` cannot be combined with other fields",
        ),
        (exposition(&json!({ "expositions": [{ "name": "b" }] })), "must set exactly one of `service`"),
        (object("Exposition", "e", &json!({})), "must set exactly one of `service`"),
        (bundle(&json!({ "filters": ["a"] })), "a bundle sets `gatewayGroup`, `access`, `limits` and `lists` only"),
        (
            bundle(&json!({ "enforcement": "Advisory" })),
            "a bundle sets `gatewayGroup`, `access`, `limits` and `lists` only",
        ),
        (
            bundle(&json!({ "audit": { "mode": "Full" } })),
            "a bundle sets `gatewayGroup`, `access`, `limits` and `lists` only",
        ),
        (bundle(&json!({ "access": { "bundleOnly": true } })), "bundles cannot be nested; remove it"),
        (bundle(&json!({ "expositions": [] })), "spec.expositions"),
        (bundle(&json!({ "expositions": [{ "name": "b" }, { "name": "b" }] })), "an exposition occurs twice"),
        (bundle(&json!({ "expositions": [{ "name": "team/b" }] })), "spec.expositions[0].name"),
        (bundle(&json!({ "expositions": [{ "name": "b", "prefix": "a b" }] })), "spec.expositions[0].prefix"),
        (bundle(&json!({ "expositions": [{ "name": "b", "prefx": "b_" }] })), "spec.expositions: has an unknown field"),
        (exposition(&json!({ "access": { "jwt": { "issuer": "a" } } })), "`jwt` is not implemented yet; remove it"),
        (exposition(&json!({ "limits": { "requestsPerSecond": 0 } })), "greater than or equal to 1"),
        (exposition(&json!({ "limits": { "concurrent": -1 } })), "greater than or equal to 1"),
        (exposition(&json!({ "limits": { "burst": 2 } })), "`burst` has no effect without `requestsPerSecond`"),
        (exposition(&json!({ "limits": { "output": {} } })), "sets no limit; set `bytes` or `tokens`, or remove it"),
        (exposition(&json!({ "limits": { "output": { "tokens": 0 } } })), "greater than or equal to 1"),
        (exposition(&json!({ "limits": { "output": { "bytes": "16Mi" } } })), "spec.limits.output.bytes"),
        (
            exposition(&json!({ "tokens": { "tokenizer": "claude" } })),
            "supported values: \"o200k_base\", \"cl100k_base\"",
        ),
        (exposition(&json!({ "tokens": { "factor": 0 } })), "must be a number from 0.01 to 100; write one"),
        (exposition(&json!({ "tokens": { "factor": 100.5 } })), "must be a number from 0.01 to 100"),
        (exposition(&json!({ "tokens": { "faktor": 1 } })), "spec.tokens.faktor: unknown field"),
        (
            exposition(&json!({ "output": { "inputs": ["_output"] } })),
            "supported values: \"_output_mode\", \"_budget\", \"_budget_tokens\", \"_format\", \"chunk\", \"offset\", \"limit\"",
        ),
        (
            exposition(&json!({ "output": { "inputs": ["chunk", "chunk"] } })),
            "an input occurs twice; remove the duplicate",
        ),
        (
            exposition(&json!({ "output": { "inputs": ["offset"] } })),
            "`offset` and `limit` are advertised together only",
        ),
        (exposition(&json!({ "limits": { "timeout": 30 } })), "spec.limits.timeout"),
        (exposition(&json!({ "limits": { "timeout": "2h" } })), "must be a duration from 1ms to 1h"),
        (exposition(&json!({ "limits": { "timeout": "99999999999999999999h" } })), "spec.limits.timeout"),
        (exposition(&json!({ "audit": {} })), "spec.audit.mode"),
        // GatewayGroup.
        (
            group(&json!({ "replicas": 1, "autoscaling": { "minReplicas": 1, "maxReplicas": 2 } })),
            "`replicas` and `autoscaling` are mutually exclusive",
        ),
        (
            group(&json!({ "autoscaling": { "minReplicas": 3, "maxReplicas": 2 } })),
            "`minReplicas` must not exceed `maxReplicas`",
        ),
        (group(&json!({ "autoscaling": { "minReplicas": 0, "maxReplicas": 2 } })), "greater than or equal to 1"),
        (group(&json!({ "allowedNamespaces": { "from": "Selector" } })), "`selector` is required for `from: Selector`"),
        (
            group(&json!({ "allowedNamespaces": { "from": "All", "selector": { "matchLabels": { "a": "b" } } } })),
            "not allowed otherwise",
        ),
        (
            group(&json!({ "allowedNamespaces": { "from": "Selector", "selector": { "matchLabels": {} } } })),
            "at least 1",
        ),
        (group(&json!({ "listener": { "port": 9090 } })), "9090 is the admin port"),
        (group(&json!({ "listener": { "port": 70_000 } })), "less than or equal to 65535"),
        (group(&json!({ "listener": { "externalUrl": "a.example" } })), "must be an HTTP or HTTPS URL"),
        (group(&json!({ "tracing": {} })), "spec.tracing.endpoint: Required value"),
        (group(&json!({ "tracing": { "endpoint": "otel:4318" } })), "for example http://HOST:4318"),
        (
            group(&json!({ "tracing": { "endpoint": "http://a:b@otel:4318" } })),
            "without user, password, query and fragment",
        ),
        (
            group(&json!({ "tracing": { "endpoint": "http://otel", "samplingRatePerMillion": 1_000_001 } })),
            "less than or equal to 1000000",
        ),
        (group(&json!({ "listener": { "tls": {} } })), "spec.listener.tls.secretRef: Required value"),
        (
            group(&json!({ "listener": { "tls": { "secretRef": { "name": "a", "key": "b" } } } })),
            "unknown field; remove it",
        ),
        (group(&json!({ "listener": { "service": { "loadBalancerClass": "a" } } })), "require `type: LoadBalancer`"),
        (
            group(&json!({ "listener": { "service": { "type": "ClusterIP", "nodePort": 30000 } } })),
            "require `type: NodePort` or `type: LoadBalancer`",
        ),
        (
            group(&json!({ "listener": { "service": { "type": "LoadBalancer", "loadBalancerSourceRanges": ["a"] } } })),
            "must be a network in CIDR notation, for example 203.0.113.0/24",
        ),
        (group(&json!({ "listener": { "service": { "type": "ExternalName" } } })), "supported values: \"ClusterIP\""),
        (group(&json!({ "listener": { "service": { "externalIPs": ["192.0.2.1"] } } })), "unknown field; remove it"),
        (
            group(&json!({ "listener": { "service": { "annotations": { "tamis.dev/desired": "a" } } } })),
            "are reserved for the operator",
        ),
        (group(&json!({ "disruptionBudget": {} })), "must set exactly one of `maxUnavailable` and `minAvailable`"),
        (group(&json!({ "disruptionBudget": { "maxUnavailable": 1, "minAvailable": 1 } })), "exactly one of"),
        (group(&json!({ "disruptionBudget": { "maxUnavailable": "101%" } })), "must be a number or a percentage"),
        (
            group(&json!({ "autoscaling": { "minReplicas": 1, "maxReplicas": 2, "behavior": {
                "scaleUp": { "policies": [{ "type": "Pods", "value": 0, "periodSeconds": 60 }] } } } })),
            "greater than or equal to 1",
        ),
        (
            group(&json!({ "pod": { "tolerations": [{ "operator": "Equal" }] } })),
            "must have a `key`, or `operator: Exists`",
        ),
        (
            group(&json!({ "pod": { "tolerations": [{ "key": "a", "operator": "Exists", "value": "b" }] } })),
            "`value` is not allowed with `operator: Exists`",
        ),
        (
            group(&json!({ "pod": { "tolerations": [{ "key": "a", "tolerationSeconds": 5 }] } })),
            "requires `effect: NoExecute`",
        ),
        (
            group(&json!({ "pod": { "env": [{ "name": "KUBERNETES_SERVICE_HOST", "value": "a" }] } })),
            "use another name",
        ),
        (group(&json!({ "pod": { "env": [{ "name": "LD_PRELOAD", "value": "a" }] } })), "use another name"),
        (group(&json!({ "pod": { "env": [{ "name": "POD_NAMESPACE", "value": "a" }] } })), "use another name"),
        (group(&json!({ "pod": { "env": [{ "name": "1", "value": "a" }] } })), "spec.pod.env[0].name"),
        (
            group(&json!({ "pod": { "env": [{ "name": "A", "value": "a" }, { "name": "A", "value": "b" }] } })),
            "uplicate",
        ),
        (
            group(
                &json!({ "pod": { "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } }] } }),
            ),
            "spec.pod.env[0].value: Required value",
        ),
        (group(&json!({ "pod": { "terminationGracePeriodSeconds": 5 } })), "greater than or equal to 45"),
        (group(&json!({ "pod": { "topologySpreadConstraints": [{ "maxSkew": 1 }] } })), "topologyKey"),
        (group(&json!({ "pod": { "serviceAccountName": "admin" } })), "unknown field; remove it"),
        (group(&json!({ "pod": { "securityContext": { "runAsUser": 0 } } })), "unknown field; remove it"),
        (group(&json!({ "pod": { "command": ["sh"] } })), "unknown field; remove it"),
        (group(&json!({ "pod": { "volumes": [{ "hostPath": { "path": "/" } }] } })), "unknown field; remove it"),
        (group(&json!({ "store": { "redis": {} } })), "`store` is not implemented yet"),
        (group(&json!({ "commands": { "enabled": true } })), "only `tamis serve` runs programs; set false"),
        (group(&json!({ "commands": { "allow": ["ls"] } })), "`allow` is not implemented yet"),
        (group(&json!({ "require": { "audit": "Full" } })), "set `audit: {sink: File}`"),
        (group(&json!({ "pod": { "labels": { "app.kubernetes.io/name": "a" } } })), "are reserved for the operator"),
        (group(&json!({ "pod": { "labels": { "tamis.dev/gateway-group": "a" } } })), "are reserved for the operator"),
        (
            group(&json!({ "pod": { "resources": { "limits": { "memory": "much" } } } })),
            "must be a quantity, for example 500m",
        ),
        (group(&json!({ "pod": { "resources": { "limits": { "gpu": "1" } } } })), "only `cpu` and `memory`"),
        (group(&json!({ "pod": { "imagePullPolicy": "Sometimes" } })), "supported values: \"Always\""),
        (group(&json!({ "pod": { "hostNetwork": true } })), "unknown field; remove it"),
        // The others.
        (plan(&json!({ "endpoint": "http://a.example" })), "http is allowed for loopback"),
        (plan(&json!({ "tls": {} })), "`tls` is not implemented yet"),
        (plan(&json!({ "headers": { "forward": ["a"] } })), "`forward` is not implemented yet"),
        (plan(&json!({ "timeouts": { "call": "soon" } })), "must be a duration from 1ms to 1h"),
        (exposition(&json!({ "lists": { "ttl": "2h" } })), "must be a duration from 1ms to 1h"),
        (plan(&json!({ "filters": ["a", "a"] })), "a filter set occurs twice"),
        (object("CustomTools", "t", &json!({ "service": service(), "customTools": { "a": { "tool": "" } } })), "tool"),
        (object("Prompts", "p", &json!({ "service": service(), "prompts": { "a": { "title": "A" } } })), "result"),
        (
            object(
                "Prompts",
                "p",
                &json!({ "service": service(), "prompts": { "a": { "result": [{ "role": "system", "text": "t" }] } } }),
            ),
            "role",
        ),
        (object("Resources", "r", &json!({ "service": service(), "resources": { "a:/b": { "text": "t" } } })), "name"),
    ];
    let sizes = ["0", "1 MB", "2Gi", "-1", "1e3"].map(|size| json!(size)).into_iter().chain([json!(0), json!(1 << 31)]);
    table.extend(sizes.map(|size| {
        (exposition(&json!({ "limits": { "maxResponseBytes": size } })), "must be a number of bytes from 1 to 1Gi")
    }));
    table
}

pub(crate) fn good() -> Vec<Value> {
    let secret = json!({ "name": "s", "key": "k" });
    let mut objects = vec![
        mcp(&json!({})),
        mcp(
            &json!({ "follow": false, "url": "http://mcp.team-a.svc:8080/mcp", "auth": { "type": "bearer", "secretRef": secret } }),
        ),
        object("GatewayGroup", &"g".repeat(40), &json!({})),
        object("Exposition", "a.b", &json!({ "service": service() })),
        exposition(&json!({ "access": { "anonymous": true } })),
        exposition(&json!({ "access": { "bundleOnly": true } })),
        bundle(
            &json!({ "access": { "anonymous": true }, "limits": { "concurrent": 1 }, "gatewayGroup": { "name": "g" } }),
        ),
        exposition(&json!({ "access": { "apiKeys": { "secretRef": { "name": "partners" } } } })),
        exposition(&json!({
            "tokens": { "tokenizer": "cl100k_base", "factor": 0.01 }, "limits": { "output": { "bytes": 1, "tokens": 8000 } },
            "output": { "inputs": ["_output_mode", "_budget", "_budget_tokens", "_format", "chunk", "offset", "limit"] },
        })),
        exposition(
            &json!({ "tokens": { "factor": 100 }, "limits": { "output": { "tokens": 1 } }, "output": { "inputs": [] } }),
        ),
        exposition(&json!({ "tokens": {}, "output": {} })),
        exposition(&json!({ "filters": [], "limits": { "requestsPerSecond": 1, "burst": 4_294_967_295_u32 } })),
        group(&json!({
            "replicas": 0, "controllerName": "a", "allowedNamespaces": { "from": "Selector", "selector": { "matchLabels": { "a": "" } } },
            "listener": { "port": 8443, "hostname": "mcp.example", "externalUrl": "https://mcp.example/a" },
            "commands": { "enabled": false }, "egress": { "allow": ["10.0.0.0/8"], "deny": ["*.example"] },
            "require": { "access": true, "enforced": true, "audit": "Full" }, "audit": { "sink": "File" },
            "metrics": { "detail": "Exposition" },
            "tracing": { "endpoint": "https://otel.example:4318/in", "samplingRatePerMillion": 0 },
            "pod": {
                "image": "a/b:c", "imagePullPolicy": "Always", "imagePullSecrets": ["a"], "labels": { "a": "b" },
                "resources": { "requests": { "cpu": "250m" }, "limits": { "cpu": "2", "memory": "512Mi" } },
            },
        })),
        group(&json!({
            "autoscaling": { "minReplicas": 2, "maxReplicas": 2, "targetCpuUtilization": 80, "targetMemoryUtilization": 90,
                "behavior": { "scaleUp": { "policies": [{ "type": "Percent", "value": 100, "periodSeconds": 15 }] },
                              "scaleDown": { "stabilizationWindowSeconds": 0, "selectPolicy": "Disabled" } } },
            "disruptionBudget": { "minAvailable": "50%" },
            "listener": {
                "tls": { "secretRef": { "name": "public-tls" } },
                "service": {
                    "type": "LoadBalancer", "annotations": { "a.example/b": "c" }, "loadBalancerClass": "a.example/lb",
                    "loadBalancerSourceRanges": ["203.0.113.0/24", "2001:db8::/32"], "externalTrafficPolicy": "Local",
                },
            },
            "pod": {
                "tolerations": [
                    { "operator": "Exists" },
                    { "key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60 },
                ],
                "topologySpreadConstraints": [
                    { "topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule" },
                ],
                "env": [{ "name": "RUST_LOG", "value": "debug" }], "terminationGracePeriodSeconds": 120,
            },
        })),
        group(&json!({ "disruptionBudget": { "maxUnavailable": 0 } })),
        plan(&json!({
            "endpoint": "https://b.example", "auth": { "type": "header", "name": "X-Key", "prefix": "Key ", "secretRef": secret },
            "headers": { "set": { "a": "b" }, "remove": ["c"] }, "filters": ["a"], "timeouts": { "call": "1m30s" },
        })),
        plan(&json!({})),
        custom_tools(),
        prompts(),
        resources(),
        exposition(&json!({ "prompts": { "include": ["a*"] }, "resources": { "exclude": ["docs://*"] } })),
        action(&json!({
            "method": "post", "auth": { "type": "none" }, "retry": { "maxAttempts": 3, "backoffMs": 500, "retryOn": [503] },
            "pagination": { "type": "cursor", "maxPages": 5, "nextPath": "a.b" },
            "args": { "a": { "type": "string", "enum": ["x", 1, null], "default": { "any": [1] } } },
            "request": { "body": { "a": ["{a}", null] } }, "errorMapping": { "404": "not there" },
        })),
    ];
    for url in [
        "http://localhost:8080",
        "http://github.team-a.svc/api",
        "http://a.b.svc.cluster.local:80",
        "http://127.0.0.1",
        "http://[::1]:1",
    ] {
        objects.push(http(&json!({ "baseUrl": url })));
    }
    for size in [json!("16Mi"), json!("1Gi"), json!("1"), json!(1), json!(1 << 30), json!("500k")] {
        objects.push(exposition(&json!({ "limits": { "maxResponseBytes": size } })));
    }
    for timeout in ["1ms", "1h", "500ms", "1m30s"] {
        objects.push(exposition(&json!({ "limits": { "timeout": timeout } })));
    }
    objects
}
