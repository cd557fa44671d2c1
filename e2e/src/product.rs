//! The installation, and a team that uses it.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_tests::cluster::{eventually, objects};

use crate::load::Question;
use crate::node::Node;

/// The labels of the operator's pods.
pub(crate) const OPERATORS: &str = "app.kubernetes.io/name=tamis,app.kubernetes.io/component=operator";
/// The labels of the group's gateways.
pub(crate) const GATEWAYS: &str = "app.kubernetes.io/name=tamis,app.kubernetes.io/component=gateway";
/// The namespace of the operators.
pub(crate) const SYSTEM: &str = "tamis-system";
/// The namespace of the gateways.
pub(crate) const PUBLIC: &str = "tamis-public";
/// The image of the sample API.
pub(crate) const UPSTREAM: &str = "localhost/tamis-e2e/upstream:1";
const SOON: Duration = Duration::from_secs(90);

/// A team with an API in its namespace: a Service, which gateways may call without an `egress` rule.
pub(crate) const TEAM: &str = include_str!("../manifests/team.yaml");

impl Node {
    /// Returns the API of one of the Tamis kinds.
    pub(crate) fn documents(&self, kind: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
        objects(self.client(), namespace, kind, plural)
    }

    /// Merges a change into a document.
    pub(crate) async fn edit(&self, kind: &str, plural: &str, name: &str, change: &Value) -> Result<DynamicObject> {
        let namespace = if kind == "GatewayGroup" { PUBLIC } else { "team-a" };
        let documents = self.documents(kind, plural, namespace);
        Ok(documents.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?)
    }

    /// Waits until `Ready` is `True` for a document's newest generation. Returns how long that took.
    pub(crate) async fn is_ready(&self, kind: &str, plural: &str, name: &str) -> Result<Duration> {
        let namespace = if kind == "GatewayGroup" { PUBLIC } else { "team-a" };
        let documents = self.documents(kind, plural, namespace);
        let began = std::time::Instant::now();
        let last = std::cell::RefCell::new(Value::Null);
        eventually(&format!("{kind} {name} is Ready"), SOON, async || {
            let object = documents.get(name).await?;
            let generation = object.metadata.generation;
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|found| {
                found["type"] == "Ready"
                    && found["status"] == "True"
                    && found["observedGeneration"] == json!(generation)
            });
            *last.borrow_mut() = json!(conditions);
            Ok(ready.then_some(()))
        })
        .await
        .with_context(|| format!("conditions: {}", last.borrow()))?;
        Ok(began.elapsed())
    }

    /// Edits the filter of the team's watched exposition to this version.
    pub(crate) async fn edit_filter(&self, version: u64) -> Result<()> {
        let add = |path: &str| json!({"op": "add", "path": path, "value": version});
        let filters = json!({"get-issue": {"retain": ["/number", "/title"], "patches": [add("/head"), add("/tail")]}});
        self.edit("ToolsFilters", "toolsfilters", "watched", &json!({"spec": {"filters": filters}})).await.map(drop)
    }

    /// Returns the pod of the leading operator.
    pub(crate) async fn leader(&self) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client(), SYSTEM);
        let held = leases.get("tamis-operator").await?.spec.and_then(|spec| spec.holder_identity);
        let held = held.filter(|held| !held.is_empty()).context("no operator leads")?;
        // The identity of a leader is the pod's name with a random suffix.
        let pods = self.pods(SYSTEM, OPERATORS).await?;
        let names = pods.into_iter().filter_map(|pod| pod.metadata.name);
        names
            .into_iter()
            .find(|name| held.starts_with(name))
            .with_context(|| format!("the leader {held} is not a running pod"))
    }

    /// Returns the call that most steps use.
    pub(crate) async fn watched(&self) -> Result<Question> {
        Ok(Question {
            endpoint: format!("{}/mcp/team-a/watched", self.service(PUBLIC, "tamis-public").await?),
            tool: "get-issue",
            arguments: json!({"owner": "o", "repo": "r", "number": 7}),
            patience: Duration::from_secs(30),
            wrong,
        })
    }
}

/// Returns why an answer is not exactly what one version of the filter produces.
fn wrong(answer: &Value) -> Option<&'static str> {
    let version = &answer["head"];
    let whole = json!({"number": 7, "title": "Issue 7", "head": version, "tail": version});
    if !version.is_u64() {
        Some("unfiltered")
    } else if *answer != whole {
        Some("a mixture of two filters, or unfiltered")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::wrong;

    #[test]
    fn only_whole_answers_are_accepted() {
        assert_eq!(wrong(&json!({"number": 7, "title": "Issue 7", "head": 3, "tail": 3})), None);
        for answer in [
            json!({"number": 7, "title": "Issue 7", "token": "REMOVED-7"}),
            json!({"number": 7, "title": "Issue 7", "head": 3, "tail": 4}),
            json!({"number": 7, "title": "Issue 7", "head": 3, "tail": 3, "token": "REMOVED-7"}),
        ] {
            assert!(wrong(&answer).is_some(), "{answer}");
        }
    }
}
