//! A server that returns only what a filter reads gets the same answer out of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Budget, Bytes, Call, CompileOptions, Input, ResponseType, ToolFilter, compile};

fn program(filter: &Value, enforcement: Enforcement, response_type: ResponseType) -> Option<Program> {
    let filter: ToolFilter = serde_json::from_value(filter.clone()).expect("a filter");
    let options = CompileOptions { enforcement, response_type: Some(response_type), ..CompileOptions::default() };
    compile(&filter, &options).program
}

/// Returns what a server sends that sends only what is read.
fn part(value: &Value, reads: &Reads) -> Value {
    match value {
        _ if *reads == Reads::All => value.clone(),
        Value::Array(items) => items.iter().map(|item| part(item, &reads.element())).collect(),
        Value::Object(members) => {
            let read = |(name, value): (&String, &Value)| Some((name.clone(), part(value, &reads.member(name)?)));
            Value::Object(members.iter().filter_map(read).collect())
        }
        scalar => scalar.clone(),
    }
}

/// Adds the members that a server sends because it is asked for them.
fn complete(value: &mut Value, reads: &Reads) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| complete(item, &reads.element())),
        Value::Object(members) => {
            for name in reads.names() {
                members.entry(name).or_insert(Value::Null);
            }
            for (name, value) in members {
                if let Some(reads) = reads.member(name) {
                    complete(value, &reads);
                }
            }
        }
        _ => {}
    }
}

/// Returns the reads as JSON: `true` for everything, `*` for each member or element.
fn shown(reads: &Reads) -> Value {
    match reads {
        Reads::All => Value::Bool(true),
        Reads::Parts(Parts { names, each }) => {
            let each = each.iter().map(|each| ("*".to_owned(), shown(each)));
            Value::Object(names.iter().map(|(name, below)| (name.to_string(), shown(below))).chain(each).collect())
        }
    }
}

#[test]
fn what_filters_read() {
    use Enforcement::{Advisory, Enforced};
    let table = [
        (
            json!({"select": {"l": "login", "n": "followers.nodes[*].name"}}),
            Enforced,
            json!({"login": true, "followers": {"nodes": {"*": {"name": true}}}}),
        ),
        (
            json!({"select": {"l": "login"}}),
            Advisory,
            json!({"login": true, "_exit_code": true, "stderr": true, "_text_filtered": true}),
        ),
        (json!({"retain": ["/a/b", "/c/*/d"]}), Advisory, json!({"a": {"b": true}, "c": {"*": {"d": true}}})),
        (json!({"retain": ["/a/b_*"]}), Advisory, json!({"a": true})),
        (json!({"retain": ["/a"], "patches": [{"op": "remove", "path": "/a/x"}]}), Enforced, json!({"a": true})),
        (json!({"root": "/a/b", "select": {"x": "x"}}), Enforced, json!({"a": {"b": {"x": true}}})),
        (json!({"root": "/a/b"}), Enforced, json!({"a": {"b": true}})),
        // What is next to the payload passes.
        (json!({"root": "/a/b", "select": {"x": "x"}}), Advisory, json!(true)),
        (
            json!({"root": "", "select": {"x": "x"}, "patches": [{"op": "move", "from": "/u/v", "path": "/x"}]}),
            Enforced,
            json!({"x": true, "u": {"v": true}}),
        ),
        (json!({"exclude": ["a"]}), Advisory, json!(true)),
        (json!({"patches": [{"op": "remove", "path": "/a"}], "select": {"x": "a"}}), Advisory, json!(true)),
        (json!({"dropNulls": true}), Enforced, json!(true)),
        (json!({"passthrough": true}), Enforced, json!(true)),
        (json!({}), Advisory, json!(true)),
        (
            json!([{"test": {"path": "/t", "value": 1}, "retain": ["/a"]}, {"otherwise": true, "retain": ["/b"]}]),
            Enforced,
            json!({"t": true, "a": true, "b": true}),
        ),
        (json!([{"test": {"path": "/t", "value": 1}, "retain": ["/a"]}]), Enforced, json!({"t": true, "a": true})),
        // What no branch matches passes.
        (json!([{"test": {"path": "/t", "value": 1}, "retain": ["/a"]}]), Advisory, json!(true)),
    ];
    for (filter, enforcement, expected) in table {
        let program = program(&filter, enforcement, ResponseType::Object);
        let program = program.unwrap_or_else(|| panic!("{filter} compiles"));
        assert_eq!(shown(&program.reads()), expected, "{filter} {enforcement:?}");
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d", "0", "items"]).prop_map(str::to_owned)
}

fn document() -> impl Strategy<Value = Value> {
    let scalar =
        prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!("")), Just(json!("text")), Just(json!(false))];
    scalar.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec((name(), inner.clone()), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

fn pointer() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![4 => name(), 1 => Just("*".to_owned()), 1 => Just("a*".to_owned())], 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn strict() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|names| format!("/{}", names.join("/")))
}

