//! Filters that the policy refuses and takes, in both places where they can stand.

use serde_json::{Value, json};

use crate::object;

/// A set with these filters.
pub(crate) fn set(filters: &Value) -> Value {
    json!({ "service": { "name": "s", "version": "1" }, "filters": filters })
}

fn in_set(filter: &Value) -> Value {
    object("ToolsFilters", "f", &set(&json!({ "get-issue": filter })))
}

fn in_manifest(filter: &Value) -> Value {
    let actions = json!({
        "no-response": { "path": "/a" },
        "no-filter": { "path": "/a", "response": { "type": "object" } },
        "get-issue": { "path": "/a", "response": { "filter": filter } },
    });
    object(
        "ServiceManifest",
        "f",
        &json!({ "version": "1", "http": { "baseUrl": "https://a.example", "actions": actions } }),
    )
}

/// A filter, and what is said of it after the field that holds it.
fn refused() -> Vec<(Value, &'static str)> {
    let patch = |patch: Value| json!({ "patches": [{ "op": "remove", "path": "/x" }, patch] });
    vec![
        (json!("retain"), ": is no filter: write an object"),
        (json!(1), ": is no filter"),
        (json!(true), ": is no filter"),
        (json!(null), ": is no filter"),
        (json!([]), ": the list of branches is empty"),
        (json!(["a"]), "[0]: is no branch"),
        (json!([{ "test": { "path": "/a", "value": 1 } }, 2]), "[1]: is no branch"),
        (json!({ "test": { "path": "/a", "value": 1 }, "retain": ["/a"] }), ".test: belongs to the list form"),
        (json!({ "otherwise": true, "retain": ["/a"] }), ".otherwise: belongs to the list form"),
        (json!([{ "retain": ["/a"] }]), "[0]: is a branch without `test`"),
        (json!([{ "otherwise": true, "test": { "path": "/a", "value": 1 } }]), "[0]: `otherwise` stands beside `test`"),
        (
            json!([{ "otherwise": true }, { "test": { "path": "/a", "value": 1 } }]),
            "[0].otherwise: is not on the last branch",
        ),
        (json!([{ "test": { "path": "/a" } }]), "[0].test: needs `path` and `value`"),
        (json!([{ "test": { "path": "a", "value": 1 } }]), "[0].test.path: `a` is no JSON Pointer"),
        (json!([{ "test": "/a" }]), "[0].test: is wrong: write an object"),
        (json!({ "retian": ["/a"] }), ".retian: is not a field of a filter: remove it; possible here: test,"),
        (json!({ "max_items": 3 }), ".max_items: is not a field of a filter"),
        (json!({ "jsonRetain": ["/a"] }), ".jsonRetain: is not a field of a filter"),
        (json!({ "maxItems": -1 }), ".maxItems: -1 is negative"),
        (json!({ "maxItems": 1.5 }), ".maxItems: is wrong: write a whole number"),
        (json!({ "maxItems": "3" }), ".maxItems: is wrong: write a whole number"),
        (json!({ "maxItems": null }), ".maxItems: is wrong"),
        (json!({ "retain": "/a" }), ".retain: is wrong: write a list of JSON Pointers"),
        (json!({ "retain": null }), ".retain: is wrong"),
        (json!({ "retain": [] }), ".retain: is empty"),
        (json!({ "retain": ["/a", "b"] }), ".retain[1]: `b` is no JSON Pointer, which begins with `/`"),
        (json!({ "retain": [1] }), ".retain[0]: is no JSON Pointer"),
        (json!({ "root": "items" }), ".root: `items` is no JSON Pointer"),
        (json!({ "root": 1 }), ".root: is wrong: write a JSON Pointer"),
        (json!({ "select": ["a"] }), ".select: is wrong: write an object"),
        (json!({ "select": {} }), ".select: is empty"),
        (json!({ "select": { "a": 1 } }), ".select: a path is no text"),
        (json!({ "exclude": "a" }), ".exclude: is wrong: write a list of names"),
        (json!({ "exclude": [1] }), ".exclude: a name is no text"),
        (json!({ "dropNulls": "true" }), ".dropNulls: is wrong: write true or false"),
        (json!({ "compact": true }), ".compact: is wrong: write an object with `item`"),
        (json!({ "output": "json" }), ".output: is wrong"),
        (json!({ "patches": { "op": "add" } }), ".patches: is wrong: write a list of operations"),
        (json!({ "patches": ["add"] }), ".patches: an entry is no operation"),
        (patch(json!({ "path": "/a" })), ".patches[1].op: is missing"),
        (patch(json!({ "op": "delete", "path": "/a" })), ".patches[1].op: `delete` is no operation: write add, remove"),
        (patch(json!({ "op": 1, "path": "/a" })), ".patches[1].op: is no operation"),
        (patch(json!({ "op": "add", "value": 1 })), ".patches[1].path: is missing"),
        (patch(json!({ "op": "remove", "path": "a" })), ".patches[1].path: `a` is no JSON Pointer"),
        (patch(json!({ "op": "remove", "path": 1 })), ".patches[1].path: is no JSON Pointer"),
        (patch(json!({ "op": "add", "path": "/a" })), ".patches[1].value: is missing: `add` needs it"),
        (patch(json!({ "op": "replace", "path": "/a" })), ".patches[1].value: is missing: `replace` needs it"),
        (patch(json!({ "op": "test", "path": "/a" })), ".patches[1].value: is missing: `test` needs it"),
        (patch(json!({ "op": "move", "path": "/a" })), ".patches[1].from: is missing: `move` needs it"),
        (patch(json!({ "op": "copy", "path": "/a" })), ".patches[1].from: is missing: `copy` needs it"),
        (patch(json!({ "op": "copy", "path": "/a", "from": "b" })), ".patches[1].from: `b` is no JSON Pointer"),
        (patch(json!({ "op": "remove", "path": "/a", "from": "/b" })), ".patches[1].from: `remove` takes none"),
        (patch(json!({ "op": "remove", "path": "/a", "to": "/b" })), ".patches[1].to: is not a field of an operation"),
        (json!([{ "test": { "path": "/a", "value": 1 }, "maxItems": -3 }]), "[0].maxItems: -3 is negative"),
        (
            json!([{ "test": { "path": "/a", "value": 1 } }, { "otherwise": true, "patches": [{ "op": "x" }] }]),
            "[1].patches[0].op: `x` is no operation",
        ),
    ]
}

