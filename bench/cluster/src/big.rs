//! A service of many tools behind many expositions.

use std::time::Duration;

use anyhow::Result;
use kube::api::ListParams;
use serde_json::Value;
use tamis_tests::cluster::TestEnv;

use crate::objects::{self, GROUP, TEAM};
use crate::progress::Progress;
use crate::report::Report;
use crate::requests::Requests;
use crate::{BigArgs, latency, processes};

const GIVE_UP: Duration = Duration::from_secs(600);
const SETTLE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(args: &BigArgs) -> Result<Report> {
    let mut report = Report::new("big-service");
    let env = TestEnv::start().await?;
    let client = env.cluster.client();
    tokio::time::sleep(SETTLE).await;
    let empty = processes::usage();
    let service = objects::service("big", &env.upstream.url, args.tools);
    let filters = objects::filters("big", "shared", args.tools);
    let others = args.expositions.saturating_sub(1);
    report.count("tools", args.tools);
    report.count("expositions", others + 1);
    report.figure("the manifest as JSON", kb(service.to_string().len()), "kB");
    report.figure("the filter set as JSON", kb(filters.to_string().len()), "kB");
    objects::create(&client, "ServiceManifest", TEAM, [service]).await?;
    objects::create(&client, "ToolsFilters", TEAM, [filters]).await?;
    let all = (0..others).map(|n| objects::exposition(&format!("exposition-{n}"), "big", "shared"));
    objects::create(&client, "Exposition", TEAM, all).await?;
    let mut probe = latency::Probe::set(&env, "big", args.tools).await?;
    Progress::start(&client).reach(others + 1, GIVE_UP).await?;
    tokio::time::sleep(SETTLE).await;

    stored(&mut report, &env, others + 1).await?;
    processes::report_memory(&mut report);
    for name in ["operator", "gateway"] {
        let before = empty.get(name).map_or(0.0, |usage| usage.memory);
        report.figure(format!("{name}, resident memory before"), before, "MB");
    }
    let before = Requests::read(&client).await?;
    let times = probe.changes(args.changes, PAUSE).await?;
    report.count("changes", times.len());
    latency::report_times(&mut report, &times);
    tokio::time::sleep(SETTLE).await;
    Requests::read(&client).await?.since(&before).report(&mut report, "requests a change", args.changes + 1);
    Ok(report)
}

/// Reports the number and size of the objects stored in the API.
async fn stored(report: &mut Report, env: &TestEnv, expositions: usize) -> Result<()> {
    let api = objects::api(&env.cluster.client(), "GatewayConfig", GROUP);
    let (mut services, mut each, mut parts, mut whole) = (0, 0, 0, 0);
    for object in api.list(&ListParams::default()).await? {
        whole += serde_json::to_string(&object)?.len();
        let data = object.data.pointer("/spec/data").and_then(Value::as_str).unwrap_or_default().len();
        if object.data.pointer("/spec/kind").and_then(Value::as_str) == Some("Service") {
            parts += 1;
            services += data;
        } else {
            each += data;
        }
    }
    report.count("objects of the service", parts);
    report.figure("the service, stored once", kb(services), "kB");
    report.figure("each exposition, stored", kb(each) / expositions as f64, "kB");
    report.figure("all objects as JSON", kb(whole), "kB");
    report.figure("if each exposition held the service", kb(each + services * expositions), "kB");
    Ok(())
}

fn kb(bytes: usize) -> f64 {
    bytes as f64 / 1000.0
}
