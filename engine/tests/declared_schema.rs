//! What a source declares of its output holds, as rewritten, for every answer of a filter that only removes.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use tamis_engine::{Budget, Bytes, Call, CompileOptions, Enforcement, Input, Program, compile};

const NAMES: [&str; 5] = ["a", "b", "c", "items", "_truncated"];

/// What a value can be.
#[derive(Debug, Clone)]
enum Shape {
    Text,
    Word,
    Number,
    Null,
    /// Each member with its shape and whether it is required; whether there are no others.
    Object(Vec<(&'static str, Shape, bool)>, bool),
    List(Box<Shape>),
    Pair(Box<Shape>, Box<Shape>),
    Either(Box<Shape>, Box<Shape>),
    /// The definition that is the document's own shape without its lists, one level deep.
    Definition,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        3 => Just(Shape::Text),
        1 => Just(Shape::Word),
        2 => Just(Shape::Number),
        1 => Just(Shape::Null),
        1 => Just(Shape::Definition),
    ];
    let any = leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let two = (boxed.clone(), boxed.clone());
        prop_oneof![
            3 => objects(inner),
            2 => boxed.prop_map(Shape::List),
            1 => two.clone().prop_map(|(one, other)| Shape::Pair(one, other)),
            1 => two.prop_map(|(one, other)| Shape::Either(one, other)),
        ]
    });
    objects(any)
}

fn objects(shape: impl Strategy<Value = Shape> + Clone + 'static) -> impl Strategy<Value = Shape> {
    let members = vec((select(&NAMES[..]), shape, any::<bool>()), 0..5);
    (members, any::<bool>()).prop_map(|(mut members, closed)| {
        members.sort_by_key(|(name, ..)| *name);
        members.dedup_by_key(|(name, ..)| *name);
        Shape::Object(members, closed)
    })
}

impl Shape {
    fn schema(&self) -> Value {
        match self {
            Self::Text => json!({"type": "string", "minLength": 1, "pattern": "^[a-z]+$"}),
            Self::Word => json!({"enum": ["yes", "no", 3]}),
            Self::Number => json!({"type": "integer", "minimum": 0}),
            Self::Null => json!({"type": "null"}),
            Self::Object(members, closed) => {
                let properties: Map<_, _> = members.iter().map(|(n, s, _)| ((*n).to_owned(), s.schema())).collect();
                let required: Vec<_> = members.iter().filter(|(_, _, required)| *required).map(|(n, ..)| *n).collect();
                let mut schema = json!({"type": "object", "properties": properties, "required": required});
                if *closed {
                    schema["additionalProperties"] = json!(false);
                }
                schema
            }
            Self::List(shape) => json!({"type": "array", "items": shape.schema(), "minItems": 1}),
            Self::Pair(one, other) => {
                json!({"type": "array", "prefixItems": [one.schema()], "items": other.schema(), "contains": other.schema()})
            }
            Self::Either(one, other) => json!({"oneOf": [
                {"type": "object", "properties": {"b": one.schema()}, "required": ["b"]},
                {"type": "object", "properties": {"c": other.schema()}, "required": ["c"], "additionalProperties": false},
            ], "not": {"required": ["b", "c"]}}),
            Self::Definition => json!({"$ref": "#/$defs/d", "description": "a definition"}),
        }
    }

    fn value(&self, pick: &mut impl FnMut(usize) -> usize) -> Value {
        match self {
            Self::Text => json!("text".repeat(1 + pick(20))),
            Self::Word => [json!("yes"), json!("no"), json!(3)][pick(3)].clone(),
            Self::Number => json!(pick(1000)),
            Self::Null => Value::Null,
            Self::Object(members, _) => {
                let mut object = Map::new();
                for (name, shape, required) in members {
                    if *required || pick(3) > 0 {
                        object.insert((*name).to_owned(), shape.value(pick));
                    }
                }
                Value::Object(object)
            }
            Self::List(shape) => (0..=pick(4)).map(|_| shape.value(pick)).collect(),
            Self::Pair(one, other) => json!([one.value(pick), other.value(pick), other.value(pick)]),
            Self::Either(one, _) if pick(2) == 0 => json!({"b": one.value(pick)}),
            Self::Either(_, other) => json!({"c": other.value(pick)}),
            Self::Definition => {
                let inner = if pick(3) == 0 { Self::Definition.value(pick) } else { json!([]) };
                json!({"a": pick(10), "b": {"c": [inner]}})
            }
        }
    }
}

/// The definition: an object that may hold itself.
fn definition() -> Value {
    json!({"type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
        "a": {"type": "integer"},
        "b": {"type": "object", "properties": {"c": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "array"}]}}}},
    }})
}

