//! Argo CD beside a test: its repository server and its application controller as processes, with the rights that its own
//! installation gives them, and repositories of Git on disk. Without its web server: a test applies Applications and reads
//! their status, as `kubectl` does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::Process;
use super::{Cluster, eventually, programs};
use crate::Port;

/// The namespace that Argo CD lives in.
const NAMESPACE: &str = "argocd";
/// Lines of their logs that a failed test shows.
const SHOWN: usize = 20;
/// A sync with several steps, on a machine that does other things too.
const SOON: Duration = Duration::from_secs(90);
/// Everything may be synced anywhere: what Argo CD's web server would make when it first starts.
const PROJECT: &str = r#"
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
"#;

/// What `cargo xtask gitops` builds.
#[derive(Debug, Clone)]
struct Programs {
    argocd: PathBuf,
    redis: PathBuf,
    install: PathBuf,
}

impl Programs {
    fn find() -> Result<Self> {
        let files = programs::find("argocd", ["argocd", "argocd-redis", "argocd-install.yaml"]);
        let [argocd, redis, install] = files.context("Argo CD is not built: run `cargo xtask gitops`")?;
        Ok(Self { argocd, redis, install })
    }
}

/// A running Argo CD; it is killed when dropped.
#[derive(Debug)]
pub struct ArgoCd {
    /// Compares and syncs.
    pub controller: Process,
    /// Renders what is in Git.
    pub repo_server: Process,
    applications: Api<DynamicObject>,
    folder: TempDir,
    _redis: Process,
    _ports: Vec<Port>,
}

impl ArgoCd {
    /// Installs it as its documentation says, `core-install.yaml` into the namespace `argocd`, merges a text into its
    /// ConfigMap `argocd-cm`, and starts in the place of its pods what they would run.
    ///
    /// # Errors
    /// It is not built, or the API server refuses something.
    pub async fn start(cluster: &Cluster, configuration: &str) -> Result<Self> {
        let programs = Programs::find()?;
        // It starts them by their names.
        let tools = [programs::helm()?, cluster.programs.kubectl.clone()];
        cluster.namespace(NAMESPACE).await?;
        let install = programs.install.to_str().context("the path is no text")?;
        let apply = ["apply", "--server-side", "--namespace", NAMESPACE, "--filename"];
        cluster.kubectl(&[&apply[..], &[install]].concat(), None).await?;
        cluster.established().await?;
        cluster.kubectl(&[&apply[..], &["-"]].concat(), Some(PROJECT)).await?;
        let merge = ["apply", "--server-side", "--field-manager=tamis", "--filename=-"];
        cluster.kubectl(&merge, Some(configuration)).await?;
        let kubeconfig = cluster.service_account(NAMESPACE, "argocd-application-controller").await?;

        let folder = TempDir::with_prefix("tamis-argocd-")?;
        for name in ["ssh", "tls", "tmp"] {
            fs::create_dir(folder.path().join(name))?;
        }
        fs::write(folder.path().join("ssh/ssh_known_hosts"), "")?;
        let ports = (0..4).map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
        let [redis, repo, repo_metrics, metrics] = &ports[..] else { unreachable!("four were asked for") };
        let number = |port: &Port| port.number().to_string();

        let log = |name: &str| folder.path().join(format!("{name}.log"));
        let mut command = Command::new(&programs.redis);
        let redis_process = Process::spawn("argocd-redis", command.arg(redis.address()), &log("redis"), SHOWN)?;
        let mut command = part(&programs, folder.path(), "argocd-repo-server", &tools)?;
        command.args(["--redis", &redis.address(), "--disable-tls", "--loglevel", "warn"]);
        command.args(["--address", "127.0.0.1", "--port", &number(repo)]);
        command.args(["--metrics-address", "127.0.0.1", "--metrics-port", &number(repo_metrics)]);
        let repo_server = Process::spawn("argocd-repo-server", &mut command, &log("repo-server"), SHOWN)?;
        let mut command = part(&programs, folder.path(), "argocd-application-controller", &tools)?;
        command.env("KUBECONFIG", &kubeconfig).arg("--kubeconfig").arg(&kubeconfig);
        command.args(["--namespace", NAMESPACE, "--redis", &redis.address()]);
        command.args(["--repo-server", &repo.address(), "--repo-server-plaintext"]);
        command.args(["--metrics-port", &number(metrics)]);
        // The health of each resource in the Application's status; otherwise the web server knows it.
        command.arg("--persist-resource-health");
        let controller = Process::spawn("argocd-application-controller", &mut command, &log("controller"), SHOWN)?;

        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        let resource = ApiResource::from_gvk_with_plural(&kind, "applications");
        let applications = Api::namespaced_with(cluster.client(), NAMESPACE, &resource);
        Ok(Self { controller, repo_server, applications, folder, _redis: redis_process, _ports: ports })
    }

