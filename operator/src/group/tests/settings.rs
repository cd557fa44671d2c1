//! What a group can set of its Service, its pods and their number, and that a pinned group's pods stay.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{ChildKind, GroupInput, Settings, children, container, find, group, made, round_trip, settings};
use crate::group::Child;
use crate::group::pin;
use crate::group::step::{Step, step};

fn everything() -> GroupInput {
    group(json!({
        "autoscaling": {
            "minReplicas": 2, "maxReplicas": 9, "targetMemoryUtilization": 80,
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 30, "selectPolicy": "Min", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 60}, {"type": "Percent", "value": 100, "periodSeconds": 15},
                ]},
                "scaleDown": {"selectPolicy": "Disabled"},
            },
        },
        "workers": 4,
        "disruptionBudget": {"minAvailable": "75%"},
        "listener": {
            "tls": {"secretRef": {"name": "public-tls"}},
            "service": {
                "type": "LoadBalancer", "annotations": {"lb.example/kind": "internal", "tamis.dev/desired": "x"},
                "nodePort": 30080, "loadBalancerClass": "lb.example/a", "externalTrafficPolicy": "Local",
                "loadBalancerSourceRanges": ["203.0.113.0/24"],
            },
        },
        "pod": {
            "tolerations": [
                {"operator": "Exists"},
                {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60},
            ],
            "topologySpreadConstraints": [
                {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
                {"topologyKey": "rack"},
            ],
            "env": [{"name": "RUST_LOG", "value": "debug"}, {"name": "LD_PRELOAD", "value": "/x.so"}],
            "terminationGracePeriodSeconds": 90,
        },
    }))
}

#[test]
fn the_api_knows_every_setting() {
    for child in children(&everything(), &settings()) {
        match child.kind {
            ChildKind::Service => round_trip::<Service>(&child),
            ChildKind::Deployment => round_trip::<Deployment>(&child),
            ChildKind::PodDisruptionBudget => round_trip::<PodDisruptionBudget>(&child),
            ChildKind::HorizontalPodAutoscaler => round_trip::<HorizontalPodAutoscaler>(&child),
            _ => {}
        }
    }
}

#[test]
fn a_service_has_the_settings_of_its_group() {
    let all = children(&everything(), &settings());
    let service = &find(&all, ChildKind::Service).body;
    let spec = &service["spec"];
    assert_eq!((&spec["type"], &spec["loadBalancerClass"]), (&json!("LoadBalancer"), &json!("lb.example/a")));
    assert_eq!(spec["loadBalancerSourceRanges"], json!(["203.0.113.0/24"]));
    let port = &spec["ports"][0];
    assert_eq!((&port["port"], &port["nodePort"], &port["targetPort"]), (&json!(443), &json!(30080), &json!("mcp")));
    assert_eq!(port["appProtocol"], "https");
    let annotations = service["metadata"]["annotations"].as_object().expect("annotations");
    assert_eq!(annotations["lb.example/kind"], "internal");
    assert_ne!(annotations["tamis.dev/desired"], "x", "the operator's annotation wins");
    assert_eq!(annotations.len(), 2);
    let plain = children(&group(json!({})), &settings());
    let plain = &find(&plain, ChildKind::Service).body["spec"];
    assert_eq!((&plain["type"], &plain["ports"][0]["port"]), (&json!("ClusterIP"), &json!(8080)));
    assert_eq!(plain["ports"][0]["appProtocol"], "http");
    let chosen =
        children(&group(json!({"listener": {"port": 8443, "tls": {"secretRef": {"name": "a"}}}})), &settings());
    assert_eq!(find(&chosen, ChildKind::Service).body["spec"]["ports"][0]["port"], 8443);
}