fn patch() -> impl Strategy<Value = Value> {
    prop_oneof![
        strict().prop_map(|path| json!({"op": "remove", "path": path})),
        strict().prop_map(|path| json!({"op": "add", "path": path, "value": {"n": 1}})),
        strict().prop_map(|path| json!({"op": "replace", "path": path, "value": 2})),
        strict().prop_map(|path| json!({"op": "test", "path": path, "value": 1})),
        (strict(), strict()).prop_map(|(from, path)| json!({"op": "copy", "from": from, "path": path})),
        (strict(), strict()).prop_map(|(from, path)| json!({"op": "move", "from": from, "path": path})),
    ]
}

fn source() -> impl Strategy<Value = String> {
    prop::collection::vec((name(), prop::sample::select(vec!["", "", "[*]", "[0]"])), 1..4)
        .prop_map(|steps| steps.iter().map(|(name, more)| format!("{name}{more}")).collect::<Vec<_>>().join("."))
}

fn single() -> impl Strategy<Value = Value> {
    let list = |one: BoxedStrategy<Value>, most| prop::collection::vec(one, 1..most).prop_map(Value::Array).boxed();
    let optional = |one: BoxedStrategy<Value>| prop::option::weighted(0.4, one).boxed();
    let fields = prop::collection::vec((name(), source()), 1..4)
        .prop_map(|fields| Value::Object(fields.into_iter().map(|(name, path)| (name, json!(path))).collect()));
    (
        optional(list(pointer().prop_map(Value::String).boxed(), 4)),
        optional(list(patch().boxed(), 3)),
        optional(prop_oneof![Just(json!("")), strict().prop_map(Value::String)].boxed()),
        optional(fields.boxed()),
        optional(list(pointer().prop_map(Value::String).boxed(), 3)),
        optional((0..3_u8).prop_map(|most| json!(most)).boxed()),
        prop::sample::select(vec![None, Some("dropNulls"), Some("dropEmpty")]),
    )
        .prop_map(|(retain, patches, root, select, exclude, most, drop)| {
            let members = [
                ("retain", retain),
                ("patches", patches),
                ("root", root),
                ("select", select),
                ("exclude", exclude),
                ("maxItems", most),
            ];
            let members = members.into_iter().chain(drop.map(|drop| (drop, Some(json!(true)))));
            Value::Object(members.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
        })
}

fn filter() -> impl Strategy<Value = Value> {
    let test = (strict(), prop::sample::select(vec![json!(1), json!(null), json!({}), json!("text")]));
    prop_oneof![
        2 => single(),
        1 => (test, single(), single(), any::<bool>()).prop_map(|((path, value), mut first, mut second, ends)| {
            first["test"] = json!({"path": path, "value": value});
            second["otherwise"] = json!(true);
            if ends { json!([first, second]) } else { json!([first]) }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_server_that_sends_what_is_read_gets_the_same_answer(
        filter in filter(),
        mut document in document(),
        enforcement in prop::sample::select(vec![Enforcement::Advisory, Enforcement::Enforced]),
        budget in prop::option::of(8_usize..200),
    ) {
        let kind = match document {
            Value::Array(_) => ResponseType::Array,
            _ => ResponseType::Object,
        };
        let Some(program) = program(&filter, enforcement, kind) else { return Ok(()) };
        let reads = program.reads();
        if enforcement == Enforcement::Advisory {
            prop_assume!(document.as_array().is_none_or(|items| !items.iter().any(Value::is_array)));
            complete(&mut document, &reads);
        }
        let sent = part(&document, &reads);
        let call = Call { budget: Budget { bytes: budget.map(Bytes), tokens: None }, ..Call::default() };
        let answer = |document: &Value| {
            let bytes = document.to_string();
            program.apply(Input::Json(bytes.as_bytes()), &call)
                .map(|filtered| (filtered.text, filtered.structured))
                .map_err(|refused| refused.stage)
        };
        prop_assert_eq!(answer(&sent), answer(&document), "{} of {}", sent, document);
    }
}
