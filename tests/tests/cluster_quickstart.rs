//! Follows pages of `docs/` word by word against a real API server. What a fence is for says `tamis_tests::page`.

use std::fs;

use anyhow::Result;
use tamis_tests::cluster::Cluster;
use tamis_tests::page::Page;
use tamis_tests::root;
use tamis_tests::walkthrough::{self, Walkthrough};

const QUICKSTART: &str = "docs/quickstart-kubernetes.md";
/// The ports that the pages use: of the upstream, the gateway, its admin listener, the operator's and an MCP server.
const PORTS: [&str; 5] = ["7070", "8080", "9090", "9091", "3001"];
const FOLDERS: [&str; 3] = ["deploy", "examples/payloads", "examples/kubernetes"];

#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_does_what_it_says() -> Result<()> {
    let page = walkthrough::page(QUICKSTART)?;
    assert!(page.blocks.len() > 15 && page.documents.len() > 1, "{page:?}");
    let examples = examples()?;
    for (at, document) in &page.documents {
        assert!(examples.contains(document), "{at}: no file of examples/kubernetes has this");
    }
    follow(page).await
}

/// They show what there is after the first six sections of the quickstart; the second breaks things, so it comes last.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_the_pages_say() -> Result<()> {
    let (kubectl, troubleshooting) =
        (walkthrough::page("docs/kubectl.md")?, walkthrough::page("docs/troubleshooting.md")?);
    assert!(kubectl.blocks.len() > 5 && troubleshooting.blocks.len() > 5, "{kubectl:?} {troubleshooting:?}");
    follow(walkthrough::before(QUICKSTART, "\n## 7.")?.then(kubectl).then(troubleshooting)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_server_is_published_as_the_page_says() -> Result<()> {
    let page = walkthrough::page("docs/mcp-servers-kubernetes.md")?;
    assert!(page.blocks.len() > 5, "{page:?}");
    follow(walkthrough::before(QUICKSTART, "\n## 7.")?.then(page)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_in_a_config_map_is_published_as_the_page_says() -> Result<()> {
    let page = walkthrough::page("docs/documents-kubernetes.md")?;
    assert!(page.blocks.len() > 5, "{page:?}");
    follow(walkthrough::before(QUICKSTART, "\n## 7.")?.then(page)).await
}

async fn follow(page: Page) -> Result<()> {
    let cluster = Cluster::start().await?;
    let programs = [cluster.tools(), &root().join("tests/servers/bin")];
    let wrong = Walkthrough::new(&PORTS, &FOLDERS)?.follow(page, &programs, &cluster.kubeconfig()).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// All files of `examples/kubernetes/`, without their comments.
fn examples() -> Result<String> {
    let mut text = String::new();
    let folder = root().join("examples/kubernetes");
    for folder in [folder.clone(), folder.join("team-a")] {
        for entry in fs::read_dir(folder)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "yaml") {
                let content = fs::read_to_string(file)?;
                let lines = content.lines().filter(|line| !line.trim_start().starts_with('#'));
                text.extend(lines.flat_map(|line| [line, "\n"]));
            }
        }
    }
    Ok(text)
}
