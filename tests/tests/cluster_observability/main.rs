//! What Prometheus sees of operators and gateways in a cluster: the operator's dashboard and alerts, with a real API
//! server that is taken away and rights that are withdrawn. Prometheus discovers its targets with the chart's monitors.

mod targets;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::Era;
use tamis_tests::cluster::{Operator, TestEnv};
use tamis_tests::prometheus::{Prometheus, hurried};

/// Long enough for the slowest alert, with a machine that does other things too.
const SOON: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboards_follow_operators_and_gateways() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let mut second = env.another_operator().await?;
    let jobs = targets::monitors(&env.cluster).await?;
    targets::operator(&env.cluster, "first", &env.operator.admin.url).await?;
    targets::operator(&env.cluster, "second", &second.admin.url).await?;
    targets::gateway(&env.cluster, "gateway", &env.gateway.admin.url).await?;
    let prometheus = Prometheus::with(jobs, &["recording", "gateway", "operator"]).await?;
    prometheus.until(&hurried("up offset 1m == 1"), SOON, |found| found.len() == 3).await?;
    targets_have_the_labels_of_the_rules(&prometheus).await?;

    // What people do, and every query of the operator's dashboard has an answer.
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&TestEnv::filters("short", &edit(0))).await?;
    env.cluster.apply(&TestEnv::exposition("short", &json!({"filters": ["short"]}))).await?;
    // Not called before it is there: those calls would be turned away, and counted.
    env.ready("exposition", "short").await?;
    env.issue_has("short", &["n0", "title"]).await?;
    for number in 1..=5 {
        env.cluster.apply(&TestEnv::filters("short", &edit(number))).await?;
        env.issue_has("short", &[&format!("n{number}"), "title"]).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    calls_are_counted(&env, &prometheus).await?;
    println!("{}", prometheus.answers("operator").await?);
    only_one_leads(&prometheus).await?;
    assert_eq!(prometheus.alerting().await?, BTreeSet::new());

    // A filter that cannot be used.
    let broken = json!({"name": "broken", "filters": {"get-issue": {"text": {"keep": ["("]}}}});
    env.cluster.apply(&TestEnv::filters("broken", &broken)).await?;
    let refused = r#"tamis_resources{kind="ToolsFilters",accepted="false"} == 1"#;
    prometheus.until(refused, SOON, |found| found.len() == 1).await?;

    // Rights that are withdrawn, with an edit on the way: the old is served, and the operator says that it cannot write.
    env.cluster.kubectl(&["delete", "rolebinding", "tamis-group", "-n", "tamis-public"], None).await?;
    env.cluster.apply(&TestEnv::filters("short", &edit(6))).await?;
    let fired = prometheus.fires("TamisReconcileErrors", SOON).await?;
    assert_eq!((&fired["labels"]["kind"], &fired["labels"]["result"]), (&json!("Exposition"), &json!("refused")));
    env.issue_has("short", &["n5", "title"]).await?;
    prometheus.fires("TamisResourcesNotAccepted", SOON).await?;

    // The API server is away: gateways keep serving, and report that they follow no changes. One that starts now is not
    // ready.
    env.cluster.stop_api_server()?;
    let fired = prometheus.fires("TamisConfigurationNotFollowed", SOON).await?;
    assert_eq!(fired["labels"]["gateway_group"], json!("public"));
    env.issue_has("short", &["n5", "title"]).await?;
    // Neither operator may write without a Lease that it can renew.
    let fired = prometheus.fires("TamisNoLeader", SOON).await?;
    assert_eq!(fired["labels"]["namespace"], json!("tamis-system"));
    env.gateway.process.kill()?;
    std::fs::remove_dir_all(&env.gateway.cache)?;
    std::fs::create_dir_all(&env.gateway.cache)?;
    env.gateway.restart()?;
    let not_ready = r#"ALERTS{alertname="TamisNotReady",alertstate="firing",job="tamis-gateway"}"#;
    prometheus.until(not_ready, SOON, |found| found.len() == 1).await?;

    // It comes back, and everything heals.
    env.cluster.start_api_server().await?;
    env.cluster.apply(RIGHTS).await?;
    env.gateway.ready().await?;
    env.issue_has("short", &["n6", "title"]).await?;
    only_one_leads(&prometheus).await?;

    // An operator with a Lease of its own: two that write.
    second.process.kill()?;
    let elsewhere = ["--lease-namespace", "default", "--gateway-admin", &env.gateway.admin.url];
    let own = Operator::start(&env.cluster, &env.cluster.kubeconfig(), &elsewhere).await?;
    targets::operator_ends(&env.cluster, "second").await?;
    targets::operator(&env.cluster, "own", &own.admin.url).await?;
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
async fn calls_are_counted(env: &TestEnv, prometheus: &Prometheus) -> Result<()> {
    let rpc = env.gateway.rpc("team-a", "short", Era::Modern)?;
    for _ in 0..20 {
        rpc.call("get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?.text_block()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let counted = env.gateway.admin.metric("tamis_filter_saved_bytes_total", &["team-a"]).await?;
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

/// What [`TestEnv`] gives the operator in the group's namespace.
const RIGHTS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tamis-group, namespace: tamis-public}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tamis-group}
subjects: [{kind: ServiceAccount, name: tamis-operator, namespace: tamis-system}]
";