    /// A new, empty repository.
    ///
    /// # Errors
    /// Git fails.
    pub fn repository(&self, name: &str) -> Result<Repository> {
        Repository::create(self.folder.path().join(name))
    }

    /// An Application as it is now.
    ///
    /// # Errors
    /// There is none of this name.
    pub async fn application(&self, name: &str) -> Result<Application> {
        let object = self.applications.get(name).await?;
        Ok(Application { object: serde_json::to_value(object)? })
    }

    /// Whether there is an Application of this name.
    ///
    /// # Errors
    /// The API's.
    pub async fn has_application(&self, name: &str) -> Result<bool> {
        Ok(self.applications.get_opt(name).await?.is_some())
    }

    /// Has Argo CD compare anew with what is in Git now, whatever it remembers, and waits until it has.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn refresh(&self, name: &str) -> Result<Application> {
        const REFRESH: &str = "argocd.argoproj.io/refresh";
        let patch = Patch::Merge(json!({"metadata": {"annotations": {REFRESH: "hard"}}}));
        self.applications.patch(name, &PatchParams::default(), &patch).await?;
        eventually(&format!("refresh of {name}"), SOON, async || {
            let application = self.application(name).await?;
            let asked = &application.object["metadata"]["annotations"][REFRESH];
            Ok(asked.is_null().then_some(application))
        })
        .await
    }

    /// Waits until an Application is of a revision, in this state of sync and health, and its last sync has succeeded.
    ///
    /// # Errors
    /// It is not in time; the message says how it was, and has the end of the controller's log.
    pub async fn becomes(&self, name: &str, revision: &str, sync: &str, health: &str) -> Result<Application> {
        let last = std::cell::RefCell::new(String::new());
        let what = format!("{name} {sync} and {health}");
        let found = eventually(&what, SOON, async || {
            let application = self.application(name).await?;
            *last.borrow_mut() = application.summary();
            let state = (application.revision(), application.sync(), application.health());
            let done = state == (revision, sync, health) && application.operation().1 == "Succeeded";
            Ok(done.then_some(application))
        });
        found.await.with_context(|| {
            let log = self.controller.log();
            let lines: Vec<&str> = log.lines().collect();
            format!("{}\n{}", last.borrow(), lines[lines.len().saturating_sub(SHOWN)..].join("\n"))
        })
    }
}

/// The health that Argo CD gives an object under a configuration, the text of its ConfigMap `argocd-cm`: status and
/// message, or none where it has no check for the kind.
///
/// # Errors
/// It is not built, the check fails, or what Argo CD prints has another form.
pub fn assess(object: &Value, configuration: &str) -> Result<Option<(String, String)>> {
    let folder = TempDir::with_prefix("tamis-argocd-")?;
    let (file, config) = (folder.path().join("object.yaml"), folder.path().join("argocd-cm.yaml"));
    fs::write(&file, object.to_string())?;
    fs::write(&config, configuration)?;
    let mut command = part(&Programs::find()?, folder.path(), "argocd", &[])?;
    command.args(["admin", "settings", "resource-overrides", "health"]).arg(&file);
    let output = command.arg("--argocd-cm-path").arg(&config).output().context("starting argocd")?;
    let printed = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    if printed.starts_with("Health script is not configured") {
        return Ok(None);
    }
    let value = |name| printed.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned());
    let found = value("STATUS:").zip(value("MESSAGE:"));
    Ok(Some(found.with_context(|| format!("no status and message: {printed}"))?))
}

