//! The processor time that the largest objects of each kind cost an API server, compared with the same `spec` in a kind
//! without rules.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tamis_tests::cluster::{Cluster, eventually, objects};

use crate::processes;
use crate::report::Report;

/// A kind that stores everything and validates nothing.
const UNTYPED: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: untypeds.bench.example}
spec:
  group: bench.example
  scope: Namespaced
  names: {plural: untypeds, singular: untyped, kind: Untyped}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-map-type: atomic}
"#;
/// The API server still works on a write after its response: the watch cache reads the object.
const QUIET: Duration = Duration::from_millis(200);
const GIVE_UP: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(30);

/// Kind, plural, a name for the row, and the `spec`.
type Row = (&'static str, &'static str, String, Value);

pub(crate) async fn run() -> Result<Report> {
    let mut report = Report::new("admission");
    let cluster = Cluster::start().await?;
    cluster.apply(UNTYPED).await?;
    for folder in ["crds/yaml", "crds/policies"] {
        let folder = tamis_tests::root().join(folder);
        let folder = folder.to_str().context("the path is not text")?;
        cluster.kubectl(&["apply", "--server-side", "-f", folder], None).await?;
    }
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"], None).await?;
    let client = cluster.client();
    let misspelt = object("GatewayGroup", &json!({ "misspelt": 1 }));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let groups = objects(client.clone(), "default", "GatewayGroup", "gatewaygroups");
    eventually("the policies are in force", SOON, async || Ok(groups.create(&dry_run, &misspelt).await.err())).await?;

    let kind = GroupVersionKind::gvk("bench.example", "v1", "Untyped");
    let untyped: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk_with_plural(&kind, "untypeds"));
    for (kind, plural, name, spec) in rows() {
        let ours = objects(client.clone(), "default", kind, plural);
        let bytes = spec.to_string().len();
        report.figure(format!("{kind}, {name}: size"), bytes as f64 / 1000.0, "kB");
        let taken = write(kind, &ours, &object(kind, &spec)).await?;
        for (what, seconds) in taken {
            report.figure(format!("{kind}, {name}: {what}"), seconds, "s");
        }
        let mut same = object(kind, &spec);
        same.types = Some(kube::api::TypeMeta { api_version: "bench.example/v1".into(), kind: "Untyped".into() });
        for (what, seconds) in write(kind, &untyped, &same).await? {
            report.figure(format!("without rules: {what}"), seconds, "s");
        }
    }
    policies(&mut report, &client).await?;
    Ok(report)
}

/// Returns the time that the admission policies took for all writes so far, from the API server's own metrics.
async fn policies(report: &mut Report, client: &Client) -> Result<()> {
    let metrics = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let sums = metrics.lines().filter(|line| line.contains("validating_admission_policy_check_duration_seconds_sum"));
    for (labels, value) in sums.filter_map(|line| line.rsplit_once(' ')) {
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\"")).unwrap_or_default();
            rest.split('"').next().unwrap_or_default()
        };
        // `invalid_error` counts the writes whose check exceeded the cost limit.
        let name = format!("policy {}, all writes with {}", label("policy"), label("error_type"));
        report.figure(name, value.parse()?, "s");
    }
    Ok(())
}

/// Creates, updates and deletes an object. Returns the API server's processor time for the creation and, unless that
/// was rejected, for the update.
async fn write(kind: &str, api: &Api<DynamicObject>, object: &DynamicObject) -> Result<Vec<(&'static str, f64)>> {
    let mut taken = Vec::new();
    let before = quiet().await?;
    match api.create(&PostParams::default(), object).await {
        Ok(mut stored) => {
            taken.push(("create", quiet().await? - before));
            edit(kind, &mut stored.data["spec"]);
            let before = quiet().await?;
            api.replace("bench", &PostParams::default(), &stored).await?;
            taken.push(("update", quiet().await? - before));
            api.delete("bench", &DeleteParams::default()).await?;
        }
        Err(_) => taken.push(("refused", quiet().await? - before)),
    }
    Ok(taken)
}

/// Changes one field.
fn edit(kind: &str, spec: &mut Value) {
    match kind {
        "ServiceManifest" => spec["description"] = "d".into(),
        "GatewayGroup" => spec["replicas"] = 2.into(),
        "ConfigurationPlan" => spec["filters"] = json!(["a"]),
        _ => spec["service"]["version"] = "2".into(),
    }
}

