//! The chart's monitors, rules and dashboards, rendered by the real Helm, applied to an API server with the Prometheus
//! operator's own definitions.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::Cluster;
use tamis_tests::prometheus::program;
use tamis_tests::root;
use tempfile::TempDir;

const DEFINITIONS: [&str; 3] = [
    "servicemonitors.monitoring.coreos.com",
    "podmonitors.monitoring.coreos.com",
    "prometheusrules.monitoring.coreos.com",
];
const NAMESPACE: &str = "tamis-system";
const FILES: [&str; 3] =
    ["templates/monitoring/monitors.yaml", "templates/monitoring/rules.yaml", "templates/monitoring/dashboards.yaml"];
const SWITCHES: [&str; 4] = [
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.podMonitor.enabled=true",
    "monitoring.rules.enabled=true",
    "monitoring.dashboards.enabled=true",
];

/// Renders what is about monitoring, with all of it switched on and further values.
async fn render(cluster: &Cluster, values: &[&str]) -> Result<String> {
    let mut arguments = vec!["template", "tamis", "charts/tamis", "--namespace", NAMESPACE];
    for file in FILES {
        arguments.extend(["--show-only", file]);
    }
    for value in SWITCHES {
        arguments.extend(["--set", value]);
    }
    for value in values {
        arguments.extend(["--set", value]);
    }
    cluster.helm(&arguments).await
}

async fn get(cluster: &Cluster, kind: &str, name: &str) -> Result<Value> {
    let text = cluster.kubectl(&["get", kind, name, "--namespace", NAMESPACE, "--output", "json"], None).await?;
    Ok(serde_json::from_str(&text)?)
}

/// The rules of a PrometheusRule.
fn rules(object: &Value) -> Vec<&Value> {
    let groups = object["spec"]["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().into_iter().flatten()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prometheus_operators_definitions_accept_the_charts_objects() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.install_definitions(&DEFINITIONS).await?;
    cluster.namespace(NAMESPACE).await?;

    // As it is, and with everything that can be said of it. A field that a definition does not know is refused.
    cluster.apply(&render(&cluster, &[]).await?).await?;
    let monitor = get(&cluster, "podmonitor", "tamis-gateways").await?;
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"], json!(true), "{monitor}");
    assert_eq!(monitor["spec"]["namespaceSelector"], json!({"any": true}), "{monitor}");
    let rule = get(&cluster, "prometheusrule", "tamis").await?;
    let (recorded, alerts): (Vec<&Value>, Vec<&Value>) = rules(&rule).into_iter().partition(|r| r["alert"].is_null());
    assert_eq!((recorded.len(), alerts.len()), (14, 18));
    valid(&rule)?;
    for board in ["savings", "gateway", "operator"] {
        let map = get(&cluster, "configmap", &format!("tamis-dashboard-{board}")).await?;
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], json!("1"), "{map}");
        let shown: Value =
            serde_json::from_str(map["data"][format!("tamis-{board}.json")].as_str().context("a board")?)?;
        let file = root().join(format!("charts/tamis/dashboards/{board}.json"));
        assert_eq!(shown, serde_json::from_str::<Value>(&fs::read_to_string(file)?)?);
    }

    let everything = [
        "watchNamespaces={edge}",
        "groupNamespaces={edge}",
        "monitoring.serviceMonitor.labels.release=prometheus",
        "monitoring.serviceMonitor.interval=15s",
        "monitoring.serviceMonitor.scrapeTimeout=10s",
        "monitoring.serviceMonitor.relabelings[0].targetLabel=cluster",
        "monitoring.serviceMonitor.relabelings[0].replacement=here",
        "monitoring.serviceMonitor.metricRelabelings[0].action=drop",
        "monitoring.serviceMonitor.metricRelabelings[0].sourceLabels={__name__}",
        "monitoring.serviceMonitor.metricRelabelings[0].regex=process_.*",
        "monitoring.podMonitor.sampleLimit=100000",
        "monitoring.podMonitor.interval=15s",
        "monitoring.rules.labels.release=prometheus",
        "monitoring.rules.disabledAlerts={TamisUpstreamChanged}",
        "monitoring.rules.alertLabels.team=platform",
        "monitoring.rules.runbookUrl=https://docs.example.com/runbooks.html",
        "monitoring.dashboards.annotations.grafana_folder=Tamis",
    ];
    cluster.apply(&render(&cluster, &everything).await?).await?;
    let monitor = get(&cluster, "podmonitor", "tamis-gateways").await?;
    let namespaces = monitor["spec"]["namespaceSelector"]["matchNames"].as_array().context("namespaces")?;
    assert!(namespaces.contains(&json!("edge")), "{monitor}");
    let rule = get(&cluster, "prometheusrule", "tamis").await?;
    valid(&rule)?;
    let alerts: Vec<&Value> = rules(&rule).into_iter().filter(|rule| !rule["alert"].is_null()).collect();
    assert_eq!(alerts.len(), 17);
    for alert in alerts {
        let name = alert["alert"].as_str().context("a name")?;
        assert_ne!(name, "TamisUpstreamChanged");
        assert_eq!(alert["labels"]["team"], json!("platform"), "{alert}");
        assert!(!alert["labels"]["severity"].is_null(), "{alert}");
        let wanted = format!("https://docs.example.com/runbooks.html#{}", name.to_lowercase());
        assert_eq!(alert["annotations"]["runbook_url"], json!(wanted));
    }

    // The definitions do refuse what they do not know.
    let wrong = render(&cluster, &["monitoring.podMonitor.relabelings[0].action=nonsense"]).await?;
    let refused = cluster.apply(&wrong).await.err().context("nonsense is taken")?;
    assert!(format!("{refused:#}").contains("Unsupported value"), "{refused:#}");
    Ok(())
}

/// promtool takes the rules as they are in the cluster.
fn valid(rule: &Value) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("rules.yaml");
    fs::write(&file, rule["spec"].to_string())?;
    let output = Command::new(program("promtool")?).args(["check", "rules"]).arg(&file).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
