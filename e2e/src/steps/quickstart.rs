//! `docs/quickstart-kubernetes.md`, word by word, as its section on clusters with nodes says. What differs is the address of
//! the recorded answers: pods do not reach this machine's loopback.

use anyhow::{Result, ensure};
use tamis_tests::page::{Page, Walk};

use super::Stage;
use crate::machine::HOST;

const PAGE: &str = "docs/quickstart-kubernetes.md";
/// Of the sections that everybody follows, those that a cluster with nodes shares.
const SHARED: [&str; 6] = ["1. ", "4. ", "5. ", "6. ", "7. ", "8. "];

pub(super) async fn run(stage: &Stage) -> Result<String> {
    // The image that `deploy/operator.yaml` names.
    stage.node.tag(&stage.image, concat!("tamis:", env!("CARGO_PKG_VERSION")))?;
    let page = Page::on_nodes(PAGE, &SHARED)?;
    let count = page.len();
    let cluster = stage.node.cluster();
    let mut walk = Walk::new(&[])?
        .replace("127.0.0.1:7070", format!("{HOST}:7070"))
        .replace("--bind 127.0.0.1", format!("--bind {HOST}"))
        .replace("127.0.0.0/8", format!("{HOST}/32"))
        .with_programs(cluster.tools())
        .with("KUBECONFIG", cluster.kubeconfig());
    if let Some(folder) = stage.tamis.parent() {
        walk = walk.with_programs(folder);
    }
    for part in ["deploy", "examples/payloads", "examples/kubernetes"] {
        walk.copy(part)?;
    }
    let differences = walk.follow(&[page]).await?;
    ensure!(differences.is_empty(), "{}", differences.join("\n\n"));
    Ok(format!("{count} blocks of commands, each printed what the page says"))
}
