use std::sync::Arc;

use serde_json::{Value, json};
use tamis_config::ServiceDocument;

use super::super::pins::{Compared, Comparison, Pins};
use super::*;

/// Reads a list of these pages.
fn read(pages: &[Value]) -> Listed {
    let document = json!({
        "formatVersion": 4, "name": "s", "version": "1", "tools": {},
        "source": {"mcp": {"url": "https://a.example/mcp", "follow": true}},
    });
    let document: ServiceDocument = serde_json::from_str(&document.to_string()).unwrap();
    let mut comparison = Comparison::new(&Arc::new(Pins::new(&Arc::new(document))), true);
    for tools in pages {
        comparison.page(&json!({"tools": tools}).to_string().into()).unwrap();
    }
    let Compared::Followed(listed) = comparison.finish() else { panic!("it is followed") };
    listed
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

#[test]
fn what_cannot_be_published_is_left_out_and_the_others_stay() {
    let with = |field: &str, value: Value| {
        let mut changed = tool("odd");
        changed[field] = value;
        changed
    };
    let remote = json!({"type": "object", "properties": {"a": {"$ref": "https://evil.example/schema.json"}}});
    for (odd, flaw) in [
        (json!(7), Flaw::Shape),
        (json!({"inputSchema": {"type": "object"}}), Flaw::Shape),
        (with("name", json!("")), Flaw::Name),
        (with("name", json!("a b")), Flaw::Name),
        (with("name", json!("x".repeat(65))), Flaw::Name),
        (with("name", json!("\u{202e}odd")), Flaw::Name),
        (with("description", json!({"a": 1})), Flaw::Text),
        (with("inputSchema", json!({"type": "array"})), Flaw::Input),
        (with("inputSchema", json!(null)), Flaw::Input),
        (with("inputSchema", json!({"type": "object", "properties": {"a": {"type": "nothing"}}})), Flaw::Input),
        (with("inputSchema", remote.clone()), Flaw::Input),
        (with("outputSchema", remote), Flaw::Output),
        (with("annotations", json!([])), Flaw::Annotations),
        (with("annotations", json!({"readOnlyHint": "yes"})), Flaw::Annotations),
        (with("annotations", json!({"title": 1})), Flaw::Annotations),
    ] {
        let listed = read(&[json!([tool("first"), odd, tool("last")])]);
        assert_eq!(listed.tools.keys().collect::<Vec<_>>(), ["first", "last"], "{odd}");
        assert_eq!((listed.invalid, listed.left_out[0].flaw), (1, flaw), "{odd}");
        assert!(listed.left_out[0].name.len() <= 64 && !listed.left_out[0].flaw.to_string().contains("evil"));
    }
    let nothing = json!({"name": "bare"});
    assert_eq!(read(&[json!([nothing])]).left_out[0].flaw, Flaw::Input);
}

#[test]
fn a_name_that_is_listed_twice_is_left_out_altogether() {
    let listed = read(&[json!([tool("a"), tool("b")]), json!([tool("a"), tool("a"), tool("c")])]);
    assert_eq!(listed.tools.keys().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!((listed.invalid, listed.left_out[0].flaw), (1, Flaw::Repeated));
}

#[test]
fn a_list_is_bounded() {
    let many: Vec<Value> = (0..1_007).map(|n| tool(&format!("t{n}"))).collect();
    let listed = read(&[json!(many[..500]), json!(many[500..])]);
    assert_eq!((listed.tools.len(), listed.ended), (1_000, Some(("has more than 1000 tools", 7))));
    let odd: Vec<Value> = (0..900).map(|n| tool(&format!("not valid {n}"))).collect();
    let listed = read(&[json!(odd)]);
    assert_eq!((listed.tools.len(), listed.invalid, listed.left_out.len()), (0, 900, NAMED));
}

#[test]
fn a_tool_is_kept_as_it_is_listed() {
    let page = r#"{"tools":[{"name":"t","title":"T\u00e9","description":"Reads","inputSchema":{"type":"object","properties":{"n":{"maximum":1.50}}},"annotations":{"readOnlyHint":true}}]}"#;
    let document = json!({
        "formatVersion": 4, "name": "s", "version": "1", "tools": {},
        "source": {"mcp": {"url": "https://a.example/mcp", "follow": true}},
    });
    let document: ServiceDocument = serde_json::from_str(&document.to_string()).unwrap();
    let mut comparison = Comparison::new(&Arc::new(Pins::new(&Arc::new(document))), true);
    comparison.page(&page.into()).unwrap();
    let Compared::Followed(listed) = comparison.finish() else { panic!("it is followed") };
    let tool = &listed.tools["t"];
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (Some("Té"), Some("Reads")));
    assert!(tool.input_schema.as_str().contains("1.50"), "digits stay");
    assert!(!tool.risk.mutating && tool.risk.idempotent);
    let unknown = &read(&[json!([{"name": "u", "inputSchema": {"type": "object"}}])]).tools["u"];
    assert!(unknown.risk.mutating && unknown.risk.destructive && !unknown.risk.idempotent);
}
