//! The test cluster has the features that the tests rely on.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, VersionMatch};
use serde_json::Value;
use tamis_tests::cluster::{Cluster, eventually};

const OBJECTS: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: greeting, namespace: default}
data: {word: hello}
";

/// May read ConfigMaps of one namespace.
const READER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: here}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: here}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: here}]
"#;

/// Returns the code and reason of an API error.
fn status(error: kube::Error) -> Result<(u16, String)> {
    match error {
        kube::Error::Api(status) => Ok((status.code, status.reason.clone())),
        other => Err(other.into()),
    }
}

#[tokio::test]
async fn the_test_cluster_applies_authorizes_and_compacts() -> Result<()> {
    let began = Instant::now();
    let cluster = Cluster::start().await?;
    println!("ready after {:?}", began.elapsed());
    let greetings = Api::<ConfigMap>::namespaced(cluster.client(), "default");

    cluster.apply(OBJECTS).await?;
    let greeting = greetings.get("greeting").await?;
    ensure!(greeting.data.context("data")?["word"] == "hello");
    let error =
        cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: UPPER}}").await.expect_err("a bad name");
    ensure!(format!("{error:#}").contains("metadata.name"), "does not say what is wrong: {error:#}");

    a_service_account_may_do_what_its_role_says(&cluster).await?;
    // A restart forgets the recent history that watches begin from: this comes before the outage.
    an_old_version_expires(&cluster).await?;
    an_outage_loses_nothing(&cluster).await?;

    cluster.delete(OBJECTS).await?;
    ensure!(greetings.get_opt("greeting").await?.is_none());

    let kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(cluster.kubeconfig())?)?;
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().context("a server")?;
    let address = server.strip_prefix("https://").context("HTTPS")?;
    TcpStream::connect(address)?;
    drop(cluster);
    ensure!(TcpStream::connect(address).is_err(), "it outlives the test");
    Ok(())
}

async fn a_service_account_may_do_what_its_role_says(cluster: &Cluster) -> Result<()> {
    let kubeconfig = cluster.service_account("here", "reader").await?;
    let client = cluster.client_of(&kubeconfig).await?;
    let here = Api::<ConfigMap>::namespaced(client.clone(), "here");
    let refused = status(here.list(&ListParams::default()).await.expect_err("no Role yet"))?;
    ensure!(refused == (403, "Forbidden".to_owned()), "{refused:?}");

    cluster.apply(READER).await?;
    let allowed = || async { Ok(here.list(&ListParams::default()).await.map(Some)?) };
    eventually("the Role is in force", Duration::from_secs(10), allowed).await?;
    let elsewhere = Api::<ConfigMap>::namespaced(client, "default");
    let refused = status(elsewhere.get("greeting").await.expect_err("another namespace"))?;
    ensure!(refused.0 == 403, "{refused:?}");
    let error = cluster.kubectl_as(&kubeconfig, &["delete", "configmap", "x"], None).await.expect_err("may not delete");
    ensure!(error.to_string().contains("Forbidden"), "{error}");
    Ok(())
}

async fn an_outage_loses_nothing(cluster: &Cluster) -> Result<()> {
    let ask = || cluster.kubectl(&["get", "configmap", "greeting", "--output=name", "--request-timeout=1s"], None);
    cluster.pause_api_server()?;
    ensure!(ask().await.is_err(), "it hangs, and answers");
    cluster.resume_api_server()?;
    eventually("it answers again", Duration::from_secs(10), || async { ask().await.map(Some) }).await?;

    cluster.stop_api_server()?;
    ensure!(cluster.stop_api_server().is_err(), "it is stopped already");
    ensure!(ask().await.is_err(), "nothing runs, and something answers");
    let began = Instant::now();
    cluster.start_api_server().await?;
    println!("back after {:?}", began.elapsed());
    ensure!(cluster.start_api_server().await.is_err(), "it runs already");
    let greetings = Api::<ConfigMap>::namespaced(cluster.client(), "default");
    ensure!(greetings.get("greeting").await?.data.context("data")?["word"] == "goodbye");
    Ok(())
}

async fn an_old_version_expires(cluster: &Cluster) -> Result<()> {
    let greetings = Api::<ConfigMap>::namespaced(cluster.client(), "default");
    let old = greetings.get("greeting").await?.metadata.resource_version.context("a version")?;
    cluster.apply(&OBJECTS.replace("hello", "goodbye")).await?;
    let watch = format!("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion={old}");
    let events = cluster.kubectl(&["get", "--raw", &watch], None).await?;
    ensure!(events.contains(r#""type":"MODIFIED""#) && events.contains("goodbye"), "history is there: {events}");

    cluster.compact().await?;
    let events = cluster.kubectl(&["get", "--raw", &watch], None).await?;
    ensure!(events.contains(r#""type":"ERROR""#) && events.contains(r#""code":410"#), "history is gone: {events}");
    let at_old = ListParams::default().at(&old).matching(VersionMatch::Exact);
    let expired = status(greetings.list(&at_old).await.expect_err("history is gone"))?;
    ensure!(expired == (410, "Expired".to_owned()), "{expired:?}");
    Ok(())
}
