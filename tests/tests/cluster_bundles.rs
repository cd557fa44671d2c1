//! Bundles in a cluster: the operator and a gateway, as processes with their own rights, against a real API server.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tamis_tests::Era;
use tamis_tests::cluster::{TestEnv, eventually};

fn bundle(spec: &Value) -> String {
    json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": "Exposition",
        "metadata": {"name": "all", "namespace": "team-a"},
        "spec": spec,
    })
    .to_string()
}

/// Waits until the bundle lists these tools.
async fn lists(env: &TestEnv, wanted: &[&str]) -> Result<()> {
    let last = std::cell::RefCell::new(String::new());
    let found = eventually("the list", Duration::from_secs(60), async || {
        let rpc = env.gateway.rpc("team-a", "all", Era::Modern)?;
        let answer = rpc.send(rpc.request("tools/list", json!({}))).await?;
        last.borrow_mut().clone_from(&answer.text);
        let tools: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let names = tools["result"]["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> = names.iter().filter_map(|tool| tool["name"].as_str()).collect();
        Ok((names == wanted).then_some(()))
    });
    found.await.map_err(|error| error.context(format!("wanted {wanted:?}, had {}", last.borrow())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_publishes_its_parts_and_says_which_are_stopped() -> Result<()> {
    let env = TestEnv::start().await?;
    let parts = json!([{"name": "short", "prefix": "a_"}, {"name": "log", "prefix": "b_"}]);
    // The bundle comes before its parts, and one of them has no address of its own.
    let folder = [
        bundle(&json!({"expositions": parts, "access": {"anonymous": true}, "limits": {"concurrent": 50}})),
        env.manifest(),
        TestEnv::filters(
            "short",
            &json!({"name": "short", "filters": {"get-issue": {"select": {"number": "number"}}}}),
        ),
        TestEnv::exposition("short", &json!({"filters": ["short"], "tools": {"include": ["get-issue"]}})),
        TestEnv::exposition(
            "log",
            &json!({"filters": [], "tools": {"include": ["get-log"]}, "access": {"bundleOnly": true}}),
        ),
    ];
    env.cluster.apply(&folder.join("\n---\n")).await?;
    lists(&env, &["a_get-issue", "b_get-log"]).await?;
    env.ready("exposition", "all").await?;
    let status = env.object("exposition", "all").await?["status"].clone();
    ensure!(status["tools"] == 2 && status["unfiltered"] == 1, "{status}");
    ensure!(status["url"].as_str().is_some_and(|url| url.ends_with("/mcp/team-a/all")), "{status}");
    ensure!(env.object("exposition", "log").await?["spec"]["access"] == json!({"bundleOnly": true}));
    let rpc = env.gateway.rpc("team-a", "log", Era::Modern)?;
    ensure!(rpc.send(rpc.request("tools/list", json!({}))).await?.status == 404, "the part has no address");

    // What passes through the bundle is its saving, and counts for the part.
    let rpc = env.gateway.rpc("team-a", "all", Era::Modern)?;
    let answer = rpc.call("a_get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?;
    ensure!(answer.text_block()? == r#"{"number":1}"#, "{}", answer.text);
    eventually("the saving", Duration::from_secs(60), async || {
        let columns = "custom-columns=TOOLS:.status.tools,SAVED:.status.saved";
        let get = ["get", "expo", "all", "-n", "team-a", "--no-headers", "-o", columns];
        let said = env.cluster.kubectl(&get, None).await?;
        Ok(said.trim().ends_with('%').then_some(()))
    })
    .await?;

    // A part that is stopped takes its own tools away.
    env.cluster.apply(&TestEnv::exposition("short", &json!({"filters": ["gone"]}))).await?;
    lists(&env, &["b_get-log"]).await?;
    let message = env.condition_is("exposition", "all", "ResolvedRefs", "False", "ExpositionStopped").await?;
    ensure!(
        message.contains(
            "spec.expositions[0].name: exposition `short` is stopped (FilterSetNotFound), so its tools are not published; \
             fix that exposition; its own findings say how"
        ),
        "{message}"
    );
    env.condition_is("exposition", "all", "Programmed", "True", "Programmed").await?;
    let status = env.object("exposition", "all").await?["status"].clone();
    ensure!(status["tools"] == 1, "{status}");
    env.cluster.apply(&TestEnv::exposition("short", &json!({"filters": ["short"]}))).await?;
    env.ready("exposition", "all").await?;

    // A part that is not there, and one that collides.
    let parts = json!([{"name": "log"}, {"name": "short"}, {"name": "late"}]);
    env.cluster.apply(&bundle(&json!({"expositions": parts, "access": {"anonymous": true}}))).await?;
    let message = env.condition_is("exposition", "all", "ResolvedRefs", "False", "ExpositionNotFound").await?;
    ensure!(message.contains("exposition `late` does not exist in namespace team-a"), "{message}");
    let message = env.condition_is("exposition", "all", "Accepted", "False", "Conflict").await?;
    ensure!(message.contains("tool `get-log` of exposition `short` is not published"), "{message}");
    env.cluster.apply(&TestEnv::exposition("late", &json!({"filters": [], "tools": {"include": ["slow"]}}))).await?;
    env.condition_is("exposition", "all", "ResolvedRefs", "True", "ResolvedRefs").await?;
    let refused = env.cluster.apply(&bundle(&json!({"expositions": parts, "enforcement": "Enforced"}))).await;
    let refused = format!("{:#}", refused.expect_err("is not a field of bundles"));
    ensure!(refused.contains("a bundle sets `gatewayGroup`, `access`, `limits` and `lists` only"), "{refused}");
    Ok(())
}
