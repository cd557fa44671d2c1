//! An operator with the rights that the chart gives it, and no others, under the policies of `tamis-crds`: cluster-wide, in
//! namespaces, two beside each other. And what the policy `tamis-operator` keeps somebody from who has its token.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{Cluster, Operator, eventually};

const SYSTEM: &str = "tamis-system";
/// Where an operator without cluster-wide rights looks after everything.
const TENANT: &str = "tenant";
const GROUP: &str = "edge";
const SOON: Duration = Duration::from_secs(60);

/// What a group is made of, with more than one gateway.
const CHILDREN: &str = "deployment,service,serviceaccount,role,rolebinding,networkpolicy,poddisruptionbudget";

/// Starts an operator as the chart's Deployment would, but for what needs a node.
async fn start(cluster: &Cluster, namespace: &str, release: &str) -> Result<Operator> {
    let name = format!("{release}-operator");
    let arguments = ["-n", namespace, "get", "deployment", &name, "-o", "json"];
    let deployment: Value = serde_json::from_str(&cluster.kubectl(&arguments, None).await?)?;
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().context("an account")?;
    let kubeconfig = cluster.service_account(namespace, account).await?;
    let given = pod["containers"][0]["args"].as_array().context("arguments")?.iter().filter_map(Value::as_str);
    // The subcommand and the address are given by who starts it here.
    let given = given.filter(|argument| *argument != "operator" && !argument.starts_with("--admin="));
    let mut arguments: Vec<&str> = given.collect();
    arguments.extend(["--lease-namespace", namespace, "--identity", release]);
    Operator::start(cluster, &kubeconfig, &arguments).await.with_context(|| format!("{arguments:?}"))
}

/// Waits until everything of a group is there, and its status.
async fn looked_after(cluster: &Cluster, namespace: &str, group: &str) -> Result<()> {
    let name = format!("tamis-{group}");
    eventually(&format!("the objects of {namespace}/{group}"), SOON, async || {
        let arguments = ["-n", namespace, "get", CHILDREN, "-o", "jsonpath={.items[*].metadata.name}"];
        let there = cluster.kubectl(&arguments, None).await?;
        Ok((there.split_whitespace().filter(|other| *other == name).count() == 7).then_some(()))
    })
    .await?;
    eventually(&format!("the status of {namespace}/{group}"), SOON, async || {
        let arguments = ["-n", namespace, "get", "gatewaygroup", group, "-o", "json"];
        let object: Value = serde_json::from_str(&cluster.kubectl(&arguments, None).await?)?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted");
        let message = accepted.map(|accepted| accepted["message"].to_string()).unwrap_or_default();
        ensure!(!message.contains("may not be written"), "{message}");
        Ok(accepted.is_some_and(|accepted| accepted["status"] == "True").then_some(()))
    })
    .await
}

