use serde_json::json;
use tamis_config::{Pagination, PaginationKind};

use super::*;

fn document(alias: &serde_json::Value) -> ServiceDocument {
    let pagination = json!({"type": "cursor", "maxPages": 2, "nextPath": "next"});
    serde_json::from_value(json!({
        "formatVersion": 1, "name": "s", "version": "1",
        "source": {"http": {"baseUrl": "https://example.com"}},
        "tools": {
            "list": {
                "inputSchema": {"type": "object", "properties": {"owner": {"type": "string"}, "labels": {}, "state": {}}},
                "pagination": pagination,
                "call": {"http": {"method": "GET", "path": "/{owner}/issues"}},
            },
            "mine": {
                "inputSchema": {"type": "object", "properties": {"team": {"type": "string"}, "labels": {"type": "array"}}},
                "pagination": pagination,
                "call": {"alias": alias},
            },
        },
    }))
    .expect("is a document")
}

#[test]
fn arguments_become_those_of_the_other_tool() {
    // `arguments` of the alias, what a call gives, what the other tool gets.
    let table = [
        (json!(null), r#"{"owner":"a"}"#, r#"{"owner":"a"}"#),
        (json!({"owner": "acme"}), r"{}", r#"{"owner":"acme"}"#),
        (json!({"owner": "{team}"}), r#"{"team":"a"}"#, r#"{"owner":"a"}"#),
        (json!({"owner": "{team}"}), r"{}", r"{}"),
        (json!({"owner": "org-{team}!"}), r#"{"team":"a\"b"}"#, r#"{"owner":"org-a\"b!"}"#),
        (json!({"labels": "{labels}"}), r#"{"labels":["a",1.10]}"#, r#"{"labels":["a",1.10]}"#),
        (json!({"labels": ["fixed", "{team}"]}), r#"{"team":"b"}"#, r#"{"labels":["fixed","b"]}"#),
        (json!({"state": 5}), r#"{"team":"b"}"#, r#"{"state":5}"#),
        (json!({"state": "{nobody}"}), r"{}", r#"{"state":"{nobody}"}"#),
        // What goes on where the gateway fetches pages.
        (json!({"owner": "acme"}), r#"{"cursor":"x"}"#, r#"{"owner":"acme","cursor":"x"}"#),
        (json!({"cursor": "first"}), r#"{"cursor":"x"}"#, r#"{"cursor":"first"}"#),
    ];
    for (arguments, given, expected) in table {
        let alias =
            if arguments.is_null() { json!({"tool": "list"}) } else { json!({"tool": "list", "arguments": arguments}) };
        let document = document(&alias);
        let tool = &document.tools["mine"];
        let plan = AliasPlan::new("f", tool.alias().unwrap(), tool, &document).unwrap();
        let made = plan.arguments(&serde_json::from_str(given).unwrap()).unwrap();
        assert_eq!((plan.tool(), &*made.object()), ("list", expected), "{arguments}");
    }
}

#[test]
fn what_is_no_text_is_refused() {
    let document = document(&json!({"tool": "list", "arguments": {"owner": "org-{labels}"}}));
    let tool = &document.tools["mine"];
    let plan = AliasPlan::new("f", tool.alias().unwrap(), tool, &document).unwrap();
    let error = plan.arguments(&serde_json::from_str(r#"{"labels":[{}]}"#).unwrap()).unwrap_err();
    assert!(error.to_string().contains("labels"), "{error}");
}

#[test]
fn an_alias_has_the_pagination_of_the_tool_that_it_calls() {
    for pagination in [None, Some(Pagination { kind: PaginationKind::Offset, max_pages: 2, next_path: None })] {
        let mut document = document(&json!({"tool": "list"}));
        document.tools["mine"].pagination = pagination;
        let tool = &document.tools["mine"];
        let error = AliasPlan::new("f", tool.alias().unwrap(), tool, &document).unwrap_err();
        assert_eq!(error.field, "f.tool");
        assert!(error.message.contains("pagination"), "{error}");
    }
}

#[test]
fn an_alias_calls_a_tool_with_a_call_of_its_own() {
    for of in ["nobody", "mine"] {
        let document = document(&json!({"tool": of}));
        let tool = &document.tools["mine"];
        let error = AliasPlan::new("f", tool.alias().unwrap(), tool, &document).unwrap_err();
        assert_eq!(error.field, "f.tool");
    }
}
