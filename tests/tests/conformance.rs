//! The public conformance suite, of both eras, through the real binary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use tamis_tests::conformance::{self, RUNS};
use tamis_tests::documents::Folder;
use tamis_tests::{Gateway, Upstream, root};

#[tokio::test]
async fn every_scenario_has_the_expected_result() -> Result<()> {
    let folder = Arc::new(Folder::new()?);
    let written: Arc<OnceLock<Arc<Folder>>> = Arc::new(OnceLock::new());
    let (tool, prompt) = (AtomicBool::new(false), AtomicBool::new(true));
    let upstream = {
        let written = Arc::clone(&written);
        Upstream::with_trigger(move |list| {
            let changed = if list == "prompts" { &prompt } else { &tool };
            changed.fetch_xor(true, Ordering::SeqCst);
            let shown = [&tool, &prompt].map(|shown| shown.load(Ordering::SeqCst));
            if let Some(folder) = written.get() {
                folder
                    .replace("exposition.yaml", &conformance::exposition(shown[0], shown[1]))
                    .expect("the folder is writable");
            }
        })
        .await?
    };
    folder.write("manifest.yaml", &conformance::documents(&upstream))?;
    folder.write("exposition.yaml", &conformance::exposition(false, true))?;
    written.set(Arc::clone(&folder)).expect("is set once");
    let gateway = Gateway::start(folder.path()).await?;

    let mut results = Vec::new();
    for run in RUNS {
        results.push((*run, conformance::run(run, &gateway.endpoint("conformance")).await?));
    }
    let deviations: Vec<String> = results
        .iter()
        .flat_map(|(run, found)| {
            conformance::deviations(found).into_iter().map(|line| format!("{} {line}", run.revision))
        })
        .collect();
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
    same_as_committed("docs/conformance.md", &conformance::page(&results))
}

/// Compares a generated file; `TAMIS_UPDATE=1` writes it.
fn same_as_committed(path: &str, text: &str) -> Result<()> {
    let file = root().join(path);
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        return Ok(std::fs::write(file, text)?);
    }
    let committed = std::fs::read_to_string(&file).with_context(|| path.to_owned())?;
    assert!(committed == text, "{path} is not what the test found: run it with TAMIS_UPDATE=1 and look at the change");
    Ok(())
}
