//! Validation rules of `GatewayGroup`.

use serde_json::{Value as Json, json};

use super::super::structural::{RULES, rule};
use super::{MAX_ENTRIES, MAX_URL, atomic, entries, rules, text};
use crate::resources::{GatewayGroupSpec, RESERVED_ENV, RESERVED_ENV_PREFIXES};

/// Returns the keywords to add to the schema of `GatewayGroup`, by place.
pub(super) fn additions() -> Vec<(&'static str, Json)> {
    let immutable = "has(self.controllerName) == has(oldSelf.controllerName) && \
        (!has(self.controllerName) || self.controllerName == oldSelf.controllerName)";
    let own = |what: &str| {
        let cel = "self.all(key, !key.startsWith('app.kubernetes.io/') && !key.contains('tamis.dev/'))";
        let message =
            format!("{what} of app.kubernetes.io/ and tamis.dev/ are reserved for the operator; use other keys");
        json!({ "maxProperties": MAX_ENTRIES, RULES: [rule(cel, &message)] })
    };
    let amounts = || {
        json!({
            "maxProperties": 2,
            RULES: [
                rule("self.all(key, key in ['cpu', 'memory'])", "only `cpu` and `memory` are supported"),
                rule("self.all(key, isQuantity(self[key]))", "must be a quantity, for example 500m or 2 for cpu, 512Mi for memory"),
            ],
        })
    };
    vec![
        (
            "GatewayGroupSpec",
            rules([
                (
                    "!(has(self.replicas) && has(self.autoscaling))",
                    "`replicas` and `autoscaling` are mutually exclusive; remove one of them",
                ),
                (immutable, "`controllerName` is immutable; create another GatewayGroup"),
                (
                    "!has(self.require) || !has(self.require.audit) || self.require.audit != 'Full' || \
                     (has(self.audit) && self.audit.sink == 'File')",
                    "`require.audit: Full` requires a sink for full outputs; set `audit: {sink: File}`",
                ),
            ]),
        ),
        ("GatewayGroupSpec.replicas", json!({ "maximum": 1000 })),
        ("GatewayGroupSpec.workers", json!({ "minimum": 1, "maximum": GatewayGroupSpec::MAX_WORKERS })),
        ("GatewayGroupSpec.controllerName", text(253)),
        (
            "AutoscalingSpec",
            rules([("self.minReplicas <= self.maxReplicas", "`minReplicas` must not exceed `maxReplicas`; lower it")]),
        ),
        ("AutoscalingSpec.minReplicas", json!({ "minimum": 1, "maximum": 1000 })),
        ("AutoscalingSpec.maxReplicas", json!({ "minimum": 1, "maximum": 1000 })),
        ("AutoscalingSpec.targetCpuUtilization", json!({ "minimum": 1, "maximum": 1000 })),
        (
            "AllowedNamespaces",
            rules([(
                "(self.from == 'Selector') == has(self.selector)",
                "`selector` is required for `from: Selector` and not allowed otherwise; add or remove it, or change `from`",
            )]),
        ),
        (
            "NamespaceSelector.matchLabels",
            json!({
                "minProperties": 1,
                "maxProperties": MAX_ENTRIES,
            }),
        ),
        (
            "ListenerSpec.port",
            json!({ "minimum": 1, RULES: [rule("self != 9090", "9090 is the admin port; choose another port")] }),
        ),
        ("ListenerSpec.hostname", json!({ "maxLength": 253, "pattern": "^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$" })),
        (
            "ListenerSpec.externalUrl",
            json!({
                "maxLength": MAX_URL,
                RULES: [rule(
                    "isURL(self) && url(self).getScheme() in ['http', 'https']",
                    "must be an HTTP or HTTPS URL, for example https://HOST",
                )],
            }),
        ),
        (
            "TracingSpec.endpoint",
            json!({
                "minLength": 1,
                "maxLength": MAX_URL,
                RULES: [rule(
                    "isURL(self) && url(self).getScheme() in ['http', 'https'] && !self.contains('@') && !self.contains('?') && !self.contains('#')",
                    "must be the base URL of a collector, without user, password, query and fragment, for example http://HOST:4318",
                )],
            }),
        ),
        ("TracingSpec.samplingRatePerMillion", json!({ "minimum": 0, "maximum": 1_000_000 })),
        ("CommandsSpec.enabled", rules([("!self", "only `tamis serve` runs programs; set false")])),
        ("EgressSpec.allow", json!({ "maxItems": MAX_ENTRIES })),
        ("EgressSpec.allow.*", text(256)),
        ("EgressSpec.deny", json!({ "maxItems": MAX_ENTRIES })),
        ("EgressSpec.deny.*", text(256)),
        ("TlsSpec", atomic()),
        ("ServiceSpec", service()),
        ("ServiceSpec.annotations", own("annotations")),
        ("ServiceSpec.nodePort", json!({ "minimum": 1 })),
        ("ServiceSpec.loadBalancerClass", text(253)),
        ("ServiceSpec.loadBalancerSourceRanges", json!({ "maxItems": MAX_ENTRIES })),
        (
            "ServiceSpec.loadBalancerSourceRanges.*",
            json!({ "maxLength": 64, RULES: [rule("isCIDR(self)", "must be a network in CIDR notation, for example 203.0.113.0/24")] }),
        ),
        (
            "DisruptionBudgetSpec",
            rules([(
                "has(self.maxUnavailable) != has(self.minAvailable)",
                "must set exactly one of `maxUnavailable` and `minAvailable`",
            )]),
        ),
        ("DisruptionBudgetSpec.maxUnavailable", share()),
        ("DisruptionBudgetSpec.minAvailable", share()),
        ("AutoscalingSpec.targetMemoryUtilization", json!({ "minimum": 1, "maximum": 1000 })),
        ("ScalingRules.stabilizationWindowSeconds", json!({ "maximum": 3600 })),
        ("ScalingRules.policies", json!({ "maxItems": 8 })),
        ("ScalingPolicy.value", json!({ "minimum": 1, "maximum": 1000 })),
        ("ScalingPolicy.periodSeconds", json!({ "minimum": 1, "maximum": 1800 })),
        ("PodSpec.tolerations", json!({ "maxItems": MAX_ENTRIES })),
        ("TolerationSpec", toleration()),
        ("TolerationSpec.key", text(317)),
        ("TolerationSpec.value", json!({ "maxLength": 63 })),
        ("PodSpec.topologySpreadConstraints", json!({ "maxItems": 16 })),
        ("SpreadSpec.topologyKey", text(317)),
        ("SpreadSpec.maxSkew", json!({ "minimum": 1, "maximum": 1000 })),
        ("PodSpec.env", json!({ "maxItems": MAX_ENTRIES })),
        ("EnvSpec.name", variable()),
        ("EnvSpec.value", json!({ "maxLength": 4096 })),
        ("PodSpec.terminationGracePeriodSeconds", json!({ "minimum": 45, "maximum": 3600 })),
        ("PodSpec.image", text(1024)),
        ("PodSpec.imagePullPolicy", json!({ "enum": ["Always", "IfNotPresent", "Never"] })),
        ("PodSpec.imagePullSecrets", json!({ "maxItems": MAX_ENTRIES })),
        ("PodSpec.imagePullSecrets.*", text(253)),
        ("PodSpec.labels", own("labels")),
        ("PodSpec.labels.*", json!({ "maxLength": 63 })),
        ("PodSpec.annotations", own("annotations")),
        ("PodSpec.nodeSelector", entries()),
        ("PodSpec.priorityClassName", text(253)),
        ("PodResources.requests", amounts()),
        ("PodResources.requests.*", json!({ "maxLength": 32 })),
        ("PodResources.limits", amounts()),
        ("PodResources.limits.*", json!({ "maxLength": 32 })),
    ]
}

