//! What the operator may do, as the real authoriser sees it: `deploy/rbac.yaml`, line by line, and what it must not
//! give. `docs/rbac.md` says why each line is there.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tamis_tests::cluster::{Cluster, Operator, eventually};
use tamis_tests::root;

/// A namespace with a group, one whose Secrets take part, one whose ConfigMaps do, and one of none of these.
const GROUP: &str = "edge";
const SECRETS: &str = "team-a";
const DOCUMENTS: &str = "team-c";
const OTHER: &str = "team-b";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "patch", "delete"];
const ALL: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// `group/resource[/subresource]`, namespace (none: the cluster), name (empty: any), verbs.
type Row = (&'static str, Option<&'static str>, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const MAY: &[Row] = &[
    ("tamis.dev/servicemanifests", None, "", READ),
    ("tamis.dev/toolsfilters", None, "", READ),
    ("tamis.dev/customtools", None, "", READ),
    ("tamis.dev/prompts", None, "", READ),
    ("tamis.dev/resources", None, "", READ),
    ("tamis.dev/configurationplans", None, "", READ),
    ("tamis.dev/gatewaygroups", None, "", READ),
    ("tamis.dev/expositions", None, "", READ),
    ("tamis.dev/gatewayconfigs", None, "", READ),
    ("tamis.dev/servicemanifests/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/toolsfilters/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/customtools/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/prompts/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/resources/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/configurationplans/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/gatewaygroups/status", Some(OTHER), "", &["patch"]),
    ("tamis.dev/expositions/status", Some(OTHER), "", &["patch"]),
    ("/namespaces", None, "", READ),
    ("/pods", None, "", READ),
    ("/services", None, "", READ),
    ("/serviceaccounts", None, "", READ),
    ("apps/deployments", None, "", READ),
    ("apps/replicasets", None, "", READ),
    ("rbac.authorization.k8s.io/roles", None, "", READ),
    ("rbac.authorization.k8s.io/rolebindings", None, "", READ),
    ("networking.k8s.io/networkpolicies", None, "", READ),
    ("policy/poddisruptionbudgets", None, "", READ),
    ("autoscaling/horizontalpodautoscalers", None, "", READ),
    ("events.k8s.io/events", Some(OTHER), "", &["create", "patch"]),
    ("coordination.k8s.io/leases", Some("tamis-system"), "", &["create"]),
    ("coordination.k8s.io/leases", Some("tamis-system"), "tamis-operator", &["get", "list", "watch", "update"]),
    // Where there is a group.
    ("tamis.dev/gatewayconfigs", Some(GROUP), "", &["create", "update", "delete"]),
    ("/secrets", Some(GROUP), "", READ),
    ("/secrets", Some(GROUP), "", &["create", "update"]),
    ("/services", Some(GROUP), "", WRITE),
    ("/serviceaccounts", Some(GROUP), "", WRITE),
    ("apps/deployments", Some(GROUP), "", WRITE),
    ("rbac.authorization.k8s.io/roles", Some(GROUP), "", WRITE),
    ("rbac.authorization.k8s.io/rolebindings", Some(GROUP), "", WRITE),
    ("networking.k8s.io/networkpolicies", Some(GROUP), "", WRITE),
    ("policy/poddisruptionbudgets", Some(GROUP), "", WRITE),
    ("autoscaling/horizontalpodautoscalers", Some(GROUP), "", WRITE),
    // Where Secrets take part.
    ("/secrets", Some(SECRETS), "", READ),
    // Where manifests name ConfigMaps.
    ("/configmaps", Some(DOCUMENTS), "", &["list", "watch"]),
];

#[rustfmt::skip]
const MAY_NOT: &[Row] = &[
    // No Secrets of namespaces that have not opted in, and no writes to namespaces whose Secrets are only read.
    ("/secrets", None, "", ALL),
    ("/secrets", Some(OTHER), "", ALL),
    ("/secrets", Some("kube-system"), "", ALL),
    ("/secrets", Some("tamis-system"), "", ALL),
    ("/secrets", Some(SECRETS), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("/secrets", Some(GROUP), "", &["patch", "delete", "deletecollection"]),
    // No ConfigMaps of namespaces that have not opted in, none by its name, and no writes.
    ("/configmaps", None, "", ALL),
    ("/configmaps", Some(OTHER), "", ALL),
    ("/configmaps", Some(GROUP), "", ALL),
    ("/configmaps", Some(SECRETS), "", ALL),
    ("/configmaps", Some("kube-system"), "", ALL),
    ("/configmaps", Some("tamis-system"), "", ALL),
    ("/configmaps", Some(DOCUMENTS), "", &["get", "create", "update", "patch", "delete", "deletecollection"]),
    ("/secrets", Some(DOCUMENTS), "", ALL),
    // What people wrote stays as they wrote it.
    ("tamis.dev/servicemanifests", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/toolsfilters", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/customtools", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/prompts", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/resources", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/configurationplans", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/gatewaygroups", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/expositions", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("tamis.dev/gatewaygroups/finalizers", Some(GROUP), "", &["update"]),
    // Nothing is made where there is no group.
    ("tamis.dev/gatewayconfigs", Some(OTHER), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("apps/deployments", Some(OTHER), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("apps/deployments", Some(SECRETS), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("apps/deployments", Some("tamis-system"), "", WRITE),
    ("/services", Some(OTHER), "", WRITE),
    ("/serviceaccounts", Some(OTHER), "", WRITE),
    ("rbac.authorization.k8s.io/roles", Some(OTHER), "", WRITE),
    ("rbac.authorization.k8s.io/rolebindings", Some(OTHER), "", WRITE),
    ("networking.k8s.io/networkpolicies", Some(OTHER), "", WRITE),
    // No escalation of permissions, for itself or others.
    ("rbac.authorization.k8s.io/roles", Some(GROUP), "", &["escalate", "bind"]),
    ("rbac.authorization.k8s.io/clusterroles", None, "", ALL),
    ("rbac.authorization.k8s.io/clusterrolebindings", None, "", ALL),
    ("rbac.authorization.k8s.io/clusterroles", None, "", &["escalate", "bind"]),
    ("/serviceaccounts/token", Some(GROUP), "", &["create"]),
    ("/users", None, "", &["impersonate"]),
    ("/groups", None, "", &["impersonate"]),
    ("/serviceaccounts", None, "", &["impersonate"]),
    // No way into pods and nodes.
    ("/pods", Some(GROUP), "", &["create", "update", "patch", "delete", "deletecollection"]),
    ("/pods/exec", Some(GROUP), "", &["get", "create"]),
    ("/pods/attach", Some(GROUP), "", &["get", "create"]),
    ("/pods/portforward", Some(GROUP), "", &["get", "create"]),
    ("/pods/proxy", Some(GROUP), "", &["get", "create"]),
    ("/pods/log", Some(GROUP), "", &["get"]),
    ("/pods/eviction", Some(GROUP), "", &["create"]),
    ("/pods/ephemeralcontainers", Some(GROUP), "", &["update", "patch"]),
    ("/services/proxy", Some(GROUP), "", &["get", "create"]),
    ("/nodes", None, "", ALL),
    ("/nodes/proxy", None, "", &["get", "create"]),
    ("apps/deployments/scale", Some(GROUP), "", &["get", "update", "patch"]),
    // Nothing of the cluster's own.
    ("/namespaces", None, "", &["create", "update", "patch", "delete"]),
    ("/persistentvolumes", None, "", ALL),
    ("apiextensions.k8s.io/customresourcedefinitions", None, "", ALL),
    ("admissionregistration.k8s.io/validatingadmissionpolicies", None, "", ALL),
    ("admissionregistration.k8s.io/validatingwebhookconfigurations", None, "", ALL),
    ("admissionregistration.k8s.io/mutatingwebhookconfigurations", None, "", ALL),
    ("certificates.k8s.io/certificatesigningrequests", None, "", ALL),
    // Another's Lease.
    ("coordination.k8s.io/leases", Some("tamis-system"), "other", &["get", "list", "watch", "update", "patch", "delete"]),
    ("coordination.k8s.io/leases", Some("tamis-system"), "tamis-operator", &["patch", "delete"]),
    ("coordination.k8s.io/leases", Some("kube-system"), "", ALL),
    // Events are created, but not read or deleted.
    ("events.k8s.io/events", Some(OTHER), "", &["get", "list", "watch", "update", "delete"]),
    ("/events", Some(OTHER), "", ALL),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_has_exactly_the_rights_it_needs() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.apply(&std::fs::read_to_string(root().join("deploy/rbac.yaml"))?).await?;
    for (namespace, role) in [(GROUP, "tamis-group"), (SECRETS, "tamis-secrets"), (DOCUMENTS, "tamis-documents")] {
        cluster.namespace(namespace).await?;
        let role = format!("--clusterrole={role}");
        let account = "--serviceaccount=tamis-system:tamis-operator";
        cluster.kubectl(&["-n", namespace, "create", "rolebinding", "tamis", &role, account], None).await?;
    }
    cluster.namespace(OTHER).await?;
    let mut wrong = Vec::new();
    let mut asked = 0;
    for (rows, expected) in [(MAY, true), (MAY_NOT, false)] {
        for (resource, namespace, name, verbs) in rows {
            for verb in *verbs {
                asked += 1;
                if allowed(&cluster, resource, *namespace, name, verb).await? != expected {
                    let place = namespace.unwrap_or("the cluster");
                    wrong.push(format!("{verb} {resource} {name} in {place}: expected {expected}"));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{asked} questions");
    forbidden_requests_fail(&cluster).await
}

async fn allowed(cluster: &Cluster, resource: &str, namespace: Option<&str>, name: &str, verb: &str) -> Result<bool> {
    let (group, resource) = resource.split_once('/').context("group/resource")?;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": "system:serviceaccount:tamis-system:tamis-operator",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:tamis-system", "system:authenticated"],
        "resourceAttributes": {
            "group": group, "version": "*", "resource": resource, "subresource": subresource,
            "namespace": namespace.unwrap_or(""), "name": name, "verb": verb,
        },
    }}))?;
    let api: Api<SubjectAccessReview> = Api::all(cluster.client());
    Ok(api.create(&PostParams::default(), &review).await?.status.context("an answer")?.allowed)
}

/// The authoriser's answers are one thing; what the API does with the operator's own token is another.
async fn forbidden_requests_fail(cluster: &Cluster) -> Result<()> {
    let operator = cluster.service_account("tamis-system", "tamis-operator").await?;
    cluster.kubectl(&["-n", OTHER, "create", "secret", "generic", "s", "--from-literal=a=b"], None).await?;
    let role = |rule: serde_json::Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
               "metadata": {"name": "r", "namespace": GROUP}, "rules": [rule]})
        .to_string()
    };
    let wide = role(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
    let pods = role(json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}));
    let admin = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "r", "namespace": GROUP},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "tamis-operator", "namespace": "tamis-system"}]})
    .to_string();
    let create: &[&str] = &["create", "--filename=-"];
    let tries: [(&str, &[&str], Option<&str>); 6] = [
        ("a Secret of a namespace that takes no part", &["-n", OTHER, "get", "secret", "s"], None),
        ("all Secrets", &["get", "secrets", "--all-namespaces"], None),
        ("a Role with more than it has", create, Some(&wide)),
        ("a Role with a way into pods", create, Some(&pods)),
        ("more rights for itself", create, Some(&admin)),
        ("a token of a gateway", &["-n", GROUP, "create", "token", "default"], None),
    ];
    for (what, arguments, stdin) in tries {
        let refused = cluster.kubectl_as(&operator, arguments, stdin).await;
        let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(said.contains("orbidden"), "{what}: {said:?}");
    }
    Ok(())
}

