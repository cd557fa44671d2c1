//! Sends many edits a second for a while: counts the resulting writes, and measures how soon after the last edit
//! everything is served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_tests::cluster::TestEnv;
use tamis_tests::{Era, Rpc};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::objects::{self, SETS, TEAM};
use crate::progress::Progress;
use crate::report::Report;
use crate::requests::Requests;
use crate::{EditLoadArgs, latency, processes};

const GIVE_UP: Duration = Duration::from_secs(600);
/// Time for the statuses that follow the last edits.
const SETTLE: Duration = Duration::from_secs(5);
const TOOLS: usize = 20;

pub(crate) async fn run(args: &EditLoadArgs) -> Result<Report> {
    ensure!(args.expositions >= SETS, "--expositions: at least {SETS}, one a filter set");
    let mut report = Report::new("edit-load");
    let env = TestEnv::start().await?;
    let client = env.cluster.client();
    let services = args.expositions / SETS;
    let expositions = services * SETS;
    // As many filter sets as expositions: each edit changes one document.
    objects::fill(&client, &env.upstream.url, expositions, services, TOOLS).await?;
    Progress::start(&client).reach(expositions, GIVE_UP).await?;
    tokio::time::sleep(SETTLE).await;
    report.count("expositions, each with a filter set of its own", expositions);
    report.figure("edits a second, asked for", args.rate, "");

    let (before, cpu, began) = (Requests::read(&client).await?, processes::usage(), Instant::now());
    let end = began + Duration::from_secs(args.seconds);
    let period = Duration::from_secs_f64(expositions as f64 / args.rate);
    let api = objects::api(&client, "ToolsFilters", TEAM);
    let over = Arc::new(Notify::new());
    let caller = tokio::spawn(call(env.gateway.rpc(TEAM, "exposition-0", Era::Modern)?, Arc::clone(&over)));
    let editors = (0..expositions).map(|number| {
        let set = format!("set-{}", number / services % SETS);
        edit(api.clone(), format!("service-{}", number % services), set, period, end)
    });
    let edited = try_join_all(editors).await?;
    let took = began.elapsed().as_secs_f64();
    let last = Instant::now();
    let edits: usize = edited.iter().sum();
    report.count("edits", edits);
    report.figure("edits a second, answered", edits as f64 / took, "");
    let served = edited.iter().enumerate().map(|(number, edits)| {
        let rpc = env.gateway.rpc(TEAM, &format!("exposition-{number}"), Era::Modern);
        let mark = mark(*edits);
        async move { latency::first_call(&rpc?, &mark, last).await }
    });
    report.times("last edit to first call that shows it", try_join_all(served).await?);
    over.notify_one();
    let (calls, failed) = caller.await??;
    report.count("calls of one exposition meanwhile", calls);
    report.count("calls that failed", failed);
    tokio::time::sleep(SETTLE).await;
    processes::report_cpu(&mut report, &cpu);
    Requests::read(&client).await?.since(&before).report(&mut report, "requests an edit", edits);
    processes::report_memory(&mut report);
    Ok(report)
}

fn mark(edit: usize) -> String {
    format!("edit{edit}of")
}

/// Edits one filter set repeatedly and returns the number of edits. Skips edits that cannot be made in time.
async fn edit(api: Api<DynamicObject>, service: String, set: String, period: Duration, end: Instant) -> Result<usize> {
    let name = format!("{service}-{set}");
    let mut tick = tokio::time::interval(period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut edits = 0;
    while Instant::now() < end {
        tick.tick().await;
        // Removes the previous mark: a merge patch keeps members that it does not name.
        let mut select = json!({mark(edits + 1): "number"});
        if edits > 0 {
            select[mark(edits)] = Value::Null;
        }
        let patch = json!({"spec": {"filters": {"get-issue": {"select": select}}}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        edits += 1;
    }
    Ok(edits)
}

/// Calls one exposition until `over` is notified, and returns the numbers of calls and of failed calls.
async fn call(rpc: Rpc, over: Arc<Notify>) -> Result<(usize, usize)> {
    let arguments = json!({"owner": "o", "repo": "r", "number": 1});
    let (mut calls, mut failed) = (0, 0);
    loop {
        tokio::select! {
            biased;
            () = over.notified() => return Ok((calls, failed)),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
        let answer = rpc.call("get-issue", &arguments).await?;
        calls += 1;
        failed += usize::from(answer.text_block().is_err());
    }
}
