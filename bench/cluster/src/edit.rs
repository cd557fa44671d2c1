//! Counts the requests of one edit to the API server, with few and with many expositions.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tamis_tests::cluster::TestEnv;

use crate::EditArgs;
use crate::objects::{self, TEAM};
use crate::processes;
use crate::progress::Progress;
use crate::report::Report;
use crate::requests::Requests;

const GIVE_UP: Duration = Duration::from_secs(1200);
/// All effects of an edit happen within this time.
const SETTLE: Duration = Duration::from_secs(3);
/// The small number of expositions.
const FEW: usize = 10;

pub(crate) async fn run(args: &EditArgs) -> Result<Report> {
    let mut report = Report::new("one-edit");
    report.count("edits", args.edits);
    for expositions in [FEW, args.expositions] {
        measure(&mut report, expositions, args.edits).await?;
    }
    Ok(report)
}

async fn measure(report: &mut Report, expositions: usize, edits: usize) -> Result<()> {
    let env = TestEnv::start().await?;
    let client = env.cluster.client();
    objects::fill(&client, &env.upstream.url, expositions, 100, 20).await?;
    let mut progress = Progress::start(&client);
    progress.reach(expositions, GIVE_UP).await?;
    // Waits for the writes that follow the start: the group's count, and the status of shared objects.
    tokio::time::sleep(SETTLE * 3).await;
    let api = objects::api(&client, "Exposition", TEAM);
    let (before, cpu) = (Requests::read(&client).await?, processes::usage());
    for edit in 0..edits {
        let name = format!("exposition-{}", edit % expositions);
        let patch = json!({"spec": {"tools": {"exclude": [format!("tool-{}", edit % 10)]}, "limits": {"concurrent": edit + 10}}});
        let edited = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let generation = edited.metadata.generation.context("no generation")?;
        progress.served(&name, generation, GIVE_UP).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let requests = Requests::read(&client).await?.since(&before);
    // One event and one write for each edit are this program's own.
    requests.report(report, &format!("an edit among {expositions}"), edits);
    report.figure(format!("an edit among {expositions}: all writes, ours too"), requests.writes() / edits as f64, "");
    let (operator, then) = (processes::usage(), cpu.get("operator").map_or(0.0, |usage| usage.cpu));
    let now = operator.get("operator").map_or(0.0, |usage| usage.cpu);
    report.figure(
        format!("an edit among {expositions}: processor time of operator"),
        (now - then) * 1000.0 / edits as f64,
        "ms",
    );
    Ok(())
}
