//! What goes and comes in any order: a namespace with all that it holds, a default set, objects that need each other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, eventually};

use crate::calls::Calls;
use crate::steps::{SOON, apply, config_of, delete, narrow, of_group};

/// How long a default set has to be gone before its expositions do without.
const GONE: Duration = Duration::from_secs(5);

async fn all_three(env: &TestEnv) -> Result<()> {
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&narrow("narrow", None)).await?;
    env.cluster.apply(&TestEnv::exposition("plain", &json!({}))).await?;
    env.issue_has("plain", &["number", "title"]).await
}

async fn gone(env: &TestEnv, calls: &Calls) -> Result<()> {
    let found = eventually("404", SOON, async || Ok((calls.next().await?.status == 404).then_some(())));
    found.await?;
    let found = eventually("its document is gone", SOON, async || {
        Ok(of_group(env, "gatewayconfig", &config_of("plain")).await?.is_none().then_some(()))
    });
    found.await
}

/// The default set goes first, the exposition three seconds later, the service last; the same under an operator that was
/// killed in between; the same in a namespace that is being deleted. Without its last set the exposition stops at once.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_in_any_order_reveals_nothing() -> Result<()> {
    let mut env = TestEnv::start().await?;
    all_three(&env).await?;
    for restart in [false, true] {
        let calls = Calls::of(&env, "plain")?;
        delete(&env, "toolsfilters", "narrow").await?;
        if restart {
            env.operator.restart()?;
            env.operator.ready().await?;
        }
        delete_the_rest(&env, calls).await?;
        all_three(&env).await?;
    }

    // The service first: 503 till the exposition is gone too.
    let calls = Calls::of(&env, "plain")?;
    delete(&env, "servicemanifest", "tracker").await?;
    env.issue_stopped("plain", "ServiceNotFound").await?;
    delete(&env, "toolsfilters", "narrow").await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&narrow("narrow", None)).await?;
    env.issue_has("plain", &["number", "title"]).await?;
    calls.end().await?;

    // Gone for good: it stays stopped until there is a set again.
    delete(&env, "toolsfilters", "narrow").await?;
    env.issue_stopped("plain", "FilterSetNotFound").await?;
    tokio::time::sleep(GONE + Duration::from_millis(400)).await;
    env.issue_stopped("plain", "FilterSetNotFound").await?;
    // And what tightens is at once.
    env.cluster.apply(&narrow("narrow", None)).await?;
    let began = Instant::now();
    env.issue_has("plain", &["number", "title"]).await?;
    ensure!(began.elapsed() < Duration::from_secs(3), "tight after {:?}", began.elapsed());

    // So is what the exposition's owner loosens by an edit.
    env.cluster.apply(&TestEnv::exposition("plain", &json!({"filters": []}))).await?;
    let began = Instant::now();
    let loosened = eventually("the edit", SOON, async || {
        Ok(env.issue("plain").await?.is_ok_and(|issue| issue.get("token").is_some()).then_some(()))
    });
    loosened.await?;
    ensure!(began.elapsed() < Duration::from_secs(3), "loose after {:?}", began.elapsed());
    env.cluster.apply(&TestEnv::exposition("plain", &json!({}))).await?;
    env.issue_has("plain", &["number", "title"]).await?;

    // A namespace that is being deleted may take its time, and its operator may be killed.
    let calls = Calls::of(&env, "plain")?;
    env.cluster.kubectl(&["delete", "namespace", "team-a", "--wait=false"], None).await?;
    delete(&env, "toolsfilters", "narrow").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    env.operator.restart()?;
    env.operator.ready().await?;
    delete_the_rest(&env, calls).await
}

/// Waits until the exposition has stopped for the lack of its filters, then deletes it, and its service last.
async fn delete_the_rest(env: &TestEnv, calls: Calls) -> Result<()> {
    env.issue_stopped("plain", "FilterSetNotFound").await?;
    delete(env, "exposition", "plain").await?;
    delete(env, "servicemanifest", "tracker").await?;
    gone(env, &calls).await?;
    calls.end().await.map(drop)
}

