//! Prompts and resources of the parts of a bundle.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tamis_config::{Access, BundleDocument, ExpositionDocument, PublishedContent, ServiceDocument, Snapshot};
use tamis_gateway::{Change, Options};

use super::{Secrets, bundle, keys, part, tools, with};
use crate::support::{Running, Upstream, options, read, service, start};

/// A service with these prompts, resources and templates. Each says the service's name.
fn content_service(base: &str, name: &str, content: [&[&str]; 3]) -> Arc<ServiceDocument> {
    let [prompts, resources, templates] = content;
    let all = |names: &[&str], entry: &dyn Fn(&str) -> Value| -> serde_json::Map<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), entry(name))).collect()
    };
    let arguments = json!({"who": {"enum": [format!("{name}-1"), format!("{name}-2")]}});
    let prompt =
        |_: &str| json!({"arguments": arguments, "messages": [{"role": "user", "text": format!("{name} {{who}}")}]});
    let resource = |_: &str| json!({"info": {"name": name}, "content": {"text": format!("of {name}")}});
    let template = |_: &str| {
        json!({"info": {"name": name}, "values": {"x": [format!("{name}-x"), "1"]}, "read": {
            "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "call": {"http": {"method": "GET", "path": "/doc", "request": {"query": {"x": "{x}"}}}},
        }})
    };
    let mut document = serde_json::to_value(&*service(base, &tools(&["get"]))).unwrap();
    document["name"] = json!(name);
    document["content"] = json!({
        "prompts": all(prompts, &prompt),
        "resources": all(resources, &resource),
        "templates": all(templates, &template),
    });
    Arc::new(serde_json::from_str(&document.to_string()).unwrap())
}

/// An exposition of a service with all its prompts and resources.
fn published(service: &ServiceDocument) -> ExpositionDocument {
    let content = PublishedContent {
        prompts: service.content.prompts.keys().cloned().collect(),
        resources: service.content.resources.keys().cloned().collect(),
        templates: service.content.templates.keys().cloned().collect(),
        ..PublishedContent::default()
    };
    ExpositionDocument { content, ..part(&service.name, service, &["get"]) }
}

fn snapshot_of(
    services: &[&Arc<ServiceDocument>],
    documents: impl IntoIterator<Item = ExpositionDocument>,
    bundle: BundleDocument,
) -> Snapshot {
    let snapshot = Snapshot {
        services: services.iter().map(|service| (service.digest(), Arc::clone(service))).collect(),
        expositions: documents.into_iter().map(|document| (document.id.clone(), Arc::new(document))).collect(),
        ..Snapshot::default()
    };
    with(snapshot, [bundle])
}

