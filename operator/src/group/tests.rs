//! Tests of the objects of groups, and of when they are written.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DynamicObject, ObjectMeta};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tamis_crds::ObjectName;
use tamis_crds::resources::GatewayGroupSpec;

mod settings;

use super::compare::{at, covers, owns};
use super::pods::choose;
use super::step::{Ownership, Step, ownership, step};
use super::{Child, ChildKind, GroupInput, Settings, children};

fn group(spec: Value) -> GroupInput {
    let spec: GatewayGroupSpec = serde_json::from_value(spec).expect("a spec");
    let name = ObjectName { namespace: "edge".into(), name: "public".into() };
    GroupInput { name, uid: "group-uid".into(), spec: Arc::new(spec), paused: false }
}

fn settings() -> Settings {
    Settings::new("tamis:1", Some("tamis-system".into()))
}

fn everything() -> GroupInput {
    group(json!({
        "autoscaling": {"minReplicas": 2, "maxReplicas": 9, "targetCpuUtilization": 60},
        "listener": {"port": 80, "hostname": "mcp.example.com", "externalUrl": "https://out.example.com:444/x"},
        "egress": {"allow": ["10.1.0.0/16", "169.254.7.0/24", "$(HOME).example"], "deny": ["192.0.2.7"]},
        "metrics": {"detail": "Exposition"},
        "audit": {"sink": "File"},
        "tracing": {"endpoint": "http://otel.observability:4318", "samplingRatePerMillion": 50_000},
        "pod": {
            "image": "mirror/tamis:2", "imagePullPolicy": "Always", "imagePullSecrets": ["pull"],
            "resources": {"requests": {"cpu": "0.5"}, "limits": {"memory": "1Gi"}},
            "labels": {"team": "edge", "app.kubernetes.io/name": "evil"}, "annotations": {"a": "b"},
            "nodeSelector": {"disk": "ssd"}, "priorityClassName": "high",
        },
    }))
}

fn find(children: &[Child], kind: ChildKind) -> &Child {
    children.iter().find(|child| child.kind == kind).unwrap_or_else(|| panic!("no {kind:?}"))
}

fn container(children: &[Child]) -> Value {
    find(children, ChildKind::Deployment).body["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Reads an object as its type and writes it again: a field that the API does not know would be gone.
fn round_trip<T: DeserializeOwned + Serialize>(child: &Child) {
    let typed: T = serde_json::from_value(child.body.clone()).expect("fits its type");
    let mut written = serde_json::to_value(&typed).expect("can be written");
    // `apiVersion` and `kind` are written first, maps in the order of their keys: compared as values.
    written.sort_all_objects();
    let mut body = child.body.clone();
    body.sort_all_objects();
    assert_eq!(written, body, "{child}");
}

#[test]
fn the_api_knows_every_field() {
    for group in [group(json!({})), group(json!({"replicas": 3})), everything()] {
        for child in children(&group, &settings()) {
            match child.kind {
                ChildKind::ServiceAccount => round_trip::<ServiceAccount>(&child),
                ChildKind::Role => round_trip::<Role>(&child),
                ChildKind::RoleBinding => round_trip::<RoleBinding>(&child),
                ChildKind::NetworkPolicy => round_trip::<NetworkPolicy>(&child),
                ChildKind::Service => round_trip::<Service>(&child),
                ChildKind::Deployment => round_trip::<Deployment>(&child),
                ChildKind::PodDisruptionBudget => round_trip::<PodDisruptionBudget>(&child),
                ChildKind::HorizontalPodAutoscaler => round_trip::<HorizontalPodAutoscaler>(&child),
            }
            assert_eq!(child.name, "tamis-public");
            let owner = &child.body["metadata"]["ownerReferences"][0];
            assert_eq!((&owner["uid"], &owner["controller"]), (&json!("group-uid"), &json!(true)));
            assert_eq!(child.body["metadata"]["labels"]["tamis.dev/gateway-group"], "public");
        }
    }
}

#[test]
fn builds_a_budget_and_an_autoscaler_only_where_they_apply() {
    let kinds = |spec| {
        let all: Vec<_> = children(&group(spec), &settings()).iter().map(|child| child.kind).collect();
        let has = |kind| all.contains(&kind);
        (all.len(), has(ChildKind::PodDisruptionBudget), has(ChildKind::HorizontalPodAutoscaler))
    };
    assert_eq!(kinds(json!({})), (6, false, false));
    assert_eq!(kinds(json!({"replicas": 1})), (6, false, false), "with one gateway, a budget would block every drain");
    assert_eq!(kinds(json!({"replicas": 2})), (7, true, false));
    assert_eq!(kinds(json!({"replicas": 0})), (6, false, false));
    assert_eq!(kinds(json!({"autoscaling": {"minReplicas": 1, "maxReplicas": 4}})), (8, true, true));
}

#[test]
fn pods_are_restricted_whatever_the_group_says() {
    for group in [group(json!({})), everything()] {
        let children = children(&group, &settings());
        let pod = &find(&children, ChildKind::Deployment).body["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"], json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}));
        let security = &container(&children)["securityContext"];
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(
            (&security["readOnlyRootFilesystem"], &security["allowPrivilegeEscalation"]),
            (&json!(true), &json!(false))
        );
        for volume in pod["volumes"].as_array().expect("volumes") {
            assert!(volume.get("emptyDir").is_some(), "{volume}");
        }
        assert!(pod.get("hostNetwork").is_none() && pod.get("runAsUser").is_none());
    }
}

