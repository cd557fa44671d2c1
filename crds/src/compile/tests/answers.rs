//! How much of an answer an exposition shows, how it counts tokens, and which inputs it advertises.

use serde_json::{Value as Json, json};
use tamis_engine::{Enforcement, ReservedInput, ToolKind};

use super::world::{World, served};
use crate::compile::expose::conditions;
use crate::parse_document;

#[test]
fn the_fields_reach_the_document() {
    // Fields of the exposition, and what the document then has: version, tokens, inputs and limits of answers.
    let table = [
        ("", json!([1, null, null, null])),
        ("tokens: {}, output: {}", json!([1, null, null, null])),
        ("tokens: {tokenizer: o200k_base, factor: 1}", json!([1, null, null, null])),
        ("tokens: {tokenizer: cl100k_base}", json!([2, {"tokenizer": "cl100k_base", "factor": 1.0}, null, null])),
        ("tokens: {factor: 1.35}", json!([2, {"tokenizer": "o200k_base", "factor": 1.35}, null, null])),
        ("limits: {output: {bytes: 1}}", json!([2, null, null, {"bytes": 1}])),
        ("limits: {output: {tokens: 8000}, timeout: 5s}", json!([2, null, null, {"tokens": 8000}])),
        ("output: {inputs: []}", json!([2, null, [], null])),
        ("output: {inputs: [limit, _format, offset]}", json!([2, null, ["limit", "_format", "offset"], null])),
    ];
    for (fields, expected) in table {
        let mut world = World::good();
        if !fields.is_empty() {
            world.add("Exposition", fields);
        }
        let (document, service) = served(&world.compile(None));
        let json = serde_json::to_value(&*document).expect("is JSON");
        let found: Json = json!([json["formatVersion"], json["tokens"], json["inputs"], json["limits"]["output"]]);
        assert_eq!(found, expected, "{fields}");
        assert_eq!(service.format_version, 1, "{fields}");
    }
}

#[test]
fn a_filter_that_needs_a_newer_gateway_raises_the_version() {
    for (output, version) in [("{format: json, budget: {bytes: 9}}", 1), ("{format: toon}", 2)] {
        let mut world = World::good();
        world.edit("ToolsFilters", "retain: [/a]", &format!("retain: [/a], output: {output}"));
        assert_eq!(served(&world.compile(None)).0.format_version, version, "{output}");
    }
}

#[test]
fn a_mistake_is_named_with_its_remedy() {
    let table = [
        ("tokens: {tokenizer: claude}", "spec.tokens.tokenizer: unsupported value `claude`"),
        ("tokens: {factor: 0}", "spec.tokens.factor: 0 is not a number from 0.01 to 100; write one, or remove"),
        ("tokens: {factor: 100.5}", "spec.tokens.factor: 100.5 is not a number from 0.01 to 100"),
        ("tokens: {factor: two}", "spec.tokens.factor: expected a number"),
        ("tokens: {faktor: 2}", "spec.tokens.faktor: unknown field"),
        ("limits: {output: {}}", "spec.limits.output: sets no limit; set `bytes` or `tokens`"),
        ("limits: {output: {tokens: 0}}", "spec.limits.output.tokens: 0 allows no answer; set a larger number"),
        ("limits: {output: {bytes: -1}}", "spec.limits.output.bytes: -1 is out of range"),
        (
            "output: {inputs: [_tokens]}",
            "spec.output.inputs[0]: unsupported value `_tokens`; write one of _output_mode, _budget, _budget_tokens, \
             _format, chunk, offset, limit",
        ),
        ("output: {inputs: [chunk, chunk]}", "spec.output.inputs[1]: `chunk` occurs twice; remove the duplicate"),
        ("output: {inputs: [offset]}", "spec.output.inputs: has `offset` without `limit`; add `limit`, or remove"),
        ("output: {inputs: [limit]}", "spec.output.inputs: has `limit` without `offset`; add `offset`, or remove"),
        ("output: {format: toon}", "spec.output.format: unknown field"),
    ];
    for (field, expected) in table {
        let text = format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: a}}\nspec:\n  service: {{name: s, \
             version: '1'}}\n  {field}\n"
        );
        let said = parse_document("a.yaml", text.as_bytes()).diagnostics;
        let said: Vec<_> = said.iter().filter(|finding| finding.is_error()).map(ToString::to_string).collect();
        assert!(matches!(&said[..], [one] if one.contains(expected)), "{field}\n{said:#?}");
    }
}

/// A verdict must not be shared between tools that the engine tells apart.
#[test]
fn a_filter_is_judged_as_a_gateway_compiles_it() {
    let of = |tool: &str, inputs: Option<&[ReservedInput]>| {
        let options = conditions(tool, Enforcement::Enforced, None, inputs).options();
        (options.tool, options.format_input, options.enforcement)
    };
    let enforced = Enforcement::Enforced;
    assert_eq!(of("get", None), (ToolKind::Other, false, enforced));
    assert_eq!(of("gh__get_issues", Some(&[])), (ToolKind::Items, false, enforced));
    let inputs = [ReservedInput::Chunk, ReservedInput::Format];
    assert_eq!(of("get_job_logs", Some(&inputs[..1])), (ToolKind::Logs, false, enforced));
    assert_eq!(of("get_job_logs", Some(&inputs)), (ToolKind::Logs, true, enforced));
    let distinct = ["get", "get_issues", "get_job_logs"]
        .iter()
        .flat_map(|tool| [None, Some(&inputs[..])].map(|inputs| conditions(tool, enforced, None, inputs)))
        .collect::<std::collections::HashSet<_>>();
    assert_eq!(distinct.len(), 6);
}
