//! The public conformance suite, of both eras, through the real binary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use tamis_tests::conformance::{self, RUNS, Results, Run, Subject};
use tamis_tests::documents::Folder;
use tamis_tests::fixture::Fixture;
use tamis_tests::{Era, Gateway, Rpc, Upstream, root};

/// What fails here is the fixture's: it would fail through a gateway, too.
#[tokio::test]
async fn the_fixture_itself_has_the_expected_results() -> Result<()> {
    let (modern, legacy) = (Fixture::start(Era::Modern).await?, Fixture::start(Era::Legacy).await?);
    let endpoint = |era| match era {
        Era::Modern => modern.url.clone(),
        Era::Legacy => legacy.url.clone(),
    };
    run_all(Subject::Fixture, endpoint).await?;
    Ok(())
}

#[tokio::test]
async fn every_scenario_has_the_expected_result() -> Result<()> {
    let proxied = of_a_server().await?;
    let api = of_an_api().await?;
    same_as_committed("docs/conformance.md", &conformance::page(&[(Subject::Proxied, proxied), (Subject::Api, api)]))
}

/// Runs the suite against expositions of the fixture.
async fn of_a_server() -> Result<Vec<(Run, Results)>> {
    let folder = Folder::new()?;
    let mut fixtures = Vec::new();
    for era in [Era::Modern, Era::Legacy] {
        let fixture = Fixture::start(era).await?;
        let name = conformance::name_of(era);
        folder.write(&format!("{name}.yaml"), &conformance::proxied(era, &fixture))?;
        fixtures.push(fixture);
    }
    let gateway = Gateway::start(folder.path()).await?;
    for era in [Era::Modern, Era::Legacy] {
        Rpc::new(&gateway.endpoint(conformance::name_of(era)), era)?.until_listed().await?;
    }
    run_all(Subject::Proxied, |era| gateway.endpoint(conformance::name_of(era))).await
}

/// Runs the suite against an exposition of an HTTP API.
async fn of_an_api() -> Result<Vec<(Run, Results)>> {
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
                    .replace("exposition.yaml", &conformance::api_exposition(shown[0], shown[1]))
                    .expect("the folder is writable");
            }
        })
        .await?
    };
    folder.write("manifest.yaml", &conformance::api(&upstream))?;
    folder.write("exposition.yaml", &conformance::api_exposition(false, true))?;
    written.set(Arc::clone(&folder)).expect("is set once");
    let gateway = Gateway::start(folder.path()).await?;
    run_all(Subject::Api, |_| gateway.endpoint("conformance")).await
}

/// Runs the suite as each of [`RUNS`], and compares the results with what is expected.
async fn run_all(subject: Subject, endpoint: impl Fn(Era) -> String) -> Result<Vec<(Run, Results)>> {
    let mut results = Vec::new();
    for run in RUNS {
        results.push((*run, conformance::run(run, &endpoint(run.era)).await?));
    }
    let deviations = results.iter().flat_map(|(run, found)| conformance::deviations(subject, run, found));
    let deviations: Vec<String> = deviations.collect();
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
    Ok(results)
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
