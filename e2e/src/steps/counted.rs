//! A real Prometheus scrapes the gateways' pods: the counters rise by exactly the bytes that the calls saved.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tamis_tests::prometheus::{Prometheus, Target};
use tamis_tests::{Era, Rpc};

use super::Stage;
use crate::product::{GATEWAYS, PUBLIC};

const CALLS: u32 = 200;
const SOON: Duration = Duration::from_secs(60);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let addresses = node.pods(PUBLIC, GATEWAYS).await?.into_iter().map(|pod| pod.status?.pod_ip);
    let addresses: Vec<String> = addresses.collect::<Option<_>>().context("a pod without an address")?;
    ensure!(addresses.len() == 2, "gateways at {addresses:?}");
    let targets = addresses.iter().map(|address| Target {
        job: "tamis-gateway",
        address: format!("{address}:9090"),
        labels: vec![("gateway_group", "public")],
    });
    let prometheus = Prometheus::start(&targets.collect::<Vec<_>>(), &["recording", "gateway"]).await?;
    prometheus.until("up == 1", SOON, |found| found.len() == 2).await?;
    let before = Counted::read(&prometheus).await?;
    // The saved bytes are the difference between what the upstream sends and what callers get.
    let upstream = format!("{}/repos/o/r/issues/7", node.service("team-a", "tracker").await?);
    let whole = reqwest::get(upstream).await?.error_for_status()?.bytes().await?.len() as f64;
    let question = node.watched().await?;
    let mut got = 0.0;
    for _ in 0..CALLS {
        // Each call opens a connection, so both gateways are called.
        let answer = Rpc::new(&question.endpoint, Era::Modern)?.call(question.tool, &question.arguments).await?;
        got += answer.text_block()?.len() as f64;
    }
    let calls = f64::from(CALLS);
    let wanted = before.calls + calls;
    prometheus
        .until(&Counted::query("tamis_tool_calls_total"), SOON, |found| {
            found.iter().map(|sample| sample.value).sum::<f64>() >= wanted
        })
        .await?;
    let rose = Counted::read(&prometheus).await?.since(&before);
    let really = Counted { calls, input: calls * whole, output: got, saved: calls * whole - got };
    ensure!(rose == really, "the counters rose by {rose:?}, but the calls had {really:?}");
    let busy = prometheus.query(&format!("{} > 0", Counted::query("tamis_tool_calls_total"))).await?;
    ensure!(busy.len() == 2, "only these gateways were called: {busy:?}");
    Ok(format!(
        "{CALLS} calls by 2 gateways: {:.0} bytes from the upstream, {:.0} to callers, {:.0} saved, all of it as counted",
        rose.input, rose.output, rose.saved
    ))
}

/// The counters of the exposition `watched`.
#[derive(Debug, PartialEq)]
struct Counted {
    calls: f64,
    input: f64,
    output: f64,
    saved: f64,
}

impl Counted {
    fn query(metric: &str) -> String {
        format!("sum by (instance) ({metric}{{namespace=\"team-a\", exposition=\"watched\"}})")
    }

    async fn read(prometheus: &Prometheus) -> Result<Self> {
        let sum = async |metric: &str| prometheus.sum(&Self::query(metric)).await;
        Ok(Self {
            calls: sum("tamis_tool_calls_total").await?,
            input: sum("tamis_filter_input_bytes_total").await?,
            output: sum("tamis_filter_output_bytes_total").await?,
            saved: sum("tamis_filter_saved_bytes_total").await?,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            input: self.input - before.input,
            output: self.output - before.output,
            saved: self.saved - before.saved,
        }
    }
}
