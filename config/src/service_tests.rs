use serde_json::{Value, json};

use super::*;

fn document(tools: &Value) -> ServiceDocument {
    let document = json!({
        "formatVersion": 1, "name": "s", "version": "1",
        "source": {"http": {
            "baseUrl": "https://a.example",
            "auth": {"type": "bearer", "credential": {"name": "api", "key": "token"}},
        }},
        "tools": tools,
    });
    serde_json::from_str(&document.to_string()).expect("is a service")
}

fn tool(call: &Value) -> Value {
    json!({"inputSchema": {"type": "object"}, "call": call})
}

#[test]
fn the_credential_of_a_tool_is_that_of_the_call_it_makes() {
    let own = json!({"type": "header", "name": "X-Key", "credential": {"name": "own", "key": "key"}});
    let service = document(&json!({
        "get": tool(&json!({"http": {"method": "GET", "path": "/get"}})),
        "own": tool(&json!({"http": {"method": "GET", "path": "/own", "auth": own}})),
        "open": tool(&json!({"http": {"method": "GET", "path": "/open", "auth": {"type": "none"}}})),
        "alias": tool(&json!({"alias": {"tool": "own"}})),
        "open-alias": tool(&json!({"alias": {"tool": "open"}})),
        "lost": tool(&json!({"alias": {"tool": "nobody"}})),
        "chained": tool(&json!({"alias": {"tool": "alias"}})),
    }));
    assert_eq!(service.destinations(), ["https://a.example"]);
    let table = [
        ("get", Some(("api", "/get"))),
        ("own", Some(("own", "/own"))),
        ("open", None),
        ("alias", Some(("own", "/own"))),
        ("open-alias", None),
        ("lost", None),
        ("chained", None),
    ];
    for (tool, expected) in table {
        let sent = service.sent_credential(&service.tools[tool]);
        assert_eq!(sent.map(|sent| (sent.credential.name.as_str(), sent.path)), expected, "{tool}");
    }
}

#[test]
fn a_document_keeps_its_calls() {
    let tools = json!({
        "get": tool(&json!({"http": {"method": "GET", "path": "/get", "request": {}}})),
        "alias": tool(&json!({"alias": {"tool": "get"}})),
    });
    let service = document(&tools);
    let written = serde_json::to_value(&service).expect("is JSON");
    for name in ["get", "alias"] {
        assert_eq!(written["tools"][name]["call"], tools[name]["call"]);
    }
    assert_eq!(written["tools"]["get"].get("pagination"), None);
}

#[test]
fn the_credential_of_an_mcp_tool_is_that_of_its_server() {
    let service = |auth: &Value| -> ServiceDocument {
        let document = json!({
            "formatVersion": 3, "name": "s", "version": "1",
            "source": {"mcp": {"url": "https://a.example/mcp", "auth": auth}},
            "tools": {
                "get": tool(&json!({"mcp": {"tool": "get"}})),
                "alias": tool(&json!({"alias": {"tool": "get"}})),
                "other": tool(&json!({"http": {"method": "GET", "path": "/"}})),
            },
        });
        serde_json::from_str(&document.to_string()).expect("is a service")
    };
    let with = service(&json!({"type": "bearer", "credential": {"name": "api", "key": "token"}}));
    assert_eq!(with.destinations(), ["https://a.example/mcp"]);
    for (tool, expected) in [("get", Some("api")), ("alias", Some("api")), ("other", None)] {
        let sent = with.sent_credential(&with.tools[tool]);
        assert_eq!(sent.map(|sent| sent.credential.name.as_str()), expected, "{tool}");
        assert!(sent.is_none_or(|sent| (sent.base_url, sent.path) == ("https://a.example/mcp", "")));
    }
    let without = service(&json!({"type": "none"}));
    assert_eq!(without.sent_credential(&without.tools["get"]), None);
}

#[test]
fn the_credentials_of_a_program_are_those_of_its_environment() {
    let secret = |name: &str| json!({"name": name, "key": "k"});
    let document = json!({
        "formatVersion": 4, "name": "s", "version": "1",
        "source": {"program": {"command": ["a"], "secretEnv": {"A": secret("one"), "B": secret("two")}}},
        "tools": {"get": tool(&json!({"mcp": {"tool": "get"}}))},
    });
    let service: ServiceDocument = serde_json::from_str(&document.to_string()).expect("is a service");
    let get = &service.tools["get"];
    assert_eq!(service.credentials(get).iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((service.sent_credential(get), service.destinations()), (None, Vec::new()));
}
