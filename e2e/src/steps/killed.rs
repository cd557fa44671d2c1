//! Gateways and the leading operator are killed without a drain.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::{Load, Question};
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM};

const SOON: Duration = Duration::from_secs(90);

/// Kills each gateway in turn. Calls in flight there fail, and so do calls sent there until the Service is updated. The
/// other gateway keeps answering.
pub(super) async fn gateways(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    // The address of a deleted pod does not even refuse connections, so callers give up by themselves.
    let question = Question { patience: Duration::from_secs(2), ..node.watched().await? };
    let load = Load::start(&question, 8, Duration::from_millis(10))?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut back = Vec::new();
    for pod in node.pods_ready(PUBLIC, GATEWAYS, 2).await? {
        let began = Instant::now();
        node.kubectl(&format!("-n {PUBLIC} delete pod {pod} --grace-period=0 --force")).await?;
        let now = node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
        ensure!(!now.contains(&pod), "{pod} still exists");
        back.push(format!("{:.1?}", began.elapsed()));
    }
    node.is_ready("Exposition", "expositions", "watched").await?;
    let seen = load.end()?;
    ensure!(seen.gap < Duration::from_secs(10), "no call was answered for {:?}: {seen}", seen.gap);
    Ok(format!("two gateways again after {}; {seen}", back.join(" and ")))
}

/// Kills the leading operator: the other one leads, an edit takes effect, and no call fails.
pub(super) async fn operator(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let load = Load::start(&node.watched().await?, 4, Duration::from_millis(10))?;
    let old = node.leader().await?;
    let began = Instant::now();
    node.kubectl(&format!("-n {SYSTEM} delete pod {old} --grace-period=0 --force")).await?;
    node.edit_filter(1000).await?;
    eventually("another operator leads", SOON, async || Ok(Some(node.leader().await?).filter(|leader| *leader != old)))
        .await?;
    let led = began.elapsed();
    node.is_ready("ToolsFilters", "toolsfilters", "watched").await?;
    let edited = began.elapsed();
    node.pods_ready(SYSTEM, OPERATORS, 2).await?;
    let seen = load.end_without_failure()?;
    Ok(format!("another led after {led:.1?}, an edit was Ready after {edited:.1?}; {seen}"))
}
