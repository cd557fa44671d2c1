//! An outage of the API server, a stream of edits, a suspended gateway: answers stay correct, and the last edit is
//! served.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tamis_config::{GatewayConfig, PayloadKind};
use tamis_tests::Era;
use tamis_tests::cluster::{PairedServices, Side, TestEnv, eventually};

/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(60);
/// How soon after its return an edit has to be served.
const BACK: Duration = Duration::from_secs(20);

/// Waits while calls continue, and returns how many were answered.
async fn count_calls_until(services: &PairedServices, until: Instant) -> Result<usize> {
    let before = services.probe.good();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
        services.verdict()?;
    }
    let answered = services.probe.good() - before;
    ensure!(answered > 0, "nothing was answered");
    Ok(answered)
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_notice_no_api_server_outage() -> Result<()> {
    let services = PairedServices::start().await?;
    let version = services.edit(Side::A).await?;
    services.wait_until_served(Side::A, version).await?;
    services.add_exposition("withdrawn", Side::B).await?;
    services.wait_for_status("withdrawn", 200).await?;

    services.env.cluster.stop_api_server()?;
    let answered = count_calls_until(&services, Instant::now() + AWAY).await?;
    // Returns without its history: all watches have to restart.
    services.env.cluster.start_compacted().await?;
    let back = Instant::now();
    let version = services.edit(Side::A).await?;
    services.wait_until_served(Side::A, version).await?;
    let edited = back.elapsed();
    services.publish(Side::B).await?;
    let version = services.edit(Side::B).await?;
    services.wait_until_served(Side::B, version).await?;
    println!("{answered} calls answered in {AWAY:?} without an API server; an edit after it served {edited:.2?} after");
    ensure!(edited < BACK, "an edit after the outage was served {edited:?} after it");
    println!("outage: converged {edited:.2?} after it; {}", services.verdict()?);

    // Deleted while the operator's watches are cut, and the history of it forgotten.
    services.env.operator.process.pause()?;
    services.delete_exposition("withdrawn").await?;
    let version = services.edit(Side::B).await?;
    services.env.cluster.compact().await?;
    services.env.operator.process.resume()?;
    let back = Instant::now();
    services.wait_until_served(Side::B, version).await?;
    services.wait_for_status("withdrawn", 404).await?;
    let operator = back.elapsed();

    // The same with the gateway's watches.
    services.add_exposition("withdrawn", Side::B).await?;
    services.wait_for_status("withdrawn", 200).await?;
    services.env.gateway.process.pause()?;
    services.delete_exposition("withdrawn").await?;
    let version = services.edit(Side::B).await?;
    eventually("its document to go", Duration::from_secs(30), async || {
        Ok((services.documents().await?.len() == 1).then_some(()))
    })
    .await?;
    services.env.cluster.compact().await?;
    services.env.gateway.process.resume()?;
    let back = Instant::now();
    services.wait_for_status("withdrawn", 404).await?;
    services.wait_until_served(Side::B, version).await?;
    let gateway = back.elapsed();
    println!("cut: converged {operator:.2?} (operator), {gateway:.2?} (gateway); {}", services.verdict()?);
    ensure!(operator < BACK && gateway < BACK, "{operator:?}, {gateway:?}");
    services.env.ready("exposition", "watched").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_and_gateway_restart_without_an_api_server() -> Result<()> {
    let mut services = PairedServices::start().await?;
    let version = services.edit(Side::A).await?;
    services.wait_until_served(Side::A, version).await?;
    // The last good set is on disk a moment after it is served: then it is what a new process serves.
    let kept = Instant::now() + Duration::from_secs(3);
    count_calls_until(&services, kept).await?;
    services.env.cluster.stop_api_server()?;
    services.probe.allow_failures(true);
    let began = Instant::now();
    services.env.gateway.restart()?;
    services.env.gateway.ready().await?;
    let ready = began.elapsed();
    services.probe.allow_failures(false);
    services.env.operator.restart()?;
    count_calls_until(&services, Instant::now() + Duration::from_secs(5)).await?;
    ensure!(services.probe.latest().is_some_and(|seen| seen.version == version), "{:?}", services.probe.latest());

    services.env.cluster.start_compacted().await?;
    let back = Instant::now();
    let version = services.edit(Side::A).await?;
    let operator = &mut services.env.operator;
    operator.ready().await?;
    services.wait_until_served(Side::A, version).await?;
    let edited = back.elapsed();
    println!("gateway ready from its disk after {ready:.2?}; converged {edited:.2?} after; {}", services.verdict()?);
    // The lease of the operator that was killed has to run out first.
    ensure!(edited < BACK + Duration::from_secs(15), "{edited:?}");
    Ok(())
}

/// Filter sets that are edited, each with its own exposition.
const SETS: usize = 10;

fn set_name(index: usize) -> String {
    format!("pour-{index}")
}

/// Applies the sets and their expositions, and waits until all are served.
async fn apply_sets(services: &PairedServices) -> Result<()> {
    services.env.cluster.apply(&services.env.manifest()).await?;
    for name in (0..SETS).map(set_name) {
        let filters = TestEnv::filters(&name, &json!({"name": name, "filters": set(0)}));
        services.env.cluster.apply(&filters).await?;
        services.env.cluster.apply(&TestEnv::exposition(&name, &json!({"filters": [name]}))).await?;
    }
    for name in (0..SETS).map(set_name) {
        served(services, &name, 0).await?;
    }
    Ok(())
}

/// How often exposition documents have been written.
async fn generations(services: &PairedServices) -> Result<u64> {
    let configs: Api<GatewayConfig> = Api::namespaced(services.env.cluster.client(), "tamis-public");
    let found = configs.list(&ListParams::default()).await?.items.into_iter();
    let found = found.filter(|config| config.spec.kind == PayloadKind::Exposition);
    Ok(u64::try_from(found.filter_map(|config| config.metadata.generation).sum::<i64>())?)
}

/// Edits every set from a version on, as fast as the API server takes it or at a rate, as long as `keep_going` returns
/// true for the number of edits so far. Returns the last version of each.
async fn edits(
    services: &PairedServices,
    from: u64,
    every: Option<Duration>,
    keep_going: impl Fn(u64) -> bool,
) -> Result<Vec<u64>> {
    let filters = services.api("ToolsFilters", "toolsfilters");
    let keep_going = &keep_going;
    let editors = (0..SETS).map(|index| {
        let filters = filters.clone();
        async move {
            let mut tick = every.map(tokio::time::interval);
            let mut edits = 0;
            while keep_going(edits) {
                if let Some(tick) = &mut tick {
                    tick.tick().await;
                }
                edits += 1;
                let change = json!({"spec": {"filters": set(from + edits)}});
                filters.patch(&set_name(index), &PatchParams::default(), &Patch::Merge(change)).await?;
            }
            anyhow::Ok(from + edits)
        }
    });
    try_join_all(editors).await
}

/// Waits until every last version is served.
async fn converge(services: &PairedServices, versions: &[u64]) -> Result<Duration> {
    let last = Instant::now();
    for (index, version) in versions.iter().enumerate() {
        served(services, &set_name(index), *version).await?;
    }
    Ok(last.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_edits_is_served_promptly() -> Result<()> {
    const EACH_SECOND: u32 = 500;
    const FOR: Duration = Duration::from_secs(10);
    let services = PairedServices::start().await?;
    apply_sets(&services).await?;
    let before = generations(&services).await?;
    let began = Instant::now();
    let every = Duration::from_secs(u64::try_from(SETS)?) / EACH_SECOND;
    let versions = edits(&services, 0, Some(every), |_| began.elapsed() < FOR).await?;
    let edited_for = began.elapsed();
    let converged = converge(&services, &versions).await?;
    let writes = generations(&services).await? - before;
    let edits: u64 = versions.iter().sum();
    println!(
        "stream: {edits} edits in {edited_for:.2?} ({:.0} a second), {writes} documents written, converged {converged:.2?} \
         after the last; {}",
        edits as f64 / edited_for.as_secs_f64(),
        services.verdict()?
    );
    ensure!(writes <= edits, "{writes} writes for {edits} edits");
    ensure!(converged < Duration::from_secs(5), "{converged:?}");
    Ok(())
}

/// What an operator has not seen while it slept becomes few writes, at whatever rate the API server takes edits.
#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_edits_become_few_writes() -> Result<()> {
    const EACH: u64 = 100;
    let services = PairedServices::start().await?;
    apply_sets(&services).await?;
    let before = generations(&services).await?;
    services.env.operator.process.pause()?;
    let versions = edits(&services, 0, None, |edits| edits < EACH).await?;
    ensure!(generations(&services).await? == before, "an operator that sleeps has written");
    services.env.operator.process.resume()?;
    let converged = converge(&services, &versions).await?;
    let writes = generations(&services).await? - before;
    let edits: u64 = versions.iter().sum();
    println!(
        "slept: {edits} edits, {writes} documents written, converged {converged:.2?} after; {}",
        services.verdict()?
    );
    ensure!(writes >= SETS as u64 && writes <= edits / 10, "{writes} writes for {edits} edits");
    Ok(())
}

fn set(version: u64) -> serde_json::Value {
    json!({"get-issue": {
        "retain": ["/number"],
        "patches": [{"op": "add", "path": "/version", "value": version}],
    }})
}

async fn served(services: &PairedServices, exposition: &str, version: u64) -> Result<()> {
    let rpc = services.env.gateway.rpc("team-a", exposition, Era::Modern)?;
    let wanted = json!({"number": 1, "version": version});
    eventually("the last edit", Duration::from_secs(60), async || {
        let answer = rpc.call("get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?;
        let text = answer.text_block().unwrap_or_default();
        Ok(serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|found| found == wanted).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_gateway_resumes_with_the_last_edit() -> Result<()> {
    let services = PairedServices::start().await?;
    let version = services.edit(Side::A).await?;
    services.wait_until_served(Side::A, version).await?;
    services.env.gateway.process.pause()?;
    let mut version = 0;
    for edit in 0..50 {
        version = services.edit(if edit % 2 == 0 { Side::A } else { Side::B }).await?;
        if edit % 10 == 0 {
            services.publish(if edit % 20 == 0 { Side::B } else { Side::A }).await?;
        }
    }
    services.publish(Side::B).await?;
    services.env.gateway.process.resume()?;
    let took = services.wait_until_served(Side::B, version).await?;
    services.env.ready("exposition", "watched").await?;
    println!("gateway: converged {took:.2?} after it woke; {}", services.verdict()?);
    Ok(())
}
