//! The objects that users would apply: services, filter sets and expositions, created many at a time.

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Map, Value, json};

/// The namespace of the expositions.
pub(crate) const TEAM: &str = "team-a";
/// The namespace of the gateways and their configuration.
pub(crate) const GROUP: &str = "tamis-public";
/// Concurrent requests while a cluster is filled.
const WRITERS: usize = 32;
/// Filter sets of each service.
pub(crate) const SETS: usize = 4;

/// Returns the API of one of Tamis' kinds in a namespace.
pub(crate) fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let plural = format!("{}s", kind.to_lowercase().trim_end_matches('s'));
    tamis_tests::cluster::objects(client.clone(), namespace, kind, &plural)
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Returns a service with this number of tools.
pub(crate) fn service(name: &str, url: &str, tools: usize) -> Value {
    let tool = |number: usize| {
        let action = json!({
            "description": "Lists the items of one project, newest first",
            "method": "GET",
            "path": format!("/projects/{{project}}/items-{number}"),
            "args": {
                "project": {"type": "string", "required": true},
                "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
            },
            "request": {"pathParams": {"project": "{project}"}, "query": {"state": "{state}"}},
            "response": {"type": "array"},
        });
        (format!("tool-{number}"), action)
    };
    let mut actions: Map<String, Value> = (0..tools).map(tool).collect();
    actions.insert(
        "get-issue".to_owned(),
        json!({
            "description": "One issue",
            "method": "GET",
            "path": "/repos/{owner}/{repo}/issues/{number}",
            "args": {
                "owner": {"type": "string", "required": true},
                "repo": {"type": "string", "required": true},
                "number": {"type": "integer", "required": true},
            },
            "request": {"pathParams": {"owner": "{owner}", "repo": "{repo}", "number": "{number}"}},
            "response": {"type": "object"},
        }),
    );
    object(
        "ServiceManifest",
        name,
        &json!({"name": name, "version": "1.0.0", "http": {"baseUrl": url, "actions": actions}}),
    )
}

/// Returns a filter set with a filter for every tool of a service.
pub(crate) fn filters(service: &str, set: &str, tools: usize) -> Value {
    let filter = json!({"select": {"number": "number", "title": "title", "by": "user.login"}, "dropNulls": true});
    let mut filters: Map<String, Value> = (0..tools).map(|tool| (format!("tool-{tool}"), filter.clone())).collect();
    filters.insert("get-issue".to_owned(), filter);
    object(
        "ToolsFilters",
        &format!("{service}-{set}"),
        &json!({"name": set, "service": {"name": service, "version": "1.0.0"}, "filters": filters}),
    )
}

/// Returns the filter set that an edit writes: `get-issue` shows its number as `mark`.
pub(crate) fn marked(service: &str, set: &str, mark: &str) -> Value {
    let spec = json!({
        "name": set,
        "service": {"name": service, "version": "1.0.0"},
        "filters": {"get-issue": {"select": {mark: "number"}}},
    });
    object("ToolsFilters", &format!("{service}-{set}"), &spec)
}

/// Returns an exposition for anonymous callers.
pub(crate) fn exposition(name: &str, service: &str, set: &str) -> Value {
    let spec =
        json!({"service": {"name": service, "version": "1.0.0"}, "filters": [set], "access": {"anonymous": true}});
    object("Exposition", name, &spec)
}

/// Creates objects, many at once.
pub(crate) async fn create(
    client: &Client,
    kind: &str,
    namespace: &str,
    objects: impl IntoIterator<Item = Value>,
) -> Result<()> {
    let api = api(client, kind, namespace);
    let create = |object: Value| {
        let api = api.clone();
        async move {
            let object: DynamicObject = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &object).await.map(drop).context("the object is refused")
        }
    };
    stream::iter(objects).map(create).buffer_unordered(WRITERS).try_collect().await
}

/// Fills the team's namespace with services, a few filter sets for each, and expositions.
pub(crate) async fn fill(client: &Client, url: &str, expositions: usize, services: usize, tools: usize) -> Result<()> {
    let services = services.min(expositions);
    let name = |service: usize| format!("service-{service}");
    create(client, "ServiceManifest", TEAM, (0..services).map(|n| service(&name(n), url, tools))).await?;
    let sets = (0..services).flat_map(|n| (0..SETS).map(move |set| (n, set)));
    create(client, "ToolsFilters", TEAM, sets.map(|(n, set)| filters(&name(n), &format!("set-{set}"), tools))).await?;
    let spread =
        |n: usize| exposition(&format!("exposition-{n}"), &name(n % services), &format!("set-{}", n / services % SETS));
    create(client, "Exposition", TEAM, (0..expositions).map(spread)).await
}
