//! The definitions and policies through a real API server: what it takes, what it refuses and with which words, what it
//! leaves as it was, and what kubectl prints.

mod filters;
mod misspelt;
mod objects;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::{Api, Client};
use serde_json::{Value, json};
use tamis_tests::binary;
use tamis_tests::cluster::{Cluster, eventually};

/// Plenty for a policy, which the API server takes a second or two to notice.
const SOON: Duration = Duration::from_secs(20);
const KINDS: [&str; 9] = [
    "servicemanifests",
    "toolsfilters",
    "expositions",
    "customtools",
    "prompts",
    "resources",
    "configurationplans",
    "gatewaygroups",
    "gatewayconfigs",
];

/// Returns an object of one of Tamis' kinds.
pub(crate) fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let plural = match kind {
        "ServiceManifest" => "servicemanifests",
        "ToolsFilters" => "toolsfilters",
        "Exposition" => "expositions",
        "CustomTools" => "customtools",
        "Prompts" => "prompts",
        "Resources" => "resources",
        "ConfigurationPlan" => "configurationplans",
        "GatewayGroup" => "gatewaygroups",
        _ => "gatewayconfigs",
    };
    tamis_tests::cluster::objects(client.clone(), "default", kind, plural)
}

/// Applies an object as Argo CD would, or asks whether it could be.
async fn apply(client: &Client, object: &Value, dry_run: bool) -> Result<DynamicObject, kube::Error> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params =
        PatchParams { dry_run, field_validation: Some(ValidationDirective::Strict), ..PatchParams::apply("test") };
    api(client, kind).patch(name, &params, &Patch::Apply(object)).await
}

/// Returns the API server's message if it rejects an object.
pub(crate) async fn refusal(client: &Client, object: &Value) -> Result<Option<String>> {
    match apply(client, object, true).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(other) => Err(other.into()),
    }
}

