//! The public conformance suite, of both eras, through the real binary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use tamis_tests::conformance::{self, Expected, RUNS};
use tamis_tests::documents::Folder;
use tamis_tests::{Gateway, Upstream};

#[tokio::test]
async fn every_scenario_does_what_is_asked_of_it() -> Result<()> {
    let folder = Arc::new(Folder::new()?);
    let written: Arc<OnceLock<Arc<Folder>>> = Arc::new(OnceLock::new());
    let extra = AtomicBool::new(false);
    let upstream = {
        let written = Arc::clone(&written);
        Upstream::with_trigger(move || {
            let shown = !extra.fetch_xor(true, Ordering::SeqCst);
            if let Some(folder) = written.get() {
                folder.replace("exposition.yaml", &conformance::exposition(shown)).expect("the folder is writable");
            }
        })
        .await?
    };
    folder.write("manifest.yaml", &conformance::documents(&upstream))?;
    folder.write("exposition.yaml", &conformance::exposition(false))?;
    written.set(Arc::clone(&folder)).expect("is set once");
    let gateway = Gateway::start(folder.path()).await?;

    let mut surprises = Vec::new();
    for run in RUNS {
        let scenarios = conformance::run(run, &gateway.endpoint("conformance")).await?;
        let (mut held, mut checks) = (0, 0);
        for (scenario, found) in &scenarios {
            if !matches!(conformance::expected(scenario), Some(Expected::Outside(_)) | None) {
                held += 1;
                checks += found.iter().filter(|check| check.holds()).count();
            }
        }
        println!("{}: {held} of {} scenarios held, {checks} checks", run.revision, scenarios.len());
        surprises.extend(conformance::surprises(&scenarios).iter().map(|line| format!("{} {line}", run.revision)));
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    Ok(())
}