/// The fields that only some types of Services accept.
fn service() -> Json {
    let of = |types: &str, fields: &[&str], message: &str| {
        let given = fields.iter().map(|field| format!("has(self.{field})")).collect::<Vec<_>>().join(" || ");
        rule(&format!("!({given}) || (has(self.type) && self.type in [{types}])"), message)
    };
    json!({ RULES: [
        of(
            "'LoadBalancer'",
            &["loadBalancerClass", "loadBalancerSourceRanges"],
            "`loadBalancerClass` and `loadBalancerSourceRanges` require `type: LoadBalancer`; set the type, or remove the fields",
        ),
        of(
            "'NodePort', 'LoadBalancer'",
            &["nodePort", "externalTrafficPolicy"],
            "`nodePort` and `externalTrafficPolicy` require `type: NodePort` or `type: LoadBalancer`; set the type, or remove the fields",
        ),
    ] })
}

/// A number or a percentage.
fn share() -> Json {
    json!({
        "maxLength": 4,
        RULES: [rule(
            "type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",
            "must be a number or a percentage, for example 1 or 25%",
        )],
    })
}

fn toleration() -> Json {
    rules([
        (
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            "must have a `key`, or `operator: Exists` to tolerate every taint",
        ),
        (
            "!has(self.value) || !has(self.operator) || self.operator == 'Equal'",
            "`value` is not allowed with `operator: Exists`; remove it",
        ),
        (
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "`tolerationSeconds` requires `effect: NoExecute`; set the effect, or remove the field",
        ),
    ])
}

/// The name of an environment variable that is not reserved.
fn variable() -> Json {
    let names = RESERVED_ENV.map(|name| format!("'{name}'")).join(", ");
    let prefixes = RESERVED_ENV_PREFIXES.map(|prefix| format!("self.startsWith('{prefix}')")).join(" || ");
    let said = RESERVED_ENV.iter().copied().chain(RESERVED_ENV_PREFIXES).collect::<Vec<_>>().join(", ");
    json!({
        "maxLength": 253,
        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
        RULES: [rule(
            &format!("!(self in [{names}] || {prefixes})"),
            &format!("is reserved for Kubernetes and the operator ({said}); use another name"),
        )],
    })
}
