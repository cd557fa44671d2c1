//! Filters that the policy refuses and takes, in both places where they can stand.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_engine::{CompileOptions, compile};
use tamis_tests::cluster::Cluster;

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

/// Filters, and the end of their messages after the field path.
fn refused() -> Vec<(Value, &'static str)> {
    let patch = |patch: Value| json!({ "patches": [{ "op": "remove", "path": "/x" }, patch] });
    vec![
        (json!("retain"), ": is not a filter; write an object"),
        (json!(1), ": is not a filter"),
        (json!(true), ": is not a filter"),
        // Two policies refuse null, and the API server gives the message of either.
        (json!(null), ": "),
        (json!([]), ": Invalid value: 0"),
        (json!(["a"]), "[0]: expected"),
        (json!([{ "test": { "path": "/a", "value": 1 } }, 2]), "[1]: expected"),
        (
            json!({ "test": { "path": "/a", "value": 1 }, "retain": ["/a"] }),
            ".test: is allowed in a list of branches only",
        ),
        (json!({ "otherwise": true, "retain": ["/a"] }), ".otherwise: is allowed in a list of branches only"),
        (json!([{ "retain": ["/a"] }]), "[0]: is a branch without `test`"),
        (
            json!([{ "otherwise": true, "test": { "path": "/a", "value": 1 } }]),
            "[0]: `otherwise` and `test` are mutually exclusive",
        ),
        (
            json!([{ "otherwise": true }, { "test": { "path": "/a", "value": 1 } }]),
            "[0].otherwise: is not on the last branch",
        ),
        (json!([{ "test": { "path": "/a" } }]), "[0].test.value: Required value"),
        (json!([{ "test": { "path": "a", "value": 1 } }]), "[0].test.path: `a` is not a JSON Pointer"),
        (json!([{ "test": { "path": "/a", "value": 1, "op": "test" } }]), ": has an unknown field"),
        (json!([{ "test": "/a" }]), "[0].test: expected"),
        (json!({ "retian": ["/a"] }), ".retian: unknown field; remove it, or use one of: test,"),
        (json!({ "max_items": 3 }), ".max_items: unknown field"),
        (json!({ "jsonRetain": ["/a"] }), ".jsonRetain: unknown field"),
        (json!({ "maxItems": -1 }), ".maxItems: Invalid value: -1"),
        (json!({ "maxItems": 1.5 }), ".maxItems: Invalid value"),
        (json!({ "maxItems": "3" }), ".maxItems: expected"),
        (json!({ "maxItems": null }), ".maxItems: has no value"),
        (json!({ "retain": "/a" }), ".retain: expected"),
        (json!({ "retain": null }), ".retain: has no value"),
        (json!({ "retain": [] }), ".retain: Invalid value: 0"),
        (json!({ "retain": ["/a", "b"] }), ".retain[1]: `b` is not a JSON Pointer; begin it with `/`"),
        (json!({ "retain": [1] }), ".retain[0]: expected"),
        (json!({ "root": "items" }), ".root: `items` is not a JSON Pointer"),
        (json!({ "root": 1 }), ".root: expected"),
        (json!({ "select": ["a"] }), ".select: expected"),
        (json!({ "select": {} }), ".select: Invalid value: 0"),
        (json!({ "select": { "a": 1 } }), ".select.a: expected"),
        (json!({ "exclude": "a" }), ".exclude: expected"),
        (json!({ "exclude": [1] }), ".exclude[0]: expected"),
        (json!({ "dropNulls": "true" }), ".dropNulls: expected"),
        (json!({ "select": { "a": "" } }), ".select.a: Invalid value: \"\""),
        (json!({ "select": { "a": "a..b" } }), ".select.a: `a..b` is not a source path"),
        (json!({ "select": { "a": "a[x]" } }), ".select.a: `a[x]` is not a source path"),
        (json!({ "select": { "": "a" } }), ".select: the output key is empty"),
        (json!({ "exclude": [""] }), ".exclude[0]: Invalid value: \"\""),
        (json!({ "exclude": ["/a~3"] }), ".exclude[0]: `/a~3` has an unknown escape"),
        (json!({ "retain": ["/a~3"] }), ".retain[0]: Invalid value: \"/a~3\""),
        (json!({ "root": "/a~2" }), ".root: Invalid value: \"/a~2\""),
        (json!({ "retain": vec!["/a"; 1001] }), ".retain: Too many: 1001"),
        (json!({ "patches": vec![json!({ "op": "remove", "path": "/a" }); 1001] }), ".patches: Too many: 1001"),
        (json!({ "compact": { "header": "x" } }), ".compact.item: Required value"),
        (json!({ "compact": { "item": "" } }), ".compact.item: Invalid value"),
        (json!({ "output": { "format": "xml" } }), ".output.format: is not a format; use `json`, `table`, `toon`"),
        (json!({ "output": { "format": 1 } }), ".output.format: "),
        (json!({ "output": { "format": { "name": "json" } } }), ".output.format: "),
        (json!({ "output": { "format": [] } }), ".output.format: is not a format"),
        (json!({ "output": { "format": ["json", "auto"] } }), ".output.format: is not a format"),
        (json!({ "output": { "format": ["json", "toon", "json"] } }), ".output.format: is not a format"),
        (json!({ "output": { "format": ["json", 1] } }), ".output.format[1]: "),
        (json!({ "output": { "budget": {} } }), ".output.budget: sets no limit; set `bytes` or `tokens`, or remove it"),
        (json!({ "output": { "budget": { "bytes": 0 } } }), ".output.budget.bytes: Invalid value: 0"),
        (json!({ "output": { "budget": { "tokens": -1 } } }), ".output.budget.tokens: Invalid value: -1"),
        (json!({ "output": { "budget": { "tokens": "9k" } } }), ".output.budget.tokens: expected"),
        (json!({ "output": { "preset": "issue" } }), ".output.preset: Unsupported value: \"issue\""),
        (json!({ "output": { "structured": true } }), ".output.structured: expected"),
        (json!({ "output": { "structured": "no" } }), ".output.structured: Unsupported value: \"no\""),
        (json!({ "output": { "algorithm": "best" } }), ".output.algorithm: Unsupported value: \"best\""),
        (json!({ "output": { "inputs": ["_budget"] } }), ".output.inputs[0]: Unsupported value: \"_budget\""),
        (json!({ "output": { "strategy": "newest" } }), ".output.strategy: `newest` is not a strategy; use default,"),
        (json!({ "output": { "strategy": ["default"] } }), ".output.strategy: "),
        (json!({ "output": { "strategy": null } }), ".output.strategy: "),
        (json!({ "output": { "strategy": { "group": "a" } } }), ".output.strategy.name: is missing; use default,"),
        (json!({ "output": { "strategy": { "name": "x" } } }), ".output.strategy.name: `x` is not a strategy"),
        (
            json!({ "output": { "strategy": { "name": "cascading", "boost": ["a"] } } }),
            ".output.strategy.boost: is not allowed for `cascading`; remove it, or use `head_tail`",
        ),
        (
            json!({ "output": { "strategy": { "name": "cascading", "newest": "top" } } }),
            ".output.strategy.newest: Unsupported value: \"top\"",
        ),
        (
            json!({ "output": { "strategy": { "name": "cascading", "latest": "first" } } }),
            ".output.strategy.latest: unknown field; remove it",
        ),
        (
            json!({ "output": { "strategy": { "name": "size_proportional", "weights": { "*.lock": 2 } } } }),
            ".output.strategy.weights.*.lock: Invalid value: 2",
        ),
        (json!({ "output": { "levels": {} } }), ".output.levels: Invalid value: 0"),
        (json!({ "output": { "levels": { "short": [] } } }), ".output.levels.short: Invalid value: 0"),
        (json!({ "output": { "levels": { "short": ["a", ""] } } }), ".output.levels.short[1]: Invalid value: \"\""),
        (json!({ "output": { "levels": { "full": ["a"] } } }), ".output.levels: has a level without a name, or named"),
        (
            json!({ "output": { "levels": { "1": ["a"], "2": ["a"], "3": ["a"], "4": ["a"], "5": ["a"], "6": ["a"],
                "7": ["a"], "8": ["a"], "9": ["a"] } } }),
            ".output.levels: Too many: 9",
        ),
        (json!({ "output": { "chunks": { "noun": "" } } }), ".output.chunks.noun: Invalid value: \"\""),
        (json!({ "output": { "chunks": { "nouns": "a" } } }), ".output.chunks.nouns: unknown field"),
        (json!({ "output": { "toon": { "indent": 0 } } }), ".output.toon.indent: Invalid value: 0"),
        (json!({ "output": { "toon": { "indent": 9 } } }), ".output.toon.indent: Invalid value: 9"),
        (json!({ "output": { "toon": { "delimiter": ";" } } }), ".output.toon.delimiter: Unsupported value: \";\""),
        (json!({ "text": { "stripp": ["a"] } }), ".text.stripp: unknown field"),
        (json!({ "text": { "maxLines": -1 } }), ".text.maxLines: Invalid value: -1"),
        (json!({ "passthrough": true, "retain": ["/a"] }), ".passthrough: excludes every other stage"),
        (patch(json!({ "op": "move", "path": "/a/b", "from": "/a" })), ".patches[1]: moves `/a` into itself"),
        (json!({ "compact": true }), ".compact: expected"),
        (json!({ "output": "json" }), ".output: expected"),
        (json!({ "patches": { "op": "add" } }), ".patches"),
        (json!({ "patches": ["add"] }), ".patches[0]: expected"),
        (patch(json!({ "path": "/a" })), ".patches[1].op: Required value"),
        (
            patch(json!({ "op": "delete", "path": "/a" })),
            ".patches[1].op: `delete` is not an operation; use add, remove",
        ),
        (patch(json!({ "op": 1, "path": "/a" })), ".patches[1].op: expected"),
        (patch(json!({ "op": "add", "value": 1 })), ".patches[1].path: Required value"),
        (patch(json!({ "op": "remove", "path": "a" })), ".patches[1].path: `a` is not a JSON Pointer"),
        (patch(json!({ "op": "remove", "path": 1 })), ".patches[1].path: expected"),
        (patch(json!({ "op": "add", "path": "/a" })), ".patches[1].value: is missing; `add` requires it"),
        (patch(json!({ "op": "replace", "path": "/a" })), ".patches[1].value: is missing; `replace` requires it"),
        (patch(json!({ "op": "test", "path": "/a" })), ".patches[1].value: is missing; `test` requires it"),
        (patch(json!({ "op": "move", "path": "/a" })), ".patches[1].from: is missing; `move` requires it"),
        (patch(json!({ "op": "copy", "path": "/a" })), ".patches[1].from: is missing; `copy` requires it"),
        (patch(json!({ "op": "copy", "path": "/a", "from": "b" })), ".patches[1].from: `b` is not a JSON Pointer"),
        (patch(json!({ "op": "remove", "path": "/a", "from": "/b" })), ".patches[1].from: is not allowed for `remove`"),
        (patch(json!({ "op": "remove", "path": "/a", "to": "/b" })), ": has an unknown field"),
        (json!([{ "test": { "path": "/a", "value": 1 }, "maxItems": -3 }]), "[0].maxItems: Invalid value: -3"),
        (
            json!([{ "test": { "path": "/a", "value": 1 } }, { "otherwise": true, "patches": [{ "op": "x" }] }]),
            "[1].patches[0].path: Required value",
        ),
    ]
}

