//! Fields that a kind does not have, and null, through clients that do not ask for strict validation: nothing is dropped
//! without an error.

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Map, Value, json};

use crate::{api, apply, filters, object, objects};

/// A request that writes an object.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Write {
    Create,
    Update,
    MergePatch,
    JsonPatch,
    Apply,
}

const WRITES: [Write; 5] = [Write::Create, Write::Update, Write::MergePatch, Write::JsonPatch, Write::Apply];

/// Sends a write. Returns the stored object, or the API server's message if it refuses.
///
/// `validation` is `Ignore` or `Warn`. `operations` is the body of [`Write::JsonPatch`].
async fn send(
    client: &Client,
    write: Write,
    validation: &str,
    object: &Value,
    operations: &Value,
    dry_run: bool,
) -> Result<std::result::Result<Value, String>> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = text("/metadata/name");
    let base = Request::new(api(client, text("/kind")).resource_url());
    let post = PostParams { dry_run, ..PostParams::default() };
    let patch = PatchParams { dry_run, ..PatchParams::default() };
    let mut request = match write {
        Write::Create => base.create(&post, object.to_string().into_bytes())?,
        Write::Update => base.replace(name, &post, object.to_string().into_bytes())?,
        Write::MergePatch => base.patch(name, &patch, &Patch::Merge(object))?,
        Write::JsonPatch => {
            let mut request = base.patch(name, &patch, &Patch::Merge(object))?;
            request.headers_mut().insert("content-type", "application/json-patch+json".parse()?);
            *request.body_mut() = operations.to_string().into_bytes();
            request
        }
        Write::Apply => {
            let patch = PatchParams { dry_run, ..PatchParams::apply("test").force() };
            base.patch(name, &patch, &Patch::Apply(object))?
        }
    };
    *request.uri_mut() = format!("{}&fieldValidation={validation}", request.uri()).parse()?;
    match client.request::<Value>(request).await {
        Ok(stored) => Ok(Ok(stored)),
        Err(kube::Error::Api(status)) => Ok(Err(status.message)),
        Err(other) => Err(other.into()),
    }
}

fn service() -> Value {
    json!({ "name": "s", "version": "1" })
}

/// A valid object of every kind that people write.
fn valid() -> Vec<Value> {
    let action = json!({ "path": "/a", "args": { "a": { "type": "string" } }, "response": { "type": "object" } });
    vec![
        object(
            "ServiceManifest",
            "misspelt",
            &json!({ "version": "1", "http": { "baseUrl": "https://a.example", "actions": { "get": action } } }),
        ),
        object(
            "ToolsFilters",
            "misspelt",
            &json!({ "service": service(), "filters": {
                "get": { "maxItems": 1, "patches": [{ "op": "remove", "path": "/a" }] },
                "list": [{ "otherwise": true, "retain": ["/a"] }],
            } }),
        ),
        object("Exposition", "misspelt", &json!({ "service": service(), "tools": { "exclude": ["a"] } })),
        object("CustomTools", "misspelt", &json!({ "service": service(), "customTools": { "mine": { "tool": "a" } } })),
        object(
            "Prompts",
            "misspelt",
            &json!({ "service": service(), "prompts": { "ask": { "result": "Ask" }, "talk": { "result": [{ "text": "a" }] } } }),
        ),
        object(
            "Resources",
            "misspelt",
            &json!({ "service": service(), "resources": { "docs": { "name": "a", "text": "t", "annotations": { "a": null } } } }),
        ),
        object("ConfigurationPlan", "misspelt", &json!({ "headers": { "set": { "a": "b" } } })),
        object(
            "GatewayGroup",
            "misspelt",
            &json!({ "require": { "access": true }, "pod": { "env": [{ "name": "A", "value": "a" }] } }),
        ),
    ]
}

