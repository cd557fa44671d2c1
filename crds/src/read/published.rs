//! The schema for editors: all kinds in one, and the formats of the seed documents.

use serde_json::{Value as Json, json};

use super::schema::{
    CONFIGURATION_PLAN, CUSTOM_TOOLS, EXPOSITION, GATEWAY_GROUP, PROMPTS, RESOURCES, SERVICE_MANIFEST, SpecSchema,
    TOOLS_FILTERS,
};
use super::spelling::ALIASES;
use crate::resources::{API_VERSION, RESHAPR_API_VERSION};

/// Returns a JSON Schema (2020-12) of every document that files may hold, for editors: the kinds, those of reShapr
/// without `metadata` and `spec`, and kimbap's manifests.
#[must_use]
pub fn document_schema() -> Json {
    let kinds: [(&str, &SpecSchema); 8] = [
        ("ServiceManifest", &SERVICE_MANIFEST),
        ("ToolsFilters", &TOOLS_FILTERS),
        ("Exposition", &EXPOSITION),
        ("GatewayGroup", &GATEWAY_GROUP),
        ("CustomTools", &CUSTOM_TOOLS),
        ("ConfigurationPlan", &CONFIGURATION_PLAN),
        ("Prompts", &PROMPTS),
        ("Resources", &RESOURCES),
    ];
    let mut definitions = serde_json::Map::new();
    let mut documents = Vec::new();
    for (kind, schema) in kinds {
        let mut spec = schema.0.clone();
        let members = spec.as_object_mut().expect("the schema of a struct is an object");
        members.remove("$schema");
        // A name stands for one Rust type, whichever kind uses it.
        if let Some(Json::Object(shared)) = members.remove("$defs") {
            definitions.extend(shared);
        }
        let description = members.get("description").cloned().unwrap_or_default();
        match kind {
            "ToolsFilters" => documents.push(flat_filters(&spec)),
            "CustomTools" | "Prompts" | "Resources" => documents.push(flat(&spec, &[kind])),
            _ => {}
        }
        let name = format!("{kind}Spec");
        documents.push(json!({
            "type": "object",
            "description": description,
            "properties": {
                "apiVersion": { "enum": [API_VERSION, RESHAPR_API_VERSION] },
                "kind": { "const": kind },
                "metadata": { "$ref": "#/$defs/ObjectMeta" },
                "spec": { "$ref": format!("#/$defs/{name}") },
                "status": true,
            },
            "required": ["apiVersion", "kind", "metadata", "spec"],
            "additionalProperties": false,
        }));
        definitions.insert(name, spec);
    }
    definitions.insert("ObjectMeta".to_owned(), object_meta());
    documents.push(kimbap());
    definitions.extend(seed_spellings(&definitions));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Documents of tamis.dev/v1alpha1",
        "anyOf": documents,
        "$defs": definitions,
    })
}

/// Returns the schema of the seed documents' flat format: the fields of `spec` at the top level, without `metadata`.
fn flat(spec: &Json, kinds: &[&str]) -> Json {
    let mut document = spec.clone();
    document["properties"]["apiVersion"] = json!({ "enum": [API_VERSION, RESHAPR_API_VERSION] });
    document["properties"]["kind"] = json!({ "enum": kinds });
    if let Some(required) = document["required"].as_array_mut() {
        required.extend(["apiVersion".into(), "kind".into()]);
    }
    document
}

/// Returns the flat format of ToolsFilters, whose filters have further spellings.
fn flat_filters(spec: &Json) -> Json {
    let mut document = flat(spec, &["ToolsFilters", "ToolsOutputFilters"]);
    document["properties"]["filters"] =
        json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/Seed.ToolFilter" } });
    document
}

