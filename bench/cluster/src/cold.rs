//! Measures the time from the start of operator and gateway until everything is served.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tamis_tests::cluster::TestEnv;

use crate::ColdArgs;
use crate::objects::{self, GROUP, TEAM};
use crate::processes;
use crate::progress::Progress;
use crate::report::Report;
use crate::requests::Requests;

/// Longer than any run that is worth waiting for.
const GIVE_UP: Duration = Duration::from_secs(1200);
/// An idle operator exits sooner.
const ENDED: Duration = Duration::from_secs(30);
/// The interval at which the API server's own count is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time for the writes that follow once everything is served: the group's count, and the status of shared objects.
const SETTLE: Duration = Duration::from_secs(5);
/// Concurrent requests, as many as the operator sends.
const CONFIG_WRITERS: usize = 24;
const STATUS_WRITERS: usize = 16;
/// The namespace of the bare writes.
const BARE: &str = "bare";

pub(crate) async fn run(args: &ColdArgs) -> Result<Report> {
    let mut report = Report::new("cold-start");
    let mut env = TestEnv::start().await?;
    // Terminated, not killed: a killed operator leaves its lease, and the next one waits until it expires.
    env.operator.process.terminate()?;
    env.operator.process.ended(ENDED).await?;
    env.gateway.process.kill()?;
    let client = env.cluster.client();
    let began = Instant::now();
    objects::fill(&client, &env.upstream.url, args.expositions, args.services, args.tools).await?;
    report.count("expositions", args.expositions);
    report.count("services", args.services);
    report.figure("applied while the operator was stopped, in", began.elapsed().as_secs_f64(), "s");

    let before = Requests::read(&client).await?;
    let mut progress = Progress::start(&client);
    tokio::time::sleep(SETTLE).await;
    let (cpu, began) = (processes::usage(), Instant::now());
    env.operator.restart()?;
    env.gateway.restart()?;
    let looks = tokio::spawn(timeline(client.clone(), before.clone(), args.expositions, began));
    progress.reach(args.expositions, GIVE_UP).await?;
    let took = began.elapsed().as_secs_f64();
    looks.abort();
    report.figure("start to all Programmed", took, "s");
    if let Ok(Err(error)) = looks.await {
        return Err(error);
    }
    processes::report_cpu(&mut report, &cpu);
    tokio::time::sleep(SETTLE).await;
    let requests = Requests::read(&client).await?.since(&before);
    report.figure("writes an exposition", requests.writes() / args.expositions as f64, "");
    requests.report(&mut report, "requests", 1);
    processes::report_memory(&mut report);
    drop(progress);

    env.operator.process.kill()?;
    env.gateway.process.kill()?;
    let bare = bare(&env, args).await?.as_secs_f64();
    report.figure("the bare writes, nothing else running", bare, "s");
    report.figure("start to all Programmed, times the bare writes", took / bare, "");
    Ok(report)
}

/// Prints the progress, to show where the time goes.
async fn timeline(client: Client, before: Requests, expositions: usize, began: Instant) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let since = Requests::read(&client).await?.since(&before);
        let usage = processes::usage();
        let memory = |name: &str| usage.get(name).map_or(0.0, |usage| usage.memory);
        eprintln!(
            "after {:.1} s: {} of {expositions} documents, {} statuses, operator {:.0} MB, gateway {:.0} MB",
            began.elapsed().as_secs_f64(),
            since.get("POST gatewayconfigs"),
            since.get("APPLY expositions/status") + since.get("PATCH expositions/status"),
            memory("operator"),
            memory("gateway"),
        );
    }
}

/// Writes the same number of objects of the same size from one client with the same number of concurrent requests and
/// without watches.
async fn bare(env: &TestEnv, args: &ColdArgs) -> Result<Duration> {
    let client = env.cluster.client();
    env.cluster.namespace(BARE).await?;
    let configs = list(&objects::api(&client, "GatewayConfig", GROUP)).await?;
    let expositions = list(&objects::api(&client, "Exposition", TEAM)).await?;
    let copies = expositions.iter().map(|object| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        json!({
            "apiVersion": "tamis.dev/v1alpha1", "kind": "Exposition",
            "metadata": {"name": name}, "spec": object.data["spec"],
        })
    });
    objects::create(&client, "Exposition", BARE, copies.collect::<Vec<_>>()).await?;
    let into = objects::api(&client, "GatewayConfig", BARE);
    let posts = configs.into_iter().map(|mut object| {
        object.metadata.namespace = Some(BARE.to_owned());
        object.metadata.uid = None;
        object.metadata.resource_version = None;
        object.metadata.creation_timestamp = None;
        object.metadata.managed_fields = None;
        let api = into.clone();
        async move { api.create(&PostParams::default(), &object).await.map(drop).context("a bare object") }
    });
    let into = objects::api(&client, "Exposition", BARE);
    let patches = expositions.iter().take(args.expositions).map(|object| {
        let name = object.metadata.name.clone().unwrap_or_default();
        let body: Value = json!({
            "apiVersion": "tamis.dev/v1alpha1", "kind": "Exposition",
            "metadata": {"name": name}, "status": object.data["status"],
        });
        let api = into.clone();
        async move {
            let params = PatchParams::apply("tamis-bench").force();
            api.patch_status(&name, &params, &Patch::Apply(&body)).await.map(drop).context("a bare status")
        }
    });
    let began = Instant::now();
    tokio::try_join!(
        stream::iter(posts).buffer_unordered(CONFIG_WRITERS).try_collect::<()>(),
        stream::iter(patches).buffer_unordered(STATUS_WRITERS).try_collect::<()>(),
    )?;
    Ok(began.elapsed())
}

/// Lists all objects, page by page.
async fn list(api: &Api<DynamicObject>) -> Result<Vec<DynamicObject>> {
    let mut params = ListParams::default().limit(1000);
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}