/// The kind, where a member is added, its value, and the message.
fn misspellings() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    vec![
        ("Exposition", "/spec/enforcment", json!("Enforced"), "spec.enforcment: unknown field; remove it"),
        ("Exposition", "/spec/toolz", json!({}), "spec.toolz: unknown field; remove it"),
        ("Exposition", "/spec/tools/exlude", json!(["b"]), "spec.tools.exlude: unknown field"),
        ("Exposition", "/spec/enforcement", json!(null), "spec.enforcement: Unsupported value: null"),
        ("Exposition", "/spec/tools", json!(null), "spec.tools: has no value; set one"),
        ("Exposition", "/enforcement", json!("Enforced"), "enforcement: unknown field; move it into spec"),
        ("ToolsFilters", "/spec/filtres", json!({}), "spec.filtres: unknown field; remove it"),
        // Two policies refuse this one, and the API server gives the message of either.
        ("ToolsFilters", "/spec/filters/get", json!(null), "spec.filters.get: "),
        ("ToolsFilters", "/spec/filters/get/retian", json!(["/a"]), "spec.filters.get.retian: unknown field"),
        ("ToolsFilters", "/spec/filters/get/retain", json!(null), "spec.filters.get.retain: has no value"),
        ("ToolsFilters", "/spec/filters/get/patches/0/form", json!("/a"), "spec.filters.get: has an unknown field"),
        ("ToolsFilters", "/spec/filters/list/0/exlude", json!(["a"]), "spec.filters.list: has an unknown field"),
        ("ServiceManifest", "/spec/http/action", json!({}), "spec.http.action: unknown field"),
        (
            "ServiceManifest",
            "/spec/http/actions/get/response/filtre",
            json!({ "maxItems": 1 }),
            "spec.http.actions.get.response.filtre: unknown field",
        ),
        (
            "ServiceManifest",
            "/spec/http/actions/get/response/filter",
            json!({ "maxItem": 1 }),
            "spec.http.actions.get.response.filter.maxItem: unknown field",
        ),
        (
            "ServiceManifest",
            "/spec/http/actions/get/args/a/requird",
            json!(true),
            "spec.http.actions.get: has an unknown field",
        ),
        (
            "CustomTools",
            "/spec/customTools/mine/argumnets",
            json!({}),
            "spec.customTools.mine.argumnets: unknown field",
        ),
        ("Prompts", "/spec/prompts/ask/titel", json!("A"), "spec.prompts.ask.titel: unknown field"),
        ("Prompts", "/spec/prompts/talk/result/0/rol", json!("user"), "spec.prompts.talk: has an unknown field"),
        ("Resources", "/spec/resources/docs/mimetype", json!("a/b"), "spec.resources.docs.mimetype: unknown field"),
        ("ConfigurationPlan", "/spec/headers/remov", json!(["a"]), "spec.headers.remov: unknown field"),
        ("GatewayGroup", "/spec/require/enforcd", json!(true), "spec.require.enforcd: unknown field"),
        ("GatewayGroup", "/spec/pod/env/0/valu", json!("a"), "spec.pod.env: has an unknown field"),
    ]
}

/// Adds a member. Its object has to exist.
fn add(object: &mut Value, pointer: &str, value: &Value) -> Result<()> {
    let (parent, name) = pointer.rsplit_once('/').context("a pointer below the root")?;
    let parent = object.pointer_mut(parent).with_context(|| format!("no {parent}"))?;
    parent[name] = value.clone();
    Ok(())
}

