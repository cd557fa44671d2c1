mod fields;

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::structural::{OPEN, RULES, structural};
use super::{PodKey, ServiceAccount, custom_resource_definitions, explain, policies, rules};
use crate::resources::KINDS;
use crate::yaml::{Entry, Node, Resolved, Value};

/// The schema of every kind, by kind.
fn schemas() -> Vec<(String, Json)> {
    let of = |crd: Json| {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        (kind, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
    };
    custom_resource_definitions().into_iter().map(of).collect()
}

/// Calls `each` for every schema below and including this one, with its path.
fn walk(schema: &Json, path: &str, each: &mut impl FnMut(&str, &Json)) {
    each(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), each);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(held) = schema.get(key) {
            walk(held, &format!("{path}.*"), each);
        }
    }
}

#[test]
fn every_kind_has_a_definition() {
    let defined: BTreeSet<String> = schemas().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(defined, KINDS.iter().map(|(kind, _)| (*kind).to_owned()).collect());
}

#[test]
fn every_field_is_described() {
    for (kind, schema) in schemas() {
        walk(&schema, &kind, &mut |path, at| {
            for (name, property) in at["properties"].as_object().into_iter().flatten() {
                let described = property["description"].as_str().is_some_and(|text| !text.is_empty());
                // The API server describes metadata itself.
                assert!(described || path == kind && name == "metadata", "{path}.{name} has no description");
            }
        });
    }
}

#[test]
fn schemas_are_structural_and_set_no_default() {
    for (kind, schema) in schemas() {
        walk(&schema, &kind, &mut |path, at| {
            for (key, value) in at.as_object().unwrap() {
                // The one that changes nothing, see `definition`.
                if key == "default" && path == format!("{kind}.spec") {
                    assert_eq!(*value, json!({}), "{path}");
                    continue;
                }
                if key == "default" && path == format!("{kind}.status") {
                    assert_eq!(*value, json!({ "observedGeneration": -1 }), "{path}");
                    continue;
                }
                // A document is required, and a field of any type is not visible to rules.
                if key == "oneOf" && path == "ServiceManifest.spec.openapi" {
                    assert_eq!(*value, json!([{ "required": ["inline"] }, { "required": ["configMapRef"] }]));
                    continue;
                }
                let foreign = ["default", "not", "anyOf", "oneOf", "allOf", "$ref", "$defs", "const", "title"];
                assert!(!foreign.contains(&key.as_str()) && !key.starts_with("x-tamis"), "{path} has {key}");
            }
            let open = at[OPEN] == true || at["x-kubernetes-int-or-string"] == true;
            assert!(open || at["type"].is_string(), "{path} has no type: {at}");
            assert_ne!(at["additionalProperties"], false, "{path}");
            if let Some(format) = at["format"].as_str() {
                assert!(["int32", "int64", "date-time"].contains(&format), "{path} has format {format}");
            }
        });
    }
}

#[test]
fn fields_of_later_work_are_refused_by_name() {
    let mut refused = BTreeSet::new();
    for (kind, schema) in schemas() {
        walk(&schema, &kind, &mut |path, at| {
            // In filters the policy `tamis-filters` refuses them.
            let said = at["description"].as_str().is_some_and(|text| text.starts_with("Not implemented yet"))
                && !path.contains(".output.");
            let field = path.rsplit('.').next().unwrap();
            let rule = json!({ "rule": "false", "message": format!("`{field}` is not implemented yet; remove it") });
            let refuses = at[RULES].as_array().is_some_and(|rules| rules.contains(&rule));
            assert_eq!(said, refuses, "{path}");
            if refuses {
                refused.insert(path.to_owned());
            }
        });
    }
    let some = ["ServiceManifest.spec.llm", "Exposition.spec.access.jwt", "GatewayGroup.spec.commands.allow"];
    assert!(some.iter().all(|path| refused.contains(*path)), "{refused:?}");
}

