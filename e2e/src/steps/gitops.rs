//! Argo CD installs Tamis from a Git repository, as `docs/gitops.md` describes, and then reconciles it: the
//! Applications stay Synced and Healthy, except while an edit of the chart's values is rolled out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tamis_tests::cluster::{Application, ArgoCd, Repository};
use tamis_tests::root;

use super::{Stage, uninstall};
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM};

/// Where the examples say that their repository is.
const EXAMPLE_URL: &str = "https://git.example.com/platform.git";
/// The Applications of `examples/gitops`, without the one of a team.
const APPLICATIONS: [&str; 4] = ["tamis-root", "tamis-crds", "tamis", "tamis-platform"];
const INSTALLED_WITHIN: Duration = Duration::from_secs(300);
/// How often Argo CD is asked to compare everything again; by itself, it does so every few minutes.
const REFRESH_EVERY: Duration = Duration::from_secs(20);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    uninstall::releases(stage).await?;
    // The image that the chart names by default.
    stage.node.tag(&stage.image, concat!("tamis:", env!("CARGO_PKG_VERSION")))?;

    let began = Instant::now();
    let configuration = std::fs::read_to_string(root().join("docs/argocd/argocd-cm.yaml"))?;
    let argocd = ArgoCd::start(node.cluster(), &configuration).await?;
    let repository = argocd.repository("platform")?;
    let here = |text: &str| text.replace(EXAMPLE_URL, &repository.url());
    for name in ["crds", "operator", "platform"] {
        let path = format!("apps/{name}.yaml");
        repository.write(&path, &here(&example(&path)?))?;
    }
    repository.copy("examples/gitops/platform", "platform")?;
    repository.copy("charts", "charts")?;
    let mut followed = Followed { argocd, revision: repository.commit("Install Tamis")? };
    node.cluster().apply(&here(&example("root.yaml")?)).await?;
    followed.settle().await?;
    node.pods_ready(SYSTEM, OPERATORS, 2).await?;
    node.is_ready("Exposition", "expositions", "watched").await?;
    let installed = began.elapsed();
    let question = node.watched().await?;
    question.once().await.context("before reconciling")?;

    let mut seen = followed.stay(stage.reconcile / 2).await?;
    let began = Instant::now();
    edit(&repository, "charts/tamis/values.yaml", "\nreplicas: 2\n", "\nreplicas: 3\n")?;
    edit(&repository, "charts/tamis/values.yaml", "\n  level: info\n", "\n  level: debug\n")?;
    edit(&repository, "platform/group.yaml", "replicas: 2", "replicas: 3")?;
    followed.revision = repository.commit("Run three replicas of everything, with another argument")?;
    followed.settle().await?;
    node.pods_ready(SYSTEM, OPERATORS, 3).await?;
    node.pods_ready(PUBLIC, GATEWAYS, 3).await?;
    let edited = began.elapsed();
    question.once().await.context("after the edit")?;
    seen.add(followed.stay(stage.reconcile.saturating_sub(seen.took)).await?);
    question.once().await.context("after reconciling")?;
    Ok(format!(
        "{} Applications Synced and Healthy after {installed:.1?}; an edit of the chart's values was rolled out in \
         {edited:.1?}; Synced and Healthy for {:.0?} apart from that: {} comparisons, {} samples",
        APPLICATIONS.len(),
        seen.took,
        seen.comparisons,
        seen.samples
    ))
}

fn example(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join("examples/gitops").join(path)).with_context(|| path.to_owned())
}

fn edit(repository: &Repository, path: &str, from: &str, to: &str) -> Result<()> {
    let text = repository.read(path)?;
    ensure!(text.matches(from).count() == 1, "{path} does not contain {from:?} once");
    repository.write(path, &text.replace(from, to))
}

/// Argo CD, and the commit that it should have applied.
struct Followed {
    argocd: ArgoCd,
    revision: String,
}

/// What was seen while the Applications stayed as they were.
struct Stayed {
    took: Duration,
    samples: usize,
    comparisons: usize,
}

impl Stayed {
    fn add(&mut self, Self { took, samples, comparisons }: Self) {
        self.took += took;
        self.samples += samples;
        self.comparisons += comparisons;
    }
}

/// What must not change while an Application stays Synced and Healthy: a sync that began and a health that changed
/// between two samples show here.
#[derive(Debug, PartialEq, Eq)]
struct Steady {
    state: (String, String),
    revision: String,
    operation: (String, String),
    healthy_since: String,
}

impl From<&Application> for Steady {
    fn from(application: &Application) -> Self {
        let (started, phase) = application.operation();
        Self {
            state: (application.sync().to_owned(), application.health().to_owned()),
            revision: application.revision().to_owned(),
            operation: (started.to_owned(), phase.to_owned()),
            healthy_since: application.health_since().to_owned(),
        }
    }
}

impl Followed {
    /// Has Argo CD compare every Application until all are Synced to the last commit, and Healthy.
    async fn settle(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let mut missing = Vec::new();
            for name in APPLICATIONS {
                if !self.argocd.has_application(name).await? {
                    missing.push(format!("{name} does not exist"));
                    continue;
                }
                let application = self.argocd.refresh(name).await?;
                let found = (application.sync(), application.health(), application.revision());
                if found != ("Synced", "Healthy", self.revision.as_str()) || application.operation().1 != "Succeeded" {
                    missing.push(format!("{name}: {}", application.summary()));
                }
            }
            if missing.is_empty() {
                return Ok(());
            }
            ensure!(began.elapsed() < INSTALLED_WITHIN, "after {INSTALLED_WITHIN:?}: {}", missing.join("\n"));
            tokio::time::sleep(SAMPLE_EVERY).await;
        }
    }

    /// Samples every Application for a time.
    ///
    /// # Errors
    /// One of them is not Synced or not Healthy, was synced again, or was not Healthy between two samples.
    async fn stay(&self, time: Duration) -> Result<Stayed> {
        let mut first: BTreeMap<&str, Steady> = BTreeMap::new();
        let mut compared: BTreeMap<&str, String> = BTreeMap::new();
        let (mut samples, mut comparisons) = (0, 0);
        let (began, mut refreshed) = (Instant::now(), Instant::now());
        while began.elapsed() < time {
            for name in APPLICATIONS {
                let application = self.argocd.application(name).await?;
                let steady = Steady::from(&application);
                ensure!(
                    (steady.state.0.as_str(), steady.state.1.as_str()) == ("Synced", "Healthy"),
                    "{name}, after {:.0?}: {}",
                    began.elapsed(),
                    application.summary()
                );
                let expected = first.entry(name).or_insert_with(|| Steady::from(&application));
                ensure!(steady == *expected, "{name} was {expected:?} and is {steady:?}: {}", application.summary());
                let compared = compared.entry(name).or_default();
                comparisons += usize::from(compared != application.compared_at());
                application.compared_at().clone_into(compared);
                samples += 1;
            }
            if refreshed.elapsed() > REFRESH_EVERY {
                for name in APPLICATIONS {
                    self.argocd.request_refresh(name).await?;
                }
                refreshed = Instant::now();
            }
            tokio::time::sleep(SAMPLE_EVERY).await;
        }
        Ok(Stayed { took: began.elapsed(), samples, comparisons })
    }
}
