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
    // The recorded answers, where pods reach them, as the section says.
    let mut walk = Walk::new(&[])?
        .replace("http://127.0.0.1:7070", "http://recorded.team-a.svc:7070")
        .replace("--bind 127.0.0.1", format!("--bind {HOST}"))
        .with_programs(cluster.tools())
        .with("KUBECONFIG", cluster.kubeconfig())
        .with("HOST", HOST);
    if let Some(folder) = stage.tamis.parent() {
        walk = walk.with_programs(folder);
    }
    for part in ["deploy", "examples/payloads", "examples/kubernetes"] {
        walk.copy(part)?;
    }
    let followed = walk.follow(&[page]).await;
    if followed.is_err() {
        clean_up(stage).await;
    }
    let differences = followed?;
    ensure!(differences.is_empty(), "{}", differences.join("\n\n"));
    Ok(format!("{count} blocks of commands, each printed what the page says"))
}

/// What follows installs the same with Helm.
async fn clean_up(stage: &Stage) {
    for line in [
        "delete namespace team-a tamis-public tamis-system --ignore-not-found --wait=false",
        "delete clusterroles,clusterrolebindings -l app.kubernetes.io/part-of=tamis",
        "delete validatingadmissionpolicies,validatingadmissionpolicybindings --all",
        "delete crds --all --timeout=60s",
        "wait --for=delete namespace/team-a namespace/tamis-public namespace/tamis-system --timeout=90s",
    ] {
        let _ = stage.node.kubectl(line).await;
    }
}
