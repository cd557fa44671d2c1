//! The verdicts of an established validator, on random schemas and documents.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tamis_schema::{Document, Limits, Patterns, compile};

fn instance() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        (-3..4_i64).prop_map(Into::into),
        prop_oneof![Just(1.0), Just(1.5), Just(0.25)].prop_map(|n| json!(n)),
        "[abé]{0,3}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn keyword(inner: BoxedStrategy<Value>) -> impl Strategy<Value = (String, Value)> {
    let schemas = prop::collection::vec(inner.clone(), 1..3).prop_map(Value::from);
    let named = prop::collection::btree_map("[abc]", inner.clone(), 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    let by_pattern =
        prop::collection::btree_map(prop_oneof![Just("a".to_owned()), Just("^[bc]$".to_owned())], inner.clone(), 0..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()));
    let names = prop::collection::btree_set("[abc]", 0..3).prop_map(|names| json!(names));
    let dependent = prop::collection::btree_map("[abc]", names.clone(), 0..3).prop_map(|members| json!(members));
    let small = 0..4_u64;
    let kind = prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
    let of =
        |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |value| (name.to_owned(), value)).boxed();
    prop_oneof![
        of("type", kind.clone().prop_map(Into::into).boxed()),
        of("type", prop::collection::btree_set(kind, 1..3).prop_map(|kinds| json!(kinds)).boxed()),
        of("enum", prop::collection::vec(instance(), 1..4).prop_map(Into::into).boxed()),
        of("const", instance().boxed()),
        of("minimum", (-2..3_i64).prop_map(Into::into).boxed()),
        of("exclusiveMaximum", (-2..3_i64).prop_map(Into::into).boxed()),
        of("multipleOf", prop_oneof![Just(json!(2)), Just(json!(0.5))].boxed()),
        of("minLength", small.clone().prop_map(Into::into).boxed()),
        of("maxLength", small.clone().prop_map(Into::into).boxed()),
        of("pattern", prop_oneof![Just("^a"), Just("b$"), Just("^[ab]*$"), Just("\\w")].prop_map(Into::into).boxed()),
        of("minItems", small.clone().prop_map(Into::into).boxed()),
        of("maxItems", small.clone().prop_map(Into::into).boxed()),
        of("uniqueItems", any::<bool>().prop_map(Into::into).boxed()),
        of("items", inner.clone()),
        of("prefixItems", schemas.clone().boxed()),
        of("contains", inner.clone()),
        of("minContains", small.clone().prop_map(Into::into).boxed()),
        of("maxContains", small.clone().prop_map(Into::into).boxed()),
        of("unevaluatedItems", inner.clone()),
        of("properties", named.clone().boxed()),
        of("patternProperties", by_pattern.boxed()),
        of("additionalProperties", inner.clone()),
        of("propertyNames", inner.clone()),
        of("required", names.boxed()),
        of("minProperties", small.clone().prop_map(Into::into).boxed()),
        of("maxProperties", small.prop_map(Into::into).boxed()),
        of("dependentRequired", dependent.boxed()),
        of("dependentSchemas", named.boxed()),
        of("unevaluatedProperties", inner.clone()),
        of("allOf", schemas.clone().boxed()),
        of("anyOf", schemas.clone().boxed()),
        of("oneOf", schemas.boxed()),
        of("not", inner.clone()),
        of("if", inner.clone()),
        of("then", inner.clone()),
        of("else", inner),
        of("$ref", prop_oneof![Just("#/$defs/x"), Just("#/$defs/y")].prop_map(Into::into).boxed()),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => Just(json!({})), 1 => any::<bool>().prop_map(Value::from)];
    let inner = leaf.prop_recursive(3, 40, 4, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 0..4)
            .prop_map(|keywords| Value::Object(keywords.into_iter().collect::<Map<_, _>>()))
    });
    (inner, instance(), instance()).prop_map(|(mut schema, x, y)| {
        if let Some(schema) = schema.as_object_mut() {
            schema.insert(
                "$defs".to_owned(),
                json!({"x": {"const": x}, "y": {"items": {"$ref": "#"}, "not": {"const": y}}}),
            );
        }
        schema
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn agrees_with_an_established_validator(schema in schema(), instances in prop::collection::vec(instance(), 6)) {
        let Ok(oracle) = jsonschema::options().offline().build(&schema) else { return Ok(()) };
        let ours = match compile(&schema.to_string(), &mut Patterns::default()) {
            Ok(ours) => ours,
            // It takes schemas that refer to themselves for ever.
            Err(problems) if problems[0].message.contains("refers to itself") => return Ok(()),
            Err(problems) => return Err(TestCaseError::fail(format!("{problems:?}"))),
        };
        for instance in instances {
            let text = instance.to_string();
            let document = Document::parse(text.as_str(), Limits { bytes: 1 << 16, depth: 64 }).unwrap();
            let verdict = ours.check(&document);
            prop_assert_eq!(verdict.is_ok(), oracle.is_valid(&instance), "{} {:?}", instance, verdict);
        }
    }
}

#[test]
fn agrees_in_the_older_dialects() {
    for draft in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
    ] {
        let schemas = [
            json!({"items": [{"type": "string"}], "additionalItems": false}),
            json!({"items": [{"type": "string"}], "additionalItems": {"type": "integer"}}),
            json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!({"definitions": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/definitions/a", "maxLength": 1}}}),
            json!({"properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}),
            json!({"properties": {"a": {"exclusiveMinimum": 1}}}),
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            json!({"contains": {"const": 1}}),
        ];
        for mut schema in schemas {
            schema["$schema"] = draft.into();
            let Ok(oracle) = jsonschema::options().offline().build(&schema) else { continue };
            let ours = compile(&schema.to_string(), &mut Patterns::default()).unwrap();
            for text in [
                "[]",
                "[1]",
                r#"["a"]"#,
                r#"["a",1]"#,
                r#"["a","b"]"#,
                "{}",
                r#"{"a":1}"#,
                r#"{"a":2}"#,
                r#"{"a":"xy"}"#,
                r#"{"a":1,"b":1}"#,
                r#"{"c":1}"#,
                r#"{"c":1,"d":1}"#,
                "1",
            ] {
                let instance: Value = serde_json::from_str(text).unwrap();
                let verdict = ours.check(&Document::parse(text, Limits::SCHEMA).unwrap());
                assert_eq!(verdict.is_ok(), oracle.is_valid(&instance), "{schema} {text}");
            }
        }
    }
}
