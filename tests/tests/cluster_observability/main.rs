//! What Prometheus sees of operators and gateways in a cluster: the operator's dashboard and alerts, with a real API
//! server that is taken away and rights that are withdrawn. Prometheus discovers its targets with the chart's monitors.

mod targets;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::Era;
use tamis_tests::cluster::{Operator, Stage};
use tamis_tests::prometheus::{Prometheus, hurried};

/// Long enough for the slowest alert, with a machine that does other things too.
const SOON: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_sees_what_operator_and_gateways_go_through() -> Result<()> {
    let mut stage = Stage::set().await?;
    let mut second = stage.another_operator().await?;
    let jobs = targets::monitors(&stage.cluster).await?;
    targets::operator(&stage.cluster, "first", &stage.operator.admin.url).await?;
    targets::operator(&stage.cluster, "second", &second.admin.url).await?;
    targets::gateway(&stage.cluster, "gateway", &stage.gateway.admin.url).await?;
    let prometheus = Prometheus::with(jobs, &["recording", "gateway", "operator"]).await?;
    prometheus.until(&hurried("up offset 1m == 1"), SOON, |found| found.len() == 3).await?;
    targets_have_the_labels_of_the_rules(&prometheus).await?;

    // What people do, and every query of the operator's dashboard has an answer.
    stage.cluster.apply(&stage.manifest()).await?;
    stage.cluster.apply(&Stage::filters("short", &edit(0))).await?;
    stage.cluster.apply(&Stage::exposition("short", &json!({"filters": ["short"]}))).await?;
    // Not called before it is there: those calls would be turned away, and counted.
    stage.ready("exposition", "short").await?;
    stage.issue_has("short", &["n0", "title"]).await?;
    for number in 1..=5 {
        stage.cluster.apply(&Stage::filters("short", &edit(number))).await?;
        stage.issue_has("short", &[&format!("n{number}"), "title"]).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    calls_are_counted(&stage, &prometheus).await?;
    println!("{}", prometheus.answers("operator").await?);
    only_one_leads(&prometheus).await?;
    assert_eq!(prometheus.alerting().await?, BTreeSet::new());

    // A filter that cannot be used.
    let broken = json!({"name": "broken", "filters": {"get-issue": {"text": {"keep": ["("]}}}});
    stage.cluster.apply(&Stage::filters("broken", &broken)).await?;
    let refused = r#"tamis_resources{kind="ToolsFilters",accepted="false"} == 1"#;
    prometheus.until(refused, SOON, |found| found.len() == 1).await?;

    // Rights that are withdrawn, with an edit on the way: the old is served, and the operator says that it cannot write.
    stage.cluster.kubectl(&["delete", "rolebinding", "tamis-group", "-n", "tamis-public"], None).await?;
    stage.cluster.apply(&Stage::filters("short", &edit(6))).await?;
    let fired = prometheus.fires("TamisReconcileErrors", SOON).await?;
    assert_eq!((&fired["labels"]["kind"], &fired["labels"]["result"]), (&json!("Exposition"), &json!("refused")));
    stage.issue_has("short", &["n5", "title"]).await?;
    prometheus.fires("TamisResourcesNotAccepted", SOON).await?;

    // The API server is away: gateways go on, and say that they hear of nothing. One that starts now is not ready.
    stage.cluster.stop_api_server()?;
    let fired = prometheus.fires("TamisConfigurationNotFollowed", SOON).await?;
    assert_eq!(fired["labels"]["gateway_group"], json!("public"));
    stage.issue_has("short", &["n5", "title"]).await?;
    // Neither operator may write without a Lease that it can renew.
    let fired = prometheus.fires("TamisNoLeader", SOON).await?;
    assert_eq!(fired["labels"]["namespace"], json!("tamis-system"));
    stage.gateway.process.kill()?;
    std::fs::remove_dir_all(&stage.gateway.cache)?;
    std::fs::create_dir_all(&stage.gateway.cache)?;
    stage.gateway.restart()?;
    let not_ready = r#"ALERTS{alertname="TamisNotReady",alertstate="firing",job="tamis-gateway"}"#;
    prometheus.until(not_ready, SOON, |found| found.len() == 1).await?;

    // It comes back, and everything heals.
    stage.cluster.start_api_server().await?;
    stage.cluster.apply(RIGHTS).await?;
    stage.gateway.ready().await?;
    stage.issue_has("short", &["n6", "title"]).await?;
    only_one_leads(&prometheus).await?;

    // An operator with a Lease of its own: two that write.
    second.process.kill()?;
    let elsewhere = ["--lease-namespace", "default", "--gateway-admin", &stage.gateway.admin.url];
    let own = Operator::start(&stage.cluster, &stage.cluster.kubeconfig(), &elsewhere).await?;
    targets::operator_ends(&stage.cluster, "second").await?;
    targets::operator(&stage.cluster, "own", &own.admin.url).await?;
    let fired = prometheus.fires("TamisTwoLeaders", SOON).await?;
    assert_eq!(fired["labels"]["namespace"], json!("tamis-system"));
    Ok(())
}

/// What the rules, the alerts and the dashboards tell targets apart by is what the chart's relabelings give them.
async fn targets_have_the_labels_of_the_rules(prometheus: &Prometheus) -> Result<()> {
    let found = prometheus.query("up").await?;
    let mut labels: Vec<Vec<(&str, &str)>> = found
        .iter()
        .map(|sample| {
            let labels = sample.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            // The port is another in each run.
            labels.filter(|(name, _)| !["__name__", "instance"].contains(name)).collect()
        })
        .collect();
    labels.sort();
    let operator = |pod| {
        vec![
            ("container", "operator"),
            ("endpoint", "admin"),
            ("job", "tamis-operator"),
            ("namespace", targets::OPERATORS),
            ("pod", pod),
            ("release", "tamis"),
            ("service", "tamis-operator"),
        ]
    };
    let gateway = vec![
        ("container", "gateway"),
        ("endpoint", "admin"),
        ("gateway_group", "public"),
        ("job", "tamis-gateway"),
        ("namespace", targets::GATEWAYS),
        ("pod", "gateway"),
    ];
    assert_eq!(labels, [gateway, operator("first"), operator("second")]);
    Ok(())
}

fn edit(number: u32) -> Value {
    let select = json!({(format!("n{number}")): "number", "title": "title"});
    json!({"name": "short", "filters": {"get-issue": {"select": select}}})
}

/// Calls through the gateway are in the recorded minutes, under the namespace of the exposition.
async fn calls_are_counted(stage: &Stage, prometheus: &Prometheus) -> Result<()> {
    let rpc = stage.gateway.rpc("team-a", "short", Era::Modern)?;
    for _ in 0..20 {
        rpc.call("get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?.text_block()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let counted = stage.gateway.admin.metric("tamis_filter_saved_bytes_total", &["team-a"]).await?;
    ensure!(counted > 0.0, "nothing was saved");
    let recorded =
        r#"sum(sum_over_time(namespace_exposition:tamis_filter_saved_bytes:delta1m{namespace="team-a"}[10m]))"#;
    let same = |value: f64| (value - counted).abs() < 0.5;
    prometheus
        .until(recorded, SOON, |found| found.len() == 1 && same(found[0].value))
        .await
        .with_context(|| format!("the gateway counted {counted}"))?;
    Ok(())
}

async fn only_one_leads(prometheus: &Prometheus) -> Result<()> {
    prometheus.until("sum(tamis_leader) == 1 and count(tamis_leader) == 2", SOON, |found| found.len() == 1).await?;
    // Only that one knows numbers of objects.
    let kinds = "count by (instance) (tamis_resources > 0)";
    prometheus.until(kinds, SOON, |found| found.len() == 1).await.map(drop)
}

/// What [`Stage`] gives the operator in the group's namespace.
const RIGHTS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tamis-group, namespace: tamis-public}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tamis-group}
subjects: [{kind: ServiceAccount, name: tamis-operator, namespace: tamis-system}]
";