pub(crate) fn bad() -> Vec<(Value, &'static str)> {
    let mut table = Vec::new();
    for (filter, text) in refused() {
        // A message names the tool too: leaked, since a table's texts are constants elsewhere.
        let said = |at: &str| -> &'static str { Box::leak(format!("{at}{text}").into_boxed_str()) };
        table.push((in_set(&filter), said("spec.filters.get-issue")));
        // Null is no value of a typed field's member, so the API server drops it there before anyone looks.
        if !filter.is_null() {
            table.push((in_manifest(&filter), said("spec.http.actions.get-issue.response.filter")));
        }
    }
    let odd = object("ToolsFilters", "f", &set(&json!({ "a.b": { "maxItems": -1 } })));
    table.push((odd, "spec.filters[\"a.b\"].maxItems: -1"));
    // All mistakes of a sort at once.
    let two = json!({ "a": { "maxItems": -1 }, "b": { "maxItems": -2 } });
    table.push((object("ToolsFilters", "f", &set(&two)), "spec.filters.b.maxItems: -2"));
    table.push((object("ToolsFilters", "f", &set(&two)), "spec.filters.a.maxItems: -1"));
    table
}

pub(crate) fn good() -> Vec<Value> {
    let filters = [
        json!({}),
        json!({ "passthrough": true }),
        json!({ "otherwise": false, "retain": ["", "/a", "/a~1b", "/*"] }),
        json!({ "root": "", "select": { "a": "b", "c d": "e[0].f" }, "maxItems": 0, "exclude": ["a", "/b/c"] }),
        json!({ "dropNulls": false, "dropEmpty": true, "output": { "format": "json", "budget": { "bytes": 10 } } }),
        json!({ "text": { "stripAnsi": true, "keep": ["^E"], "maxLines": 200 } }),
        json!({ "compact": { "item": "{{.a}}" } }),
        json!({ "patches": [
            { "op": "add", "path": "/a", "value": null },
            { "op": "add", "path": "/a/-", "value": { "b": [] } },
            { "op": "replace", "path": "", "value": false },
            { "op": "test", "path": "/a", "value": 0 },
            { "op": "remove", "path": "/a" },
            { "op": "move", "path": "/a", "from": "/b" },
            { "op": "copy", "path": "/a", "from": "" },
        ] }),
        json!({ "patches": [] }),
        json!([{ "test": { "path": "", "value": null }, "retain": ["/a"] }]),
        json!([{ "test": { "path": "/a", "value": 1 } }, { "test": { "path": "/a", "value": 1 } }, { "otherwise": true }]),
        json!([{ "otherwise": true, "passthrough": true }]),
    ];
    let mut objects: Vec<Value> = filters.iter().flat_map(|filter| [in_set(filter), in_manifest(filter)]).collect();
    objects.push(object("ToolsFilters", "f", &set(&json!({}))));
    // A large service: the policy may not be what limits it.
    let filter = json!([
        { "test": { "path": "/state", "value": "closed" }, "retain": ["/a/b", "/c/d", "/e/f", "/g/h", "/i/j"] },
        { "otherwise": true, "patches": [{ "op": "add", "path": "/source", "value": "github" }] },
    ]);
    let many: serde_json::Map<_, _> = (0..1000).map(|n| (format!("tool-{n}"), filter.clone())).collect();
    objects.push(object("ToolsFilters", "f", &set(&many.into())));
    objects
}
