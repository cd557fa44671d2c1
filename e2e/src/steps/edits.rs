//! A filter is edited under load: no call fails, no answer mixes two filters, and each edit takes effect.

use std::time::Duration;

use anyhow::Result;
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::Load;

const EDITS: u64 = 50;

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let load = Load::start(&stage.node.watched().await?, 8, Duration::from_millis(10))?;
    let mut times = Vec::new();
    for version in 2..2 + EDITS {
        stage.node.edit_filter(version).await?;
        times.push(stage.node.is_ready("ToolsFilters", "toolsfilters", "watched").await?);
        // Ready means that every gateway has the edit: no later call gets an older filter.
        let answer = stage.node.watched().await?.once().await?;
        anyhow::ensure!(answer["head"] == version, "Ready, but the answer is {answer} and not of version {version}");
    }
    let last = 1 + EDITS;
    eventually("the callers get the last edit", Duration::from_secs(10), async || {
        Ok((load.latest()["head"] == last).then_some(()))
    })
    .await?;
    let seen = load.end_without_failure()?;
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    Ok(format!("{EDITS} edits, Ready after {median:.0?} (median), {slowest:.0?} (slowest); {seen}"))
}