/// Reads a list to its end, in both eras. Returns the names of its entries, and the sizes of its pages.
async fn list(running: &Running, name: &str, method: &str) -> (Vec<String>, Vec<usize>) {
    let (member, named) = match method {
        "prompts/list" => ("prompts", "name"),
        "resources/list" => ("resources", "uri"),
        _ => ("resourceTemplates", "uriTemplate"),
    };
    let mut lists = Vec::new();
    for modern in [false, true] {
        let (mut entries, mut sizes, mut cursor) = (Vec::new(), Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let (_, answer) = if modern {
                running.modern(name, method, params).await
            } else {
                running.legacy(name, method, params).await
            };
            let page = answer["result"][member].as_array().unwrap_or_else(|| panic!("{method}: {answer}"));
            sizes.push(page.len());
            entries.extend(page.iter().map(|entry| entry[named].as_str().unwrap().to_owned()));
            cursor = answer["result"]["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        lists.push((entries, sizes));
    }
    assert_eq!(lists[0], lists[1]);
    lists.remove(0)
}

#[tokio::test]
async fn prompts_have_the_prefix_and_resources_their_uri() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let running = start(options()).await;
    let one = content_service(&upstream.base, "one", [&["a", "b_a"], &["d://1", "d://2"], &["t://{x}"]]);
    let two = content_service(&upstream.base, "two", [&["a", "c"], &["d://2", "d://3"], &["t://{x}", "u://{x}"]]);
    let all = bundle(&[("one", ""), ("gone", "g_"), ("two", "b_")]);
    assert_eq!(running.gateway.apply(&snapshot_of(&[&one, &two], [published(&one), published(&two)], all)).failed, []);

    // Of two parts that have a prompt or a URI, the first counts.
    for (method, expected) in [
        ("prompts/list", &["a", "b_a", "b_c"][..]),
        ("resources/list", &["d://1", "d://2", "d://3"]),
        ("resources/templates/list", &["t://{x}", "u://{x}"]),
    ] {
        assert_eq!(list(&running, "all", method).await.0, expected, "{method}");
    }
    let (_, hello) = running.modern("all", "server/discover", json!({})).await;
    for capability in ["prompts", "resources", "completions"] {
        assert!(hello["result"]["capabilities"][capability].is_object(), "{hello}");
    }
    for (name, expected) in [("a", Some("one")), ("b_a", Some("one")), ("b_c", Some("two")), ("c", None), ("g_a", None)]
    {
        let (_, answer) = running.modern("all", "prompts/get", json!({"name": name, "arguments": {}})).await;
        let got = answer["result"]["messages"][0]["content"]["text"].as_str().map(str::trim);
        assert_eq!(got, expected, "{name}: {answer}");
        let code = answer["error"]["code"].as_i64();
        assert_eq!(code, expected.is_none().then_some(-32602), "{answer}");
        let params = json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "who", "value": ""}});
        let (_, answer) = running.legacy("all", "completion/complete", params).await;
        let values = expected.map(|service| json!([format!("{service}-1"), format!("{service}-2")]));
        assert_eq!(answer["result"]["completion"].get("values"), values.as_ref(), "{name}: {answer}");
    }
    let server = "io.modelcontextprotocol/serverInfo";
    for (uri, expected) in
        [("d://2", Some("of one")), ("d://3", Some("of two")), ("t://1", Some("{}")), ("u://1", Some("{}"))]
            .into_iter()
            .chain([("u://2", None), ("d://4", None)])
    {
        let (_, answer) = running.modern("all", "resources/read", json!({"uri": uri})).await;
        assert_eq!(answer["result"]["contents"][0]["text"].as_str(), expected, "{uri}: {answer}");
        match expected {
            Some(_) => assert_eq!(answer["result"]["_meta"][server]["name"], "all", "{answer}"),
            None => assert_eq!(answer["error"]["data"]["uri"], uri, "{answer}"),
        }
    }
    for (template, expected) in [("t://{x}", Some("one-x")), ("u://{x}", Some("two-x")), ("v://{x}", None)] {
        let params = json!({"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": "x", "value": "o"}});
        let params = if expected == Some("two-x") {
            json!({"argument": {"name": "x", "value": "t"}, "ref": params["ref"]})
        } else {
            params
        };
        let (_, answer) = running.legacy("all", "completion/complete", params).await;
        let values = expected.map(|value| json!([value]));
        assert_eq!(answer["result"]["completion"].get("values"), values.as_ref(), "{template}: {answer}");
    }
    // A read through the bundle counts for the part, and is held to the bundle's limits.
    let read = |name: &str, template: &str| {
        format!(
            "tamis_tool_calls_total{{exposition=\"{name}\",namespace=\"default\",outcome=\"ok\",tool=\"{template}\"}}"
        )
    };
    assert_eq!(running.metric(&read("one", "t://{x}")).await, 1);
    assert_eq!(running.metric(&read("two", "u://{x}")).await, 1);
    let mut slow = bundle(&[("one", "")]);
    slow.limits.requests_per_second = Some(1);
    slow.limits.burst = Some(1);
    assert_eq!(running.gateway.apply(&snapshot_of(&[&one], [published(&one)], slow)).failed, []);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(running.modern("all", "resources/read", json!({"uri": "t://1"})).await.0);
    }
    assert_eq!(statuses, [200, 429, 429]);
}

#[tokio::test]
async fn pages_of_prompts_go_from_part_to_part() {
    let upstream = Upstream::start().await;
    let running = start(options()).await;
    let many: Vec<String> = (0..260).map(|number| format!("p{number:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let one = content_service(&upstream.base, "one", [&many, &[], &[]]);
    let two = content_service(&upstream.base, "two", [&many, &["d://1"], &[]]);
    let all = bundle(&[("one", "a_"), ("two", "b_")]);
    assert_eq!(running.gateway.apply(&snapshot_of(&[&one, &two], [published(&one), published(&two)], all)).failed, []);
    let (names, sizes) = list(&running, "all", "prompts/list").await;
    assert_eq!(sizes, [250, 250, 20]);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), 520);
    assert_eq!((&*names[0], &*names[260], &*names[519]), ("a_p000", "b_p000", "b_p259"));
    for cursor in ["%%", "Zw", "s.", "s.0.", "s.7.x", "s.x.y", "s.99999999999999999999."] {
        let (_, answer) = running.legacy("all", "prompts/list", json!({"cursor": cursor})).await;
        assert_eq!(answer["error"]["message"], "invalid cursor", "{cursor}: {answer}");
    }
}