/// Waits until the API server is idle and returns its processor time so far.
async fn quiet() -> Result<f64> {
    let now = || processes::usage().get("kube-apiserver").map(|usage| usage.cpu).context("the API server is gone");
    let until = Instant::now() + GIVE_UP;
    let mut last = now()?;
    loop {
        tokio::time::sleep(QUIET).await;
        let next = now()?;
        if next - last < 0.02 || Instant::now() > until {
            return Ok(next);
        }
        last = next;
    }
}

fn object(kind: &str, spec: &Value) -> DynamicObject {
    let value = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": kind,
        "metadata": { "name": "bench", "namespace": "default" }, "spec": spec,
    });
    serde_json::from_value(value).expect("is an object")
}

fn many(count: usize, value: &Value) -> Value {
    (0..count).map(|n| (format!("t{n}"), value.clone())).collect::<Map<_, _>>().into()
}

/// Returns the largest objects that are admitted, and some that are rejected because of their types.
fn rows() -> Vec<Row> {
    let service = json!({ "name": "s", "version": "1" });
    let set = |filters: Value| json!({ "service": service, "filters": filters });
    let manifest =
        |actions: Value| json!({ "version": "1", "http": { "baseUrl": "https://a.example", "actions": actions } });
    let filter = json!({
        "root": "/items", "retain": ["/a", "/b/c", "/d/e/f"], "select": { "a": "a", "b": "b.c" }, "maxItems": 20,
        "dropNulls": true, "patches": [{ "op": "remove", "path": "/a" }],
    });
    let action = json!({
        "path": "/a/b/c", "method": "GET", "args": { "a": { "type": "string" }, "b": { "type": "string", "required": true } },
        "request": { "query": { "a": "{a}" } }, "response": { "filter": { "maxItems": 3 } },
    });
    let patches = vec![json!({ "op": "add", "path": "/ab", "value": 1 }); 140];
    let arguments = json!({ "path": "/a", "args": many(200, &json!({ "type": "string" })) });
    let tool = json!({ "tool": "a", "description": "d".repeat(200), "arguments": { "a": 1, "b": "c" } });
    let names = |count: usize| -> Vec<String> { (0..count).map(|n| format!("{n:0>120}")).collect() };
    let env: Vec<Value> = (0..256).map(|n| json!({ "name": format!("A{n}"), "value": "v".repeat(4000) })).collect();
    let numbers = |count: usize| json!({ "service": service, "tools": { "include": vec![1; count] } });
    let mut rows: Vec<Row> = [
        ("ToolsFilters", "toolsfilters", "5,000 short filters", set(many(5000, &json!({ "maxItems": 3 })))),
        ("ToolsFilters", "toolsfilters", "5,000 filters of 6 stages", set(many(5000, &filter))),
        ("ToolsFilters", "toolsfilters", "250 filters of 140 patches", set(many(250, &json!({ "patches": patches })))),
        ("ServiceManifest", "servicemanifests", "1,000 actions", manifest(many(1000, &action))),
        ("ServiceManifest", "servicemanifests", "5,000 actions", manifest(many(5000, &action))),
        ("ServiceManifest", "servicemanifests", "256 actions of 200 arguments", manifest(many(256, &arguments))),
        ("CustomTools", "customtools", "5,000 tools", json!({ "service": service, "customTools": many(5000, &tool) })),
        (
            "Exposition",
            "expositions",
            "10,000 names",
            json!({ "service": service, "tools": { "include": names(5000), "exclude": names(5000) } }),
        ),
        (
            "ConfigurationPlan",
            "configurationplans",
            "256 headers",
            json!({ "headers": { "set": many(256, &json!("v".repeat(4000))) } }),
        ),
        ("GatewayGroup", "gatewaygroups", "256 variables", json!({ "pod": { "env": env } })),
    ]
    .map(|(kind, plural, name, spec)| (kind, plural, name.to_owned(), spec))
    .into();
    rows.extend(
        [1000, 2000, 4000]
            .map(|count| ("Exposition", "expositions", format!("{count} numbers in a list of text"), numbers(count))),
    );
    rows
}
