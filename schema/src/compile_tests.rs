use serde_json::json;

use super::*;

fn problems(schema: &serde_json::Value) -> String {
    match compile(&schema.to_string(), &mut Patterns::default()) {
        Ok(_) => String::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn a_problem_names_the_place_and_the_remedy() {
    let seven = "http://json-schema.org/draft-07/schema#";
    for (schema, expected) in [
        (json!({"properties": {"a": {"type": "sting"}}}), "/properties/a/type: is not a type, use string"),
        (json!({"properties": {"a": 1}}), "/properties/a: is not a schema, write an object"),
        (json!({"properties": []}), "/properties: must be an object"),
        (json!({"required": [1]}), "/required: must be a list of names"),
        (json!({"minLength": -1}), "/minLength: must be a whole number"),
        (json!({"anyOf": []}), "/anyOf: must be a list of one schema or more"),
        (json!({"allOf": [{}, {"enum": 1}]}), "/allOf/1/enum: must be a list of values"),
        (json!({"items": [{}]}), "/items: is a list, write `prefixItems`"),
        (json!({"multipleOf": 0}), "/multipleOf: must be above 0"),
        (json!({"$ref": "#/$defs/x"}), "/$ref: `#/$defs/x` leads nowhere"),
        (json!({"$ref": "https://example.com/x.json"}), "/$ref: `https://example.com/x.json` is another document"),
        (json!({"properties": {"a": {"$id": "x.json"}}}), "/properties/a/$id: `x.json` makes a document of its own"),
        (json!({"$schema": "https://example.com/mine"}), "`$schema` names a dialect that is not known"),
        (json!({"pattern": "("}), "/pattern: is not a regular expression"),
        (
            json!({"items": {"not": {"pattern": "(a+)+\\1"}}}),
            "/items/not/pattern: is not a regular expression that can be searched in linear time",
        ),
        (json!({"pattern": "^(?=.*[a-z])x"}), "without look-around"),
        (json!({"patternProperties": {"(?<!x)y": {}}}), "/patternProperties/(?<!x)y: is not a regular expression that"),
        (json!({"pattern": "[01]*1[01]{15000}x"}), "/pattern: is larger than 256 kB compiled, use smaller"),
        (json!({"pattern": "x".repeat(5000)}), "/pattern: is longer than 4096 bytes"),
        (json!({"$ref": "#"}), "refers to itself without going deeper"),
        (json!({"anyOf": [{"not": {"$ref": "#"}}]}), "refers to itself without going deeper"),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
            "refers to itself",
        ),
        (json!({"dependentSchemas": {"a": {"$ref": "#"}}}), "refers to itself"),
        (json!({"$schema": seven, "dependencies": {"a": {"$ref": "#"}}}), "refers to itself"),
        (json!([]), "is not a schema"),
    ] {
        let found = problems(&schema);
        assert!(found.contains(expected), "{schema}\n{found}\n{expected}");
    }
    let long: serde_json::Map<_, _> = (0..100)
        .map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)})))
        .chain([("d100".into(), json!({}))])
        .collect();
    let found = problems(&json!({"$defs": long, "$ref": "#/$defs/d0"}));
    assert!(found.contains("leads through more than 64 schemas"), "{found}");
    let many: Vec<_> = (0..20_001).map(|i| json!({"minLength": i})).collect();
    assert!(problems(&json!({"anyOf": many})).contains("more than 20000 parts"));
    let wrong: Vec<_> = (0..1000).map(|i| json!({"minLength": -1 - i})).collect();
    let found = compile(&json!({"allOf": wrong}).to_string(), &mut Patterns::default()).unwrap_err();
    assert_eq!(found.len(), MAX_PROBLEMS);
}

#[test]
fn references_lead_to_any_part_of_the_same_schema() {
    for schema in [
        json!({"$id": "https://example.com/s", "$ref": "https://example.com/s#/$defs/a", "$defs": {"a": true}}),
        json!({"$ref": "#x", "$defs": {"a": {"$anchor": "x"}}}),
        json!({"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x"}}}),
        json!({"$ref": "#/properties/a~1b%25/allOf/1", "properties": {"a/b%": {"allOf": [{}, {}]}}}),
        json!({"items": {"$ref": "#"}, "anyOf": [{"properties": {"a": {"$ref": "#"}}}]}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#x", "definitions": {"a": {"$id": "#x"}}}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "items": {"$recursiveRef": "#"}}),
    ] {
        assert_eq!(problems(&schema), "", "{schema}");
    }
}

#[test]
fn the_patterns_of_a_service_are_shared_and_have_one_bound() {
    let mut patterns = Patterns::default();
    let same = json!({"pattern": "^[a-z]{1,200}$"}).to_string();
    for _ in 0..1000 {
        assert!(compile(&same, &mut patterns).is_ok());
    }
    let mut refused = None;
    for i in 0..1000 {
        let schema = json!({"pattern": format!("^{i}[a-z]{{1,2000}}$")});
        if let Err(problems) = compile(&schema.to_string(), &mut patterns) {
            refused = Some(problems[0].to_string());
            break;
        }
    }
    let refused = refused.expect("there is a bound");
    assert!(refused.contains("makes the patterns of the service larger than 2048 kB"), "{refused}");
    assert!(compile(&same, &mut patterns).is_ok());
    for i in 0..100 {
        let schema = json!({"pattern": format!("{i}\\1")});
        refused_last(&schema, &mut patterns, i);
    }
}

fn refused_last(schema: &serde_json::Value, patterns: &mut Patterns, number: usize) {
    let problems = compile(&schema.to_string(), patterns).unwrap_err();
    // One is refused above, for its size.
    let is_looked_at = problems[0].message.starts_with("is not a regular expression");
    assert_eq!(is_looked_at, number < 19, "{number}: {}", problems[0]);
}