fn pointers() -> impl Strategy<Value = String> {
    let segment = prop_oneof![4 => select(&NAMES[..]), 1 => select(&["*", "0", "1", "**", "*s"][..])];
    vec(segment, 1..5).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn filters() -> impl Strategy<Value = Value> {
    let plain = vec(select(&NAMES[..]), 1..4).prop_map(|names| format!("/{}", names.join("/")));
    (
        weighted(0.6, vec(pointers(), 1..5)),
        weighted(0.4, vec(plain.clone(), 1..3)),
        weighted(0.4, prop_oneof![1 => Just(String::new()), 2 => plain]),
        weighted(0.3, 1..4_usize),
        weighted(0.5, vec(select(&NAMES[..]), 1..3)),
        (weighted(0.3, Just(true)), weighted(0.3, Just(true))),
    )
        .prop_map(|(retain, removed, root, most, exclude, (nulls, empty))| {
            let mut filter = Map::new();
            let mut set = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    filter.insert(name.to_owned(), value);
                }
            };
            set("retain", retain.map(|paths| json!(paths)));
            let remove = |path| json!({"op": "remove", "path": path});
            set("patches", removed.map(|paths| paths.into_iter().map(remove).collect()));
            set("root", root.map(Value::String));
            set("maxItems", most.map(Value::from));
            set("exclude", exclude.map(|names| json!(names)));
            set("dropNulls", nulls.map(Value::Bool));
            set("dropEmpty", empty.map(Value::Bool));
            Value::Object(filter)
        })
}

fn program(filter: &Value, enforcement: Enforcement, declared: &Value) -> Option<Program> {
    let filter = serde_json::from_value(filter.clone()).unwrap();
    let declares_output = Program::reads_output_schema(declared);
    compile(&filter, &CompileOptions { enforcement, declares_output, ..CompileOptions::default() }).program
}

#[test]
fn every_answer_conforms() {
    let cases = (shapes(), any::<u64>(), filters(), any::<bool>(), weighted(0.5, 1..400_usize), any::<bool>());
    let config = ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() };
    let (cut, refused) = (Cell::new(0), Cell::new(0));
    let test = |(shape, seed, filter, enforced, budget, raw): (Shape, u64, Value, bool, Option<usize>, bool)| {
        let mut state = seed | 1;
        let mut pick = |most: usize| {
            // Xorshift: any order of values will do.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % most as u64).unwrap()
        };
        let value = shape.value(&mut pick);
        let mut declared = shape.schema();
        declared["$defs"] = json!({"d": definition()});
        prop_assert!(jsonschema::is_valid(&declared, &value), "the output itself: {} {}", declared, value);
        let enforcement = if enforced { Enforcement::Enforced } else { Enforcement::Advisory };
        let Some(program) = program(&filter, enforcement, &declared) else { return Ok(()) };
        let schema = program.output_schema(None, Some(&declared));
        let schema = schema.ok_or_else(|| TestCaseError::fail(format!("no schema: {filter} {declared}")))?;
        let call = Call { budget: Budget { bytes: budget.map(Bytes), tokens: None }, raw, ..Call::default() };
        let document = value.to_string();
        let answer = program.apply(Input::Json(document.as_bytes()), &call);
        let Ok(answer) = answer else {
            refused.set(refused.get() + 1);
            return Ok(());
        };
        let object = answer.structured.to_json(&answer.text).expect("an answer of JSON has structured content");
        cut.set(cut.get() + usize::from(object != document));
        let object: Value = serde_json::from_str(&object).unwrap();
        prop_assert!(
            jsonschema::is_valid(&schema, &object),
            "{}\ndeclared {}\nfilter {}\nof {}",
            schema,
            declared,
            filter,
            object
        );
        Ok(())
    };
    TestRunner::new(config).run(&cases, test).unwrap_or_else(|error| panic!("{error}"));
    println!("{} outputs were changed, {} refused", cut.get(), refused.get());
    assert!(cut.get() > 500);
}

