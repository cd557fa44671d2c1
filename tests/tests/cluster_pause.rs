//! A pause through the real operator and a real gateway: what waits, what does not, and what the status reports.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, eventually};

const SOON: Duration = Duration::from_secs(60);

fn filters(members: &Value) -> String {
    TestEnv::filters("small", &json!({"filters": {"get-issue": {"retain": members}}}))
}

async fn annotate(env: &TestEnv, namespace: &str, object: &str, paused: bool) -> Result<()> {
    let annotation = if paused { "tamis.dev/paused=true" } else { "tamis.dev/paused-" };
    env.cluster.kubectl(&["-n", namespace, "annotate", object, annotation], None).await.map(drop)
}

/// `status/reason` of a condition of the group.
async fn group_is(env: &TestEnv, condition: &str, wanted: &str) -> Result<()> {
    let path =
        format!("jsonpath={{range .status.conditions[?(@.type==\"{condition}\")]}}{{.status}}/{{.reason}}{{end}}");
    let get = ["-n", "tamis-public", "get", "gatewaygroup", "public", "-o", &path];
    eventually(&format!("{condition} {wanted}"), SOON, async || {
        Ok((env.cluster.kubectl(&get, None).await? == wanted).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_delays_additions_but_no_revocation() -> Result<()> {
    let env = TestEnv::start().await?;
    let cluster = &env.cluster;
    cluster.apply(&env.manifest()).await?;
    cluster.apply(&filters(&json!(["/number"]))).await?;
    for name in ["one", "two"] {
        cluster.apply(&TestEnv::exposition(name, &json!({}))).await?;
        env.ready("exposition", name).await?;
        env.issue_has(name, &["number"]).await?;
    }

    // One exposition is paused: another one still follows edits.
    annotate(&env, "team-a", "exposition/one", true).await?;
    eventually("an Event", SOON, async || {
        let reasons = ["-n", "team-a", "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}"];
        Ok(cluster.kubectl(&reasons, None).await?.contains("Paused").then_some(()))
    })
    .await?;
    env.condition_is("exposition", "one", "Ready", "True", "Ready").await?;
    cluster.apply(&filters(&json!(["/number", "/title"]))).await?;
    env.issue_has("two", &["number", "title"]).await?;
    let said = env.condition_is("exposition", "one", "Ready", "False", "Paused").await?;
    ensure!(said.contains("tamis.dev/paused"), "{said}");
    env.condition_is("toolsfilters", "small", "Ready", "Unknown", "Paused").await?;
    env.issue_has("one", &["number"]).await?;
    annotate(&env, "team-a", "exposition/one", false).await?;
    env.issue_has("one", &["number", "title"]).await?;
    env.ready("exposition", "one").await?;
    env.ready("toolsfilters", "small").await?;

    // The group: nothing of it is written, its own objects included.
    annotate(&env, "tamis-public", "gatewaygroup/public", true).await?;
    group_is(&env, "Ready", "True/Ready").await?;
    let image = json!({"spec": {"pod": {"image": "tamis:next"}}}).to_string();
    cluster
        .kubectl(&["-n", "tamis-public", "patch", "gatewaygroup", "public", "--type=merge", "-p", &image], None)
        .await?;
    group_is(&env, "Ready", "False/Paused").await?;
    cluster.apply(&filters(&json!(["/number"]))).await?;
    cluster.apply(&TestEnv::exposition("three", &json!({}))).await?;
    env.condition_is("exposition", "three", "Ready", "False", "Paused").await?;
    env.condition_is("exposition", "one", "Programmed", "False", "Paused").await?;
    env.issue_has("one", &["number", "title"]).await?;
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let deployed =
        cluster.kubectl(&["-n", "tamis-public", "get", "deployment", "tamis-public", "-o", path], None).await?;
    ensure!(deployed != "tamis:next", "{deployed}");

    // Revocations are not delayed: a deletion, and access that is removed.
    cluster.kubectl(&["-n", "team-a", "delete", "exposition", "two"], None).await?;
    eventually("it is gone", SOON, async || {
        Ok(env.issue("two").await?.err().filter(|(status, _)| *status == 404).map(drop))
    })
    .await?;
    let none = json!({"spec": {"access": null}}).to_string();
    cluster.kubectl(&["-n", "team-a", "patch", "exposition", "one", "--type=merge", "-p", &none], None).await?;
    env.issue_stopped("one", "AccessRequired").await?;

    annotate(&env, "tamis-public", "gatewaygroup/public", false).await?;
    env.issue_has("three", &["number"]).await?;
    env.ready("exposition", "three").await?;
    group_is(&env, "Ready", "True/Ready").await?;
    eventually("the Deployment follows", SOON, async || {
        let deployed = ["-n", "tamis-public", "get", "deployment", "tamis-public", "-o", path];
        Ok((cluster.kubectl(&deployed, None).await? == "tamis:next").then_some(()))
    })
    .await?;
    // The gateway says its version, and the group's status has it.
    let versions = ["-n", "tamis-public", "get", "gatewaygroup", "public", "-o", "jsonpath={.status.versions}"];
    let said = cluster.kubectl(&versions, None).await?;
    ensure!(said == format!("[{:?}]", env!("CARGO_PKG_VERSION")), "{said}");
    Ok(())
}