/// Asks for all, and says which were taken, or refused without the text.
pub(crate) async fn refused(client: &Client, table: Vec<(Value, &str)>) -> Result<()> {
    let mut wrong = Vec::new();
    for (object, text) in table {
        let said = refusal(client, &object).await?;
        if !said.as_deref().is_some_and(|said| said.contains(text)) {
            wrong.push(format!(
                "{}\n  wanted: {text}\n  said:   {}",
                object["spec"],
                said.as_deref().unwrap_or("taken")
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

pub(crate) async fn accepted(client: &Client, objects: Vec<Value>) -> Result<()> {
    let mut wrong = Vec::new();
    for object in objects {
        if let Some(said) = refusal(client, &object).await? {
            wrong.push(format!("{object}\n  said: {said}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// `tamis crds --policies | kubectl apply --server-side -f -`, and both in force.
async fn install(cluster: &Cluster) -> Result<()> {
    let printed = tokio::process::Command::new(binary("tamis")?).args(["crds", "--policies"]).output().await?;
    ensure!(printed.status.success(), "tamis crds: {}", String::from_utf8_lossy(&printed.stderr));
    let stream = String::from_utf8(printed.stdout)?;
    cluster.kubectl(&["apply", "--server-side", "--validate=strict", "--filename=-"], Some(&stream)).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    let client = cluster.client();
    let bad = [
        (object("ToolsFilters", "a", &filters::set(&json!({ "t": 1 }))), "is not a filter"),
        (object("GatewayConfig", "a", &objects::config()), "only the operator"),
    ];
    for (object, text) in bad {
        eventually("the policy is in force", SOON, async || {
            Ok(refusal(&client, &object).await?.filter(|said| said.contains(text)))
        })
        .await?;
    }
    Ok(())
}

/// Everything in `examples/` that is an object of the API, as JSON.
async fn examples(cluster: &Cluster) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for folder in ["quickstart", "notion", "slack", "mcp"] {
        let folder = tamis_tests::root().join("examples").join(folder);
        let folder = folder.to_str().context("the path is no text")?;
        let printed = cluster.kubectl(&["create", "--dry-run=client", "-o", "json", "-f", folder], None).await?;
        let stream = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        for read in stream {
            match read? {
                list if list["kind"] == "List" => {
                    objects.extend(list["items"].as_array().into_iter().flatten().cloned());
                }
                object => objects.push(object),
            }
        }
    }
    ensure!(objects.len() > 10, "too few examples: {}", objects.len());
    Ok(objects)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_accepts_rejects_and_explains() -> Result<()> {
    let cluster = Cluster::start().await?;
    install(&cluster).await?;
    explained(&cluster).await.context("kubectl explain")?;
    examples_apply(&cluster).await.context("examples")?;
    printed(&cluster).await.context("kubectl get")?;
    let client = cluster.client();
    refused(&client, objects::bad()).await.context("objects to refuse")?;
    accepted(&client, objects::good()).await.context("objects to take")?;
    emptied(&client).await.context("an empty spec")?;
    immutable(&client).await.context("controllerName")?;
    refused(&client, filters::bad()).await.context("filters to refuse")?;
    accepted(&client, filters::good()).await.context("filters to take")?;
    filters::documented(&cluster).await.context("filters of the documentation")?;
    misspelt::refused(&client).await.context("misspelt fields")?;
    misspelt::refused_everywhere(&client).await.context("unknown fields and null everywhere")?;
    misspelt::kept(&client).await.context("unknown fields of large objects")?;
    misspelt::emptied(&client).await.context("emptied by server-side apply")?;
    stored_before_a_policy(&client).await.context("stored before the policy")?;
    groups_in_use(&cluster).await.context("who deletes a GatewayGroup")?;
    writers(&cluster).await.context("who writes GatewayConfigs")
}

async fn explained(cluster: &Cluster) -> Result<()> {
    let table = [
        ("expo.spec.filters", "the unnamed sets of the service apply"),
        ("expo.spec.enforcement", "`Enforced`: Protects data"),
        ("expo.spec.access.apiKeys.secretRef", "sha256:"),
        ("tf.spec.filters", "- `dropNulls`: Drops members whose value is null"),
        ("sm.spec.http.actions.response.filter", "The first branch whose `test` holds applies"),
        ("sm.spec.http.actions.args.type", "The JSON type"),
        ("sm.spec.mcp.tools.annotations", "unless `readOnlyHint` is true"),
        ("gwg.spec.autoscaling", "minReplicas\t<integer> -required-"),
        ("ct.spec.customTools", "Tools by name"),
        ("cplan.spec.endpoint", "Replaces the manifest's"),
        ("gwc.spec.digest", "SHA-256"),
        ("expo.status.conditions", "Ready"),
    ];
    // The server publishes a schema a moment after the resource, and kubectl has seen it without them.
    eventually("the schemas are published", SOON, async || {
        cluster.kubectl(&["api-resources", "--api-group=tamis.dev"], None).await?;
        cluster.kubectl(&["explain", "gwc.spec"], None).await.map(Some)
    })
    .await?;
    for (field, text) in table {
        let said = cluster.kubectl(&["explain", field], None).await?;
        let flat = said.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").replace("\n ", " ");
        ensure!(flat.contains(text), "{field}: no {text:?} in {flat}");
    }
    Ok(())
}

/// Applied twice, nothing changes: no defaults are added that a GitOps tool would take for drift.
async fn examples_apply(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    for example in examples(cluster).await? {
        apply(&client, &example, false).await.with_context(|| example.to_string())?;
        // Until the operator has written a status, the next write stores the default one.
        let first = apply(&client, &example, false).await?;
        let second = apply(&client, &example, false).await?;
        ensure!(second.data["spec"] == example["spec"], "{}\nis not {}", second.data["spec"], example["spec"]);
        ensure!(second.metadata.generation == Some(1), "{:?}", second.metadata);
        ensure!(second.metadata.resource_version == first.metadata.resource_version, "written twice: {example}");
    }
    Ok(())
}

async fn printed(cluster: &Cluster) -> Result<()> {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": {
        "observedGeneration": 1, "url": "http://a.b.svc:8080/mcp/default/github-partner", "tools": 3, "saved": "93%",
        "filters": [{ "set": "partner", "tools": 3 }], "gatewayGroup": "default/default", "conditions": [condition],
    } });
    api(&cluster.client(), "Exposition")
        .patch_status("github-partner", &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    let columns = async |what: &[&str]| -> Result<Vec<String>> {
        let said = cluster.kubectl(what, None).await?;
        Ok(said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
    };
    let rows = columns(&["get", "expo", "github-partner"]).await?;
    ensure!(rows[0] == "NAME SERVICE URL TOOLS SAVED READY AGE", "{rows:?}");
    let row = "github-partner github http://a.b.svc:8080/mcp/default/github-partner 3 93% True ";
    ensure!(rows[1].starts_with(row), "{rows:?}");
    let rows = columns(&["get", "tf", "--field-selector", "spec.service.name=github,spec.name=partner"]).await?;
    ensure!(rows[0] == "NAME SET SERVICE ENFORCEMENT READY AGE", "{rows:?}");
    ensure!(rows.len() == 2 && rows[1].starts_with("github-partner partner github Enforced "), "{rows:?}");
    let all = cluster.kubectl(&["get", "tamis"], None).await?;
    ensure!(all.contains("toolsfilters.tamis.dev/github-partner"), "{all}");
    let heads = [
        ("sm", "NAME SERVICE VERSION READY AGE"),
        ("gwg", "NAME URL EXPOSITIONS GATEWAYS READY AGE"),
        ("ct", "NAME SERVICE READY AGE"),
        ("cplan", "NAME ENDPOINT READY AGE"),
    ];
    let client = cluster.client();
    apply(&client, &object("GatewayGroup", "default", &json!({})), false).await?;
    apply(&client, &object("ConfigurationPlan", "prod", &json!({ "endpoint": "https://a.example" })), false).await?;
    apply(&client, &objects::custom_tools(), false).await?;
    for (kind, head) in heads {
        let rows = columns(&["get", kind]).await?;
        ensure!(rows[0] == head, "{kind}: {rows:?}");
    }
    Ok(())
}

/// The last field of a `spec` can go again.
async fn emptied(client: &Client) -> Result<()> {
    for (kind, spec) in [("GatewayGroup", json!({ "replicas": 2 })), ("ConfigurationPlan", json!({ "filters": [] }))] {
        apply(client, &object(kind, "emptied", &spec), false).await?;
        for _ in 0..2 {
            let stored = apply(client, &object(kind, "emptied", &json!({})), false).await?;
            ensure!(stored.data["spec"] == json!({}) && stored.metadata.generation == Some(2), "{stored:?}");
        }
    }
    Ok(())
}

/// Changed, added and removed: all three are refused.
async fn immutable(client: &Client) -> Result<()> {
    let group = |name: &str, spec: Value| object("GatewayGroup", name, &spec);
    apply(client, &group("named", json!({ "controllerName": "a.example/b" })), false).await?;
    apply(client, &group("named", json!({ "controllerName": "a.example/b", "replicas": 2 })), false).await?;
    apply(client, &group("unnamed", json!({})), false).await?;
    let text = "`controllerName` is immutable";
    let table = vec![
        (group("named", json!({ "controllerName": "a.example/c" })), text),
        (group("named", json!({})), text),
        (group("unnamed", json!({ "controllerName": "a.example/b" })), text),
    ];
    refused(client, table).await
}

/// What was stored before a policy was installed can still be labelled, and corrected.
async fn stored_before_a_policy(client: &Client) -> Result<()> {
    let rows = [
        ("tamis-filters", json!({ "retain": ["a"] }), json!({ "retain": ["/a"] })),
        ("tamis-fields", json!({ "retian": ["/a"] }), json!({ "retain": ["/a"] })),
    ];
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    for (policy, bad, good) in rows {
        let set = |filter: &Value| object("ToolsFilters", "old", &filters::set(&json!({ "t": filter })));
        let mut binding = bindings.get(policy).await?;
        bindings.delete(policy, &Default::default()).await?;
        let bad = set(&bad);
        // Without strict validation, which would refuse an unknown field itself.
        let params = PatchParams::apply("test");
        let old = async || Ok(api(client, "ToolsFilters").patch("old", &params, &Patch::Apply(&bad)).await.ok());
        eventually("the policy is not in force", SOON, old).await?;
        binding.metadata.resource_version = None;
        binding.metadata.uid = None;
        bindings.create(&PostParams::default(), &binding).await?;
        let mut other = bad.clone();
        other["metadata"]["name"] = "other".into();
        eventually("the policy is in force", SOON, async || refusal(client, &other).await).await?;
        let mut labelled = bad.clone();
        labelled["metadata"]["labels"] = json!({ "a": "b" });
        accepted(client, vec![labelled, set(&good)]).await.context(policy)?;
        api(client, "ToolsFilters").delete("old", &Default::default()).await?;
    }
    Ok(())
}

/// A group that publishes something can be deleted only with the annotation, or with its namespace.
async fn groups_in_use(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let use_it = async |namespace: &str, attached: u32| -> Result<()> {
        let group = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup",
                           "metadata": {"name": "used", "namespace": namespace}, "spec": {}});
        cluster.apply(&group.to_string()).await?;
        let status = json!({"status": {"attachedExpositions": attached}}).to_string();
        let patch = ["-n", namespace, "patch", "gwg", "used", "--subresource=status", "--type=merge", "-p", &status];
        cluster.kubectl(&patch, None).await.map(drop)
    };
    let delete = async |namespace: &str, more: &[&str]| {
        let delete = [&["-n", namespace, "delete", "gwg", "used", "--wait=false"], more].concat();
        cluster.kubectl(&delete, None).await
    };
    let refused = |said: Result<String>| match said {
        Ok(said) => bail!("taken: {said}"),
        Err(error) => {
            let said = error.to_string();
            let names = said.contains("GatewayGroup used publishes 3 expositions");
            ensure!(names && said.contains("annotate the group with tamis.dev/allow-deletion=true"), "{said}");
            Ok(())
        }
    };
    let collection = "/apis/tamis.dev/v1alpha1/namespaces/default/gatewaygroups";
    let raw = async |user: Option<&str>| {
        let user = user.map(|user| format!("--as={user}"));
        let arguments: Vec<&str> = ["delete", "--raw", collection].into_iter().chain(user.as_deref()).collect();
        cluster.kubectl(&arguments, None).await
    };
    cluster.kubectl(&["delete", "gwg", "--all"], None).await.context("groups without expositions")?;
    use_it("default", 3).await?;
    eventually("the policy is in force", SOON, async || {
        Ok(cluster.kubectl(&["delete", "gwg", "used", "--dry-run=server"], None).await.err())
    })
    .await?;
    refused(delete("default", &[]).await)?;
    refused(delete("default", &["--force"]).await)?;
    // As the namespace controller does it: all of a namespace in one request.
    refused(raw(None).await)?;
    ensure!(api(&client, "GatewayGroup").get_opt("used").await?.is_some());
    // Without expositions, and never reconciled.
    use_it("default", 0).await?;
    delete("default", &[]).await?;
    cluster.apply(&object("GatewayGroup", "unseen", &json!({})).to_string()).await?;
    cluster.kubectl(&["delete", "gwg", "unseen"], None).await?;
    // With the annotation.
    use_it("default", 3).await?;
    cluster.kubectl(&["annotate", "gwg", "used", "tamis.dev/allow-deletion=false"], None).await?;
    refused(delete("default", &[]).await)?;
    cluster.kubectl(&["annotate", "--overwrite", "gwg", "used", "tamis.dev/allow-deletion=true"], None).await?;
    delete("default", &[]).await?;
    // By the controllers, under their names.
    use_it("default", 3).await?;
    raw(Some("system:serviceaccount:kube-system:namespace-controller")).await?;
    ensure!(api(&client, "GatewayGroup").get_opt("used").await?.is_none());
    use_it("default", 3).await?;
    delete("default", &["--as=system:serviceaccount:kube-system:generic-garbage-collector"]).await?;
    // In a terminating namespace, by any user: its deletion must not hang.
    cluster.namespace("leaving").await?;
    use_it("leaving", 3).await?;
    refused(delete("leaving", &[]).await)?;
    cluster.kubectl(&["delete", "namespace", "leaving", "--wait=false"], None).await?;
    eventually("the namespace is known to leave", SOON, async || Ok(delete("leaving", &[]).await.is_ok().then_some(())))
        .await
}

/// The operator writes; the collectors only collect; an administrator does neither.
async fn writers(cluster: &Cluster) -> Result<()> {
    const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
    const OPERATOR: &str = "system:serviceaccount:tamis-system:tamis-operator";
    const OTHER: &str = "system:serviceaccount:default:tamis-operator";
    // All may, as far as Roles go.
    let users = [COLLECTOR, OPERATOR, OTHER].map(|user| format!("--user={user}"));
    let mut binding = vec!["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin"];
    binding.extend(users.iter().map(String::as_str));
    cluster.kubectl(&binding, None).await?;
    let mut config = object("GatewayConfig", "tamis-service-a-0", &objects::config());
    // As the operator writes them: it may write no others.
    config["metadata"]["ownerReferences"] = json!([{"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup",
        "name": "public", "uid": "6f0ad9c4-9d3e-4f4e-8b1c-1f0f3a1d2b3c", "controller": true}]);
    let text = config.to_string();
    let mut changed = config;
    changed["spec"]["data"] = "Yg==".into();
    let changed = changed.to_string();
    let apply = async |user: &str, text: &str| {
        let user = format!("--as={user}");
        cluster.kubectl(&["apply", "--server-side", "--force-conflicts", &user, "-f-"], Some(text)).await
    };
    let annotate = async |user: &str| {
        cluster
            .kubectl(&["annotate", "--overwrite", "gwc/tamis-service-a-0", "a=b", &format!("--as={user}")], None)
            .await
    };
    let delete =
        async |user: &str| cluster.kubectl(&["delete", "gwc/tamis-service-a-0", &format!("--as={user}")], None).await;
    forbidden(apply(OTHER, &text).await)?;
    forbidden(apply(COLLECTOR, &text).await)?;
    apply(OPERATOR, &text).await?;
    apply(OPERATOR, &changed).await?;
    forbidden(apply(COLLECTOR, &text).await)?;
    forbidden(annotate(OTHER).await)?;
    annotate(COLLECTOR).await?;
    forbidden(delete(OTHER).await)?;
    forbidden(cluster.kubectl(&["delete", "gwc", "--all"], None).await)?;
    delete(COLLECTOR).await?;
    apply(OPERATOR, &text).await?;
    delete(OPERATOR).await.map(drop)
}

fn forbidden(outcome: Result<String>) -> Result<()> {
    match outcome {
        Ok(said) => bail!("taken: {said}"),
        Err(error) => {
            let said = error.to_string();
            ensure!(said.contains("only the operator (system:serviceaccount:tamis-system:tamis-operator)"), "{said}");
            Ok(())
        }
    }
}

#[test]
fn every_definition_is_listed() {
    let files = std::fs::read_dir(tamis_tests::root().join("crds/yaml")).expect("the folder is there").count();
    assert_eq!(files, KINDS.len());
}