/// What is removed is not described, and what is described is no less than what remains.
#[test]
fn a_filter_rewrites_what_is_declared() {
    let user = json!({"type": "object", "required": ["login"], "properties": {
        "login": {"type": "string", "pattern": "^[a-z]+$"}, "token": {"type": "string"},
    }});
    let declared = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["items", "total"],
        "additionalProperties": false,
        "properties": {
            "total": {"type": "integer", "description": "All of them"},
            "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/item"}},
        },
        "$defs": {
            "user": user,
            "unused": {"type": "string"},
            "item": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "integer"}, "secret": {"type": "string"}, "user": {"$ref": "#/$defs/user"},
            }},
        },
    });
    let properties = |filter: Value, enforcement| {
        let program = program(&filter, enforcement, &declared).unwrap();
        let mut schema = program.output_schema(None, Some(&declared)).unwrap();
        assert_eq!(schema["$schema"], declared["$schema"]);
        assert!(schema.get("required").is_none() && schema.get("additionalProperties").is_none());
        let properties = schema["properties"].as_object_mut().unwrap();
        assert!(properties.remove("_truncated").is_some() && properties.remove("_chunks").is_some());
        (schema["properties"].take(), schema["$defs"].take())
    };
    let total = &declared["properties"]["total"];
    let login = json!({"type": "string"});
    for enforcement in [Enforcement::Enforced, Enforcement::Advisory] {
        let (kept, definitions) = properties(json!({"retain": ["/total", "/items/user/login"]}), enforcement);
        let item =
            json!({"type": "object", "properties": {"user": {"type": "object", "properties": {"login": login}}}});
        assert_eq!(kept, json!({"total": total, "items": {"type": "array", "items": item}}));
        assert_eq!(definitions, Value::Null);
        // A whole item is described by its definition, and that by another.
        let (kept, definitions) = properties(json!({"retain": ["/items/*"]}), enforcement);
        let empty = json!({"type": "object", "maxProperties": 0});
        let items = json!({"anyOf": [{"$ref": "#/$defs/item"}, empty]});
        assert_eq!(kept, json!({"items": {"type": "array", "items": items}}));
        assert_eq!(definitions["user"]["properties"]["login"], login);
        assert_eq!(definitions.as_object().unwrap().len(), 2);
        // `exclude` is relative to the item.
        let (kept, _) = properties(json!({"root": "/items", "exclude": ["secret"]}), enforcement);
        let item = &kept["items"]["items"];
        assert_eq!(item["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "user"]);
        // What is beside the payload goes under `Enforced`.
        assert_eq!(kept.get("total").is_some(), enforcement == Enforcement::Advisory);
        for filter in [json!({"dropNulls": true}), json!({"passthrough": true})] {
            let (kept, _) = properties(filter, enforcement);
            assert_eq!((&kept["total"], &kept["items"]["items"]), (total, &json!({"$ref": "#/$defs/item"})));
        }
    }
}

#[test]
fn what_a_filter_writes_is_not_described_by_the_source() {
    let declared = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let schema = |filter: Value, enforcement| {
        program(&filter, enforcement, &declared).unwrap().output_schema(None, Some(&declared))
    };
    for filter in [
        json!({"patches": [{"op": "add", "path": "/b", "value": 1}]}),
        json!({"root": "", "select": {"b": "a"}}),
        json!({"root": "", "compact": {"item": "{{.a}}"}}),
        json!({"output": {"format": "auto"}}),
        json!({"output": {"structured": "never"}}),
        json!({"output": {"inputs": ["_format"]}}),
    ] {
        assert_eq!(schema(filter.clone(), Enforcement::Advisory), None, "{filter}");
    }
    let own = schema(json!({"root": "", "select": {"b": "a"}}), Enforcement::Enforced).unwrap();
    assert_eq!((&own["properties"]["b"], own.get("anyOf")), (&json!({}), None), "an object gives an object");
    let both = json!([
        {"test": {"path": "/a", "value": "x"}, "root": "", "select": {"b": "a"}},
        {"otherwise": true, "retain": ["/a"]},
    ]);
    assert_eq!(schema(both, Enforcement::Enforced).unwrap()["anyOf"].as_array().map(Vec::len), Some(2));
}

#[test]
fn schemas_that_cannot_be_read_are_not_used() {
    for (declared, readable) in [
        (json!({"type": "object"}), true),
        (json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}), true),
        (json!({"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"}), false),
        (json!({"type": "array"}), false),
        (json!({"type": ["object", "null"]}), false),
        (json!(true), false),
        (json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}), false),
        (json!({"type": "object", "properties": {"a": {"$ref": "#/properties/b"}}}), false),
        (json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}), false),
        (json!({"type": "object", "properties": {"a": {"$dynamicRef": "#b"}}}), false),
        (json!({"type": "object", "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}), true),
        (json!({"type": "object", "properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {}}}), true),
    ] {
        assert_eq!(Program::reads_output_schema(&declared), readable, "{declared}");
        let program = program(&json!({"retain": ["/a"]}), Enforcement::Enforced, &declared).unwrap();
        assert_eq!(program.output_schema(None, Some(&declared)).is_some(), readable, "{declared}");
    }
}

/// Definitions that refer to each other without end, and definitions that double at each level.
#[test]
fn references_end() {
    let cycle = json!({"type": "object", "allOf": [{"$ref": "#/$defs/a"}], "$defs": {
        "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"},
    }});
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let both = json!({"type": "object", "properties": {"a": {"anyOf": [next, next]}}});
        definitions.insert(format!("d{level}"), both);
    }
    definitions.insert("d40".to_owned(), json!({"type": "object"}));
    let doubling = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": definitions});
    let deep = format!("/{}", vec!["a"; 40].join("/"));
    for declared in [cycle, doubling] {
        for filter in [json!({}), json!({"retain": [deep]})] {
            let program = program(&filter, Enforcement::Advisory, &declared).unwrap();
            let schema = program.output_schema(None, Some(&declared)).unwrap();
            assert!(schema.to_string().len() < 2 * declared.to_string().len() + 1_000, "{schema}");
            assert_eq!(schema["type"], "object");
        }
    }
}