/// Every misspelling through every write.
pub(crate) async fn refused(client: &Client) -> Result<()> {
    let mut wrong = Vec::new();
    for valid in valid() {
        let stored = apply(client, &valid, false).await.with_context(|| valid.to_string())?;
        let stored = serde_json::to_value(&stored)?;
        let mut created = valid.clone();
        created["metadata"]["name"] = "misspelt-new".into();
        for write in WRITES {
            let base = match write {
                Write::Create => &created,
                Write::Update => &stored,
                Write::MergePatch | Write::JsonPatch | Write::Apply => &valid,
            };
            // Without a misspelling, each of these requests is accepted.
            if let Err(said) = send(client, write, "Ignore", base, &json!([]), true).await? {
                wrong.push(format!("{write:?} of {valid}\n  said: {said}"));
            }
            for (kind, pointer, value, text) in misspellings() {
                // Null in a merge patch removes the field.
                if valid["kind"] != kind || (write == Write::MergePatch && value.is_null()) {
                    continue;
                }
                let mut object = base.clone();
                add(&mut object, pointer, &value)?;
                let operations = json!([{ "op": "add", "path": pointer, "value": value }]);
                for validation in ["Ignore", "Warn"] {
                    match send(client, write, validation, &object, &operations, true).await? {
                        Err(said) if said.contains(text) => {}
                        other => wrong.push(format!("{write:?} {validation} {kind} {pointer}\n  said: {other:?}")),
                    }
                }
            }
        }
        api(client, valid["kind"].as_str().unwrap_or_default()).delete("misspelt", &DeleteParams::default()).await?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Whether any JSON is valid at a place, null too.
fn is_any(path: &str) -> bool {
    let after = |parent: &str| path.contains(&format!("/{parent}/")) && path.ends_with("/value");
    let below = |ends: &[&str]| ends.iter().any(|end| path.contains(&format!("{end}/")) || path.ends_with(end));
    path.contains("/arguments/")
        || path.contains("/enum/")
        || below(&["/input", "/default", "/body"])
        || path.starts_with("/spec/mcp/tools/") && below(&["/inputSchema", "/outputSchema", "/annotations"])
        || path.starts_with("/spec/resources/") && below(&["/annotations", "/icons"])
        || after("patches")
        || after("test")
}

/// Every object that can be made of `value` by one unknown member or one null, each with the place.
fn variants(whole: &Value, path: &str, out: &mut Vec<(String, Value)>) {
    let at = whole.pointer(path).unwrap_or(&Value::Null);
    let mut put = |path: String, value: Value| {
        let mut variant = whole.clone();
        if let Some(place) = variant.pointer_mut(&path) {
            *place = value;
            out.push((path, variant));
        }
    };
    let mut below = Vec::new();
    match at {
        Value::Object(members) => {
            // A boolean is a value of no map here.
            let with = Map::from_iter(members.clone().into_iter().chain([("misspelt".to_owned(), json!(true))]));
            if !path.ends_with("/arguments") {
                put(path.to_owned(), with.into());
            }
            below.extend(members.keys().map(|key| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))));
        }
        Value::Array(items) => below.extend((0..items.len()).map(|index| format!("{path}/{index}"))),
        _ => {}
    }
    below.retain(|path| !is_any(path));
    for path in &below {
        put(path.clone(), Value::Null);
    }
    for path in &below {
        variants(whole, path, out);
    }
}

/// An unknown member and null, at every place of every object that the other tests show to be valid.
pub(crate) async fn refused_everywhere(client: &Client) -> Result<()> {
    let mut count = 0;
    let mut taken = Vec::new();
    for mut object in [objects::good(), filters::good()].concat() {
        // The large set has 1,000 filters: see `kept`.
        if object.to_string().len() > 10_000 {
            continue;
        }
        object["metadata"]["name"] = "misspelt".into();
        let mut all = Vec::new();
        variants(&object, "/spec", &mut all);
        for (place, variant) in all {
            count += 1;
            if send(client, Write::Create, "Ignore", &variant, &Value::Null, true).await?.is_ok() {
                taken.push(format!("{place} of {variant}"));
            }
        }
    }
    ensure!(taken.is_empty(), "{} of {count}:\n{}", taken.len(), taken.join("\n"));
    ensure!(count > 500, "too few: {count}");
    Ok(())
}