#[test]
fn pods_have_the_placement_and_environment_of_their_group() {
    let all = children(&everything(), &settings());
    let pod = &find(&all, ChildKind::Deployment).body["spec"]["template"]["spec"];
    assert_eq!(pod["tolerations"][1]["tolerationSeconds"], 60);
    let spreads = pod["topologySpreadConstraints"].as_array().expect("a list");
    let fields: Vec<_> = spreads.iter().map(|s| (&s["topologyKey"], &s["maxSkew"], &s["whenUnsatisfiable"])).collect();
    assert_eq!(fields[0], (&json!("kubernetes.io/hostname"), &json!(2), &json!("DoNotSchedule")));
    assert_eq!(fields[1], (&json!("rack"), &json!(1), &json!("ScheduleAnyway")));
    assert!(spreads.iter().all(|s| s["labelSelector"]["matchLabels"]["tamis.dev/gateway-group"] == "public"));
    assert_eq!(pod["terminationGracePeriodSeconds"], 90);
    let container = container(&all);
    let names: Vec<_> = container["env"].as_array().expect("a list").iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["POD_NAMESPACE", "RUST_LOG"], "reserved variables are left out");
    assert!(container["args"].as_array().expect("a list").contains(&json!("--workers=4")), "{}", container["args"]);
    // The grace period is never shorter than calls in flight need, whatever is stored.
    let short = children(&group(json!({"pod": {"terminationGracePeriodSeconds": 5}})), &settings());
    let short = &find(&short, ChildKind::Deployment).body["spec"]["template"]["spec"];
    assert_eq!(short["terminationGracePeriodSeconds"], 45);
    assert_eq!(short["topologySpreadConstraints"][0]["topologyKey"], "topology.kubernetes.io/zone");
}

