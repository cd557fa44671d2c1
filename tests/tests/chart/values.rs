//! Values that people are known to use, and some that are wrong.

use serde_json::{Value, json};

use super::SYSTEM;

/// Combinations of values, by name, for the release `tamis` in `tamis-system`.
pub(crate) fn matrix() -> Vec<(&'static str, Value)> {
    let mut everything = json!({
        "fullnameOverride": "gate",
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"example.com/of": "platform"},
        "image": {"registry": "registry.example.com:5000", "repository": "platform/tamis",
                  "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "gatewayImage": "registry.example.com:5000/platform/tamis-gateway:1",
        "groupNamespaces": ["edge", "team-a"],
        "secretNamespaces": ["team-a", "team-b"],
        "controllerName": "example.com/gate",
        "gatewayGroup": {"name": "public", "namespace": "edge", "annotations": {"example.com/for": "partners"}, "spec": {
            "autoscaling": {"minReplicas": 2, "maxReplicas": 4}, "listener": {"port": 80},
            "pod": {"priorityClassName": "high"}}},
        "ingress": {"enabled": true, "className": "nginx", "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
            "hosts": [{"host": "mcp.example.com", "paths": [{"path": "/mcp"}, {"path": "/x", "pathType": "Exact"}]},
                      {"host": "other.example.com"}],
            "tls": [{"secretName": "mcp-tls", "hosts": ["mcp.example.com"]}]},
        "replicas": 3,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "resources": {"limits": {"cpu": "1"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "gateways", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gateways", "operator": "Exists"}]}]}}},
        "topologySpreadConstraints": [
            {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"a": "b"}}}],
        "priorityClassName": "system-cluster-critical",
        "podLabels": {"sidecar": "no"},
        "podAnnotations": {"example.com/pod": "yes"},
        "extraArgs": ["--color=never"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": true}}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/more"}],
        "startupProbe": {"failureThreshold": 300},
        "livenessProbe": {"periodSeconds": 20, "failureThreshold": 5},
        "log": {"format": "human", "level": "info,tamis_operator=debug"},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "serviceAccount": {"name": "gatekeeper", "annotations": {"example.com/role": "none"}},
        "service": {"port": 9999, "annotations": {"example.com/service": "metrics"}},
        "networkPolicy": {"metricsFrom": [{"podSelector": {}}], "extraIngress": [{"from": [{"podSelector": {}}]}],
                          "extraEgress": [{"to": [{"podSelector": {}}]}]},
        "monitoring": {"serviceMonitor": {"enabled": true, "interval": "30s"}, "podMonitor": {"enabled": true},
                       "rules": {"enabled": true}, "dashboards": {"enabled": true}},
        "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}},
                         "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}-text}}"],
    });
    everything["documentNamespaces"] = json!(["team-b"]);
    vec![
        ("defaults", json!({})),
        ("everything", everything),
        ("without a group", json!({"gatewayGroup": {"create": false}, "defaultGroup": "edge/public"})),
        ("one namespace", json!({"watchNamespaces": [SYSTEM]})),
        (
            "namespaces",
            json!({"watchNamespaces": ["team-a", "edge"], "groupNamespaces": ["edge"], "secretNamespaces": ["team-a"], "documentNamespaces": ["edge"],
                   "gatewayGroup": {"namespace": "edge"}}),
        ),
        (
            "a route",
            json!({"httpRoute": {"enabled": true, "parentRefs": [{"name": "public", "namespace": "gateways"}],
                   "hostnames": ["mcp.example.com"], "timeouts": {"request": "0s"}}}),
        ),
        (
            "a route to all names",
            json!({"httpRoute": {"enabled": true, "parentRefs": [{"name": "public"}], "https": false}}),
        ),
        (
            "a route with all that it can have",
            json!({"gatewayGroup": {"namespace": "edge", "spec": {"listener": {"port": 80}}}, "groupNamespaces": ["edge"],
                   "httpRoute": {"enabled": true, "annotations": {"example.com/route": "public"},
                       "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https", "port": 443},
                                      {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "inner"}],
                       "hostnames": ["mcp.example.com", "*.mcp.example.com"],
                       "matches": [{"path": {"type": "PathPrefix", "value": "/mcp"}, "method": "POST"},
                                   {"path": {"type": "Exact", "value": "/x"}, "headers": [{"name": "x-of", "value": "a"}],
                                    "queryParams": [{"type": "RegularExpression", "name": "q", "value": "a.*"}]}],
                       "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-secret"]}},
                                   {"type": "ResponseHeaderModifier",
                                    "responseHeaderModifier": {"set": [{"name": "x-by", "value": "tamis"}]}}],
                       "timeouts": {"request": "1m", "backendRequest": "30s"}}}),
        ),
        (
            "as little as possible",
            json!({"replicas": 1, "rbac": {"create": false}, "serviceAccount": {"create": false, "name": "given"},
                   "service": {"create": false}, "networkPolicy": {"create": false}, "podDisruptionBudget": {"create": false},
                   "gatewayGroup": {"create": false}, "test": {"create": false}, "podSecurityContext": {},
                   "securityContext": {}, "resources": {}, "affinity": {}, "startupProbe": {}, "livenessProbe": {}}),
        ),
    ]
}

