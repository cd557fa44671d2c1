//! Operators that die, that are two, or that sleep: nobody who calls notices, and the last edit is what is served.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tamis_tests::Era;
use tamis_tests::cluster::{Operator, Random, Twin, Twins, eventually};

const SOON: Duration = Duration::from_secs(30);
/// A lease that was not given back lasts 15 seconds, from a renewal at most 2 seconds before.
const LEASE: Duration = Duration::from_secs(15);

async fn leads(operator: &Operator) -> Result<bool> {
    Ok(operator.admin.metric("tamis_leader", &[]).await? > 0.0)
}

async fn will_lead(operator: &Operator) -> Result<Duration> {
    let began = Instant::now();
    eventually("to lead", SOON, async || Ok(leads(operator).await?.then_some(()))).await?;
    Ok(began.elapsed())
}

/// Edits as fast as the API takes them: sets of both services, and which of them is published.
async fn edits(twins: &Twins, random: &mut Random, shown: &mut Twin, count: u64) -> Result<()> {
    for _ in 0..count {
        twins.edit(random.twin()).await?;
        if random.below(3) == 0 {
            *shown = random.twin();
            twins.show(*shown).await?;
        }
    }
    Ok(())
}

/// The last edit, and how long it takes to be served.
async fn converges(twins: &Twins, shown: Twin) -> Result<Duration> {
    let version = twins.edit(shown).await?;
    twins.sees(shown, version).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_at_any_moment_loses_nothing() -> Result<()> {
    const KILLS: usize = 12;
    let mut twins = Twins::set().await?;
    let leases: Api<Lease> = Api::namespaced(twins.stage.cluster.client(), "tamis-system");
    let mut random = Random(20_260_728);
    let mut shown = Twin::A;
    for _ in 0..KILLS {
        let pause = Duration::from_millis(random.below(250));
        {
            let mut stream = std::pin::pin!(edits(&twins, &mut random, &mut shown, u64::MAX));
            tokio::select! {
                ended = &mut stream => ended?,
                () = tokio::time::sleep(pause) => {}
            }
        }
        twins.stage.operator.process.kill()?;
        // Edits that no operator sees. So that not each kill takes a lease's time, somebody takes the Lease away.
        edits(&twins, &mut random, &mut shown, 3).await?;
        leases.delete("tamis-operator", &DeleteParams::default()).await?;
        twins.stage.operator.restart()?;
        twins.stage.operator.ready().await?;
        will_lead(&twins.stage.operator).await?;
    }
    // What was shown last is not known where an edit was cut off.
    shown = Twin::B;
    twins.show(shown).await?;
    let took = converges(&twins, shown).await?;
    println!("converged {took:.2?} after the last edit, {KILLS} kills; {}", twins.verdict()?);

    // Once with the lease as it was left.
    edits(&twins, &mut random, &mut shown, 5).await?;
    twins.stage.operator.process.kill()?;
    let version = twins.edit(shown).await?;
    twins.show(shown).await?;
    twins.stage.operator.restart()?;
    let took = twins.sees(shown, version).await?;
    ensure!(took < LEASE + Duration::from_secs(10), "{took:?}");
    twins.stage.ready("exposition", "watched").await?;
    println!("converged {took:.2?} after a restart with the lease still held; {}", twins.verdict()?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_operators_one_writes() -> Result<()> {
    let mut twins = Twins::set().await?;
    let mut random = Random(7);
    let mut shown = Twin::A;
    will_lead(&twins.stage.operator).await?;
    let second = twins.stage.another_operator().await?;
    edits(&twins, &mut random, &mut shown, 30).await?;
    converges(&twins, shown).await?;
    ensure!(leads(&twins.stage.operator).await? && !leads(&second).await?, "one of them leads");
    let written = |operator: &Operator| {
        let url = operator.admin.url.clone();
        async move {
            let text = reqwest::get(format!("{url}/metrics")).await?.text().await?;
            // Series of what has not happened yet are there with 0.
            let counted = |line: &str| line.starts_with("tamis_reconcile_total{") && !line.ends_with("} 0");
            anyhow::Ok(text.lines().any(counted))
        }
    };
    ensure!(written(&twins.stage.operator).await? && !written(&second).await?, "who follows does not write");

    // Killed under a stream of edits: the follower takes over when the lease has run out.
    edits(&twins, &mut random, &mut shown, 5).await?;
    twins.stage.operator.process.kill()?;
    edits(&twins, &mut random, &mut shown, 5).await?;
    let took = will_lead(&second).await?;
    ensure!(took > Duration::from_secs(10) && took < Duration::from_secs(20), "taken over after {took:?}");
    let converged = converges(&twins, shown).await?;
    println!("killed: taken over after {took:.2?}, edit served after {converged:.2?}; {}", twins.verdict()?);

    // Asked to stop: the follower takes over at once.
    twins.stage.operator.restart()?;
    twins.stage.operator.ready().await?;
    edits(&twins, &mut random, &mut shown, 5).await?;
    let mut leaving = second;
    leaving.process.terminate()?;
    let took = will_lead(&twins.stage.operator).await?;
    let status = leaving.process.ended(SOON).await?;
    ensure!(took < Duration::from_secs(3) && status.success(), "{took:?}, {status}");
    let converged = converges(&twins, shown).await?;
    twins.stage.ready("exposition", "watched").await?;
    println!("stopped: taken over after {took:.2?}, edit served after {converged:.2?}; {}", twins.verdict()?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_sleeps_wakes_up_deposed() -> Result<()> {
    let twins = Twins::set().await?;
    let mut random = Random(3);
    let mut shown = Twin::A;
    twins.expose("withdrawn", Twin::B).await?;
    twins.answers_with("withdrawn", 200).await?;
    will_lead(&twins.stage.operator).await?;
    let second = twins.stage.another_operator().await?;

    // Put to sleep in the middle of its writes.
    {
        let mut stream = std::pin::pin!(edits(&twins, &mut random, &mut shown, u64::MAX));
        tokio::select! {
            ended = &mut stream => ended?,
            () = tokio::time::sleep(Duration::from_millis(130)) => twins.stage.operator.process.pause()?,
        }
    }
    twins.show(Twin::A).await?;
    twins.withdraw("withdrawn").await?;
    let took = will_lead(&second).await?;
    let version = twins.edit(Twin::A).await?;
    twins.sees(Twin::A, version).await?;
    twins.answers_with("withdrawn", 404).await?;
    let before = twins.documents().await?;
    ensure!(before.len() == 1, "{before:?}");

    // It wakes, learns what happened, and writes nothing.
    twins.stage.operator.process.resume()?;
    eventually("that it notices", SOON, async || Ok((!leads(&twins.stage.operator).await?).then_some(()))).await?;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let now = twins.documents().await?;
        ensure!(now == before, "written by the deposed leader: {now:?}, was {before:?}");
    }
    ensure!(leads(&second).await? && !leads(&twins.stage.operator).await?);
    let converged = converges(&twins, Twin::A).await?;
    println!("asleep: taken over after {took:.2?}, edit served after {converged:.2?}; {}", twins.verdict()?);
    Ok(())
}

/// The worst of it: who slept is the leader again the moment it wakes, with many changes before it that it has not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_wakes_as_leader_reads_before_it_writes() -> Result<()> {
    const ROUNDS: usize = 6;
    let twins = Twins::set().await?;
    let leases: Api<Lease> = Api::namespaced(twins.stage.cluster.client(), "tamis-system");
    let rpc = twins.stage.gateway.rpc("team-a", "withdrawn", Era::Modern)?;
    will_lead(&twins.stage.operator).await?;
    let mut second = twins.stage.another_operator().await?;
    for round in 0..ROUNDS {
        twins.expose("withdrawn", Twin::B).await?;
        twins.answers_with("withdrawn", 200).await?;
        twins.stage.operator.process.pause()?;
        leases.delete("tamis-operator", &DeleteParams::default()).await?;
        will_lead(&second).await?;
        for _ in 0..30 {
            twins.edit(Twin::A).await?;
        }
        let version = twins.edit(Twin::A).await?;
        twins.sees(Twin::A, version).await?;
        twins.withdraw("withdrawn").await?;
        twins.answers_with("withdrawn", 404).await?;
        second.process.terminate()?;
        second.process.ended(SOON).await?;
        let before = twins.documents().await?;
        twins.stage.operator.process.resume()?;
        will_lead(&twins.stage.operator).await?;
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            let status = rpc.call("read", &json!({})).await?.status;
            ensure!(status == 404, "round {round}: what was withdrawn answers {status}");
            let now = twins.documents().await?;
            ensure!(now == before, "round {round}: {now:?}, was {before:?}");
        }
        twins.verdict()?;
        second.restart()?;
        second.ready().await?;
    }
    let converged = converges(&twins, Twin::A).await?;
    println!("converged {converged:.2?} after {ROUNDS} rounds; {}", twins.verdict()?);
    Ok(())
}
