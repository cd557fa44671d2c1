//! Leader election against a real API server: at no moment may two candidates write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tamis_operator::leader::{self, Leadership, LeaseOptions};
use tamis_tests::cluster::{Cluster, eventually};
use tokio_util::sync::CancellationToken;

/// A lease of three seconds, of which writes may begin in the first two, renewed every fifth of a second.
fn options(identity: &str) -> LeaseOptions {
    LeaseOptions {
        duration: Duration::from_secs(3),
        renew: Duration::from_secs(2),
        retry: Duration::from_millis(200),
        ..LeaseOptions::new("default", identity)
    }
}

/// A candidate on a runtime of its own, so that it can be killed as a process is: nothing of it runs any more, and
/// nothing is released.
struct Candidate {
    leadership: Leadership,
    shutdown: CancellationToken,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Candidate {
    async fn start(cluster: &Cluster, identity: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let shutdown = CancellationToken::new();
        let (stop, options, kubeconfig) = (shutdown.clone(), options(identity), cluster.kubeconfig());
        let started = runtime.spawn(async move {
            let file = kube::config::Kubeconfig::read_from(kubeconfig)?;
            let config =
                kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?;
            anyhow::Ok(leader::run(kube::Client::try_from(config)?, options, stop))
        });
        Ok(Self { leadership: started.await??, shutdown, runtime: Some(runtime) })
    }

    fn leads(&self) -> bool {
        self.leadership.may_write().is_some()
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    async fn becomes(&self, leading: bool, within: Duration) -> Result<Duration> {
        let began = Instant::now();
        eventually("a change of leader", within, async || Ok((self.leads() == leading).then_some(()))).await?;
        Ok(began.elapsed())
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn spec(api: &Api<Lease>) -> Result<LeaseSpec> {
    api.get(LeaseOptions::NAME).await?.spec.context("the Lease has no spec")
}

/// Continuously counts how many candidates may write.
fn watch_over(candidates: &[&Candidate]) -> (Arc<AtomicUsize>, tokio::task::JoinHandle<()>) {
    let most = Arc::new(AtomicUsize::new(0));
    let leaderships: Vec<_> = candidates.iter().map(|candidate| candidate.leadership.clone()).collect();
    let seen = Arc::clone(&most);
    let task = tokio::spawn(async move {
        loop {
            let leading = leaderships.iter().filter(|leadership| leadership.may_write().is_some()).count();
            seen.fetch_max(leading, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    (most, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_candidate_writes_at_a_time() -> Result<()> {
    let cluster = Cluster::start().await?;
    let api: Api<Lease> = Api::namespaced(cluster.client(), "default");
    let mut a = Candidate::start(&cluster, "a").await?;
    a.becomes(true, Duration::from_secs(10)).await?;
    let first = spec(&api).await?;
    ensure!(first.holder_identity.as_deref() == Some("a") && first.lease_transitions == Some(0), "{first:?}");
    ensure!(first.lease_duration_seconds == Some(3), "{first:?}");

    let b = Candidate::start(&cluster, "b").await?;
    let (most, watching) = watch_over(&[&a, &b]);
    tokio::time::sleep(Duration::from_secs(4)).await;
    ensure!(a.leads() && !b.leads(), "a lease that is renewed stays where it is");
    let renewed = spec(&api).await?;
    ensure!(renewed.acquire_time == first.acquire_time && renewed.renew_time > first.renew_time, "{renewed:?}");

    // Killed: the lease runs out. The claim of the dead one ends before the other's begins.
    a.kill();
    let took = b.becomes(true, Duration::from_secs(10)).await?;
    ensure!(took > Duration::from_millis(1500), "the lease was respected until its end, not {took:?}");
    let taken = spec(&api).await?;
    ensure!(taken.holder_identity.as_deref() == Some("b") && taken.lease_transitions == Some(1), "{taken:?}");
    ensure!(taken.acquire_time > first.acquire_time, "{taken:?}");
    ensure!(most.load(Ordering::Relaxed) == 1, "two could write at once");
    watching.abort();

    // Released: the next one takes it at once.
    let c = Candidate::start(&cluster, "c").await?;
    let (most, watching) = watch_over(&[&b, &c]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    ensure!(!c.leads());
    let permit = b.leadership.may_write().context("b leads")?;
    b.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), b.leadership.ended()).await.context("b has not ended")?;
    ensure!(!permit.holds() && permit.write(async {}).await.is_err(), "a permit ends with the lease");
    let took = c.becomes(true, Duration::from_secs(2)).await?;
    println!("released lease taken after {took:?}");
    ensure!(spec(&api).await?.lease_transitions == Some(2));
    ensure!(most.load(Ordering::Relaxed) == 1, "two could write at once");
    watching.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_loses_its_lease_stops_writing() -> Result<()> {
    let cluster = Cluster::start().await?;
    let api: Api<Lease> = Api::namespaced(cluster.client(), "default");
    let a = Candidate::start(&cluster, "a").await?;
    a.becomes(true, Duration::from_secs(10)).await?;

    // Stolen by hand.
    let permit = a.leadership.may_write().context("a leads")?;
    let changes = a.leadership.changes();
    let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 2}});
    api.patch(LeaseOptions::NAME, &PatchParams::default(), &Patch::Merge(thief)).await?;
    let took = a.becomes(false, Duration::from_secs(2)).await?;
    println!("stolen lease noticed after {took:?}");
    ensure!(!*changes.borrow() && !permit.holds());
    // The thief never renews.
    let took = a.becomes(true, Duration::from_secs(10)).await?;
    ensure!(took > Duration::from_millis(1500), "the thief's lease was respected until its end, not {took:?}");
    ensure!(!permit.holds(), "a permit of an earlier term stays invalid");
    let again = spec(&api).await?;
    ensure!(again.holder_identity.as_deref() == Some("a") && again.lease_transitions == Some(1), "{again:?}");

    // Deleted by hand: the leader recreates it.
    api.delete(LeaseOptions::NAME, &DeleteParams::default()).await?;
    eventually("a new Lease", Duration::from_secs(5), async || Ok(api.get_opt(LeaseOptions::NAME).await?)).await?;
    a.becomes(true, Duration::from_secs(5)).await?;

    // The API server hangs: no answer comes, and no write begins any more once the claim is over.
    cluster.pause_api_server()?;
    let took = a.becomes(false, Duration::from_secs(4)).await?;
    ensure!(took <= Duration::from_millis(2300), "writes went on for {took:?}, more than the renewal allows");
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(!*changes.borrow(), "the loss is said");
    cluster.resume_api_server()?;
    let took = a.becomes(true, Duration::from_secs(15)).await?;
    println!("leading {took:?} after the API server came back from a pause");

    // The API server is gone, and comes back.
    cluster.stop_api_server()?;
    a.becomes(false, Duration::from_secs(4)).await?;
    cluster.start_api_server().await?;
    a.becomes(true, Duration::from_secs(15)).await?;
    Ok(())
}

/// A leader that is stopped (SIGSTOP, a full machine) runs nothing: its task cannot notice anything. What it asks
/// before a write must notice all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_leader_finds_itself_deposed() -> Result<()> {
    let cluster = Cluster::start().await?;
    let a = Candidate::start(&cluster, "a").await?;
    a.becomes(true, Duration::from_secs(10)).await?;
    let permit = a.leadership.may_write().context("a leads")?;
    let b = Candidate::start(&cluster, "b").await?;
    // Nothing of a's runtime runs while its only worker is held.
    let (held, free) = std::sync::mpsc::channel::<()>();
    a.runtime.as_ref().context("a runs")?.spawn(async move { free.recv().ok() });
    ensure!(permit.holds());
    b.becomes(true, Duration::from_secs(10)).await?;
    ensure!(*a.leadership.changes().borrow(), "a's task has not run: it still believes that it leads");
    ensure!(a.leadership.may_write().is_none() && !permit.holds(), "but may not write");
    held.send(()).ok();
    eventually("a has noticed", Duration::from_secs(5), async || Ok((!*a.leadership.changes().borrow()).then_some(())))
        .await?;
    ensure!(b.leads() && !a.leads());
    Ok(())
}
