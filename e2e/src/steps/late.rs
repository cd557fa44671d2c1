//! A call to a Service that kube-proxy has not applied yet: the node drops the first packets, and the call is still
//! answered.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Stage;
use crate::load::Question;
use crate::node::Node;
use crate::reach;

const DOCUMENTS: &str = include_str!("../../manifests/late.yaml");
/// How long the call waits before kube-proxy applies the Service.
const LATE: Duration = Duration::from_millis(700);

/// kube-proxy, paused until this is dropped.
struct Paused<'a>(&'a Node);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        // If kube-proxy has ended, the check after each step says so.
        let _ = self.0.proxy().resume();
    }
}

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    node.proxy().pause()?;
    let paused = Paused(node);
    node.cluster().apply(DOCUMENTS).await?;
    node.is_ready("Exposition", "expositions", "late").await?;
    reach::resolved(node, "late.team-a.svc").await?;
    let watched = node.watched().await?;
    let question = Question { endpoint: watched.endpoint.replace("watched", "late"), ..watched };
    let began = Instant::now();
    let resumed = async {
        tokio::time::sleep(LATE).await;
        drop(paused);
    };
    let (answer, ()) = tokio::join!(question.once(), resumed);
    let answered = began.elapsed();
    node.kubectl("-n team-a delete exposition/late toolsfilters/late servicemanifest/late service/late").await?;
    answer?;
    Ok(format!(
        "kube-proxy applied the Service {LATE:?} after the call began; the call was answered after {answered:.1?}"
    ))
}