#[test]
fn whatever_is_added_has_its_place() {
    let mark = |(place, _): &(&'static str, Json)| (*place, json!({ "x-kubernetes-mark": place }));
    let additions: Vec<_> = [rules::additions(), explain::additions()].concat().iter().map(mark).collect();
    let mut missing: BTreeSet<&str> = additions.iter().map(|(place, _)| *place).collect();
    // Every type stands alone once: a field that has another field's type shows only the marks of its own.
    let mut schemas: Vec<Json> = super::all().iter().map(|(_, spec, _)| spec.clone()).collect();
    let named: Vec<Json> = schemas
        .iter()
        .flat_map(|schema| schema["$defs"].as_object().into_iter().flatten().map(move |(name, at)| (schema, name, at)))
        .map(|(schema, name, at)| {
            let mut alone = if at.is_object() { at.clone() } else { json!({}) };
            alone["title"] = name.as_str().into();
            alone["$defs"] = schema["$defs"].clone();
            alone
        })
        .collect();
    schemas.extend(named);
    for schema in &schemas {
        walk(&structural(schema, &additions), "", &mut |_, at| {
            missing.remove(at["x-kubernetes-mark"].as_str().unwrap_or_default());
        });
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn a_schema_becomes_structural() {
    let table = [
        (json!(true), json!({ OPEN: true })),
        (json!({ "type": ["string", "null"], "default": "x" }), json!({ "type": "string" })),
        (
            json!({ "type": "integer", "format": "uint32", "minimum": 0 }),
            json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32 }),
        ),
        (json!({ "type": ["number", "null"], "format": "double" }), json!({ "type": "number" })),
        (
            json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/S" }],
                "$defs": { "S": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] } } }),
            json!({ OPEN: true, "properties": { "a": { "type": "string" } } }),
        ),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
            json!({ OPEN: true, "items": { "type": "string" } }),
        ),
        (
            json!({ "type": ["string", "integer"], "x-kubernetes-int-or-string": true }),
            json!({ "x-kubernetes-int-or-string": true }),
        ),
        (
            json!({ "anyOf": [
                { "type": "object", "properties": { "a": { "type": "string" } } },
                { "type": "array", "items": { "type": "object" } },
            ] }),
            json!({ OPEN: true, "properties": { "a": { "type": "string" } }, "items": { "type": "object" } }),
        ),
        (
            json!({ "description": "It\nis [`Shared`].", "$ref": "#/$defs/S", "$defs": { "S": { "type": "boolean", "description": "S" } } }),
            json!({ "type": "boolean", "description": "It is `Shared`." }),
        ),
        (
            json!({
                "description": "Which.",
                "anyOf": [{ "oneOf": [{ "const": "A", "description": "One." }] }, { "type": "null" }],
            }),
            json!({ "description": "Which.\n- `A`: One.", "type": "string", "enum": ["A"] }),
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false }),
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
        ),
    ];
    for (schema, expected) in table {
        assert_eq!(structural(&schema, &[]), expected, "{schema}");
    }
}

#[test]
fn the_operators_account_is_a_name() {
    let account = |text: &str| text.parse::<ServiceAccount>();
    assert_eq!(ServiceAccount::default().user(), "system:serviceaccount:tamis-system:tamis-operator");
    assert_eq!(account(&ServiceAccount::default().to_string()), Ok(ServiceAccount::default()));
    assert_eq!(account("platform/tamis").unwrap().user(), "system:serviceaccount:platform:tamis");
    for text in ["", "tamis", "/", "a/", "/a", "a/b/c", "a/b'", "a/B", "a/b c"] {
        assert!(account(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_key_of_a_pods_metadata_is_a_key() {
    for text in ["example.com/", "example.com/team", "team", "a_b.C-1/x"] {
        assert_eq!(text.parse::<PodKey>().unwrap().as_str(), text);
    }
    let long = "a".repeat(318);
    for text in ["", "/", "/a", "a b", "a'", "a\"", "a\n", "a]", long.as_str()] {
        assert!(text.parse::<PodKey>().is_err(), "{text:?}");
    }
}

#[test]
fn yaml_says_what_the_objects_say() {
    let mut documents = custom_resource_definitions();
    documents.extend(policies::policies(&[ServiceAccount::default()], &[]));
    documents.push(json!({
        "texts": ["yes", "1.0", "~", "null", "0x1", "a: b", "# no", "", " x ", "two\nlines\n", "\"q\"", "-", "on"],
        "others": [1, -1, 1.5, true, null, [], {}],
    }));
    let read = crate::yaml::parse(&"stream".into(), super::yaml(&documents).as_bytes()).unwrap();
    assert_eq!(read.len(), documents.len());
    for (read, document) in read.iter().zip(&documents) {
        assert_eq!(to_json(read), *document);
    }
}

/// The tree as JSON. No scalar of it may be another thing to kubectl, which reads YAML 1.1.
fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(entries) => {
            let member = |entry: &Entry| {
                assert!(!entry.boolean_for_kubectl, "{}", entry.key);
                (entry.key.to_string(), to_json(&entry.value))
            };
            Json::Object(entries.iter().map(member).collect())
        }
        Value::Scalar(scalar) => {
            assert_eq!(scalar.kubectl_reads(), None, "{scalar:?}");
            match &scalar.resolved {
                Resolved::Text => scalar.source.as_ref().into(),
                Resolved::Number(digits) => serde_json::from_str(digits).unwrap(),
                Resolved::Bool(value) => (*value).into(),
                Resolved::Null => Json::Null,
                Resolved::NotJson => panic!("{scalar:?}"),
            }
        }
    }
}
