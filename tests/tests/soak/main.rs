//! All attacks on availability at once, from a few dozen connections, against `tamis serve` in a control group of 512
//! MiB: measures the effect on a well-behaved caller of another exposition, and the memory that stays in use
//! afterwards.
//!
//! Loopback only; almost two minutes. Where no control group can be made, the peak of the resident memory is held to the
//! same limit, and the report says so.

mod attacks;
mod documents;
mod victim;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tamis_tests::{ControlGroup, Gateway, Options};

use attacks::{Attack, Attackers};

/// What a pod has by default.
const LIMIT: u64 = 512 << 20;
const FIRST: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(20);
/// What an allocator may keep more after the second than after the first.
const TOLERANCE: u64 = 32 << 20;
/// Calls that the well-behaved caller makes in a second, at least. Two cores that compile other things meanwhile make 90 to 130.
const CALLS_PER_SECOND: usize = 25;
/// How often memory is looked at afterwards, and for how long it must not fall: a thread that filtered an answer lives 10
/// seconds longer, and its allocator keeps freed memory until then.
const SAMPLE: Duration = Duration::from_millis(500);
const STEADY: Duration = Duration::from_secs(13);
const HELD: [&str; 1] = ["kind=\"held\""];

/// Waits until nothing is held and memory does not fall any more.
async fn quiet(gateway: &Gateway) -> Result<u64> {
    let until = Instant::now() + Duration::from_secs(60);
    let mut least = u64::MAX;
    let mut steady = Duration::ZERO;
    while Instant::now() < until {
        tokio::time::sleep(SAMPLE).await;
        let held = gateway.metric("tamis_memory_bytes", &HELD).await?;
        let now = gateway.memory().context("no resident memory")?;
        steady = if held == 0.0 && now >= least { steady + SAMPLE } else { Duration::ZERO };
        least = least.min(now);
        if steady >= STEADY {
            return Ok(least);
        }
    }
    let held = gateway.metric("tamis_memory_bytes", &HELD).await?;
    ensure!(held == 0.0, "{held} bytes are still held");
    Ok(least)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_behaved_caller_notices_no_attack() -> Result<()> {
    let upstream = attacks::Upstream::start().await?;
    let folder = documents::write(&upstream.url)?;
    let group = ControlGroup::create("tamis-soak", LIMIT);
    let options = match &group {
        Some(group) => Options { wrapper: group.wrapper(), ..Options::default() },
        None => {
            println!("no control group of memory can be made here: resident memory is held to its limit instead");
            let memory = (LIMIT / 100 * 60).to_string();
            Options { arguments: vec!["--memory".to_owned(), memory], ..Options::default() }
        }
    };
    let gateway = Gateway::with(folder.path(), &options).await?;
    let budget = gateway.metric("tamis_memory_bytes", &["kind=\"budget\""]).await?;
    ensure!(budget == (LIMIT / 100 * 60) as f64, "the budget is {budget}, not 60 % of the limit");
    let idle = gateway.memory().context("no resident memory")?;

    let mut after = Vec::new();
    for time in [FIRST, SECOND] {
        let attackers = Attackers::start(&gateway.url);
        let seen = victim::call_for(&gateway, time).await;
        let attacks = attackers.stop().await;
        let rest = quiet(&gateway).await?;
        println!("soak of {} s: {seen}", time.as_secs());
        for (attack, counts) in &attacks {
            println!("  {attack:?}: {counts}");
        }
        let peak = gateway.memory_peak().context("no peak")?;
        println!("  resident: {} MiB idle, {} MiB at most, {} MiB after", idle >> 20, peak >> 20, rest >> 20);
        if let Some(group) = &group {
            println!("  control group: {:?} MiB at most, {:?} killed", group.peak().map(|p| p >> 20), group.killed());
            ensure!(group.killed() == Some(0), "the control group's limit was reached");
        }
        ensure!(peak < LIMIT, "{peak} bytes were resident");
        ensure!(seen.failed.is_empty(), "the well-behaved caller saw {:?}", seen.failed);
        let least = CALLS_PER_SECOND * usize::try_from(time.as_secs())?;
        ensure!(seen.calls() >= least, "it made {} calls, {least} are the least", seen.calls());
        for attack in Attack::ALL {
            ensure!(attacks[&attack].made() > 0, "{attack:?} was not tried");
        }
        after.push(rest);
    }
    for reason in ["memory", "connections", "streams", "calls"] {
        let label = format!("reason=\"{reason}\"");
        println!("refused for {reason}: {}", gateway.metric("tamis_requests_rejected_total", &[&label]).await?);
    }
    ensure!(!gateway.log().contains("panicked"), "{}", gateway.log());
    let [first, second] = after[..] else { unreachable!("two soaks") };
    ensure!(second <= first + TOLERANCE, "{first} bytes after the first soak, {second} after the second");
    drop(gateway);
    Ok(())
}
