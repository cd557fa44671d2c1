//! What becomes of a release: installed, upgraded, rolled back, removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tamis_tests::cluster::{Cluster, eventually};
use tamis_tests::documents::copy_folder;
use tamis_tests::root;
use tempfile::TempDir;

use super::{CHARTS, SYSTEM};

/// A copy of a chart, as the version before this one was: another version, other rights, another default.
fn previous(chart: &str, to: &Path) -> Result<PathBuf> {
    let target = to.join(chart);
    copy_folder(&root().join(chart), &target, &str::to_owned)?;
    let edit = |file: &str, from: &str, to: &str| -> Result<()> {
        let file = target.join(file);
        let text = fs::read_to_string(&file)?;
        ensure!(text.contains(from), "{}: no {from}", file.display());
        fs::write(&file, text.replace(from, to))?;
        Ok(())
    };
    edit("Chart.yaml", concat!("version: ", env!("CARGO_PKG_VERSION")), "version: 0.0.9")?;
    edit("Chart.yaml", concat!("appVersion: \"", env!("CARGO_PKG_VERSION")), "appVersion: \"0.0.9")?;
    if chart.ends_with("tamis") {
        edit("values.yaml", "replicas: 2\n", "replicas: 1\n")?;
        edit("templates/operator.yaml", "            - --lease-name={{ $operator }}\n", "")?;
    } else {
        edit("files/crds/expositions.tamis.dev.yaml", "name: Saved", "name: Spared")?;
    }
    Ok(target)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_upgraded_rolled_back_and_removed() -> Result<()> {
    let cluster = Cluster::start().await?;
    let folder = TempDir::new()?;
    let old = CHARTS.map(|chart| previous(chart, folder.path()));
    let [old_crds, old_tamis] = old;
    let (old_crds, old_tamis) = (old_crds?, old_tamis?);
    let (old_crds, old_tamis) = (old_crds.to_str().context("text")?, old_tamis.to_str().context("text")?);
    let before = everything(&cluster).await?;
    cluster.helm(&["install", "tamis-crds", old_crds, "-n", SYSTEM, "--create-namespace"]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    let said = cluster.helm(&["install", "tamis", old_tamis, "-n", SYSTEM]).await?;
    ensure!(said.contains("helm test tamis") && said.contains("tamis-default.tamis-system.svc:8080"), "{said}");

    // What users own, made under the old version.
    cluster.namespace("team-a").await?;
    let example = fs::read_to_string(root().join("examples/kubernetes/team-a/github.yaml"))?;
    cluster.kubectl(&["-n", "team-a", "apply", "--filename=-"], Some(&example)).await?;

    let replicas = ["-n", SYSTEM, "get", "deployment", "tamis-operator", "-o", "jsonpath={.spec.replicas}"];
    let column =
        ["get", "crd", "expositions.tamis.dev", "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}"];
    ensure!(cluster.kubectl(&replicas, None).await? == "1" && cluster.kubectl(&column, None).await?.contains("Spared"));
    cluster.helm(&["upgrade", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM]).await?;
    cluster.helm(&["upgrade", "tamis", "charts/tamis", "-n", SYSTEM, "--set", "secretNamespaces={team-a}"]).await?;
    ensure!(cluster.kubectl(&replicas, None).await? == "2" && cluster.kubectl(&column, None).await?.contains("Saved"));
    let binding = ["-n", "team-a", "get", "rolebinding", "tamis-secrets", "--ignore-not-found", "-o", "name"];
    ensure!(!cluster.kubectl(&binding, None).await?.is_empty(), "team-a takes part");

    // Back, and forth again.
    cluster.helm(&["rollback", "tamis", "1", "-n", SYSTEM]).await?;
    ensure!(cluster.kubectl(&replicas, None).await? == "1", "as before");
    ensure!(cluster.kubectl(&binding, None).await?.is_empty(), "team-a takes part no more");
    cluster.helm(&["upgrade", "tamis", "charts/tamis", "-n", SYSTEM, "--set", "secretNamespaces={team-a}"]).await?;
    let history = cluster.helm(&["history", "tamis", "-n", SYSTEM, "-o", "json"]).await?;
    let history: Value = serde_json::from_str(&history)?;
    ensure!(history.as_array().is_some_and(|all| all.len() == 4 && all[3]["status"] == "deployed"), "{history}");
    // The same again changes nothing.
    let version = ["-n", SYSTEM, "get", "deployment", "tamis-operator", "-o", "jsonpath={.metadata.generation}"];
    let generation = cluster.kubectl(&version, None).await?;
    cluster.helm(&["upgrade", "tamis", "charts/tamis", "-n", SYSTEM, "--reuse-values"]).await?;
    ensure!(cluster.kubectl(&version, None).await? == generation, "a Deployment is written although nothing changed");

    // Expositions use the group: it stays until its deletion is allowed.
    let group = ["-n", SYSTEM, "patch", "gatewaygroup", "default", "--type=merge", "-p"];
    let attached = r#"{"status": {"attachedExpositions": 2}}"#;
    cluster.kubectl(&[group.as_slice(), &[attached, "--subresource=status"]].concat(), None).await?;
    ensure!(cluster.helm(&["uninstall", "tamis", "-n", SYSTEM]).await.is_err(), "a group in use is deleted");
    let allowed = r#"{"metadata": {"annotations": {"tamis.dev/allow-deletion": "true"}}}"#;
    cluster.kubectl(&[group.as_slice(), &[allowed]].concat(), None).await.context("the group is gone")?;
    cluster.helm(&["uninstall", "tamis", "-n", SYSTEM]).await?;
    cluster.helm(&["uninstall", "tamis-crds", "-n", SYSTEM]).await?;
    let services = ["-n", "team-a", "get", "servicemanifests", "-o", "name"];
    ensure!(!cluster.kubectl(&services, None).await?.is_empty(), "users keep what they own");
    cluster.kubectl(&["-n", "team-a", "delete", "--filename=-"], Some(&example)).await?;
    eventually("only the kinds are left", Duration::from_secs(30), async || {
        let mut left = everything(&cluster).await?;
        left.retain(|object| !before.contains(object) && !object.starts_with("namespace/"));
        let kinds = left.iter().filter(|object| object.ends_with(".tamis.dev")).count();
        ensure!(kinds == 9 && left.len() == 9, "left: {left:#?}");
        Ok(Some(()))
    })
    .await?;
    // And it can all come again.
    cluster.helm(&["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM]).await?;
    cluster.helm(&["install", "tamis", "charts/tamis", "-n", SYSTEM]).await.map(drop)
}

/// The names of everything that is there, of all kinds but Events and what the API server makes by itself.
async fn everything(cluster: &Cluster) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for namespaced in ["true", "false"] {
        let namespaced = format!("--namespaced={namespaced}");
        let list = ["api-resources", "--verbs=list", &namespaced, "-o", "name"];
        let kinds = cluster.kubectl(&list, None).await?;
        let own = |kind: &&str| ["events", "leases", "apiservices"].iter().any(|own| kind.starts_with(own));
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !own(kind)).collect();
        let names = "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let found = cluster.kubectl(&["get", &kinds.join(","), "--all-namespaces", "-o", names], None).await?;
        all.extend(found.lines().map(|line| line.replace("//", "/").to_lowercase()));
    }
    all.sort();
    all.dedup();
    Ok(all)
}
