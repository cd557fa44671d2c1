//! Argo CD next to a test: its repository server and its application controller run as processes, with the rights that
//! its own installation grants, and use Git repositories on disk. The web server does not run: a test applies
//! Applications and reads their status, as `kubectl` does.

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
use crate::documents::copy_folder;
use crate::{Port, root};

/// The namespace of Argo CD.
const NAMESPACE: &str = "argocd";
/// The number of log lines that a failed test shows.
const SHOWN: usize = 20;
/// The annotation that asks for a comparison. Argo CD removes it when it has compared.
const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Long enough for a sync with several steps on a busy machine.
const SOON: Duration = Duration::from_secs(90);
/// The project that Argo CD's web server creates when it first starts: everything may be synced anywhere.
const PROJECT: &str = r#"
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
"#;

/// The programs that `cargo xtask gitops` builds.
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

/// A running Argo CD. It is killed when dropped.
#[derive(Debug)]
pub struct ArgoCd {
    /// The application controller, which compares and syncs.
    pub controller: Process,
    /// The repository server, which renders manifests.
    pub repo_server: Process,
    applications: Api<DynamicObject>,
    folder: TempDir,
    _redis: Process,
    _ports: Vec<Port>,
}

impl ArgoCd {
    /// Installs Argo CD as its documentation says: applies `core-install.yaml` to the namespace `argocd`, and merges a
    /// text into the ConfigMap `argocd-cm`. The programs of its pods run as processes of the test instead.
    ///
    /// # Errors
    /// Argo CD is not built, or the API server refuses an object.
    pub async fn start(cluster: &Cluster, configuration: &str) -> Result<Self> {
        let programs = Programs::find()?;
        // Argo CD finds these two on its `PATH`.
        let tools = [programs::helm()?, cluster.programs.kubectl.clone()];
        cluster.namespace(NAMESPACE).await?;
        let install = without_pods(&fs::read_to_string(&programs.install)?);
        let apply = ["apply", "--server-side", "--namespace", NAMESPACE, "--filename=-"];
        cluster.kubectl(&apply, Some(&install)).await?;
        cluster.established().await?;
        cluster.kubectl(&apply, Some(PROJECT)).await?;
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
        // Without this option, only the web server knows the health of each resource.
        command.arg("--persist-resource-health");
        let controller = Process::spawn("argocd-application-controller", &mut command, &log("controller"), SHOWN)?;

        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        let resource = ApiResource::from_gvk_with_plural(&kind, "applications");
        let applications = Api::namespaced_with(cluster.client(), NAMESPACE, &resource);
        Ok(Self { controller, repo_server, applications, folder, _redis: redis_process, _ports: ports })
    }

    /// Creates an empty repository.
    ///
    /// # Errors
    /// Git fails.
    pub fn repository(&self, name: &str) -> Result<Repository> {
        Repository::create(self.folder.path().join(name))
    }

    /// Reads an Application.
    ///
    /// # Errors
    /// No Application has this name.
    pub async fn application(&self, name: &str) -> Result<Application> {
        let object = self.applications.get(name).await?;
        Ok(Application { object: serde_json::to_value(object)? })
    }

    /// Returns whether an Application exists.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn has_application(&self, name: &str) -> Result<bool> {
        Ok(self.applications.get_opt(name).await?.is_some())
    }

    /// Asks Argo CD to read the repository again and to compare an Application, without its caches.
    ///
    /// # Errors
    /// The API server refuses the annotation.
    pub async fn request_refresh(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {REFRESH: "hard"}}}));
        self.applications.patch(name, &PatchParams::default(), &patch).await.map(drop).context("requesting a refresh")
    }

    /// [`ArgoCd::request_refresh`], and waits until Argo CD has compared.
    ///
    /// # Errors
    /// Argo CD does not compare in time.
    pub async fn refresh(&self, name: &str) -> Result<Application> {
        self.request_refresh(name).await?;
        eventually(&format!("refresh of {name}"), SOON, async || {
            let application = self.application(name).await?;
            let requested = &application.object["metadata"]["annotations"][REFRESH];
            Ok(requested.is_null().then_some(application))
        })
        .await
    }

    /// Waits until an Application has this revision, sync status and health, and its last sync has succeeded.
    ///
    /// # Errors
    /// The Application does not become so in time. The message has its last state and the end of the controller's log.
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

/// Returns the health of an object, status and message, under the ConfigMap `argocd-cm` with this text. Returns `None`
/// if Argo CD has no health check for the kind.
///
/// # Errors
/// Argo CD is not built, the check fails, or the output has an unknown form.
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