#[test]
fn the_settings_of_a_group_become_arguments() {
    let arguments = |group: &GroupInput| {
        let container = container(&children(group, &settings()));
        serde_json::from_value::<Vec<String>>(container["args"].clone()).expect("arguments")
    };
    let always = [
        "gateway",
        "--group=public",
        "--namespace=$(POD_NAMESPACE)",
        "--listen=0.0.0.0:8080",
        "--admin=0.0.0.0:9090",
        "--cache=/cache",
    ];
    assert_eq!(arguments(&group(json!({}))), always);
    let more = [
        "--egress-allow=10.1.0.0/16",
        "--egress-allow=169.254.7.0/24",
        "--egress-allow=$$(HOME).example",
        "--egress-deny=192.0.2.7",
        "--hostname=mcp.example.com",
        "--hostname=out.example.com",
        "--metrics-detail=Exposition",
        "--audit-dir=/audit",
        "--otlp-endpoint=http://otel.observability:4318",
        "--trace-sampling=0.05",
    ];
    assert_eq!(arguments(&everything()), [&always[..], &more[..]].concat());
}

#[test]
fn pods_have_the_groups_settings_and_the_operators_labels_win() {
    let children = children(&everything(), &settings());
    let template = &find(&children, ChildKind::Deployment).body["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["team"], "edge");
    assert_eq!(template["metadata"]["labels"]["app.kubernetes.io/name"], "tamis", "else the Service finds no pod");
    assert_eq!(template["metadata"]["annotations"], json!({"a": "b"}));
    let container = container(&children);
    assert_eq!((&container["image"], &container["imagePullPolicy"]), (&json!("mirror/tamis:2"), &json!("Always")));
    assert_eq!(container["resources"], json!({"requests": {"cpu": "0.5"}, "limits": {"memory": "1Gi"}}));
    assert_eq!(template["spec"]["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(find(&children, ChildKind::Service).body["spec"]["ports"][0]["port"], 80);
    let deployment = &find(&children, ChildKind::Deployment).body["spec"];
    assert!(deployment.get("replicas").is_none(), "the autoscaler owns them");
    assert_eq!(deployment["selector"]["matchLabels"].as_object().map(serde_json::Map::len), Some(3));
}

#[test]
fn only_the_operator_and_labelled_namespaces_reach_the_admin_port() {
    let policy = |settings: &Settings, group: &GroupInput| {
        find(&children(group, settings), ChildKind::NetworkPolicy).body["spec"].clone()
    };
    let inside = policy(&settings(), &group(json!({})));
    assert_eq!(
        inside["ingress"][0],
        json!({"ports": [{"protocol": "TCP", "port": 8080}]}),
        "`access` decides who may call"
    );
    let admin = &inside["ingress"][1];
    assert_eq!(admin["ports"][0]["port"], 9090);
    let from = &admin["from"][0];
    assert_eq!(from["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "tamis-system");
    assert_eq!(from["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "operator");
    assert_eq!(inside["egress"].as_array().map(Vec::len), Some(2));
    let outside = policy(&Settings::new("tamis:1", None), &group(json!({})));
    assert!(outside["ingress"][1].get("from").is_none());
    let allowed = policy(&settings(), &everything());
    assert_eq!(allowed["egress"][2], json!({"to": [{"ipBlock": {"cidr": "169.254.7.0/24"}}]}), "only link-local ones");
}

/// Returns the object as the API would show it after the operator created it.
fn made(child: &Child) -> DynamicObject {
    let mut object: DynamicObject = serde_json::from_value(child.body.clone()).expect("an object");
    object.metadata.uid = Some("u".into());
    object.metadata.resource_version = Some("7".into());
    object
}

fn managed(object: &mut DynamicObject, entries: Value) {
    object.metadata.managed_fields = Some(serde_json::from_value(entries).expect("entries"));
}

#[test]
fn writes_an_object_only_if_it_differs() {
    let group = group(json!({"replicas": 2}));
    let children = children(&group, &settings());
    for child in &children {
        assert_eq!(step(&group, child, None), Step::Create, "{child}");
        assert_eq!(step(&group, child, Some(&made(child))), Step::Keep, "{child}");
    }
    let deployment = find(&children, ChildKind::Deployment);
    let differs = |what: &str, edit: &dyn Fn(&mut DynamicObject)| {
        let mut object = made(deployment);
        edit(&mut object);
        match step(&group, deployment, Some(&object)) {
            Step::Update(update) => {
                assert_eq!((update.uid.as_str(), update.resource_version.as_str()), ("u", "7"), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    };
    differs("edited", &|o| o.data["spec"]["replicas"] = json!(5));
    differs("a field removed", &|o| drop(o.data["spec"].as_object_mut().map(|spec| spec.remove("strategy"))));
    differs("another image", &|o| o.data["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil"));
    differs("argument added", &|o| {
        o.data["spec"]["template"]["spec"]["containers"][0]["args"].as_array_mut().expect("a list").push(json!("--x"));
    });
    differs("label gone", &|o| o.metadata.labels = None);
    differs("written by another version", &|o| o.metadata.annotations = None);
    let keeps = |what: &str, edit: &dyn Fn(&mut DynamicObject)| {
        let mut object = made(deployment);
        edit(&mut object);
        assert_eq!(step(&group, deployment, Some(&object)), Step::Keep, "{what}");
    };
    keeps("a field that the API fills in", &|o| o.data["spec"]["progressDeadlineSeconds"] = json!(600));
    keeps("status", &|o| o.data["status"] = json!({"replicas": 1}));
    keeps("another's annotation", &|o| {
        o.metadata.annotations.get_or_insert_default().insert("deployment.kubernetes.io/revision".into(), "1".into());
    });
    keeps("another's container", &|o| {
        let containers = &mut o.data["spec"]["template"]["spec"]["containers"];
        containers.as_array_mut().expect("a list").insert(0, json!({"name": "injected"}));
    });
    let role = find(&children, ChildKind::Role);
    let mut wider = made(role);
    wider.data["rules"].as_array_mut().expect("rules").push(json!({"verbs": ["*"]}));
    assert!(matches!(step(&group, role, Some(&wider)), Step::Update(_)), "a rule added by hand is removed");
}

#[test]
fn determines_the_owner_of_an_object() {
    let group = group(json!({}));
    let owner = |uid: &str, kind: &str, name: &str, controller: bool| json!([{"apiVersion": "x", "kind": kind, "name": name, "uid": uid, "controller": controller}]);
    let operator = json!([{"manager": "tamis-operator", "operation": "Update", "apiVersion": "v1"}]);
    let kubectl = json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1"}]);
    let labels = json!({"tamis.dev/gateway-group": "public"});
    let cases = [
        (
            "the group's",
            json!({"ownerReferences": owner("group-uid", "GatewayGroup", "public", true)}),
            Ownership::Owned,
        ),
        (
            "a deleted group's",
            json!({"ownerReferences": owner("old", "GatewayGroup", "public", true)}),
            Ownership::Leftover,
        ),
        ("another group's", json!({"ownerReferences": owner("o", "GatewayGroup", "b", true)}), Ownership::Foreign),
        ("of another kind", json!({"ownerReferences": owner("o", "App", "public", true)}), Ownership::Foreign),
        (
            "not controlled by the group",
            json!({"ownerReferences": owner("group-uid", "GatewayGroup", "public", false)}),
            Ownership::Foreign,
        ),
        ("without an owner", json!({}), Ownership::Foreign),
        ("only labelled", json!({"labels": labels, "managedFields": kubectl}), Ownership::Foreign),
        ("its owner reference removed", json!({"labels": labels, "managedFields": operator}), Ownership::Owned),
        ("written by the operator, for another group", json!({"managedFields": operator}), Ownership::Foreign),
    ];
    for (what, metadata, expected) in cases {
        let metadata: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
        assert_eq!(ownership(&group, &metadata), expected, "{what}");
    }
    let children = children(&group, &settings());
    let mut going = made(&children[0]);
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(step(&group, &children[0], Some(&going)), Step::Wait);
}

#[test]
fn replicas_are_handed_over_before_they_are_dropped() {
    let before = group(json!({"replicas": 4}));
    let mut object = made(find(&children(&before, &settings()), ChildKind::Deployment));
    let entry = |operation: &str| {
        json!({"manager": "tamis-operator", "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
               "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    };
    let after = group(json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 9}}));
    let children = children(&after, &settings());
    let deployment = find(&children, ChildKind::Deployment);
    let update = |object: &DynamicObject| match step(&after, deployment, Some(object)) {
        Step::Update(update) => update,
        other => panic!("{other:?}"),
    };
    managed(&mut object, json!([entry("Update")]));
    let first = update(&object);
    assert_eq!(first.hand_over, Some(4), "as many as there are");
    assert_eq!(first.managed_fields.expect("they are handed over")[0]["operation"], "Apply");
    managed(&mut object, json!([entry("Apply")]));
    assert_eq!((update(&object).hand_over, update(&object).managed_fields), (Some(4), None));
    // The autoscaler owns them by now.
    let scaled = json!([{"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
                         "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    managed(&mut object, scaled);
    assert_eq!(update(&object).hand_over, None);
    // A number that another manager wrote is no difference, since the desired state has none.
    let mut kept = made(deployment);
    kept.data["spec"]["replicas"] = json!(7);
    assert_eq!(step(&after, deployment, Some(&kept)), Step::Keep);
}

#[test]
fn compares_quantities_as_numbers() {
    let same = |a: &str, b: &str| covers(&json!({"requests": {"cpu": a}}), &json!({"requests": {"cpu": b}}));
    for (a, b) in
        [("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1e3", "1k"), ("2.50", "2500m"), ("1.5Gi", "1536Mi")]
    {
        assert!(same(a, b) && same(b, a), "{a} {b}");
    }
    for (a, b) in [("1", "2"), ("1G", "1Gi"), ("x", "1"), ("", "0"), ("1e99", "1")] {
        assert!(!same(a, b) && !same(b, a), "{a} {b}");
    }
    assert!(!covers(&json!({"image": "1000m"}), &json!({"image": "1"})), "only in fields that are quantities");
    assert!(covers(&json!({"limits": {}, "list": []}), &json!({})), "the API leaves out empty values");
    assert_eq!(at(&json!({"a": {"b": 1}}), &["a", "b"]), Some(&json!(1)));
    assert!(owns(&json!({"f:spec": {"f:replicas": {}}}), &["spec", "replicas"]) && !owns(&json!({}), &["spec"]));
}

#[test]
fn only_pods_of_the_groups_own_replica_sets_are_gateways() {
    let owned = |uid: &str, kind: &str, owner: &str| -> ObjectMeta {
        serde_json::from_value(json!({"uid": uid, "name": uid, "ownerReferences":
            [{"apiVersion": "x", "kind": kind, "name": "n", "uid": owner, "controller": true}]}))
        .expect("metadata")
    };
    let pod = |uid: &str, set: &str, ready: &str| Pod {
        metadata: owned(uid, "ReplicaSet", set),
        status: serde_json::from_value(json!({"phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": ready}]}))
        .expect("a status"),
        ..Pod::default()
    };
    let deployment = owned("d", "GatewayGroup", "group-uid");
    let sets = [owned("new", "Deployment", "d"), owned("old", "Deployment", "d"), owned("other", "Deployment", "e")];
    let mut ended = pod("ended", "new", "True");
    ended.status.as_mut().expect("a status").phase = Some("Failed".into());
    let mut unplaced = pod("unplaced", "new", "False");
    unplaced.status.as_mut().expect("a status").pod_ip = None;
    let mut going = pod("going", "new", "True");
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let bare =
        Pod { metadata: ObjectMeta { uid: Some("bare".into()), ..ObjectMeta::default() }, ..pod("x", "new", "True") };
    let pods = [
        pod("c", "new", "True"),
        pod("a", "old", "True"),
        pod("b", "new", "False"),
        pod("d", "other", "True"),
        pod("e", "made-up", "True"),
        ended,
        unplaced,
        going,
        bare,
    ];
    let chosen = choose("group-uid", &deployment, &sets, &pods);
    let names: Vec<_> = chosen.iter().map(|pod| (pod.name.as_str(), pod.ready)).collect();
    assert_eq!(names, [("a", true), ("b", false), ("c", true)]);
    assert!(choose("another-group", &deployment, &sets, &pods).is_empty(), "the Deployment is not this group's");
}