/// Returns the schema of kimbap's manifest, a format of its own.
fn kimbap() -> Json {
    let text = json!({ "type": "string" });
    let advice = json!({ "description": "Has no effect here." });
    let action =
        |name: &str| json!({ "type": "object", "additionalProperties": { "$ref": format!("#/$defs/Seed.{name}") } });
    // In kimbap's form the words of a command line are one text.
    let program =
        json!({ "type": "object", "additionalProperties": { "type": "object", "properties": { "command": text } } });
    let script =
        json!({ "type": "object", "additionalProperties": { "type": "object", "required": ["inline_script"] } });
    let adapter = |name: &str, required: &str, actions: Json| json!({ "properties": { "adapter": { "const": name }, "actions": actions }, "required": ["adapter", required] });
    json!({
        "type": "object",
        "description": "What can be called, in kimbap's form.",
        "properties": {
            "name": text,
            "version": text,
            "description": text,
            "adapter": { "enum": ["http", "command", "applescript"] },
            "base_url": text,
            "command_spec": {
                "type": "object",
                "properties": {
                    "executable": text,
                    "json_flag": text,
                    "timeout": text,
                    "env_inject": { "type": "object", "additionalProperties": text },
                    "env_passthrough": { "type": "array", "items": text },
                    "working_dir": text,
                    "merge_stderr": { "const": false },
                    "success_codes": { "type": "array", "items": { "type": "integer" } },
                },
                "required": ["executable"],
                "additionalProperties": false,
            },
            "target_app": text,
            "auth": { "$ref": "#/$defs/Seed.AuthSpec" },
            "actions": { "type": "object" },
            "aliases": advice,
            "gotchas": advice,
            "triggers": advice,
            "recipes": advice,
        },
        "required": ["name", "version", "actions"],
        "anyOf": [
            { "properties": { "adapter": { "const": "http" }, "actions": action("ActionSpec") }, "required": ["base_url"] },
            adapter("command", "command_spec", program),
            adapter("applescript", "target_app", script),
        ],
        "additionalProperties": false,
    })
}

/// Returns a copy of every definition under `Seed.`, with snake case and the seed documents' other names in addition
/// to Tamis' names.
fn seed_spellings(definitions: &serde_json::Map<String, Json>) -> serde_json::Map<String, Json> {
    let mut seeds = serde_json::Map::new();
    for (name, definition) in definitions {
        let mut seed = definition.clone();
        respell(&mut seed);
        let members = seed.get_mut("properties").and_then(Json::as_object_mut);
        if let Some(members) = members {
            let aliases = ALIASES.iter().filter(|(of, _, _)| of == name);
            let more: Vec<_> = aliases.filter_map(|(_, from, to)| Some((*from, members.get(*to)?.clone()))).collect();
            for (alias, member) in more {
                members.insert(alias.to_owned(), member.clone());
                members.insert(snake_case(alias), member);
            }
            let beside = |member: &str| json!({ "$ref": format!("#/$defs/Seed.FilterSpec/properties/{member}") });
            match name.as_str() {
                // `compact: true` is reShapr's name for dropping empty values.
                "FilterSpec" => {
                    let template = members.get("compact").cloned().unwrap_or_default();
                    members.insert("compact".into(), json!({ "anyOf": [{ "type": "boolean" }, template] }));
                    for key in ["convertToToon", "convert_to_toon"] {
                        members.insert(key.into(), json!({ "type": "boolean" }));
                    }
                }
                "ResponseSpec" => {
                    for (key, member) in
                        [("compact", "compact"), ("text", "text"), ("textFilter", "text"), ("text_filter", "text")]
                    {
                        members.insert(key.into(), beside(member));
                    }
                }
                "ActionSpec" => {
                    let named = json!({
                        "type": "array",
                        "items": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
                    });
                    let map = members.get("args").cloned().unwrap_or_default();
                    members.insert("args".into(), json!({ "anyOf": [map, named] }));
                }
                "AuthSpec" => {
                    for key in ["credentialRef", "credential_ref"] {
                        members.insert(key.into(), json!({ "type": "string" }));
                    }
                }
                _ => {}
            }
        }
        seeds.insert(format!("Seed.{name}"), seed);
    }
    seeds
}

/// Adds the snake case of every member, and refers to definitions that have it too.
fn respell(schema: &mut Json) {
    match schema {
        Json::Array(items) => items.iter_mut().for_each(respell),
        Json::Object(members) => {
            if let Some(Json::String(reference)) = members.get_mut("$ref") {
                *reference = reference.replace("#/$defs/", "#/$defs/Seed.");
            }
            members.values_mut().for_each(respell);
            let Some(Json::Object(properties)) = members.get_mut("properties") else { return };
            let snake: Vec<_> = properties.iter().map(|(key, at)| (snake_case(key), at.clone())).collect();
            let two: Vec<String> =
                properties.keys().filter(|key| snake_case(key) != **key).map(ToString::to_string).collect();
            properties.extend(snake);
            // A member that has two spellings cannot be required in one of them.
            if let Some(Json::Array(required)) = members.get_mut("required") {
                required.retain(|key| !two.iter().any(|two| key == two));
            }
        }
        _ => {}
    }
}

/// Converts `maxItems` to `max_items`.
fn snake_case(key: &str) -> String {
    let mut snake = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn object_meta() -> Json {
    let text = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "description": "The object's name; what else Kubernetes writes here is left alone.",
        "properties": {
            "name": { "type": "string", "description": "Lower-case letters, digits, `-` and `.`.", "maxLength": 253 },
            "namespace": { "type": "string", "description": "`default` where absent.", "maxLength": 63 },
            "labels": text,
            "annotations": text,
        },
        "required": ["name"],
    })
}