/// Removes the Deployments and StatefulSets from manifests: on a node, they would start pods whose image cannot be
/// pulled.
fn without_pods(manifests: &str) -> String {
    let starts_pods =
        |document: &&str| document.lines().any(|line| matches!(line, "kind: Deployment" | "kind: StatefulSet"));
    manifests.split("\n---\n").filter(|document| !starts_pods(document)).collect::<Vec<_>>().join("\n---\n")
}

/// Returns the command of a program of Argo CD, which are all one binary. `tools` come first on its `PATH`.
fn part(programs: &Programs, folder: &Path, name: &str, tools: &[PathBuf]) -> Result<Command> {
    let mut command = Command::new(&programs.argocd);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = tools.iter().filter_map(|tool| tool.parent()).map(Path::to_owned);
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)))?;
    command.env("PATH", path).env("ARGOCD_BINARY_NAME", name);
    command.env("HOME", folder).env("TMPDIR", folder.join("tmp"));
    command.env("ARGOCD_SSH_DATA_PATH", folder.join("ssh")).env("ARGOCD_TLS_DATA_PATH", folder.join("tls"));
    // Argo CD uses the kubeconfig as if it ran in a pod, and checks no signatures.
    command.env("ARGOCD_FAKE_IN_CLUSTER", "true").env("ARGOCD_GPG_ENABLED", "false");
    Ok(command)
}

/// The state of an Application at one moment.
#[derive(Debug, Clone)]
pub struct Application {
    /// The object.
    pub object: Value,
}

impl Application {
    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns `Synced`, `OutOfSync`, `Unknown`, or an empty text.
    #[must_use]
    pub fn sync(&self) -> &str {
        self.text("/status/sync/status")
    }

    /// Returns `Healthy`, `Progressing`, `Degraded`, .., or an empty text.
    #[must_use]
    pub fn health(&self) -> &str {
        self.text("/status/health/status")
    }

    /// Returns when the health last changed.
    #[must_use]
    pub fn health_since(&self) -> &str {
        self.text("/status/health/lastTransitionTime")
    }

    /// Returns the commit of the last comparison.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.text("/status/sync/revision")
    }

    /// Returns the time of the last comparison.
    #[must_use]
    pub fn compared_at(&self) -> &str {
        self.text("/status/reconciledAt")
    }

    /// Returns the start and the phase of the last sync.
    #[must_use]
    pub fn operation(&self) -> (&str, &str) {
        (self.text("/status/operationState/startedAt"), self.text("/status/operationState/phase"))
    }

    /// Returns the sync status, the health and the health's message of a resource, or `None` if the Application has no
    /// such resource.
    #[must_use]
    pub fn resource(&self, kind: &str, name: &str) -> Option<(String, String, String)> {
        let resources = self.object.pointer("/status/resources")?.as_array()?;
        let found = resources.iter().find(|resource| resource["kind"] == kind && resource["name"] == name)?;
        let text = |pointer| found.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some((text("/status"), text("/health/status"), text("/health/message")))
    }

    /// Describes the state, with every resource and condition.
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

/// A Git repository with a working tree.
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

    /// Returns the URL for Argo CD.
    #[must_use]
    pub fn url(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let file = self.folder.join(path);
        fs::create_dir_all(file.parent().context("no folder")?)?;
        Ok(fs::write(file, text)?)
    }

    /// Copies a folder of this workspace, unchanged.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn copy(&self, from: &str, to: &str) -> Result<()> {
        copy_folder(&root().join(from), &self.folder.join(to), &str::to_owned).with_context(|| from.to_owned())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.folder.join(path)).with_context(|| path.to_owned())
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn remove(&self, path: &str) -> Result<()> {
        fs::remove_file(self.folder.join(path)).with_context(|| path.to_owned())
    }

    /// Commits all changes, and returns the commit.
    ///
    /// # Errors
    /// Nothing has changed, or Git fails.
    pub fn commit(&self, message: &str) -> Result<String> {
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message", message])?;
        self.git(&["rev-parse", "HEAD"])
    }

    /// Reverts the last commit, and returns the commit that does so.
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
        // The machine's configuration has no effect.
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.args(args).output().context("starting git")?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "git {}: {text}{}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::without_pods;

    #[test]
    fn manifests_keep_everything_that_starts_no_pods() {
        let [service, deployment, set] =
            ["Service", "Deployment", "StatefulSet"].map(|kind| format!("apiVersion: v1\nkind: {kind}\nspec: {{}}"));
        let role = "kind: Role\nrules:\n- resources: [x]\n  kind: Deployment";
        let all = [service.as_str(), &deployment, role, &set].join("\n---\n");
        assert_eq!(without_pods(&all), format!("{service}\n---\n{role}"));
    }
}