/// Five things that an answer needs, in every order that the seed gives: the namespace's label that the group asks for, the
/// Secret, the service, its filters and the exposition that names them.
#[tokio::test(flavor = "multi_thread")]
async fn applying_in_any_order_converges() -> Result<()> {
    let env = TestEnv::start().await?;
    let selector = r#"
apiVersion: tamis.dev/v1alpha1
kind: GatewayGroup
metadata: {name: public, namespace: tamis-public}
spec:
  allowedNamespaces: {from: Selector, selector: {matchLabels: {tamis: allowed}}}
  egress: {allow: [127.0.0.0/8]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tamis-secrets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tamis-secrets}
subjects: [{kind: ServiceAccount, name: tamis-operator, namespace: tamis-system}]
"#;
    env.cluster.apply(selector).await?;
    let orders = orders(24);
    let mut calls = Vec::new();
    for number in 0..orders.len() {
        let namespace = format!("order-{number}");
        apply(&env, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await?;
        calls.push(Calls::slowly(&env, &namespace, "ordered")?);
    }
    // One step of every order, then the next step of every order.
    for step in 0..5 {
        for (number, order) in orders.iter().enumerate() {
            apply(&env, &part(&env, order[step], &format!("order-{number}"))).await?;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    for (number, (calls, order)) in calls.into_iter().zip(&orders).enumerate() {
        let converged = eventually("an answer", SOON, async || {
            let answer = calls.next().await?;
            Ok((answer.is_ok() && answer.text.contains("Issue 1")).then_some(()))
        });
        converged.await.with_context(|| format!("order {order:?}"))?;
        calls.end().await.with_context(|| format!("order {order:?}"))?;
        let said = env
            .cluster
            .kubectl(
                &[
                    "wait",
                    "-n",
                    &format!("order-{number}"),
                    "--for=condition=Ready",
                    "--timeout=20s",
                    "exposition/ordered",
                ],
                None,
            )
            .await?;
        ensure!(said.contains("condition met"), "{said}");
    }
    // The label goes: refused at once, whatever else is there.
    let label = ["label", "namespace", "order-0", "tamis-"];
    env.cluster.kubectl(&label, None).await?;
    let refused = eventually("503", SOON, async || {
        let rpc = env.gateway.rpc("order-0", "ordered", tamis_tests::Era::Modern)?;
        let answer = rpc.call("get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?;
        Ok((answer.status == 503).then_some(()))
    });
    refused.await
}

/// Some of the 120 orders of five, evenly spread.
fn orders(count: usize) -> Vec<[usize; 5]> {
    let mut all = Vec::new();
    for code in 0..120 {
        let (mut rest, mut left, mut order) = (code, vec![0, 1, 2, 3, 4], [0; 5]);
        for (place, size) in order.iter_mut().zip((1..=5).rev()) {
            *place = left.remove(rest % size);
            rest /= size;
        }
        all.push(order);
    }
    all.into_iter().step_by(120 / count).collect()
}

fn part(env: &TestEnv, part: usize, namespace: &str) -> Value {
    let service = json!({"name": "tracker", "version": "1.0.0"});
    let ours = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "tamis.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        })
    };
    match part {
        0 => json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"tamis": "allowed"}},
        }),
        1 => json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "token",
                "namespace": namespace,
                "labels": {"tamis.dev/credentials": "upstream"},
                "annotations": {"tamis.dev/allowed-use": "127.0.0.1 bearer"},
            },
            "stringData": {"token": "secret"},
        }),
        2 => ours(
            "ServiceManifest",
            "tracker",
            json!({
                "name": "tracker",
                "version": "1.0.0",
                "http": {
                    "baseUrl": env.upstream.url,
                    "auth": {"type": "bearer", "secretRef": {"name": "token", "key": "token"}},
                    "actions": {"get-issue": {
                        "method": "GET",
                        "path": "/repos/{owner}/{repo}/issues/{number}",
                        "args": {
                            "owner": {"type": "string", "required": true},
                            "repo": {"type": "string", "required": true},
                            "number": {"type": "integer", "required": true},
                        },
                        "request": {"pathParams": {"owner": "{owner}", "repo": "{repo}", "number": "{number}"}},
                    }},
                },
            }),
        ),
        3 => ours(
            "ToolsFilters",
            "narrow",
            json!({
                "name": "partner",
                "service": service,
                "filters": {"get-issue": {"select": {"number": "number", "title": "title"}}},
            }),
        ),
        _ => ours(
            "Exposition",
            "ordered",
            json!({
                "service": service,
                "gatewayGroup": {"name": "public", "namespace": "tamis-public"},
                "filters": ["partner"],
                "access": {"anonymous": true},
            }),
        ),
    }
}
