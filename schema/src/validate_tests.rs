use serde_json::json;

use super::*;
use crate::{Limits, Patterns, compile};

const LIMITS: Limits = Limits { bytes: 4 << 20, depth: 64 };

fn schema(schema: &serde_json::Value) -> Schema {
    compile(&schema.to_string(), &mut Patterns::default()).unwrap_or_else(|problems| panic!("{schema}: {problems:?}"))
}

fn check(text: &str, with: &serde_json::Value) -> Result<(), Invalid> {
    schema(with).check(&Document::parse(text, LIMITS).unwrap())
}

fn failures(text: &str, with: &serde_json::Value) -> Vec<String> {
    match check(text, with) {
        Err(Invalid::Failures(failures, _)) => failures,
        other => panic!("{other:?}"),
    }
}

#[test]
fn failures_name_places_and_rules_and_no_value() {
    let with = json!({
        "type": "object",
        "properties": {
            "state": {"enum": ["open", "closed", 3]},
            "n": {"type": "integer", "minimum": 2, "multipleOf": 2},
            "tags": {"type": "array", "items": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"}, "uniqueItems": true},
            "deep": {"properties": {"x": {"type": ["null", "boolean"]}}},
        },
        "required": ["owner"],
        "additionalProperties": false,
    });
    let cases = [
        (r#"{"owner":1,"state":"s3cr3t"}"#, "`owner`: is not known here"),
        (r#"{"state":"s3cr3t"}"#, "`state`: is not one of \"open\", \"closed\", 3"),
        (r#"{"n":1}"#, "`n`: is less than 2"),
        (r#"{"n":3}"#, "`n`: is not a multiple of 2"),
        (r#"{"n":4.5}"#, "`n`: is not of type integer"),
        (r#"{"tags":["ok","x"]}"#, "`tags.1`: has fewer than 2 characters"),
        (r#"{"tags":["s3CR3T"]}"#, "`tags.0`: does not match ^[a-z]+$"),
        (r#"{"tags":["aa","aa"]}"#, "`tags`: has two elements that are equal"),
        (r#"{"deep":{"x":"s3cr3t"}}"#, "`deep.x`: is not of type null or boolean"),
        (r#"{}"#, "`owner` is required"),
        (r#"[]"#, "is not of type object"),
    ];
    for (text, expected) in cases {
        let failures = failures(text, &with);
        assert!(failures.iter().any(|failure| failure == expected), "{text}: {failures:?}");
        assert!(!failures.concat().contains("s3"), "{text}: {failures:?}");
    }
}

#[test]
fn a_check_ends_at_the_fifth_failure_whatever_follows() {
    let with = json!({"properties": {"ss": {"type": "array", "items": {"type": "string"}}}});
    let text = format!("{{\"ss\":[{}]}}", vec!["1"; 900_000].join(","));
    let (schema, document) = (schema(&with), Document::parse(text.as_str(), LIMITS).unwrap());
    let mut found = None;
    let measured = allocation_counter::measure(|| found = Some(schema.check(&document)));
    let Some(Err(Invalid::Failures(failures, true))) = found else { panic!("{found:?}") };
    assert_eq!(failures.len(), NAMED);
    assert_eq!(failures[4], "`ss.4`: is not of type string");
    assert!(measured.bytes_max < 4096, "{} bytes", measured.bytes_max);
}

/// Schemas whose checks multiply, and documents on which they do.
fn family() -> Vec<(&'static str, serde_json::Value, String)> {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let branches = |name: &str| json!({name: [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}, "maxItems": 9}], "not": {"type": "number"}});
    let wide = json!((0..300).map(|i| json!({"required": [format!("n{i}")]})).collect::<Vec<_>>());
    let mut nested = json!({"type": "string"});
    for _ in 0..20 {
        nested = json!({"anyOf": [{"allOf": [nested.clone()], "maxLength": 0}, nested]});
        if nested.to_string().len() > 200_000 {
            break;
        }
    }
    let ones = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    let objects = |n: usize| format!("[{}]", vec!["{}"; n].join(","));
    let keys = |n: usize| format!("{{{}}}", (0..n).map(|i| format!("\"{i}\":0")).collect::<Vec<_>>().join(","));
    let patterns: serde_json::Map<_, _> = (0..40).map(|i| (format!("^{i}?[a-z]{{1,90}}$"), json!({}))).collect();
    let dependent: serde_json::Map<_, _> = (0..500).map(|i| (i.to_string(), json!([format!("x{i}")]))).collect();
    let big: Vec<_> = (0..2000).map(|i| json!([i, [i], {"k": i}])).collect();
    vec![
        ("anyOf recursion", branches("anyOf"), deep(27)),
        ("oneOf recursion", branches("oneOf"), deep(27)),
        ("allOf recursion", json!({"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}), deep(40)),
        (
            "not recursion",
            json!({"not": {"items": {"$ref": "#"}}, "anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}, "type": "number"}]}),
            deep(40),
        ),
        ("contains recursion", json!({"contains": {"$ref": "#"}, "items": {"$ref": "#"}, "minContains": 0}), deep(40)),
        ("condition recursion", json!({"if": {"items": {"$ref": "#"}}, "then": {"items": {"$ref": "#"}}}), deep(40)),
        (
            "unevaluated recursion",
            json!({"anyOf": [{"prefixItems": [{"$ref": "#"}]}, {"items": {"$ref": "#"}}], "unevaluatedItems": false}),
            deep(40),
        ),
        ("nested anyOf", json!({"items": nested}), ones(20_000)),
        ("wide anyOf", json!({"items": {"anyOf": wide}}), objects(50_000)),
        (
            "unique",
            json!({"uniqueItems": true}),
            format!("[{}]", (0..200_000).map(|i| i.to_string()).collect::<Vec<_>>().join(",")),
        ),
        (
            "unique, equal in all but the end",
            json!({"uniqueItems": true}),
            format!("[{}]", (0..3000).map(|i| format!("[{}{i}]", "0,".repeat(50))).collect::<Vec<_>>().join(",")),
        ),
        (
            "unique at each level",
            json!({"uniqueItems": true, "items": {"$ref": "#"}}),
            format!("{}{}{}", "[".repeat(60), ones(60_000), "]".repeat(60)),
        ),
        ("large enum", json!({"items": {"enum": big}}), format!("[{}]", vec!["[9,[9],{\"k\":10}]"; 10_000].join(","))),
        ("patternProperties", json!({"patternProperties": patterns}), keys(50_000)),
        ("dependentRequired", json!({"dependentRequired": dependent}), keys(20_000)),
        (
            "pattern",
            json!({"items": {"not": {"pattern": "([01]*1[01]{60})*x"}}}),
            format!("[\"{}\"]", "01".repeat(50_000)),
        ),
        (
            "patterns",
            json!({"items": {"pattern": "^(a?){300}(a?){300}b$"}}),
            format!("[{}]", vec![format!("\"{}\"", "a".repeat(300)); 300].join(",")),
        ),
    ]
}

#[test]
fn work_and_memory_are_bounded_by_the_document_whatever_the_schema() {
    for (name, with, text) in family() {
        let (schema, document) = (schema(&with), Document::parse(text.as_str(), LIMITS).unwrap());
        let bound = steps_for(text.len());
        let mut verdict = None;
        let measured = allocation_counter::measure(|| verdict = Some(schema.check_within(&document, bound)));
        match verdict.unwrap() {
            Ok(steps) => assert!(steps <= bound, "{name}"),
            Err(Invalid::Work(steps)) => assert_eq!(steps, bound, "{name}"),
            Err(Invalid::Failures(failures, _)) => assert!(failures.len() <= NAMED, "{name}"),
        }
        assert!(measured.bytes_max <= (1 << 20) + 24 * text.len() as u64, "{name}: {} bytes", measured.bytes_max);
    }
}

#[test]
fn recursion_that_multiplies_ends_with_its_steps() {
    for (name, with, text) in family().into_iter().filter(|(name, ..)| name.contains("recursion")) {
        let deeper = format!("{}{text}{}", "[".repeat(8), "]".repeat(8));
        let found = check(&deeper, &with);
        if matches!(name, "anyOf recursion" | "oneOf recursion" | "allOf recursion") {
            assert_eq!(found, Err(Invalid::Work(steps_for(deeper.len()))), "{name}");
        }
    }
    // A recursive schema that an ordinary caller uses is no trouble.
    let tree = json!({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {
        "children": {"type": "array", "items": {"$ref": "#/$defs/t"}},
        "filter": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/t"}]},
    }}}});
    let mut document = json!({"filter": null});
    for _ in 0..12 {
        document = json!({"children": [document.clone(), document], "filter": {"filter": null}});
        if document.to_string().len() > 100_000 {
            break;
        }
    }
    assert_eq!(check(&document.to_string(), &tree), Ok(()));
}

#[test]
fn the_deepest_check_fits_the_stack_of_a_worker() {
    let mut defs = serde_json::Map::new();
    for i in 0..30 {
        defs.insert(format!("d{i}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}]}));
    }
    defs.insert("d30".to_owned(), json!({"items": {"$ref": "#/$defs/d0"}, "unevaluatedItems": true}));
    let with = schema(&json!({"$ref": "#/$defs/d0", "$defs": defs}));
    let text = format!("{}{}", "[".repeat(64), "]".repeat(64));
    let run = move || with.check(&Document::parse(text.as_str(), LIMITS).unwrap());
    let verdict = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    assert!(matches!(verdict, Err(Invalid::Work(_))), "{verdict:?}");
}

#[test]
fn patterns_are_found_whichever_engine_searches() {
    for (pattern, unit, valid) in [
        ("^x*$", "x", true),
        ("^x*$", "xy", false),
        ("x", "ax", true),
        ("^$", "", true),
        ("y$", "xy", true),
        ("^(a|b)*c?$", "ab", true),
    ] {
        for length in [0, 1, 2, 10, 1_000, 300_000] {
            let text = unit.repeat(length);
            let expected = regex_automata::meta::Regex::new(pattern).unwrap().is_match(text.as_str());
            assert!(expected == valid || length == 0, "{pattern} {length}");
            assert_eq!(
                check(&format!("\"{text}\""), &json!({"pattern": pattern})).is_ok(),
                expected,
                "{pattern} {length}"
            );
            let named = json!({"patternProperties": {pattern: false}});
            assert_eq!(check(&format!("{{\"{text}\":1}}"), &named).is_ok(), !expected, "{pattern} {length}");
        }
    }
}

#[test]
fn numbers_are_exact() {
    for (text, with, valid) in [
        ("9007199254740993", json!({"maximum": 9_007_199_254_740_992_u64}), false),
        ("12345678901234567890123", json!({"type": "integer"}), true),
        ("1.0", json!({"type": "integer"}), true),
        ("1e2", json!({"const": 100}), true),
        ("0.3", json!({"multipleOf": 0.1}), true),
        ("[1,1.0]", json!({"uniqueItems": true}), false),
        (r#"[{"a":1,"b":2},{"b":2.0,"\u0061":1}]"#, json!({"uniqueItems": true}), false),
        ("[1,true]", json!({"uniqueItems": true}), true),
    ] {
        assert_eq!(check(text, &with).is_ok(), valid, "{text} {with}");
    }
}
