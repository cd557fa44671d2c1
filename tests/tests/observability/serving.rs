//! `tamis serve` with calls that go well and calls that do not, scraped by a real Prometheus with the chart's rules.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tamis_tests::documents::{Folder, INTERNAL};
use tamis_tests::prometheus::{Prometheus, Sample, Target, hurried};
use tamis_tests::{Gateway, Options, Port, Upstream, root};
use tempfile::TempDir;

use crate::ledger::Ledger;

/// Long enough for the slowest alert, with a machine that does other things too.
const SOON: Duration = Duration::from_secs(90);

/// Expositions of everything that can go wrong.
const TROUBLE: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: tracker-stale}
spec:
  name: stale
  service: {name: tracker, version: "1.0.0"}
  filters:
    list-issues: {select: {number: number, assignee: assignee.login}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: stale}
spec: {service: {name: tracker, version: "1.0.0"}, filters: [stale]}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: limited}
spec: {service: {name: tracker, version: "1.0.0"}, filters: [], limits: {requestsPerSecond: 1, burst: 1}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: keyed}
spec: {service: {name: tracker, version: "1.0.0"}, filters: [], access: {apiKeys: {secretRef: {name: partners}}}}
---
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: private}
spec:
  name: private
  version: "1.0.0"
  http:
    baseUrl: URL
    auth: {type: bearer, secretRef: {name: private, key: token}}
    actions: {get-log: {method: GET, path: /log}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: private}
spec: {service: {name: private, version: "1.0.0"}, filters: []}
"#;

/// An exposition that names a filter set which is not there.
const STOPPED: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: stopped}
spec: {service: {name: tracker, version: "1.0.0"}, filters: [nothing]}
"#;

