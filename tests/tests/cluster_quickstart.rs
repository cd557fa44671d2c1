//! Follows `docs/quickstart-kubernetes.md` word by word against a real API server.
//!
//! What a fence is for says `tamis_tests::page`; `yaml` is from a file of `examples/kubernetes/`, comments aside. Nothing is
//! changed on the way but port numbers, since several tests run at once.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tamis_tests::cluster::Cluster;
use tamis_tests::page::{self, Page};
use tamis_tests::{Port, binary, root, tool};

const PAGE: &str = "docs/quickstart-kubernetes.md";
/// The ports that the page uses: of the upstream, the gateway, its admin listener and the operator's.
const PORTS: [&str; 4] = ["7070", "8080", "9090", "9091"];
/// Fifteen seconds on an idle machine; a loaded one has taken four times that.
const PATIENCE: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_does_what_it_says() -> Result<()> {
    let text = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let mut page = Page::read(PAGE, &text)?;
    page.blocks.retain(|block| !block.node);
    let documents = page.documents.len();
    assert!(page.blocks.len() > 15 && documents > 1, "{} commands, {documents} documents", page.blocks.len());
    let examples = examples()?;
    for (line, document) in &page.documents {
        assert!(examples.contains(document), "{PAGE}:{line}: no file of examples/kubernetes has this");
    }

    let cluster = Cluster::start().await?;
    let folder = tempfile::tempdir()?;
    let reserved = PORTS.iter().map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
    let ports: Vec<(&str, String)> =
        PORTS.into_iter().zip(reserved.iter().map(|port| port.number().to_string())).collect();
    for part in ["deploy", "examples/payloads", "examples/kubernetes"] {
        copy(&root().join(part), &folder.path().join(part), &ports)?;
    }
    for block in &mut page.blocks {
        block.commands = with_ports(&block.commands, &ports);
    }
    let (tamis, python) = (binary("tamis")?, tool("python2/bin/python3")?);
    let programs: Vec<&Path> = [Some(cluster.tools()), tamis.parent(), python.parent()].into_iter().flatten().collect();
    let ran = page.run(folder.path(), &programs, &cluster.kubeconfig(), PATIENCE).await;
    let printed = ran.with_context(|| {
        let logs = ["operator", "gateway"].map(|name| {
            let log =
                fs::read_to_string(folder.path().join(format!("tamis-quickstart/{name}.log"))).unwrap_or_default();
            format!("--- {name} logged:\n{log}")
        });
        logs.join("\n")
    })?;
    // Which command took how long: shown where the test fails.
    page::times(&printed).for_each(|mark| println!("{mark}"));
    let printed = ports
        .iter()
        .fold(printed, |text, (ours, free)| text.replace(&format!("127.0.0.1:{free}"), &format!("127.0.0.1:{ours}")));
    let wrong = page.differences(&printed);
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

fn with_ports(text: &str, ports: &[(&str, String)]) -> String {
    ports.iter().fold(text.to_owned(), |text, (ours, free)| text.replace(ours, free))
}

fn copy(from: &Path, to: &Path, ports: &[(&str, String)]) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, ports)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "yaml") {
            fs::write(target, with_ports(&fs::read_to_string(entry.path())?, ports))?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