/// One of the programs that the binary is. `tools`: programs that it finds before others of their names.
fn part(programs: &Programs, folder: &Path, name: &str, tools: &[PathBuf]) -> Result<Command> {
    let mut command = Command::new(&programs.argocd);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = tools.iter().filter_map(|tool| tool.parent()).map(Path::to_owned);
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)))?;
    command.env("PATH", path).env("ARGOCD_BINARY_NAME", name);
    command.env("HOME", folder).env("TMPDIR", folder.join("tmp"));
    command.env("ARGOCD_SSH_DATA_PATH", folder.join("ssh")).env("ARGOCD_TLS_DATA_PATH", folder.join("tls"));
    // It uses the kubeconfig as if it were in a pod; no signatures are checked.
    command.env("ARGOCD_FAKE_IN_CLUSTER", "true").env("ARGOCD_GPG_ENABLED", "false");
    Ok(command)
}

/// An Application at one moment.
#[derive(Debug, Clone)]
pub struct Application {
    /// As the API has it.
    pub object: Value,
}

impl Application {
    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `Synced`, `OutOfSync`, `Unknown`, or empty.
    #[must_use]
    pub fn sync(&self) -> &str {
        self.text("/status/sync/status")
    }

    /// `Healthy`, `Progressing`, `Degraded`, .., or empty.
    #[must_use]
    pub fn health(&self) -> &str {
        self.text("/status/health/status")
    }

    /// The commit that it was compared with.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.text("/status/sync/revision")
    }

    /// What became of the last sync: when it started and its phase. Another one has begun since where this differs.
    #[must_use]
    pub fn operation(&self) -> (&str, &str) {
        (self.text("/status/operationState/startedAt"), self.text("/status/operationState/phase"))
    }

    /// Of one of its resources: whether it is in sync, its health, and what is said of that; none where it has no such.
    #[must_use]
    pub fn resource(&self, kind: &str, name: &str) -> Option<(String, String, String)> {
        let resources = self.object.pointer("/status/resources")?.as_array()?;
        let found = resources.iter().find(|resource| resource["kind"] == kind && resource["name"] == name)?;
        let text = |pointer| found.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some((text("/status"), text("/health/status"), text("/health/message")))
    }

    /// What is wrong with it, if something is.
    #[must_use]
    pub fn summary(&self) -> String {
        let status = &self.object["status"];
        let state = &status["operationState"];
        format!(
            "{} {} at {:?}, operation {} {}, conditions {}, resources {}",
            self.sync(),
            self.health(),
            self.revision(),
            state["phase"],
            state["message"],
            status["conditions"],
            status["resources"]
        )
    }
}

/// A repository of Git with a working tree.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
}

impl Repository {
    fn create(folder: PathBuf) -> Result<Self> {
        fs::create_dir(&folder)?;
        let repository = Self { folder };
        repository.git(&["init", "--quiet", "--initial-branch=main"])?;
        Ok(repository)
    }

    /// Where Argo CD finds it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let file = self.folder.join(path);
        fs::create_dir_all(file.parent().context("no folder")?)?;
        Ok(fs::write(file, text)?)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is not there.
    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.folder.join(path)).with_context(|| path.to_owned())
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// It is not there.
    pub fn remove(&self, path: &str) -> Result<()> {
        fs::remove_file(self.folder.join(path)).with_context(|| path.to_owned())
    }

    /// Commits all that has changed; gives the commit.
    ///
    /// # Errors
    /// Nothing has, or Git fails.
    pub fn commit(&self, message: &str) -> Result<String> {
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message", message])?;
        self.git(&["rev-parse", "HEAD"])
    }

    /// Takes the last commit back, with a commit; gives that.
    ///
    /// # Errors
    /// Git fails.
    pub fn revert(&self) -> Result<String> {
        self.git(&["revert", "--no-edit", "HEAD"])?;
        self.git(&["rev-parse", "HEAD"])
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new("git");
        command.current_dir(&self.folder).args(["-c", "user.name=test", "-c", "user.email=test@example.com"]);
        // Whatever the machine's own configuration says.
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.args(args).output().context("starting git")?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "git {}: {text}{}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }
}
