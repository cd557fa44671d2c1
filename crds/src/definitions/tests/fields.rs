//! Every field of the Rust types is in the definitions, and nothing else is let through.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use super::super::all;
use super::super::structural::{OPEN, RULES, SERVE_ONLY};
use super::{schemas, walk};

/// Where any JSON may stand, or text or a list, which the policy on filters tells apart.
const ANY: [&str; 44] = [
    "CustomTools.spec.customTools.*.arguments.*",
    "CustomTools.spec.customTools.*.input",
    "Prompts.spec.prompts.*.result",
    "Resources.spec.resourceTemplates.*.annotations",
    "Resources.spec.resourceTemplates.*.icons",
    "Resources.spec.resources.*.annotations",
    "Resources.spec.resources.*.icons",
    "ServiceManifest.spec.graphql.overrides.*.response.filter.*.output.format",
    "ServiceManifest.spec.graphql.overrides.*.response.filter.*.patches.*.value",
    "ServiceManifest.spec.graphql.overrides.*.response.filter.*.test.value",
    "ServiceManifest.spec.graphql.overrides.*.response.filter.output.format",
    "ServiceManifest.spec.graphql.overrides.*.response.filter.patches.*.value",
    "ServiceManifest.spec.graphql.overrides.*.response.filter.test.value",
    "ServiceManifest.spec.grpc.overrides.*.response.filter.*.output.format",
    "ServiceManifest.spec.grpc.overrides.*.response.filter.*.patches.*.value",
    "ServiceManifest.spec.grpc.overrides.*.response.filter.*.test.value",
    "ServiceManifest.spec.grpc.overrides.*.response.filter.output.format",
    "ServiceManifest.spec.grpc.overrides.*.response.filter.patches.*.value",
    "ServiceManifest.spec.grpc.overrides.*.response.filter.test.value",
    "ServiceManifest.spec.http.actions.*.args.*.default",
    "ServiceManifest.spec.http.actions.*.args.*.enum.*",
    "ServiceManifest.spec.http.actions.*.request.body",
    "ServiceManifest.spec.http.actions.*.response.filter.*.output.format",
    "ServiceManifest.spec.http.actions.*.response.filter.*.patches.*.value",
    "ServiceManifest.spec.http.actions.*.response.filter.*.test.value",
    "ServiceManifest.spec.http.actions.*.response.filter.output.format",
    "ServiceManifest.spec.http.actions.*.response.filter.patches.*.value",
    "ServiceManifest.spec.http.actions.*.response.filter.test.value",
    "ServiceManifest.spec.mcp.tools.*.annotations",
    "ServiceManifest.spec.mcp.tools.*.inputSchema",
    "ServiceManifest.spec.mcp.tools.*.outputSchema",
    "ServiceManifest.spec.openapi.inline",
    "ServiceManifest.spec.openapi.overrides.*.response.filter.*.output.format",
    "ServiceManifest.spec.openapi.overrides.*.response.filter.*.patches.*.value",
    "ServiceManifest.spec.openapi.overrides.*.response.filter.*.test.value",
    "ServiceManifest.spec.openapi.overrides.*.response.filter.output.format",
    "ServiceManifest.spec.openapi.overrides.*.response.filter.patches.*.value",
    "ServiceManifest.spec.openapi.overrides.*.response.filter.test.value",
    "ToolsFilters.spec.filters.*.*.output.format",
    "ToolsFilters.spec.filters.*.*.patches.*.value",
    "ToolsFilters.spec.filters.*.*.test.value",
    "ToolsFilters.spec.filters.*.output.format",
    "ToolsFilters.spec.filters.*.patches.*.value",
    "ToolsFilters.spec.filters.*.test.value",
];

