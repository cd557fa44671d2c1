//! Runs `docs/quickstart-kubernetes.md` word by word, as its section on clusters with nodes says. Only the address of
//! the recorded answers differs, because pods do not reach this machine's loopback.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tamis_tests::documents::copy_folder;
use tamis_tests::page::Page;
use tamis_tests::{root, tool};

use super::Stage;
use crate::machine::HOST;

const PAGE: &str = "docs/quickstart-kubernetes.md";
const PATIENCE: Duration = Duration::from_secs(400);
/// The page's sections that also apply to a cluster with nodes.
const SHARED: [&str; 6] = ["1. ", "4. ", "5. ", "6. ", "7. ", "8. "];

pub(super) async fn run(stage: &Stage) -> Result<String> {
    // The image in `deploy/operator.yaml`.
    stage.node.tag(&stage.image, concat!("tamis:", env!("CARGO_PKG_VERSION")))?;
    let text = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let mut page = Page::read(PAGE, &text)?;
    let all = std::mem::take(&mut page.blocks);
    let mut own: Vec<_> = all.iter().filter(|block| block.node).cloned().collect();
    let last = own.pop().context("no block of commands cleans up")?;
    ensure!(
        own.len() == 1 && !page.blocks.iter().any(|block| block.node),
        "{PAGE} has another structure: expected one block for nodes after section 1, and one that cleans up"
    );
    for (index, heading) in SHARED.iter().enumerate() {
        page.blocks.extend(all.iter().filter(|block| !block.node && block.section.starts_with(heading)).cloned());
        if index == 0 {
            page.blocks.append(&mut own);
        }
    }
    page.blocks.push(last);
    if let Some(first) = page.blocks.first_mut() {
        first.commands.insert_str(0, &format!("HOST={HOST}\n"));
    }
    for block in &mut page.blocks {
        block.commands = reachable(&block.commands);
        block.shown = block.shown.take().map(|shown| reachable(&shown));
    }
    let folder = tempfile::tempdir()?;
    for part in ["deploy", "examples/payloads", "examples/kubernetes"] {
        copy_folder(&root().join(part), &folder.path().join(part), &reachable)?;
    }
    let cluster = stage.node.cluster();
    let python = tool("python2/bin/python3")?;
    let programs: Vec<&Path> =
        [Some(cluster.tools()), stage.tamis.parent(), python.parent()].into_iter().flatten().collect();
    let ran = page.run(folder.path(), &programs, &cluster.kubeconfig(), PATIENCE).await;
    let printed = match ran {
        Ok(printed) => printed,
        Err(error) => {
            let log = fs::read_to_string(folder.path().join("tamis-quickstart/forward.log")).unwrap_or_default();
            // The next step installs the same objects with Helm.
            for line in [
                "delete namespace team-a tamis-public tamis-system --ignore-not-found --wait=false",
                "delete clusterroles,clusterrolebindings -l app.kubernetes.io/part-of=tamis",
                "delete validatingadmissionpolicies,validatingadmissionpolicybindings --all",
                "delete crds --all --timeout=60s",
                "wait --for=delete namespace/team-a namespace/tamis-public namespace/tamis-system --timeout=90s",
            ] {
                let _ = stage.node.kubectl(line).await;
            }
            return Err(error.context(log));
        }
    };
    let differences = page.differences(&printed);
    ensure!(differences.is_empty(), "{}", differences.join("\n\n"));
    Ok(format!("{} blocks of commands; each printed the output on the page", page.blocks.len()))
}

/// Replaces the address of the recorded answers by one that pods reach, as the section says.
fn reachable(text: &str) -> String {
    text.replace("http://127.0.0.1:7070", "http://recorded.team-a.svc:7070")
        .replace("--bind 127.0.0.1", &format!("--bind {HOST}"))
}
