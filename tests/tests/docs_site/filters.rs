//! `docs/reference/filters.md`: every field of a filter, from the JSON Schema that `tamis schema` prints. A definition for the API
//! server cannot say it: a filter is an object or a list.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::markdown::cell;
use crate::same_as_committed;

/// The types, and what their objects are called.
const TYPES: &[(&str, &str)] = &[
    ("FilterSpec", "A filter"),
    ("TestSpec", "test"),
    ("PatchSpec", "An operation of patches"),
    ("TextSpec", "text"),
    ("OutputSpec", "output"),
    ("BudgetSpec", "output.budget"),
    ("StrategyFields", "output.strategy"),
    ("ChunksSpec", "output.chunks"),
    ("ToonSpec", "output.toon"),
    ("CompactSpec", "compact"),
];

#[test]
fn every_field_of_a_filter_has_its_reference() {
    let schema = tamis_crds::document_schema();
    let mut page = "# Filters, field by field\n\n\
                    <!-- Generated: change the comments in engine/src, then run TAMIS_UPDATE=1 cargo test -p tamis-tests \
                    --test docs_site -->\n\n\
                    A tool's entry in `filters` is one filter, or a list of them, its branches, of which the first whose `test` holds \
                    applies. [Filters](../filters/README.md) teaches them by examples.\n"
        .to_owned();
    for (name, title) in TYPES {
        let fields = schema["$defs"][*name]["properties"].as_object().expect("a type has fields");
        let required = schema["$defs"][*name]["required"].as_array();
        let _ = write!(page, "\n## {title}\n\n| field | type | |\n|---|---|---|\n");
        for (field, at) in fields {
            let known = |names: &Vec<Json>| names.iter().any(|known| known == field);
            let must = if required.is_some_and(known) { ", required" } else { "" };
            let said = cell(at["description"].as_str().unwrap_or_default());
            let _ = writeln!(page, "| `{field}`{must} | {} | {said} |", cell(&kind_of(&schema, at)));
        }
    }
    // A type that is new and not listed above would be linked to nothing.
    assert!(!page.contains("Spec"), "{page}");
    same_as_committed("docs/reference/filters.md", &page);
}

fn kind_of(schema: &Json, at: &Json) -> String {
    let reference = |at: &Json| at["$ref"].as_str().and_then(|text| text.strip_prefix("#/$defs/")).map(str::to_owned);
    if let Some(name) = reference(at) {
        return named(schema, &name);
    }
    if let Some(values) = at["anyOf"].as_array() {
        let values = values.iter().filter(|value| value["type"] != "null");
        let values: Vec<String> = values.map(|value| kind_of(schema, value)).collect();
        return values.join(" or ");
    }
    let types = at["type"].as_array().map_or_else(|| vec![&at["type"]], |types| types.iter().collect());
    let types: Vec<String> = types
        .iter()
        .filter_map(|kind| kind.as_str())
        .filter(|kind| *kind != "null")
        .map(|kind| match kind {
            "array" => format!("list: {}", kind_of(schema, &at["items"])),
            "object" => format!("map: {}", kind_of(schema, &at["additionalProperties"])),
            "string" => "text".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    if types.is_empty() { "any".to_owned() } else { types.join(" or ") }
}

fn named(schema: &Json, name: &str) -> String {
    match TYPES.iter().find(|(known, _)| *known == name) {
        Some((_, title)) => {
            let anchor: String = title.to_lowercase().replace(' ', "-").replace('.', "");
            format!("[object](#{anchor})")
        }
        None if name == "JsonValue" => "any".to_owned(),
        // A type of alternatives is none of its own.
        None if schema["$defs"][name]["anyOf"].is_array() => kind_of(schema, &schema["$defs"][name]),
        None => name.to_owned(),
    }
}