#[test]
fn mounts_the_certificate_and_passes_its_paths() {
    let all = children(&everything(), &settings());
    let pod = &find(&all, ChildKind::Deployment).body["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().expect("volumes");
    let tls = volumes.iter().find(|volume| volume["name"] == "tls").expect("a volume");
    let items = json!([{"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"}]);
    assert_eq!(tls["secret"], json!({"secretName": "public-tls", "items": items}), "nothing else of the Secret");
    let container = container(&all);
    let mount = json!({"name": "tls", "mountPath": "/tls", "readOnly": true});
    assert!(container["volumeMounts"].as_array().expect("mounts").contains(&mount));
    let arguments = container["args"].as_array().expect("arguments");
    for argument in ["--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key", "--listen=0.0.0.0:8080"] {
        assert!(arguments.contains(&json!(argument)), "{argument}");
    }
    // Nothing else from the group's namespace is mounted.
    assert_eq!(volumes.iter().filter(|volume| volume.get("emptyDir").is_none()).count(), 1);
}

#[test]
fn the_budget_and_the_autoscaler_have_the_settings_of_the_group() {
    let all = children(&everything(), &settings());
    let budget = &find(&all, ChildKind::PodDisruptionBudget).body["spec"];
    assert_eq!((&budget["minAvailable"], budget.get("maxUnavailable")), (&json!("75%"), None));
    let spec = &find(&all, ChildKind::HorizontalPodAutoscaler).body["spec"];
    let metrics = spec["metrics"].as_array().expect("a list");
    let targets: Vec<_> =
        metrics.iter().map(|m| (&m["resource"]["name"], &m["resource"]["target"]["averageUtilization"])).collect();
    assert_eq!(targets, [(&json!("cpu"), &json!(70)), (&json!("memory"), &json!(80))]);
    assert_eq!(spec["behavior"]["scaleUp"]["policies"][1]["value"], 100);
    assert_eq!(spec["behavior"]["scaleDown"], json!({"selectPolicy": "Disabled"}));
    let one = children(&group(json!({"disruptionBudget": {"maxUnavailable": 0}})), &settings());
    assert_eq!(find(&one, ChildKind::PodDisruptionBudget).body["spec"]["maxUnavailable"], 0, "even of one gateway");
}

/// Returns the Deployment that an operator desires, given the existing one.
fn wanted(group: &GroupInput, settings: &Settings, there: Option<&DynamicObject>) -> Child {
    let mut all = children(group, settings);
    let deployment = all.iter_mut().find(|child| child.kind == ChildKind::Deployment).expect("a Deployment");
    pin::keep(group, deployment, there);
    deployment.clone()
}

fn template(child: &Child) -> &Value {
    &child.body["spec"]["template"]
}

/// Returns the settings of a later version of the operator, which builds other pods for the same group.
fn later(group: &GroupInput) -> (Settings, GroupInput) {
    (Settings::new("tamis:2", Some("tamis-system".into())), group.clone())
}

#[test]
fn pods_of_a_pinned_group_stay_until_the_group_changes() {
    let pinned = group(json!({"replicas": 2, "pod": {"image": "tamis:1"}}));
    let first = wanted(&pinned, &settings(), None);
    let mut there = made(&first);
    assert_eq!(step(&pinned, &first, Some(&there)), Step::Keep);

    // An earlier version of the operator built the pods in another way.
    let old = "30";
    let mut kept: Value =
        serde_json::from_str(first.body["metadata"]["annotations"]["tamis.dev/pinned"].as_str().expect("text"))
            .expect("is JSON");
    kept["template"]["spec"]["priorityClassName"] = json!(old);
    there.metadata.annotations.get_or_insert_default().insert("tamis.dev/pinned".into(), kept.to_string());
    there.data["spec"]["template"]["spec"]["priorityClassName"] = json!(old);
    let (settings, same) = later(&pinned);
    let now = wanted(&same, &settings, Some(&there));
    assert_eq!(template(&now)["spec"]["priorityClassName"], old, "the pinned template stays");
    // The number of gateways does not change the template.
    let more = group(json!({"replicas": 5, "pod": {"image": "tamis:1"}}));
    let now = wanted(&more, &settings, Some(&there));
    assert_eq!(
        (template(&now)["spec"]["priorityClassName"].as_str(), &now.body["spec"]["replicas"]),
        (Some(old), &json!(5))
    );
    // A manual edit is still undone.
    let mut edited = there.clone();
    edited.data["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil");
    let now = wanted(&same, &settings, Some(&edited));
    assert!(matches!(step(&same, &now, Some(&edited)), Step::Update(_)));
    assert_eq!(template(&now)["spec"]["containers"][0]["image"], "tamis:1");
    // Once the group changes, this operator builds its pods.
    let other = group(json!({"replicas": 2, "pod": {"image": "tamis:3"}}));
    let now = wanted(&other, &settings, Some(&there));
    assert_eq!(template(&now)["spec"]["containers"][0]["image"], "tamis:3");
    assert!(template(&now)["spec"].get("priorityClassName").is_none());
    // A group that is no longer pinned gets new pods at once.
    let loose = group(json!({"replicas": 2}));
    let now = wanted(&loose, &settings, Some(&there));
    assert_eq!(template(&now)["spec"]["containers"][0]["image"], "tamis:2");
    assert!(now.body["metadata"]["annotations"].get("tamis.dev/pinned").is_none());
    // The annotation of a foreign object is ignored.
    let mut foreign = there.clone();
    foreign.metadata.owner_references = None;
    foreign.metadata.labels = None;
    assert!(template(&wanted(&same, &settings, Some(&foreign)))["spec"].get("priorityClassName").is_none());
}

#[test]
fn the_url_follows_from_the_listener() {
    for (listener, url) in [
        (json!({}), "http://tamis-public.edge.svc:8080"),
        (json!({"port": 80}), "http://tamis-public.edge.svc"),
        (json!({"tls": {"secretRef": {"name": "a"}}}), "https://tamis-public.edge.svc"),
        (json!({"port": 8443, "tls": {"secretRef": {"name": "a"}}}), "https://tamis-public.edge.svc:8443"),
        (json!({"hostname": "mcp.example.com", "tls": {"secretRef": {"name": "a"}}}), "https://mcp.example.com"),
        (json!({"hostname": "mcp.example.com"}), "http://mcp.example.com"),
        (json!({"externalUrl": "https://out.example.com/x/", "port": 80}), "https://out.example.com/x"),
    ] {
        let group = group(json!({"listener": listener}));
        assert_eq!(crate::plan::url(&group.name, &group.spec, None), url);
    }
}