/// Values of `httpRoute` that the chart takes, since it leaves them to Gateway API, and that the API server refuses.
pub(crate) fn wrong_routes() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"matches": [{"path": {"type": "Begins", "value": "/"}}]}), "Unsupported value: \"Begins\""),
        (json!({"matches": [{"paths": {"value": "/"}}]}), ".spec.rules[0].matches[0].paths: field not declared"),
        (
            json!({"parentRefs": [{"name": "public", "section": "https"}]}),
            ".spec.parentRefs[0].section: field not declared",
        ),
        (json!({"filters": [{"type": "RequestHeaderModifier"}]}), "requestHeaderModifier must be specified"),
        (json!({"hostnames": ["MCP.example.com"]}), "spec.hostnames[0]"),
        (json!({"timeouts": {"request": "soon"}}), "spec.rules[0].timeouts.request"),
        (json!({"timeouts": {"request": "1s", "backendRequest": "2s"}}), "backendRequest timeout cannot be longer"),
    ]
}

/// Values that are rejected, with their messages.
pub(crate) fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"replica": 2}), "additional properties 'replica' not allowed"),
        (json!({"replicas": "2"}), "got string, want integer"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "'/image/pullPolicy': value must be one of"),
        (json!({"image": {"digest": "latest"}}), "'/image/digest'"),
        (json!({"watchNamespaces": ["Team A"]}), "'/watchNamespaces/0'"),
        (json!({"watchNamespaces": "team-a"}), "'/watchNamespaces': got string, want array"),
        (json!({"gatewayGroup": {"name": "a.b"}}), "'/gatewayGroup/name'"),
        (json!({"service": {"port": 0}}), "'/service/port'"),
        (json!({"log": {"format": "xml"}}), "'/log/format'"),
        (json!({"ingress": {"enabled": true, "hosts": ["mcp.example.com"]}}), "'/ingress/hosts/0'"),
        (json!({"ingress": {"enabled": true}}), "ingress.hosts is empty; name at least one host"),
        (json!({"httpRoute": {"enabled": true}}), "httpRoute.parentRefs is empty"),
        (
            json!({"ingress": {"enabled": true, "hosts": [{"host": "a.example.com"}]}, "gatewayGroup": {"create": false}}),
            "requires the default group",
        ),
        (
            json!({"watchNamespaces": ["team-a"], "secretNamespaces": ["team-b"]}),
            "secretNamespaces: the operator does not watch team-b; add it to watchNamespaces",
        ),
        (
            json!({"watchNamespaces": ["team-a"], "documentNamespaces": ["team-b"]}),
            "documentNamespaces: the operator does not watch team-b; add it to watchNamespaces",
        ),
        (
            json!({"watchNamespaces": ["team-a"], "groupNamespaces": ["edge"]}),
            "groupNamespaces: the operator does not watch edge",
        ),
        (json!({"gatewayGroup": {"name": "operator"}}), "would clash with the operator's"),
    ]
}
