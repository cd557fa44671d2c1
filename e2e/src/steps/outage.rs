//! The API server is killed: gateways keep serving. After its restart, an edit takes effect.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Stage;
use crate::load::Load;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM};
use crate::reach;

const AWAY: Duration = Duration::from_secs(30);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let load = Load::start(&node.watched().await?, 8, Duration::from_millis(10))?;
    node.cluster().stop_api_server()?;
    tokio::time::sleep(AWAY).await;
    let began = Instant::now();
    node.cluster().start_api_server().await?;
    let back = began.elapsed();
    node.edit_filter(3000).await?;
    node.is_ready("ToolsFilters", "toolsfilters", "watched").await?;
    let edited = began.elapsed();
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    node.pods_ready(SYSTEM, OPERATORS, 2).await?;
    let seen = load.end_without_failure()?;
    reach::slices_follow(node).await?;
    let followed = began.elapsed();
    Ok(format!(
        "back after {back:.1?}, an edit was Ready {edited:.1?} after the start; {seen}; Kubernetes' controller of \
         EndpointSlices followed changes again after {followed:.1?}"
    ))
}