/// Every object whose fields are known keeps unknown ones and null, and so does everything that it holds: what the API
/// server dropped could be what was meant to protect.
#[test]
fn nothing_is_dropped_without_a_word() {
    let mut objects = 0;
    for (kind, schema) in schemas().into_iter().filter(|(kind, _)| kind != "GatewayConfig") {
        assert_eq!(schema[OPEN], true, "{kind}");
        walk(&schema["properties"]["spec"], &kind, &mut |path, at| {
            let Some(properties) = at["properties"].as_object() else { return };
            objects += 1;
            assert_eq!(at[OPEN], true, "{path}");
            for (name, property) in properties {
                // The key of an entry is never absent.
                let is_key = ["env.*.name", "topologySpreadConstraints.*.topologyKey"]
                    .iter()
                    .any(|key| format!("{path}.{name}").ends_with(key));
                assert_eq!(property["nullable"] == true, !is_key, "{path}.{name}");
                if let Some(values) = property.get("additionalProperties") {
                    assert_eq!(values["nullable"], true, "{path}.{name}.*");
                }
            }
        });
    }
    assert!(objects > 60, "{objects}");
}

/// What the API server does with an entry costs more the more entries there are.
#[test]
fn every_map_and_list_has_a_bound() {
    let (mut bounds, mut missing) = (0, Vec::new());
    for (kind, schema) in schemas().into_iter().filter(|(kind, _)| kind != "GatewayConfig") {
        walk(&schema["properties"]["spec"], &kind, &mut |path, at| {
            let refused = at[RULES].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["rule"] == "false"));
            for (holds, most) in [("items", "maxItems"), ("additionalProperties", "maxProperties")] {
                if at[holds].is_object() && !refused {
                    bounds += 1;
                    if at[most].as_u64().is_none_or(|most| most > 5000) {
                        missing.push(format!("{path}: {most}"));
                    }
                }
            }
        });
    }
    assert!(missing.is_empty() && bounds > 50, "{bounds}, {missing:#?}");
}

#[test]
fn nothing_unknown_is_let_through_by_accident() {
    let mut open = BTreeSet::new();
    for (kind, schema) in schemas() {
        walk(&schema, &kind, &mut |path, at| {
            // What comes later is refused, whatever it holds.
            let refused = at[RULES].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["rule"] == "false"));
            // Unknown members of an object are kept, for the policy to refuse them.
            if at[OPEN] == true && !refused && at.get("properties").is_none() {
                open.insert(path.to_owned());
            }
        });
    }
    assert_eq!(open, ANY.map(str::to_owned).into());
}

/// The source is read rather than what is derived from it: a field that is skipped there is missed by both.
#[test]
fn every_field_of_the_types_is_in_a_definition() {
    let types = types();
    assert!(types.len() > 35 && types.values().map(BTreeSet::len).sum::<usize>() > 120, "{types:?}");
    let mut seen = BTreeSet::new();
    for (crd, spec, status) in all() {
        let kind = crd.spec.names.kind;
        let (_, definition) = schemas().into_iter().find(|(known, _)| *known == kind).expect("is defined");
        for (part, schema) in [("spec", Some(spec)), ("status", status)] {
            let Some(schema) = schema else { continue };
            let at = &definition["properties"][part];
            compare(&schema, &schema, at, &format!("{kind}.{part}"), &types, &mut seen);
        }
    }
    let unseen: Vec<_> = types.keys().filter(|name| !seen.contains(*name)).collect();
    assert!(unseen.is_empty(), "in no definition: {unseen:?}");
}

/// Goes through what is derived of a type and the definition side by side.
fn compare(
    root: &Json,
    schema: &Json,
    defined: &Json,
    path: &str,
    types: &BTreeMap<String, BTreeSet<String>>,
    seen: &mut BTreeSet<String>,
) {
    if SERVE_ONLY.iter().any(|place| path.strip_prefix("ServiceManifest.spec.") == place.split('.').nth(1)) {
        // Rejected by its name, so its fields need no definition.
        assert_eq!(defined[RULES][0]["rule"], "false", "{path}");
        assert!(defined["properties"].is_null(), "{path}");
        return unfold(root, schema, seen);
    }
    let referred = |at: &Json| at["$ref"].as_str().and_then(|text| text.strip_prefix("#/$defs/")).map(str::to_owned);
    if let Some(alternatives) = schema["anyOf"].as_array() {
        // A filter has two, and ends what the API server can know.
        if let [one] = alternatives.iter().filter(|at| at["type"] != "null").collect::<Vec<_>>()[..] {
            compare(root, one, defined, path, types, seen);
        }
        // Text or a list: the objects of the list are known.
        if alternatives.iter().any(|at| at["type"] == "string") {
            for list in alternatives.iter().filter(|at| at["items"].is_object()) {
                compare(root, &list["items"], &defined["items"], &format!("{path}.*"), types, seen);
            }
        }
        return;
    }
    if let Some(name) = referred(schema) {
        let mut of_type = root["$defs"][&name].clone();
        // Any JSON is `true`.
        let Some(members) = of_type.as_object_mut() else { return };
        members.insert("title".to_owned(), name.into());
        return compare(root, &of_type, defined, path, types, seen);
    }
    let name = schema["title"].as_str().unwrap_or_default();
    if let Some(fields) = types.get(name) {
        seen.insert(name.to_owned());
        let of = |at: &Json| at["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let (derived, there): (BTreeSet<String>, BTreeSet<String>) = (of(schema), of(defined));
        assert_eq!(*fields, derived, "{name}: its source, and what is derived of it");
        assert_eq!(*fields, there, "{path}: {name}, and the definition");
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        compare(root, field, &defined["properties"][name], &format!("{path}.{name}"), types, seen);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            compare(root, &schema[key], &defined[key], &format!("{path}.*"), types, seen);
        }
    }
}