/// What `deploy/` holds is what the API takes, to the letter.
#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_are_valid() -> Result<()> {
    let cluster = Cluster::start().await?;
    for file in ["rbac.yaml", "operator.yaml"] {
        let text = std::fs::read_to_string(root().join("deploy").join(file))?;
        let apply = ["apply", "--server-side", "--validate=strict", "--filename=-"];
        let said = cluster.kubectl(&apply, Some(&text)).await?;
        ensure!(said.contains("serverside-applied"), "{said}");
    }
    Ok(())
}

/// The real binary with these rights and no others: it looks after a group, is refused nothing, and leaves the Lease to
/// the next one when it is asked to stop.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_runs_with_these_rights() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.install_crds().await?;
    cluster.apply(&std::fs::read_to_string(root().join("deploy/rbac.yaml"))?).await?;
    cluster.namespace(GROUP).await?;
    let account = "--serviceaccount=tamis-system:tamis-operator";
    cluster
        .kubectl(&["-n", GROUP, "create", "rolebinding", "tamis", "--clusterrole=tamis-group", account], None)
        .await?;
    let kubeconfig = cluster.service_account("tamis-system", "tamis-operator").await?;
    let arguments = ["--lease-namespace", "tamis-system", "--identity", "first"];
    let mut operator = Operator::start(&cluster, &kubeconfig, &arguments).await?;
    let group = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup",
                       "metadata": {"name": "public", "namespace": GROUP}, "spec": {"replicas": 2}});
    cluster.apply(&group.to_string()).await?;
    let jsonpath = "jsonpath={.items[*].metadata.name}";
    let all = "deployment,service,serviceaccount,role,rolebinding,networkpolicy,poddisruptionbudget,secret";
    eventually("the group's objects", Duration::from_secs(20), async || {
        let there = cluster.kubectl(&["-n", GROUP, "get", all, "-o", jsonpath], None).await?;
        let there: Vec<_> = there.split_whitespace().collect();
        let ours = there.iter().filter(|name| **name == "tamis-public").count();
        Ok((ours == 7 && there.contains(&"tamis-public-token")).then_some(()))
    })
    .await?;
    eventually("the group's status", Duration::from_secs(20), async || {
        let status = ["-n", GROUP, "get", "gatewaygroup", "public", "-o", "jsonpath={.status.conditions[*].type}"];
        Ok(cluster.kubectl(&status, None).await?.contains("Ready").then_some(()))
    })
    .await?;
    ensure!((operator.admin.metric("tamis_leader", &[]).await? - 1.0).abs() < f64::EPSILON);
    let holder = ["-n", "tamis-system", "get", "lease", "tamis-operator", "-o", "jsonpath={.spec.holderIdentity}"];
    ensure!(cluster.kubectl(&holder, None).await? == "first");
    operator.process.terminate()?;
    let code = operator.process.ended(Duration::from_secs(10)).await?;
    let log = operator.process.log();
    ensure!(code.success(), "{code}\n{log}");
    ensure!(cluster.kubectl(&holder, None).await?.is_empty(), "the Lease is released\n{log}");
    ensure!(!log.to_lowercase().contains("forbidden"), "something was refused:\n{log}");
    Ok(())
}