/// Ends an operator; it has been refused nothing.
async fn ended(mut operator: Operator) -> Result<()> {
    operator.process.terminate()?;
    operator.process.ended(Duration::from_secs(20)).await?;
    let log = operator.process.log();
    ensure!(!log.to_lowercase().contains("forbidden"), "something was refused:\n{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_beside_each_other_have_all_that_they_need() -> Result<()> {
    let cluster = Cluster::start().await?;
    for namespace in [TENANT, "team-a"] {
        cluster.namespace(namespace).await?;
    }
    let mut kinds = vec!["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM, "--create-namespace"];
    kinds.extend(["--set=operators[0].namespace=tamis-system,operators[0].serviceAccount=tamis-operator"]);
    kinds.extend(["--set=operators[1].namespace=tenant,operators[1].serviceAccount=own-tamis-operator"]);
    kinds.extend(["--set=operators[1].groupNamespaces={tenant}"]);
    cluster.helm(&kinds).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    cluster.helm(&["install", "tamis", "charts/tamis", "-n", SYSTEM, "--set=secretNamespaces={team-a}"]).await?;

    // The second is installed by somebody who administers one namespace, and nothing else.
    let administrator = cluster.service_account(TENANT, "administrator").await?;
    let account = "--serviceaccount=tenant:administrator";
    cluster
        .kubectl(&["-n", TENANT, "create", "rolebinding", "all", "--clusterrole=cluster-admin", account], None)
        .await?;
    let own = ["install", "own", "charts/tamis", "-n", TENANT, "--set=watchNamespaces={tenant}"];
    let own =
        [own.as_slice(), &["--set=controllerName=example.com/tenant", "--set=secretNamespaces={tenant}"]].concat();
    cluster.helm_as(&administrator, &own).await.context("installed without cluster-wide rights")?;

    let first = start(&cluster, SYSTEM, "tamis").await?;
    let second = start(&cluster, TENANT, "own-tamis").await?;
    looked_after(&cluster, SYSTEM, "default").await?;
    looked_after(&cluster, TENANT, "default").await?;
    for (namespace, lease, holder) in [(SYSTEM, "tamis-operator", "tamis"), (TENANT, "own-tamis-operator", "own-tamis")]
    {
        let holds = ["-n", namespace, "get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}"];
        ensure!(cluster.kubectl(&holds, None).await? == holder, "{lease}: held by another");
    }
    let image = [
        "-n",
        TENANT,
        "get",
        "deployment",
        "tamis-default",
        "-o",
        "jsonpath={.spec.template.spec.containers[0].image}",
    ];
    ensure!(!cluster.kubectl(&image, None).await?.is_empty());

    // What people edit is repaired, and what they add is left: the policy is in the way of neither.
    eventually("the policy is in force", SOON, async || {
        let as_operator = "--as=system:serviceaccount:tamis-system:tamis-operator";
        let tried = cluster
            .kubectl(&["-n", SYSTEM, "create", "configmap", "probe", "--dry-run=server", as_operator], None)
            .await;
        let said = tried.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(said.contains("tamis-operator").then_some(()))
    })
    .await?;
    let widened =
        json!([{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}}]);
    cluster
        .kubectl(&["-n", SYSTEM, "patch", "role", "tamis-default", "--type=json", "-p", &widened.to_string()], None)
        .await?;
    let sidecar = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "sidecar", "image": "sidecar:1"}], "volumes": [{"name": "node", "hostPath": {"path": "/var/log"}}]}}}});
    let unlabelled = json!({"metadata": {"labels": {"reshapr.io/gateway-group": null}}});
    let patch = async |kind: &str, patch: &Value| {
        cluster.kubectl(&["-n", SYSTEM, "patch", kind, "tamis-default", "-p", &patch.to_string()], None).await
    };
    patch("deployment", &sidecar).await?;
    patch("service", &unlabelled).await?;

    cluster
        .kubectl(
            &["-n", SYSTEM, "patch", "gatewaygroup", "default", "--type=merge", "-p", r#"{"spec": {"replicas": 3}}"#],
            None,
        )
        .await?;
    eventually("repaired", SOON, async || {
        let get = async |kind: &str, path: &str| {
            cluster
                .kubectl(&["-n", SYSTEM, "get", kind, "tamis-default", "-o", &format!("jsonpath={path}")], None)
                .await
        };
        let rules = get("role", "{.rules[*].verbs}").await?;
        let replicas = get("deployment", "{.spec.replicas}").await?;
        let containers = get("deployment", "{.spec.template.spec.containers[*].name}").await?;
        let label = get("service", "{.metadata.labels.reshapr\\.io/gateway-group}").await?;
        let all = !rules.contains('*') && replicas == "3" && containers.contains("sidecar") && label == "default";
        ensure!(all, "{rules} {replicas} {containers} {label}");
        Ok(Some(()))
    })
    .await?;
    ended(first).await?;
    ended(second).await
}