pub(crate) fn bad() -> Vec<(Value, &'static str)> {
    let mut table = Vec::new();
    for (filter, text) in refused() {
        // A message names the tool too: leaked, since a table's texts are constants elsewhere.
        let said = |at: &str| -> &'static str { Box::leak(format!("{at}{text}").into_boxed_str()) };
        table.push((in_set(&filter), said("spec.filters.get-issue")));
        // In a manifest, an unknown field inside a list is reported at its action.
        let text = said("spec.http.actions.get-issue.response.filter");
        let text = if text.contains("has an unknown field") { "spec.http.actions.get-issue" } else { text };
        table.push((in_manifest(&filter), text));
    }
    // Under a tool of a document, by the first of each kind of mistake: the expressions are the same.
    let odd = json!({ "retain": ["a"] });
    for (source, spec) in [
        ("openapi", json!({ "inline": {} })),
        ("graphql", json!({ "baseUrl": "https://a.example", "inline": "type Query { a: Int }" })),
    ] {
        for (tool, at) in [("get-issue", ".get-issue"), ("get.issue", "[\"get.issue\"]")] {
            let mut manifest = json!({ "version": "1" });
            manifest[source] = spec.clone();
            manifest[source]["overrides"] = json!({ tool: { "response": { "filter": odd } } });
            let said = Box::leak(
                format!("spec.{source}.overrides{at}.response.filter.retain[0]: `a` is not").into_boxed_str(),
            );
            table.push((object("ServiceManifest", "m", &manifest), said));
        }
    }
    let odd = object("ToolsFilters", "f", &set(&json!({ "a.b": { "maxItems": -1 } })));
    table.push((odd, "spec.filters.a.b.maxItems: Invalid value: -1"));
    // All mistakes of a sort at once.
    let two = json!({ "a": { "maxItems": -1 }, "b": { "maxItems": -2 } });
    table.push((object("ToolsFilters", "f", &set(&two)), "spec.filters.b.maxItems: Invalid value: -2"));
    table.push((object("ToolsFilters", "f", &set(&two)), "spec.filters.a.maxItems: Invalid value: -1"));
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
        json!({ "output": { "format": "auto", "budget": { "tokens": 8000 }, "notice": false } }),
        json!({ "output": { "format": ["table", "json", "toon"], "structured": "never", "inputs": ["_format"] } }),
        json!({ "output": { "preset": "issues", "budget": { "bytes": 5, "tokens": 5 }, "algorithm": "greedy" } }),
        json!({ "output": { "strategy": "cascading", "levels": { "a": ["b", "/c/d"], "b": ["c"] } } }),
        json!({ "output": { "strategy": { "name": "cascading", "group": "/a/b", "newest": "first" } } }),
        json!({ "output": { "strategy": { "name": "size_proportional", "path": "f", "weights": { "*.lock": 0.05 } } } }),
        json!({ "output": { "strategy": { "name": "thread_level", "resolved": "r", "comments": "c" } } }),
        json!({ "output": { "strategy": { "name": "head_tail", "boost": ["^E"] } } }),
        json!({ "output": { "chunks": { "noun": "diffs", "summary": "{{len .}}" }, "toon": { "indent": 2, "delimiter": "tab" } } }),
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

/// Whether the operator would take the filter `get-issue` of a set.
fn operator_accepts(object: &Value) -> bool {
    let read = tamis_crds::read_object(object);
    let filter = read.resources.filter_of("get-issue", None).ok().map(|found| found.filter.clone());
    filter.is_some_and(|filter| compile(&filter, &CompileOptions::default()).program.is_some())
}

/// The policy is early, not stricter: what it refuses, the operator would too.
#[test]
fn the_operator_agrees_with_the_policy() {
    // What the loader forgives in files: spellings of the seed documents, and text without quotes that looks like a number.
    // In a cluster only our names are known, and kubectl has made a number of it by then.
    let forgiven = [
        ".max_items: unknown field",
        ".jsonRetain: unknown field",
        ".compact: expected",
        ".select.a: expected",
        ".exclude[0]: expected",
    ];
    let taken: Vec<_> = refused()
        .into_iter()
        .filter(|(filter, text)| operator_accepts(&in_set(filter)) != forgiven.contains(text))
        .collect();
    assert!(taken.is_empty(), "{taken:#?}");
    for object in good().iter().filter(|object| object["spec"]["filters"].get("get-issue").is_some()) {
        assert!(operator_accepts(object), "{object}");
    }
}

/// Every filter of `docs/filters/` passes.
pub(crate) async fn documented(cluster: &Cluster) -> Result<()> {
    let mut stream = String::new();
    let mut count = 0;
    for page in fs::read_dir(tamis_tests::root().join("docs/filters"))? {
        let text = fs::read_to_string(page?.path())?;
        for block in text.split("```yaml filter").skip(1) {
            let (_, block) = block.split_once('\n').context("an example")?;
            let (block, _) = block.split_once("\n```").context("an example ends")?;
            let indented: String = block.lines().map(|line| format!("      {line}\n")).collect();
            stream += &format!(
                "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: docs-{count}}}\nspec:\n  \
                 service: {{name: docs, version: \"1\"}}\n  filters:\n    get-issue:\n{indented}"
            );
            count += 1;
        }
    }
    ensure!(count > 20, "too few examples: {count}");
    cluster.kubectl(&["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f-"], Some(&stream)).await?;
    Ok(())
}
