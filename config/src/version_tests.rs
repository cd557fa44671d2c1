use serde_json::{Value, json};

use super::*;
use crate::{Digest, FORMAT_VERSION};

/// A document with these fields, and a tool with this filter.
fn document(fields: &Value, filter: &Value) -> ExpositionDocument {
    let mut document = json!({
        "formatVersion": 1, "id": {"namespace": "n", "name": "e"}, "service": Digest::of(b"s"),
        "enforcement": "Advisory", "tools": {"other": {}, "get": {"filter": filter, "filterSet": "n/set"}},
    });
    for (field, value) in fields.as_object().expect("fields") {
        document[field] = value.clone();
    }
    serde_json::from_value(document).unwrap_or_else(|error| panic!("{error}: {fields} {filter}"))
}

#[test]
fn a_document_carries_the_lowest_version_that_expresses_it() {
    let filters = [
        (1, json!({})),
        (1, json!({"passthrough": true})),
        (1, json!({"select": {"a": "b"}, "maxItems": 3, "dropNulls": true, "compact": {"item": "x"}})),
        (1, json!({"output": {}})),
        (1, json!({"output": {"format": "json", "notice": false, "budget": {"bytes": 9}}})),
        (2, json!({"output": {"format": "toon"}})),
        (2, json!({"output": {"format": "auto"}})),
        (2, json!({"output": {"format": ["json"]}})),
        (2, json!({"output": {"budget": {"tokens": 9}}})),
        (2, json!({"output": {"budget": {"bytes": 9, "tokens": 9}}})),
        (2, json!({"output": {"preset": "issues"}})),
        (2, json!({"output": {"structured": "always"}})),
        (1, json!({"output": {"inputs": []}})),
        (2, json!({"output": {"inputs": ["_format"]}})),
        (2, json!({"output": {"strategy": "default"}})),
        (2, json!({"output": {"strategy": {"name": "default"}}})),
        (2, json!({"output": {"algorithm": "greedy"}})),
        (2, json!({"output": {"levels": {"short": ["a"]}}})),
        (2, json!({"output": {"chunks": {}}})),
        (2, json!({"output": {"toon": {"indent": 2}}})),
    ];
    let fields = [
        (1, json!({})),
        (1, json!({"limits": {"timeoutMs": 9, "concurrent": 1}, "audit": "Full", "access": "anonymous"})),
        (1, json!({"limits": {"output": {}}})),
        (2, json!({"limits": {"output": {"bytes": 1}}})),
        (2, json!({"limits": {"output": {"tokens": 1}}})),
        (1, json!({"tokens": {"tokenizer": "o200k_base", "factor": 1}})),
        (2, json!({"tokens": {"tokenizer": "estimate"}})),
        (2, json!({"tokens": {"factor": 1.5}})),
        (4, json!({"access": "bundleOnly"})),
        (2, json!({"inputs": []})),
        (2, json!({"inputs": ["chunk"]})),
        (4, json!({"follow": {}})),
        (4, json!({"follow": {"include": ["a*"], "exclude": ["ab"]}})),
        (1, json!({"listTtlMs": 0})),
        (4, json!({"listTtlMs": 1})),
        (1, json!({"content": {}})),
        (4, json!({"content": {"prompts": ["p"]}})),
        (4, json!({"content": {"resources": ["r:/a"]}})),
        (4, json!({"content": {"templates": ["r:/{a}"]}})),
        (4, json!({"content": {"serverPrompts": {}}})),
        (4, json!({"content": {"serverResources": {}}})),
    ];
    for (of_fields, fields) in &fields {
        for (of_filter, filter) in &filters {
            let branches = json!([{"test": {"path": "/a", "value": 1}}, filter]);
            for filter in [filter, &branches] {
                let document = document(fields, filter).at_lowest_version();
                let version = *of_fields.max(of_filter);
                assert_eq!(document.format_version, version, "{fields} {filter}");
                assert!(version <= FORMAT_VERSION);
            }
        }
    }
}

#[test]
fn a_query_of_an_exposition_needs_version_4() {
    let mut document = document(&json!({}), &json!({})).at_lowest_version();
    assert_eq!(document.format_version, 1);
    document.tools["get"].query = Some(std::sync::Arc::new("{ a }".to_owned()));
    assert_eq!(document.at_lowest_version().format_version, 4);
}

