//! The steps of a run, in order.

mod autoscale;
mod boundaries;
mod clients;
mod counted;
mod edits;
mod evict;
mod gitops;
mod install;
mod killed;
mod late;
mod outage;
mod quickstart;
mod secrets;
mod uninstall;
mod upgrade;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Run;
use crate::machine::Machine;
use crate::node::Node;
use crate::report::{Outcome, Report};

/// The node, and what the steps install on it.
pub(crate) struct Stage {
    pub(crate) node: Node,
    /// The archive of the image under test.
    pub(crate) archive: PathBuf,
    /// The image's name on the node.
    pub(crate) image: String,
    /// The `tamis` program on this machine.
    pub(crate) tamis: PathBuf,
    /// How long Argo CD reconciles the installation.
    pub(crate) reconcile: Duration,
}

type Seen<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

struct Step {
    name: &'static str,
    run: for<'a> fn(&'a Stage) -> Seen<'a>,
}

/// If one of these fails, no other step can run.
const CLUSTER: &[Step] = &[
    Step { name: "DNS and metrics-server started", run: |stage| Box::pin(install::addons(stage)) },
    Step { name: "images imported", run: |stage| Box::pin(install::images(stage)) },
];

/// Installs and removes everything itself.
const QUICKSTART: Step =
    Step { name: "quickstart followed word by word", run: |stage| Box::pin(quickstart::run(stage)) };

/// The installation that all further steps use.
const INSTALLATION: &[Step] = &[
    Step { name: "charts installed with Helm", run: |stage| Box::pin(install::charts(stage)) },
    Step { name: "a team's API published", run: |stage| Box::pin(install::team(stage)) },
];

/// Each leaves the installation as it found it, except the last two.
const STEPS: &[Step] = &[
    Step { name: "a Service called before kube-proxy applies it", run: |stage| Box::pin(late::run(stage)) },
    Step { name: "MCP clients call through the Service", run: |stage| Box::pin(clients::run(stage)) },
    Step { name: "Prometheus counts to the byte", run: |stage| Box::pin(counted::run(stage)) },
    Step { name: "filters edited under load", run: |stage| Box::pin(edits::run(stage)) },
    Step { name: "Secrets rotated under load", run: |stage| Box::pin(secrets::run(stage)) },
    Step { name: "gateways killed", run: |stage| Box::pin(killed::gateways(stage)) },
    Step { name: "gateways evicted under load", run: |stage| Box::pin(evict::run(stage)) },
    Step { name: "leading operator killed", run: |stage| Box::pin(killed::operator(stage)) },
    Step { name: "upgraded with Helm under load", run: |stage| Box::pin(upgrade::forth(stage)) },
    Step { name: "rolled back with Helm under load", run: |stage| Box::pin(upgrade::back(stage)) },
    Step { name: "autoscaling on CPU", run: |stage| Box::pin(autoscale::run(stage)) },
    Step { name: "API server away for 30 s", run: |stage| Box::pin(outage::run(stage)) },
    Step { name: "pod security, and no shell", run: |stage| Box::pin(boundaries::run(stage)) },
    Step { name: "uninstalled", run: |stage| Box::pin(uninstall::run(stage)) },
    Step { name: "installed by Argo CD, and kept in sync", run: |stage| Box::pin(gitops::run(stage)) },
];

/// Performs the steps. Returns whether all of them passed.
pub(crate) async fn run(options: &Run) -> Result<bool> {
    let mut report =
        Report { began: jiff::Timestamp::now().to_string(), image: options.image_name.clone(), steps: Vec::new() };
    let began = Instant::now();
    let node = match Machine::claim() {
        Ok(machine) => Node::start(machine).await,
        Err(error) => Err(error),
    };
    let (node, result) = match node {
        Ok(node) => (Some(node), Ok("Ready".to_owned())),
        Err(error) => (None, Err(error)),
    };
    report.add("node started", began.elapsed(), result);
    if let Some(node) = node {
        let archive = options.image.clone();
        let (image, tamis) = (options.image_name.clone(), options.tamis.clone());
        let reconcile = Duration::from_secs(options.reconcile_seconds);
        let mut stage = Stage { node, archive, image, tamis, reconcile };
        all(&mut stage, options, &mut report).await?;
        if options.keep {
            let kubeconfig = stage.node.cluster().kubeconfig();
            eprintln!("the node runs until Ctrl-C: export KUBECONFIG={}", kubeconfig.display());
            std::future::pending::<()>().await;
        }
    }
    eprintln!("\n{}", report.markdown());
    if let Some(file) = &options.report {
        report.write(file)?;
    }
    Ok(report.passed())
}

async fn all(stage: &mut Stage, options: &Run, report: &mut Report) -> Result<()> {
    for step in CLUSTER {
        if go(step, stage, options, report).await == Outcome::Failed {
            return Ok(());
        }
    }
    let wanted = |step: &&Step| options.only.is_empty() || options.only.iter().any(|word| step.name.contains(word));
    if wanted(&&QUICKSTART) {
        go(&QUICKSTART, stage, options, report).await;
    }
    for step in INSTALLATION {
        if go(step, stage, options, report).await == Outcome::Failed {
            return Ok(());
        }
    }
    for step in STEPS.iter().filter(wanted) {
        go(step, stage, options, report).await;
        stage.node.check()?;
    }
    Ok(())
}

async fn go(step: &Step, stage: &Stage, options: &Run, report: &mut Report) -> Outcome {
    eprintln!("...    {}", step.name);
    let began = Instant::now();
    let result = (step.run)(stage).await;
    let outcome = report.add(step.name, began.elapsed(), result);
    if outcome == Outcome::Failed {
        eprintln!("{}", stage.node.story().await);
    }
    if let Some(file) = &options.report {
        // So an interrupted run leaves a report too.
        let _ = report.write(file);
    }
    outcome
}
