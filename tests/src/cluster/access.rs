//! Clients of a cluster, kubectl and kube, and their identities.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::http::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{Cluster, eventually};
use crate::root;

/// The identity of a client.
pub(super) enum Identity<'a> {
    Certificate { certificate: &'a Path, key: &'a Path },
    Token(&'a str),
}

/// Returns a kubeconfig as JSON, which is valid YAML.
pub(super) fn kubeconfig(server: &str, authority: &Path, namespace: &str, identity: &Identity<'_>) -> Value {
    let user = match identity {
        Identity::Certificate { certificate, key } => json!({"client-certificate": certificate, "client-key": key}),
        Identity::Token(token) => json!({"token": token}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        "current-context": "test",
    })
}

async fn config_of(kubeconfig: &Path) -> Result<Config> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

pub(super) async fn client_of(kubeconfig: &Path) -> Result<Client> {
    Ok(Client::try_from(config_of(kubeconfig).await?)?)
}

/// Returns a client that does not retry and has short timeouts.
pub(super) async fn impatient_client_of(kubeconfig: &Path) -> Result<Client> {
    let mut config = config_of(kubeconfig).await?;
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(2));
    config.read_timeout = Some(Duration::from_secs(5));
    Ok(Client::try_from(config)?)
}

pub(super) async fn get(client: &Client, path: &str) -> Result<String> {
    Ok(client.request_text(Request::get(path).body(Vec::new())?).await?)
}

impl Cluster {
    /// Returns a client for a kubeconfig.
    ///
    /// # Errors
    /// The file is not a kubeconfig.
    pub async fn client_of(&self, kubeconfig: &Path) -> Result<Client> {
        client_of(kubeconfig).await
    }

    /// Runs kubectl as an administrator and returns its output.
    ///
    /// # Errors
    /// kubectl failed; the message contains its output.
    pub async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<String> {
        self.kubectl_as(&self.kubeconfig, args, stdin).await
    }

    /// Runs kubectl like [`Cluster::kubectl`], with the identity of a kubeconfig.
    ///
    /// # Errors
    /// kubectl failed; the message contains its output.
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str], stdin: Option<&str>) -> Result<String> {
        let mut child = Command::new(&self.programs.kubectl)
            // A cache for each cluster: kubectl caches discovery by the server's address, and tests reuse addresses.
            .env("KUBECACHEDIR", self.folder.path().join("kubectl"))
            .env("KUBECONFIG", kubeconfig)
            .arg("--request-timeout=30s")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting kubectl")?;
        let mut input = child.stdin.take().context("standard input")?;
        // Runs concurrently with reading the output: kubectl may print before it has read all its input, and then
        // blocks until its output is read.
        let write = async move {
            match stdin {
                Some(text) => input.write_all(text.as_bytes()).await,
                None => Ok(()),
            }
        };
        let (written, output) = tokio::join!(write, child.wait_with_output());
        let output = output?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {}", args.join(" "), said.trim_end());
        written?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies documents server-side, as a user does.
    ///
    /// # Errors
    /// The server rejects a document; the message contains the reason.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        self.kubectl(&["apply", "--server-side", "--filename=-"], Some(yaml)).await.map(drop)
    }

    /// Deletes the objects that documents name, and waits until they are gone.
    ///
    /// # Errors
    /// The server rejects the request, an object does not exist, or a finalizer blocks its deletion for 30 seconds.
    pub async fn delete(&self, yaml: &str) -> Result<()> {
        self.kubectl(&["delete", "--timeout=30s", "--filename=-"], Some(yaml)).await.map(drop)
    }

    /// Applies everything in `crds/yaml/` and waits until the server serves the resources.
    ///
    /// # Errors
    /// The server rejects a definition, or does not establish it in 30 seconds.
    pub async fn install_crds(&self) -> Result<()> {
        self.apply_folder("crds/yaml").await?;
        self.established().await
    }

    /// Waits until the server serves the resources of all definitions.
    pub(super) async fn established(&self) -> Result<()> {
        let wait = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
        // kubectl fails immediately if a definition is so new that it has no conditions.
        let waited = || async { self.kubectl(&wait, None).await.map(|_| Some(())) };
        eventually("definitions", Duration::from_secs(30), waited).await
    }

    /// Applies everything in `crds/policies/`. A policy takes effect a second or two later, and no API reports when: a
    /// test repeats a request until it is refused.
    ///
    /// # Errors
    /// The server refuses one.
    pub async fn install_policies(&self) -> Result<()> {
        self.apply_folder("crds/policies").await
    }

    /// Installs definitions of other projects by name, for example `podmonitors.monitoring.coreos.com`, and waits until
    /// the server serves them. `cargo xtask tools` downloads those of the Prometheus operator and of Gateway API
    /// (`httproutes.gateway.networking.k8s.io`).
    ///
    /// # Errors
    /// A definition is not downloaded, or the server rejects it.
    pub async fn install_definitions(&self, names: &[&str]) -> Result<()> {
        for name in names {
            let (plural, group) = name.split_once('.').with_context(|| format!("{name} is no name of a definition"))?;
            let file = crate::tool(&format!("definitions/{group}_{plural}.yaml"))?;
            let file = file.to_str().context("the path is no text")?;
            self.kubectl(&["apply", "--server-side", "--filename", file], None).await?;
            let definition = format!("crd/{name}");
            self.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", &definition], None).await?;
        }
        Ok(())
    }

    async fn apply_folder(&self, folder: &str) -> Result<()> {
        let folder = root().join(folder);
        let folder = folder.to_str().context("the path is no text")?;
        self.kubectl(&["apply", "--server-side", "--filename", folder], None).await.map(drop)
    }

    /// Creates a namespace if it does not exist.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&Api::<Namespace>::all(self.client()), namespace).await
    }

    /// Creates a ServiceAccount and its namespace if they do not exist, and writes a kubeconfig with a new token for
    /// it. Only Roles give it permissions.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.namespace(namespace).await?;
        let accounts = Api::<ServiceAccount>::namespaced(self.client(), namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        create(&accounts, account).await?;
        let wanted = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(24 * 60 * 60), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let token = accounts.create_token_request(name, &PostParams::default(), &wanted).await?;
        let token = token.status.context("no token")?.token;
        let file = self.folder.path().join(format!("{namespace}.{name}.kubeconfig"));
        self.api_server.kubeconfig(&file, namespace, &Identity::Token(&token))?;
        Ok(file)
    }

    /// Returns the value of one key of a Secret.
    ///
    /// # Errors
    /// The key does not exist, or its value is not text.
    pub async fn secret(&self, namespace: &str, name: &str, key: &str) -> Result<String> {
        let secret = Api::<Secret>::namespaced(self.client(), namespace).get(name).await?;
        let value = secret.data.unwrap_or_default().remove(key).with_context(|| format!("{name} has no key {key}"))?;
        Ok(String::from_utf8(value.0)?)
    }
}

/// Creates an object if none of its name exists.
async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    match api.create(&PostParams::default(), &serde_json::from_value(object)?).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}