fn owned(kind: &str, api: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {
        "name": name, "namespace": GROUP, "labels": {"reshapr.io/gateway-group": "public"},
        "ownerReferences": [{"apiVersion": "reshapr.io/v1alpha1", "kind": "GatewayGroup", "name": "public",
                             "uid": "6f0ad9c4-9d3e-4f4e-8b1c-1f0f3a1d2b3c", "controller": true}]}});
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.extend(rest);
    }
    object
}

/// A Deployment as the operator writes it, with an edit.
fn deployment(edit: impl Fn(&mut Value)) -> Value {
    let labels = json!({"reshapr.io/gateway-group": "public"});
    let mut object = owned(
        "Deployment",
        "apps/v1",
        "tamis-public",
        json!({"spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "serviceAccountName": "tamis-public",
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": [{"name": "gateway", "image": "tamis:1", "securityContext": {
                "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}}}],
        }}}}),
    );
    edit(&mut object);
    object
}

fn role(rule: Value) -> Value {
    owned("Role", "rbac.authorization.k8s.io/v1", "tamis-public", json!({"rules": [rule]}))
}

fn binding(role: &str, account: &str) -> Value {
    owned(
        "RoleBinding",
        "rbac.authorization.k8s.io/v1",
        "tamis-public",
        json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": GROUP}]}),
    )
}

fn service(spec: Value) -> Value {
    let mut whole = json!({"selector": {"reshapr.io/gateway-group": "public"}, "ports": [{"port": 8080}]});
    if let (Value::Object(whole), Value::Object(spec)) = (&mut whole, spec) {
        whole.extend(spec);
    }
    owned("Service", "v1", "tamis-public", json!({"spec": whole}))
}

fn event(about: &str) -> Value {
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": GROUP},
           "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Compile", "reason": "InvalidFilter", "type": "Warning",
           "reportingController": "reshapr.io/tamis", "reportingInstance": "a",
           "regarding": {"apiVersion": about, "kind": "Exposition", "name": "a", "namespace": GROUP}})
}

/// What the operator writes.
fn usual() -> Vec<(&'static str, Value)> {
    let labels = json!({"matchLabels": {"reshapr.io/gateway-group": "public"}});
    vec![
        ("a Deployment", deployment(|_| {})),
        (
            "a ServiceAccount",
            owned("ServiceAccount", "v1", "tamis-public", json!({"automountServiceAccountToken": false})),
        ),
        (
            "a Role",
            role(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"],
                               "resourceNames": ["tamis-public-credentials-0", "tamis-public-credentials-7", "tamis-public-token"]})),
        ),
        (
            "a Role",
            role(
                json!({"apiGroups": ["reshapr.io"], "resources": ["gatewayconfigs"], "verbs": ["get", "list", "watch"]}),
            ),
        ),
        ("a RoleBinding", binding("tamis-public", "tamis-public")),
        ("a Service", service(json!({}))),
        ("a Service", service(json!({"type": "LoadBalancer"}))),
        (
            "a NetworkPolicy",
            owned("NetworkPolicy", "networking.k8s.io/v1", "tamis-public", json!({"spec": {"podSelector": labels}})),
        ),
        (
            "a budget",
            owned(
                "PodDisruptionBudget",
                "policy/v1",
                "tamis-public",
                json!({"spec": {"selector": labels, "maxUnavailable": 1}}),
            ),
        ),
        (
            "an autoscaler",
            owned(
                "HorizontalPodAutoscaler",
                "autoscaling/v2",
                "tamis-public",
                json!({"spec": {
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "tamis-public"}}}),
            ),
        ),
        ("the token", owned("Secret", "v1", "tamis-public-token", json!({"type": "Opaque"}))),
        ("credentials", owned("Secret", "v1", "tamis-public-credentials-3", json!({"type": "reshapr.io/credentials"}))),
        ("an Event", event("reshapr.io/v1alpha1")),
    ]
}

