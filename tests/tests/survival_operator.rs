//! Operators that are killed, run twice or are suspended: callers notice nothing, and the last edit is served.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tamis_tests::Era;
use tamis_tests::cluster::{Operator, PairedServices, Random, Side, eventually};

const SOON: Duration = Duration::from_secs(30);
/// A lease that was not given back lasts 15 seconds, from a renewal at most 2 seconds before.
const LEASE: Duration = Duration::from_secs(15);

async fn leads(operator: &Operator) -> Result<bool> {
    Ok(operator.admin.metric("tamis_leader", &[]).await? > 0.0)
}

async fn wait_until_leading(operator: &Operator) -> Result<Duration> {
    let began = Instant::now();
    eventually("to lead", SOON, async || Ok(leads(operator).await?.then_some(()))).await?;
    Ok(began.elapsed())
}

/// Edits as fast as the API takes them: sets of both services, and which of them is published.
async fn edits(services: &PairedServices, random: &mut Random, shown: &mut Side, count: u64) -> Result<()> {
    for _ in 0..count {
        services.edit(random.side()).await?;
        if random.below(3) == 0 {
            *shown = random.side();
            services.publish(*shown).await?;
        }
    }
    Ok(())
}

/// The last edit, and how long it takes to be served.
async fn converges(services: &PairedServices, shown: Side) -> Result<Duration> {
    let version = services.edit(shown).await?;
    services.wait_until_served(shown, version).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_at_any_moment_loses_nothing() -> Result<()> {
    const KILLS: usize = 12;
    let mut services = PairedServices::start().await?;
    let leases: Api<Lease> = Api::namespaced(services.env.cluster.client(), "tamis-system");
    let mut random = Random(20_260_728);
    let mut shown = Side::A;
    for _ in 0..KILLS {
        let pause = Duration::from_millis(random.below(250));
        {
            let mut stream = std::pin::pin!(edits(&services, &mut random, &mut shown, u64::MAX));
            tokio::select! {
                ended = &mut stream => ended?,
                () = tokio::time::sleep(pause) => {}
            }
        }
        services.env.operator.process.kill()?;
        // Edits while no operator runs. The Lease is deleted so that the next operator need not wait until it expires.
        edits(&services, &mut random, &mut shown, 3).await?;
        leases.delete("tamis-operator", &DeleteParams::default()).await?;
        services.env.operator.restart()?;
        services.env.operator.ready().await?;
        wait_until_leading(&services.env.operator).await?;
    }
    // What was shown last is not known where an edit was cut off.
    shown = Side::B;
    services.publish(shown).await?;
    let took = converges(&services, shown).await?;
    println!("converged {took:.2?} after the last edit, {KILLS} kills; {}", services.verdict()?);

    // Once with the lease as it was left.
    edits(&services, &mut random, &mut shown, 5).await?;
    services.env.operator.process.kill()?;
    let version = services.edit(shown).await?;
    services.publish(shown).await?;
    services.env.operator.restart()?;
    let took = services.wait_until_served(shown, version).await?;
    ensure!(took < LEASE + Duration::from_secs(10), "{took:?}");
    services.env.ready("exposition", "watched").await?;
    println!("converged {took:.2?} after a restart with the lease still held; {}", services.verdict()?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_operators_writes() -> Result<()> {
    let mut services = PairedServices::start().await?;
    let mut random = Random(7);
    let mut shown = Side::A;
    wait_until_leading(&services.env.operator).await?;
    let second = services.env.another_operator().await?;
    edits(&services, &mut random, &mut shown, 30).await?;
    converges(&services, shown).await?;
    ensure!(leads(&services.env.operator).await? && !leads(&second).await?, "one of them leads");
    let written = |operator: &Operator| {
        let url = operator.admin.url.clone();
        async move {
            let text = reqwest::get(format!("{url}/metrics")).await?.text().await?;
            // Series of what has not happened yet are there with 0.
            let counted = |line: &str| line.starts_with("tamis_reconcile_total{") && !line.ends_with("} 0");
            anyhow::Ok(text.lines().any(counted))
        }
    };
    ensure!(written(&services.env.operator).await? && !written(&second).await?, "who follows does not write");

    // Killed under a stream of edits: the follower takes over when the lease has run out.
    edits(&services, &mut random, &mut shown, 5).await?;
    services.env.operator.process.kill()?;
    edits(&services, &mut random, &mut shown, 5).await?;
    let took = wait_until_leading(&second).await?;
    ensure!(took > Duration::from_secs(10) && took < Duration::from_secs(20), "taken over after {took:?}");
    let converged = converges(&services, shown).await?;
    println!("killed: taken over after {took:.2?}, edit served after {converged:.2?}; {}", services.verdict()?);

    // Asked to stop: the follower takes over at once.
    services.env.operator.restart()?;
    services.env.operator.ready().await?;
    edits(&services, &mut random, &mut shown, 5).await?;
    let mut leaving = second;
    leaving.process.terminate()?;
    let took = wait_until_leading(&services.env.operator).await?;
    let status = leaving.process.ended(SOON).await?;
    ensure!(took < Duration::from_secs(3) && status.success(), "{took:?}, {status}");
    let converged = converges(&services, shown).await?;
    services.env.ready("exposition", "watched").await?;
    println!("stopped: taken over after {took:.2?}, edit served after {converged:.2?}; {}", services.verdict()?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_leader_resumes_deposed() -> Result<()> {
    let services = PairedServices::start().await?;
    let mut random = Random(3);
    let mut shown = Side::A;
    services.add_exposition("withdrawn", Side::B).await?;
    services.wait_for_status("withdrawn", 200).await?;
    wait_until_leading(&services.env.operator).await?;
    let second = services.env.another_operator().await?;

    // Put to sleep in the middle of its writes.
    {
        let mut stream = std::pin::pin!(edits(&services, &mut random, &mut shown, u64::MAX));
        tokio::select! {
            ended = &mut stream => ended?,
            () = tokio::time::sleep(Duration::from_millis(130)) => services.env.operator.process.pause()?,
        }
    }
    services.publish(Side::A).await?;
    services.delete_exposition("withdrawn").await?;
    let took = wait_until_leading(&second).await?;
    let version = services.edit(Side::A).await?;
    services.wait_until_served(Side::A, version).await?;
    services.wait_for_status("withdrawn", 404).await?;
    let before = services.documents().await?;
    ensure!(before.len() == 1, "{before:?}");

    // It wakes, learns what happened, and writes nothing.
    services.env.operator.process.resume()?;
    eventually("that it notices", SOON, async || Ok((!leads(&services.env.operator).await?).then_some(()))).await?;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let now = services.documents().await?;
        ensure!(now == before, "written by the deposed leader: {now:?}, was {before:?}");
    }
    ensure!(leads(&second).await? && !leads(&services.env.operator).await?);
    let converged = converges(&services, Side::A).await?;
    println!("asleep: taken over after {took:.2?}, edit served after {converged:.2?}; {}", services.verdict()?);
    Ok(())
}

/// The worst case: a suspended operator leads again as soon as it resumes, with many changes that it has not read yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_resumes_leading_reads_before_it_writes() -> Result<()> {
    const ROUNDS: usize = 6;
    let services = PairedServices::start().await?;
    let leases: Api<Lease> = Api::namespaced(services.env.cluster.client(), "tamis-system");
    let rpc = services.env.gateway.rpc("team-a", "withdrawn", Era::Modern)?;
    wait_until_leading(&services.env.operator).await?;
    let mut second = services.env.another_operator().await?;
    for round in 0..ROUNDS {
        services.add_exposition("withdrawn", Side::B).await?;
        services.wait_for_status("withdrawn", 200).await?;
        services.env.operator.process.pause()?;
        leases.delete("tamis-operator", &DeleteParams::default()).await?;
        wait_until_leading(&second).await?;
        for _ in 0..30 {
            services.edit(Side::A).await?;
        }
        let version = services.edit(Side::A).await?;
        services.wait_until_served(Side::A, version).await?;
        services.delete_exposition("withdrawn").await?;
        services.wait_for_status("withdrawn", 404).await?;
        second.process.terminate()?;
        second.process.ended(SOON).await?;
        let before = services.documents().await?;
        services.env.operator.process.resume()?;
        wait_until_leading(&services.env.operator).await?;
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            let status = rpc.call("read", &json!({})).await?.status;
            ensure!(status == 404, "round {round}: what was withdrawn answers {status}");
            let now = services.documents().await?;
            ensure!(now == before, "round {round}: {now:?}, was {before:?}");
        }
        services.verdict()?;
        second.restart()?;
        second.ready().await?;
    }
    let converged = converges(&services, Side::A).await?;
    println!("converged {converged:.2?} after {ROUNDS} rounds; {}", services.verdict()?);
    Ok(())
}