/// Where the policy passes an object for its size, the field is stored, and the operator refuses the object.
pub(crate) async fn kept(client: &Client) -> Result<()> {
    const LARGE: usize = 300;
    let many = |value: &Value, last: &Value| -> Value {
        let names = (0..LARGE).map(|n| format!("t{n}"));
        let mut all: Map<String, Value> = names.map(|name| (name, value.clone())).collect();
        all["t299"] = last.clone();
        all.into()
    };
    let remove = json!({ "op": "remove", "path": "/a" });
    let mut patches = vec![remove.clone(); LARGE];
    patches[LARGE - 1]["form"] = "/b".into();
    let action = json!({ "path": "/a" });
    let actions = many(&action, &json!({ "path": "/a", "respones": {} }));
    let tool = json!({ "tool": "a" });
    // Few enough entries everywhere, and about as many steps as the API server allows. The order in which it visits the filters
    // decides whether it finds the field before the limit.
    let mut costly: Map<String, Value> =
        (0..250).map(|n| (format!("t{n}"), json!({ "patches": vec![remove.clone(); 120] }))).collect();
    costly["t249"]["patches"][119]["form"] = "/b".into();
    let rows = [
        ("ToolsFilters", filters::set(&many(&json!({ "maxItems": 1 }), &json!({ "maxItem": 1 }))), "maxItem"),
        ("ToolsFilters", filters::set(&many(&json!({ "maxItems": 1 }), &json!(null))), "t299"),
        ("ToolsFilters", filters::set(&json!({ "t": { "patches": patches } })), "form"),
        (
            "ServiceManifest",
            json!({ "version": "1", "http": { "baseUrl": "https://a.example", "actions": actions } }),
            "respones",
        ),
        (
            "CustomTools",
            json!({ "service": service(), "customTools": many(&tool, &json!({ "tool": "a", "argumnets": {} })) }),
            "argumnets",
        ),
    ];
    for (kind, spec, field) in rows {
        let sent = object(kind, "kept", &spec);
        let stored = send(client, Write::Create, "Ignore", &sent, &Value::Null, false).await?;
        let stored = stored.map_err(|said| anyhow::anyhow!("{kind} {field}: {said}"))?;
        ensure!(stored["spec"] == spec, "{kind} {field}: something was dropped");
        let read = tamis_crds::read_object(&stored);
        let said = read.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        ensure!(!read.resources.unusable.is_empty() && said.contains(field), "{kind} {field}: {said}");
        api(client, kind).delete("kept", &DeleteParams::default()).await?;
    }
    let sent = object("ToolsFilters", "kept", &filters::set(&costly.into()));
    match send(client, Write::Create, "Ignore", &sent, &Value::Null, false).await? {
        Err(said) => ensure!(said.contains("has an unknown field"), "{said}"),
        Ok(stored) => {
            ensure!(stored["spec"] == sent["spec"], "something was dropped");
            ensure!(!tamis_crds::read_object(&stored).resources.unusable.is_empty(), "the operator would use it");
            api(client, "ToolsFilters").delete("kept", &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// Server-side apply can empty the maps by tool. An emptied object that is not one of them is refused with the remedy,
/// because the API server stores null for it.
pub(crate) async fn emptied(client: &Client) -> Result<()> {
    let action = json!({ "path": "/a" });
    let manifest =
        |actions: Value| json!({ "version": "1", "http": { "baseUrl": "https://a.example", "actions": actions } });
    let tools = |tools: Value| json!({ "service": service(), "customTools": tools });
    let prompts = |prompts: Value| json!({ "service": service(), "prompts": prompts });
    let rows = [
        ("ToolsFilters", filters::set(&json!({ "get": { "maxItems": 1 } })), filters::set(&json!({}))),
        ("ServiceManifest", manifest(json!({ "get": action })), manifest(json!({}))),
        ("CustomTools", tools(json!({ "mine": { "tool": "a" } })), tools(json!({}))),
        ("Prompts", prompts(json!({ "ask": { "result": "a" } })), prompts(json!({}))),
    ];
    for (kind, full, empty) in rows {
        apply(client, &object(kind, "emptied", &full), false).await?;
        let stored = apply(client, &object(kind, "emptied", &empty), false).await?;
        ensure!(stored.data["spec"] == empty, "{:?}", stored.data);
        api(client, kind).delete("emptied", &DeleteParams::default()).await?;
    }
    let exposition = |tools: Value| object("Exposition", "emptied", &json!({ "service": service(), "tools": tools }));
    apply(client, &exposition(json!({ "exclude": ["a"] })), false).await?;
    let text = "spec.tools: has no value; set one, or remove the field";
    crate::refused(client, vec![(exposition(json!({})), text)]).await?;
    api(client, "Exposition").delete("emptied", &DeleteParams::default()).await?;
    Ok(())
}