/// What it never writes, and what is said of it.
#[rustfmt::skip]
fn attacks() -> Vec<(Value, &'static str)> {
    let pod = "/spec/template/spec";
    let at = |object: &mut Value, path: &str, value: Value| {
        let (parent, key) = path.rsplit_once('/').unwrap_or_default();
        object.pointer_mut(parent).expect("is there")[key] = value;
    };
    let with = |path: &'static str, value: Value| deployment(move |o| at(o, &format!("{pod}/{path}"), value.clone()));
    let named = |name: &str| { let mut o = deployment(|_| {}); o["metadata"]["name"] = name.into(); o };
    let elsewhere = |namespace: &str| { let mut o = deployment(|_| {}); o["metadata"]["namespace"] = namespace.into(); o };
    let annotated = { let mut o = owned("ServiceAccount", "v1", "tamis-public", json!({}));
                      o["metadata"]["annotations"] = json!({"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin"}); o };
    let orphan = { let mut o = deployment(|_| {}); o["metadata"]["ownerReferences"] = json!([]); o };
    let of_all = json!({"matchLabels": {"app": "database"}});
    let gateway = |security: Value| json!([{"name": "gateway", "image": "a", "securityContext": security}]);
    vec![
        (with("serviceAccountName", "default".into()), "under its own ServiceAccount only"),
        (with("hostNetwork", true.into()), "anything of its node"),
        (with("hostPID", true.into()), "anything of its node"),
        (with("nodeName", "control-plane".into()), "anything of its node"),
        (with("volumes", json!([{"name": "root", "hostPath": {"path": "/"}}])), "mounts nothing of a node"),
        (with("containers", gateway(json!({}))), "no container with privileges"),
        (with("containers", gateway(json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}))), "no container with privileges"),
        (with("initContainers", json!([{"name": "i", "image": "a"}])), "no container with privileges"),
        (named("coredns"), "objects of GatewayGroups only"),
        (orphan, "objects of GatewayGroups only"),
        (elsewhere("kube-system"), "has no group in namespace kube-system"),
        (owned("ServiceAccount", "v1", "default", json!({})), "objects of GatewayGroups only"),
        (annotated, "no annotations, which clouds take for rights"),
        (role(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]})), "no rights but to read"),
        (role(json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["database"], "verbs": ["get"]})), "no rights but to read"),
        (role(json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]})), "no rights but to read"),
        (role(json!({"apiGroups": ["reshapr.io"], "resources": ["gatewayconfigs"], "verbs": ["create"]})), "no rights but to read"),
        (binding("tamis-public", "default"), "to its gateways only"),
        (binding("other", "tamis-public"), "to its gateways only"),
        (owned("RoleBinding", "rbac.authorization.k8s.io/v1", "mine", json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": []})), "objects of GatewayGroups only"),
        (service(json!({"externalIPs": ["192.0.2.1"]})), "no external addresses"),
        (service(json!({"type": "ExternalName", "externalName": "example.com"})), "no Service of type ExternalName"),
        (service(json!({"selector": {"app": "database"}})), "the pods of a group only"),
        (owned("NetworkPolicy", "networking.k8s.io/v1", "tamis-public", json!({"spec": {"podSelector": {}}})), "the pods of a group only"),
        (owned("PodDisruptionBudget", "policy/v1", "tamis-public", json!({"spec": {"selector": of_all, "maxUnavailable": 0}})), "the pods of a group only"),
        (owned("HorizontalPodAutoscaler", "autoscaling/v2", "tamis-public", json!({"spec": {
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "database"}}})), "the gateways of a group only"),
        (owned("Secret", "v1", "database", json!({})), "objects of GatewayGroups only"),
        (owned("Secret", "v1", "tamis-public-credentials-9", json!({})), "objects of GatewayGroups only"),
        (owned("Secret", "v1", "tamis-public-token", json!({"type": "kubernetes.io/basic-auth", "stringData": {"username": "a"}})), "no Secret of type"),
        (event("v1"), "Events of its own kinds only"),
        (json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-scheduler", "namespace": "kube-system"}}), "one Lease"),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": GROUP}}), "nothing to do with CREATE of /configmaps"),
        (json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}), "nothing to do with CREATE of /namespaces"),
        (json!({"apiVersion": "reshapr.io/v1alpha1", "kind": "GatewayGroup", "metadata": {"name": "a", "namespace": GROUP}, "spec": {}}), "nothing to do with CREATE of reshapr.io/gatewaygroups"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_its_token_can_do_no_more_than_it_does() -> Result<()> {
    let cluster = Cluster::start().await?;
    for namespace in [GROUP, "team-a"] {
        cluster.namespace(namespace).await?;
    }
    cluster.helm(&["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM, "--create-namespace"]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    // Roles let it do everything: what is left to refuse is the policy's.
    let operator = cluster.service_account(SYSTEM, "tamis-operator").await?;
    let account = "--serviceaccount=tamis-system:tamis-operator";
    cluster.kubectl(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", account], None).await?;
    let tried = async |arguments: &[&str], object: Option<&Value>| {
        let outcome = cluster.kubectl_as(&operator, arguments, object.map(Value::to_string).as_deref()).await;
        outcome.err().map(|error| error.to_string())
    };
    let create: &[&str] = &["create", "--dry-run=server", "--filename=-"];
    let first = &attacks()[0].0;
    eventually("the policy is in force", SOON, async || Ok(tried(create, Some(first)).await)).await?;

    for (what, object) in usual() {
        let said = tried(create, Some(&object)).await;
        ensure!(said.is_none(), "{what}: {said:?}");
    }
    let mut wrong = Vec::new();
    for (object, expected) in attacks() {
        let said = tried(create, Some(&object)).await.unwrap_or_default();
        if !(said.contains("denied request: the operator") && said.contains(expected)) {
            wrong.push(format!("{object}\n  {said:?}\n  and not {expected}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));

    // What is there already, of others.
    for (kind, object) in [
        (
            "secret",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tamis-public-token", "namespace": GROUP}}),
        ),
        (
            "service",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tamis-public", "namespace": GROUP},
                           "spec": {"ports": [{"port": 80}]}}),
        ),
        ("deployment", named_by_nobody()),
    ] {
        cluster.kubectl(&["create", "--filename=-"], Some(&object.to_string())).await?;
        let name = object["metadata"]["name"].as_str().context("a name")?;
        for arguments in [
            &["-n", GROUP, "delete", kind, name][..],
            &[
                "-n",
                GROUP,
                "patch",
                kind,
                name,
                "--type=merge",
                "-p",
                r#"{"metadata": {"labels": {"reshapr.io/gateway-group": "public"}}}"#,
            ],
        ] {
            let said = tried(arguments, None).await.unwrap_or_default();
            ensure!(said.contains("denied request: the operator"), "{arguments:?}: {said:?}");
        }
    }
    // Other ways in.
    for arguments in [
        &["-n", GROUP, "create", "token", "default"][..],
        &["-n", GROUP, "scale", "deployment", "tamis-public", "--replicas=0"],
        &["delete", "namespace", "team-a"],
        &["delete", "validatingadmissionpolicy", "tamis-filters", "--dry-run=server"],
    ] {
        let said = tried(arguments, None).await;
        // Policies cannot be had to protect themselves; that is what Roles are for, and ours give no such right.
        if arguments[1] == "validatingadmissionpolicy" {
            ensure!(said.is_none(), "the API server asks no policy about policies: {said:?}");
        } else {
            ensure!(
                said.as_deref().unwrap_or_default().contains("denied request: the operator"),
                "{arguments:?}: {said:?}"
            );
        }
    }
    // Nobody else is asked.
    cluster.kubectl(&["create", "--dry-run=server", "--filename=-"], Some(&attacks()[8].0.to_string())).await.map(drop)
}

fn named_by_nobody() -> Value {
    let mut object = deployment(|_| {});
    object["metadata"].as_object_mut().expect("metadata").retain(|key, _| key == "name" || key == "namespace");
    object
}
