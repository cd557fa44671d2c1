//! Measures the time from the write of a filter to the first call that shows it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::StreamExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::{Value, json};
use tamis_config::names;
use tamis_tests::cluster::TestEnv;
use tamis_tests::{Era, Rpc};
use tokio::sync::mpsc;

use crate::objects::{self, GROUP, TEAM};
use crate::processes;
use crate::progress::Progress;
use crate::report::Report;
use crate::{LatencyArgs, requests::Requests};

/// The pause between two calls that look for a change. It is longer than a call, to leave processor time to the other
/// processes.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// A change that takes longer has failed.
const GIVE_UP: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: &LatencyArgs) -> Result<Report> {
    let mut report = Report::new("latency");
    let env = TestEnv::start().await?;
    let client = env.cluster.client();
    let url = &env.upstream.url;
    let others = args.expositions.saturating_sub(1);
    if others > 0 {
        objects::fill(&client, url, others, args.services, 20).await?;
    }
    objects::create(&client, "ServiceManifest", TEAM, [objects::service("probed", url, 20)]).await?;
    let mut probe = Probe::set(&env, "probed", 20).await?;
    Progress::start(&client).reach(others + 1, Duration::from_secs(900)).await?;
    report.count("expositions", others + 1);
    let (before, cpu) = (Requests::read(&client).await?, processes::usage());
    let times = probe.changes(args.changes, Duration::from_millis(args.pause)).await?;
    report.count("changes", times.len());
    report_times(&mut report, &times);
    processes::report_cpu(&mut report, &cpu);
    Requests::read(&client).await?.since(&before).report(&mut report, "requests a change", args.changes);
    processes::report_memory(&mut report);
    Ok(report)
}

/// The times at which each step of one change was seen, since its write began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    answered: Duration,
    watched: Duration,
    configured: Duration,
    called: Duration,
}

/// Adds the times of all changes, step by step.
pub(crate) fn report_times(report: &mut Report, times: &[Seen]) {
    let all = |of: fn(&Seen) -> Duration| times.iter().map(of).collect::<Vec<_>>();
    report.times("write to first call", all(|seen| seen.called));
    report.times("write to watch (the API server alone)", all(|seen| seen.watched));
    report.times("write answered", all(|seen| seen.answered));
    report.times(
        "step: filter seen to its document seen (operator, one write)",
        all(|seen| seen.configured.saturating_sub(seen.watched)),
    );
    report
        .times("step: document seen to first call (gateway)", all(|seen| seen.called.saturating_sub(seen.configured)));
}

/// One exposition with its own filter set, and watches of both.
pub(crate) struct Probe {
    service: String,
    rpc: Rpc,
    filters: Api<DynamicObject>,
    filters_seen: mpsc::UnboundedReceiver<(Instant, DynamicObject)>,
    configs_seen: mpsc::UnboundedReceiver<(Instant, DynamicObject)>,
    number: usize,
}

impl Probe {
    /// Publishes an existing service.
    pub(crate) async fn set(env: &TestEnv, service: &str, tools: usize) -> Result<Self> {
        let client = env.cluster.client();
        objects::create(&client, "ToolsFilters", TEAM, [objects::filters(service, "probe", tools)]).await?;
        objects::create(&client, "Exposition", TEAM, [objects::exposition("probe", service, "probe")]).await?;
        let filters = objects::api(&client, "ToolsFilters", TEAM);
        let name = format!("metadata.name={service}-probe");
        let label = format!("{}=probe", names::EXPOSITION_LABEL);
        let configs = objects::api(&client, "GatewayConfig", GROUP);
        Ok(Self {
            service: service.to_owned(),
            rpc: env.gateway.rpc(TEAM, "probe", Era::Modern)?,
            filters_seen: follow(filters.clone(), Config::default().fields(&name)),
            configs_seen: follow(configs, Config::default().labels(&label)),
            filters,
            number: 0,
        })
    }

    /// Makes changes one after the other, each after a call has shown the previous one.
    pub(crate) async fn changes(&mut self, count: usize, pause: Duration) -> Result<Vec<Seen>> {
        // The first change includes loading that later ones do not repeat.
        self.change().await?;
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            tokio::time::sleep(pause).await;
            times.push(self.change().await.with_context(|| format!("change {number}"))?);
        }
        Ok(times)
    }

    async fn change(&mut self) -> Result<Seen> {
        self.number += 1;
        let mark = format!("change{}", self.number);
        let set = objects::marked(&self.service, "probe", &mark);
        let name = format!("{}-probe", self.service);
        while self.configs_seen.try_recv().is_ok() {}
        let began = Instant::now();
        let params = PatchParams::apply("tamis-bench").force();
        let (api, patch) = (self.filters.clone(), Patch::Apply(&set));
        let write = async { api.patch(&name, &params, &patch).await.map(|_| began.elapsed()) };
        let call = first_call(&self.rpc, &mark, began);
        let (answered, called) = tokio::join!(write, call);
        let (answered, called) = (answered?, called?);
        let watched = loop {
            let (at, object) = next(&mut self.filters_seen).await?;
            if object.data.pointer("/spec/filters/get-issue/select").is_some_and(|select| select.get(&mark).is_some()) {
                break at - began;
            }
        };
        let (at, _) = next(&mut self.configs_seen).await?;
        Ok(Seen { answered, watched, configured: at - began, called })
    }
}

async fn next(seen: &mut mpsc::UnboundedReceiver<(Instant, DynamicObject)>) -> Result<(Instant, DynamicObject)> {
    tokio::time::timeout(GIVE_UP, seen.recv()).await.context("the watch is silent")?.context("a watch ended")
}

/// Calls until the answer shows the change.
pub(crate) async fn first_call(rpc: &Rpc, mark: &str, began: Instant) -> Result<Duration> {
    let arguments: Value = json!({"owner": "o", "repo": "r", "number": 1});
    loop {
        let answer = rpc.call("get-issue", &arguments).await?;
        let now = began.elapsed();
        if answer.text.contains(mark) {
            return Ok(now);
        }
        if now > GIVE_UP {
            bail!("the change {mark} is not served after {now:?}; last: {}", answer.text);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// The events of a watch, with their times.
fn follow(api: Api<DynamicObject>, config: Config) -> mpsc::UnboundedReceiver<(Instant, DynamicObject)> {
    let (tell, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut events = watcher(api, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            if let Ok(Event::Apply(object)) = event
                && tell.send((Instant::now(), object)).is_err()
            {
                return;
            }
        }
    });
    seen
}