#[tokio::test]
async fn a_part_that_does_not_admit_the_caller_has_no_prompts_for_it() {
    let upstream = Upstream::start().await;
    let secrets = Secrets::new(&[("inner", &[("partner", "of-part")])]);
    let running = start(Options::new(Arc::new(secrets))).await;
    let keyed = content_service(&upstream.base, "keyed", [&["p"], &["d://1"], &[]]);
    let open = content_service(&upstream.base, "open", [&["q"], &["d://1", "d://2"], &[]]);
    let parts = [
        ExpositionDocument { access: keys("inner"), ..published(&keyed) },
        ExpositionDocument { access: Some(Access::BundleOnly), ..published(&open) },
    ];
    let all = bundle(&[("keyed", ""), ("open", "")]);
    assert_eq!(running.gateway.apply(&snapshot_of(&[&keyed, &open], parts, all)).failed, []);
    // The key, and what its owner sees. That of the first part stays its own for callers that it does not admit.
    for (key, prompts, resources) in [
        (None, json!(["q"]), json!(["d://2"])),
        (Some("wrong"), json!(["q"]), json!(["d://2"])),
        (Some("of-part"), json!(["p", "q"]), json!(["d://1", "d://2"])),
    ] {
        let send = async |method: &str, params: Value| {
            let request = running.modern_request("all", method, params);
            let request = if let Some(key) = key { request.bearer_auth(key) } else { request };
            read(request.send().await.unwrap()).await.1
        };
        let names = |answer: &Value, member: &str, name: &str| -> Value {
            answer["result"][member].as_array().unwrap().iter().map(|entry| entry[name].clone()).collect()
        };
        let answer = send("prompts/list", json!({})).await;
        assert_eq!(names(&answer, "prompts", "name"), prompts, "{key:?}");
        assert_eq!(answer["result"]["cacheScope"], "private");
        assert_eq!(names(&send("resources/list", json!({})).await, "resources", "uri"), resources, "{key:?}");
        let admitted = key == Some("of-part");
        let answer = send("prompts/get", json!({"name": "p"})).await;
        assert_eq!(answer["result"].is_object(), admitted, "{key:?}: {answer}");
        let answer = send("resources/read", json!({"uri": "d://1"})).await;
        assert_eq!(
            answer["result"]["contents"][0]["text"].as_str(),
            admitted.then_some("of keyed"),
            "{key:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn each_list_has_a_notification_of_its_own() {
    let upstream = Upstream::start().await;
    let running = start(options()).await;
    let one = content_service(&upstream.base, "one", [&["a"], &["d://1"], &[]]);
    running.gateway.apply(&snapshot_of(&[&one], [published(&one)], bundle(&[("one", "a_")])));
    let kinds = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let request = running.modern_request("all", "subscriptions/listen", json!({"notifications": kinds}));
    let mut stream = request.send().await.unwrap().bytes_stream();
    stream.next().await.unwrap().unwrap();
    let serve = |document: ExpositionDocument| Change::Serve(Arc::new(document), Arc::clone(&one));
    let without = |edit: &dyn Fn(&mut PublishedContent)| {
        let mut document = published(&one);
        edit(&mut document.content);
        document
    };
    let hidden = |document| ExpositionDocument { access: Some(Access::BundleOnly), ..document };
    // What changes, and the lists that differ.
    let steps: Vec<(ExpositionDocument, &[&str])> = vec![
        (without(&|content| content.prompts.clear()), &["prompts"]),
        (without(&|_| ()), &["prompts"]),
        (without(&|content| content.resources.clear()), &["resources"]),
        (without(&|_| ()), &["resources"]),
        (hidden(published(&one)), &["tools", "prompts", "resources"]),
        (hidden(published(&one)), &[]),
    ];
    for (number, (document, expected)) in steps.into_iter().enumerate() {
        assert_eq!(running.gateway.update(&[serve(document)]).failed, [], "{number}");
        let mut told = String::new();
        while let Ok(Some(Ok(event))) = tokio::time::timeout(Duration::from_millis(300), stream.next()).await {
            told.push_str(&String::from_utf8_lossy(&event));
        }
        for list in ["tools", "prompts", "resources"] {
            let changed = told.contains(&format!("notifications/{list}/list_changed"));
            assert_eq!(changed, expected.contains(&list), "step {number}, {list}: {told}");
        }
    }
}