/// Notes a type and those that it is made of.
fn unfold(root: &Json, at: &Json, seen: &mut BTreeSet<String>) {
    match at {
        Json::Object(members) => {
            let name = members.get("$ref").and_then(Json::as_str).and_then(|text| text.strip_prefix("#/$defs/"));
            if let Some(name) = name.filter(|name| seen.insert((*name).to_owned())) {
                unfold(root, &root["$defs"][name], seen);
            }
            members.values().for_each(|value| unfold(root, value, seen));
        }
        Json::Array(values) => values.iter().for_each(|value| unfold(root, value, seen)),
        _ => {}
    }
}

/// The structs of the resources as the source has them: their names, and their fields as documents write them.
fn types() -> BTreeMap<String, BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/resources");
    let files = fs::read_dir(folder).expect("is there").map(|entry| entry.expect("is readable").path());
    let mut types = BTreeMap::new();
    for file in files {
        read(&fs::read_to_string(file).expect("is text"), &mut types);
    }
    types
}

fn read(source: &str, types: &mut BTreeMap<String, BTreeSet<String>>) {
    let (mut derived, mut camel, mut renamed) = (false, false, None);
    let mut open: Option<String> = None;
    for line in source.lines() {
        if let Some(name) = &open {
            if line == "}" {
                open = None;
            } else if let Some((_, rest)) = line.split_once("#[serde(rename = \"") {
                renamed = rest.split('"').next().map(str::to_owned);
            } else if let Some((field, _)) = line.strip_prefix("    pub ").and_then(|line| line.split_once(':')) {
                let written =
                    renamed.take().unwrap_or_else(|| if camel { camel_case(field) } else { field.to_owned() });
                types.entry(name.clone()).or_default().insert(written);
            }
        } else if line.starts_with("#[derive(") {
            (derived, camel) = (line.contains("JsonSchema"), false);
        } else if line.starts_with("#[serde(") {
            camel = line.contains("rename_all = \"camelCase\"");
        } else if let Some(name) = line.strip_prefix("pub struct ").and_then(|line| line.strip_suffix(" {")) {
            open = derived.then(|| name.to_owned());
            derived = false;
        }
    }
}

fn camel_case(field: &str) -> String {
    let mut parts = field.split('_');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(1);
        name += &first.to_uppercase();
        name += rest;
    }
    name
}

#[test]
fn fields_are_read_as_documents_write_them() {
    let source = "#[derive(JsonSchema)]\n#[serde(rename_all = \"camelCase\")]\npub struct A {\n    /// One.\n    pub one_two: u8,\n    \
                  #[serde(rename = \"type\")]\n    pub kind: u8,\n}\n#[derive(Debug)]\npub struct B {\n    pub b: u8,\n}\n\
                  #[derive(JsonSchema)]\npub struct C {\n    pub c_d: u8,\n}\n";
    let mut types = BTreeMap::new();
    read(source, &mut types);
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(types, [("A".to_owned(), of(&["oneTwo", "type"])), ("C".to_owned(), of(&["c_d"]))].into());
}