/// The alerts that the trouble leads to.
const FIRING: [&str; 10] = [
    "TamisTargetDown",
    "TamisConfigurationNotLoaded",
    "TamisFilterFails",
    "TamisOutputWithheld",
    "TamisUpstreamChanged",
    "TamisUpstreamErrors",
    "TamisCallsRejected",
    "TamisExpositionStopped",
    "TamisCallersUnauthorized",
    "TamisInternalErrors",
];

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_counts_calls_to_the_byte() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    folder.write("trouble.yaml", &TROUBLE.replace("URL", &upstream.url))?;
    let secrets = secrets()?;
    let options =
        Options { arguments: vec!["--secrets".to_owned(), secrets.path().display().to_string()], ..Options::default() };
    let gateway = Gateway::with(folder.path(), &options).await?;
    let nobody = Port::reserve()?;
    // As a group's gateways have it from their monitor: the namespace of the pod is not that of an exposition.
    let labels = vec![("namespace", "tamis-public"), ("gateway_group", "public")];
    let target = |address: &str| Target { job: "tamis-gateway", address: address.to_owned(), labels: labels.clone() };
    let targets =
        [target(gateway.admin.trim_start_matches("http://")), target(&format!("127.0.0.1:{}", nobody.number()))];
    let prometheus = Prometheus::start(&targets, &["recording", "gateway"]).await?;
    // What rises before a rule has once looked is not new to it.
    prometheus.until(&hurried("up offset 1m == 1"), SOON, |found| found.len() == 1).await?;
    let mut ledger = Ledger::open(&gateway, &upstream).await?;

    // All is well: nothing fires but for the target that is not there.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        for (exposition, tool) in [("internal", "list-issues"), ("internal", "get-issue"), ("partner", "list-issues")] {
            ledger.call(exposition, tool).await?.text_block()?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    exact(&prometheus, &ledger).await.context("while all is well")?;
    assert_eq!(prometheus.alerting().await?, [FIRING[0].to_owned()].into_iter().collect());

    // Trouble, until every alert has fired that should.
    folder.write("stopped.yaml", STOPPED)?;
    folder.write("broken.yaml", "kind: [")?;
    let mut seen = BTreeSet::new();
    let began = Instant::now();
    while seen.len() < FIRING.len() {
        ensure!(began.elapsed() < SOON, "only these fire: {seen:?}\n{}", gateway.log());
        cause_trouble(&mut ledger).await?;
        for alert in FIRING {
            if let Some(fired) = prometheus.firing(alert).await?.first() {
                if seen.insert(alert) {
                    println!("{alert} after {:?}: {}", began.elapsed(), fired["annotations"]["summary"]);
                }
                let said = fired["annotations"].to_string();
                assert!(
                    !said.contains("{{") && !said.contains("error expanding") && !said.contains("no value"),
                    "{said}"
                );
            }
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let firing: BTreeSet<String> = firing(&prometheus).await?;
    assert_eq!(firing, FIRING.iter().map(|name| (*name).to_owned()).collect(), "no other fires");

    // An edit, so that a reload is among the last minutes'.
    folder.remove("broken.yaml")?;
    folder.write("internal.yaml", &INTERNAL.replace("dropNulls: true", "dropNulls: false"))?;
    ledger.call("internal", "get-issue").await?.text_block()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    for board in ["savings", "gateway"] {
        println!("{}", prometheus.answers(board).await?);
    }
    exact(&prometheus, &ledger).await.context("after the trouble")?;
    rules_have_results(&prometheus).await?;
    every_metric_is_documented(&gateway).await
}

/// A folder with the keys of callers, and without the token of the private service.
fn secrets() -> Result<TempDir> {
    let secrets = TempDir::new()?;
    fs::create_dir(secrets.path().join("partners"))?;
    // Of `key-of-alice`.
    let digest = "d16a80956c32f3f5fb979bea408abac8c3eef6c54ecb234279e337146cf87b47";
    fs::write(secrets.path().join("partners/alice"), format!("sha256:{digest}\n"))?;
    Ok(secrets)
}

/// Once round everything that can go wrong.
async fn cause_trouble(ledger: &mut Ledger<'_>) -> Result<()> {
    for (exposition, tool) in [("internal", "list-issues"), ("stale", "list-issues"), ("partner", "get-issue")] {
        ledger.call(exposition, tool).await?.text_block()?;
    }
    for (exposition, tool) in [("internal", "status"), ("partner", "get-log"), ("private", "get-log")] {
        let answer = ledger.call(exposition, tool).await?;
        ensure!(answer.status == 200 && answer.text_block().is_err(), "{exposition} {tool}: {}", answer.text);
    }
    let answer = ledger.call("stopped", "get-log").await?;
    ensure!(answer.status == 503, "{} {}", answer.status, answer.text);
    // More calls than the limit allows, and more wrong keys than by typing errors.
    for _ in 0..5 {
        ledger.call("limited", "get-log").await?;
    }
    for _ in 0..10 {
        let answer = ledger.call("keyed", "get-log").await?;
        ensure!(answer.status == 401, "{} {}", answer.status, answer.text);
    }
    Ok(())
}

async fn firing(prometheus: &Prometheus) -> Result<BTreeSet<String>> {
    let found = prometheus.query(r#"ALERTS{alertstate="firing"}"#).await?;
    Ok(found.into_iter().filter_map(|sample| sample.labels.get("alertname").cloned()).collect())
}

/// Every sum that Prometheus has is, to the byte, what callers saw: the counters, and the recorded minutes.
async fn exact(prometheus: &Prometheus, ledger: &Ledger<'_>) -> Result<()> {
    for ((exposition, tool), counts) in &ledger.counts {
        for (metric, wanted) in [
            ("tamis_tool_calls_total", counts.calls),
            ("tamis_filter_input_bytes_total", counts.input),
            ("tamis_filter_output_bytes_total", counts.output),
            ("tamis_filter_saved_bytes_total", counts.saved),
            ("tamis_filter_saved_tokens_estimate_total", counts.saved_tokens),
        ] {
            let series =
                format!(r#"sum({metric}{{namespace="default",exposition="{exposition}",tool="{tool}"}}) or vector(0)"#);
            is(prometheus, &series, wanted).await?;
        }
    }
    let names: BTreeSet<&str> = ledger.counts.keys().map(|(name, _)| name.as_str()).collect();
    let (mut all, mut tokens) = (0, 0);
    for name in names {
        let counts = ledger.of(name);
        all += counts.saved;
        tokens += counts.saved_tokens;
        for (record, wanted) in [
            ("namespace_exposition_outcome:tamis_tool_calls:delta1m", counts.calls),
            ("namespace_exposition:tamis_filter_input_bytes:delta1m", counts.input),
            ("namespace_exposition:tamis_filter_output_bytes:delta1m", counts.output),
            ("namespace_exposition:tamis_filter_saved_bytes:delta1m", counts.saved),
            ("namespace_exposition:tamis_filter_saved_tokens_estimate:delta1m", counts.saved_tokens),
        ] {
            let over =
                format!(r#"sum(sum_over_time({record}{{namespace="default",exposition="{name}"}}[10m])) or vector(0)"#);
            is(prometheus, &over, wanted).await?;
        }
    }
    is(prometheus, "sum(sum_over_time(cluster:tamis_filter_saved_bytes:delta1m[10m]))", all).await?;
    let record = "cluster:tamis_filter_saved_tokens_estimate:delta1m";
    is(prometheus, &format!("sum(sum_over_time({record}[10m]))"), tokens).await?;
    // No vocabulary is loaded, so there is no sample.
    is(prometheus, "sum(tamis_filter_token_sample_bytes_total)", 0).await?;
    for ((exposition, status), count) in &ledger.rejected {
        // A stopped exposition has no series of its own.
        let reason = match status {
            401 => "unauthorized",
            429 => "rate",
            _ => "stopped",
        };
        let series = format!(r#"tamis_requests_rejected_total{{exposition=~"{exposition}|",reason="{reason}"}}"#);
        is(prometheus, &format!("sum({series})"), *count).await?;
        let record = format!(r#"namespace_exposition_reason:tamis_requests_rejected:delta1m{{reason="{reason}"}}"#);
        is(prometheus, &format!("sum(sum_over_time({record}[10m]))"), *count).await?;
    }
    Ok(())
}

/// Waits for the next scrape and the next evaluation.
async fn is(prometheus: &Prometheus, query: &str, wanted: u64) -> Result<()> {
    // What a range is here covers the whole test.
    let equal = |found: &[Sample]| {
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let wanted = wanted as f64;
        found.iter().map(|sample| sample.value).sum::<f64>().to_bits() == wanted.to_bits()
    };
    let found = prometheus.until(query, Duration::from_secs(15), equal).await;
    found.map(drop).with_context(|| format!("wanted {wanted}"))
}

/// Every recording rule has written something, and no rule fails.
async fn rules_have_results(prometheus: &Prometheus) -> Result<()> {
    let rules = prometheus.rules().await?;
    assert_eq!(rules.len(), 27);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        if rule["type"] == "recording" {
            let name = rule["name"].as_str().context("a name")?;
            assert!(!prometheus.query(name).await?.is_empty(), "{name} has no results");
        }
    }
    Ok(())
}

/// Every metric of the gateway is in the reference.
async fn every_metric_is_documented(gateway: &Gateway) -> Result<()> {
    let page = fs::read_to_string(root().join("docs/metrics.md"))?;
    for line in gateway.admin("/metrics").await?.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap_or_default();
        assert!(page.contains(&format!("\n### {name}\n")), "{name} is not in docs/metrics.md");
    }
    Ok(())
}