#[test]
fn a_service_carries_the_lowest_version_that_expresses_it() {
    let http = json!({"http": {"baseUrl": "https://a.example"}});
    let mcp = json!({"mcp": {"url": "https://a.example/mcp", "auth": {"type": "none"}}});
    let follow = json!({"mcp": {"url": "https://a.example/mcp", "follow": true}});
    let headers = json!({"mcp": {"url": "https://a.example/mcp", "headers": {"x-team": "a"}}});
    let program = json!({"program": {"command": ["a"], "env": ["B"], "secretEnv": {"C": {"name": "s", "key": "k"}}}});
    let command = json!({"command": {"executable": "a", "env": ["B*"], "envInject": {"C": "d"}, "workingDir": "/", "limits": {
        "timeoutMs": 1, "outputBytes": 2, "processes": 3, "memoryBytes": 4,
    }}});
    let run = json!({"command": {"words": ["a"], "arguments": {"b": {"style": "joined", "flag": "--b"}}, "successCodes": [0]}});
    let (get, alias) = (json!({"http": {"method": "GET", "path": "/"}}), json!({"alias": {"tool": "get"}}));
    let call = json!({"mcp": {"tool": "get", "annotations": {"readOnlyHint": true}}});
    for (version, source, calls) in [
        (1, &http, vec![]),
        (1, &http, vec![&get, &alias]),
        (3, &mcp, vec![]),
        (4, &follow, vec![]),
        (4, &headers, vec![]),
        (3, &mcp, vec![&alias, &call]),
        (3, &http, vec![&get, &call]),
        (4, &program, vec![&call]),
        (4, &command, vec![]),
        (4, &command, vec![&run]),
        (1, &http, vec![&json!({"http": {"method": "GET", "path": "/", "request": {"styles": {"a": "comma"}}}})]),
        (4, &http, vec![&json!({"http": {"method": "GET", "path": "/", "request": {"styles": {"a": "pipe"}}}})]),
        (4, &http, vec![&json!({"http": {"method": "GET", "path": "/", "request": {"separators": {"a": ","}}}})]),
        (4, &http, vec![&json!({"http": {"method": "POST", "path": "/", "request": {"form": {"a": "{a}"}}}})]),
        (
            4,
            &http,
            vec![&json!({"http": {"method": "POST", "path": "/", "request": {"cookies": {"a": {"argument": "a"}}}}})],
        ),
        (
            4,
            &http,
            vec![
                &json!({"http": {"method": "POST", "path": "/", "request": {"parts": {"a": {"argument": "a", "type": "text"}}}}}),
            ],
        ),
        (
            4,
            &http,
            vec![
                &json!({"http": {"method": "POST", "path": "/", "request": {"content": {"argument": "a", "type": "bytes"}}}}),
                &json!({"http": {"method": "POST", "path": "/", "request": {"objects": {"a": "pairs"}}}}),
            ],
        ),
        (4, &http, vec![&json!({"http": {"method": "POST", "path": "", "graphql": {"query": "{ a }"}}})]),
        (4, &json!({"grpc": {"endpoint": "https://e", "descriptors": ""}}), vec![&json!({"grpc": {"path": "/a.B/C"}})]),
    ] {
        let tool = |call: &Value| json!({"inputSchema": {"type": "object"}, "call": call});
        let tools: serde_json::Map<_, _> =
            calls.iter().enumerate().map(|(at, call)| (format!("t{at}"), tool(call))).collect();
        let document = json!({"formatVersion": 1, "name": "s", "version": "1", "source": source, "tools": tools});
        let document: ServiceDocument = serde_json::from_str(&document.to_string()).expect("a service");
        assert_eq!(lowest_service_version(&document), version, "{source} {calls:?}");
        assert!(version <= FORMAT_VERSION);
    }
    let prompt = json!({"prompts": {"p": {"messages": [{"role": "user", "text": "t"}]}}});
    let resource = json!({"resources": {"r:/a": {"info": {"name": "a"}, "content": {"text": "t"}}}});
    for (version, content) in [(1, json!({})), (4, prompt), (4, resource)] {
        let document =
            json!({"formatVersion": 1, "name": "s", "version": "1", "source": http, "tools": {}, "content": content});
        let document: ServiceDocument = serde_json::from_str(&document.to_string()).expect("a service");
        assert_eq!(lowest_service_version(&document), version, "{content}");
    }
}
