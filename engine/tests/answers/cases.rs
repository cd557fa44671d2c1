//! Random lists, filters and calls.

use std::num::NonZeroUsize;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use tamis_engine::{
    Budget, Bytes, Call, CompileOptions, Enforcement, Factor, Input, Page, PageInputs, Program, TokenCounter, Tokens,
    compile,
};

use super::words::Words;

/// A filter over a list, and how it is called.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) filter: Value,
    pub(crate) enforcement: Enforcement,
    /// The items, each with its number as `id` if it is an object.
    pub(crate) items: Vec<Value>,
    /// Whether the list is in an object, with other members.
    pub(crate) wrapped: bool,
    pub(crate) bytes: Option<usize>,
    pub(crate) tokens: Option<usize>,
    pub(crate) window: bool,
}

impl Case {
    pub(crate) fn program(&self) -> Program {
        let filter = serde_json::from_value(self.filter.clone()).unwrap();
        let options = CompileOptions { enforcement: self.enforcement, ..CompileOptions::default() };
        let compiled = compile(&filter, &options);
        compiled.program.unwrap_or_else(|| panic!("{}: {:?}", self.filter, compiled.findings))
    }

    pub(crate) fn document(&self) -> String {
        let list = Value::Array(self.items.clone());
        if self.wrapped { json!({"total": self.items.len(), "items": list}) } else { list }.to_string()
    }

    pub(crate) fn call(&self, page: Page) -> Call<'static> {
        Call {
            budget: Budget { bytes: self.bytes.map(Bytes), tokens: self.tokens.map(Tokens) },
            counter: TokenCounter { tokenizer: &Words, factor: Factor::ONE },
            page,
            inputs: if self.window { PageInputs::ALL } else { PageInputs { window: false, ..PageInputs::ALL } },
            ..Call::default()
        }
    }

    /// The list in an answer that is JSON.
    pub(crate) fn shown(&self, text: &str) -> Option<Vec<Value>> {
        let value: Value = serde_json::from_str(text).ok()?;
        let list = if self.wrapped { value.get("items")? } else { &value };
        match list {
            Value::Array(items) => Some(items.clone()),
            // A table.
            Value::Object(table) => {
                let columns = table.get("columns")?.as_array()?;
                let row = |row: &Value| {
                    let cells = columns.iter().zip(row.as_array().unwrap());
                    let cells = cells.map(|(name, cell)| (name.as_str().unwrap().to_owned(), cell.clone()));
                    Value::Object(cells.collect::<Map<_, _>>())
                };
                Some(table.get("rows")?.as_array()?.iter().map(row).collect())
            }
            _ => None,
        }
    }
}

pub(crate) fn chunk(number: usize) -> Page {
    Page::Chunk(NonZeroUsize::new(number).unwrap())
}

pub(crate) fn input(document: &str) -> Input<'_> {
    Input::Json(document.as_bytes())
}

fn words(most: usize) -> impl Strategy<Value = String> {
    let word =
        select(vec!["a", "fix", "the", "build", "ERROR", "na\u{ef}ve", "\"x\"", "1e5", "[chunks]", "-", "#", "line\n"]);
    vec(word, 0..most).prop_map(|words| words.join(" "))
}

/// An item without its number.
fn item() -> impl Strategy<Value = Value> {
    let path = select(vec!["src/a.rs", "Cargo.lock", "tests/b.rs", "web/app.min.js"]);
    let notes = vec(words(6), 0..5);
    let scalars = (words(5), words(60), path, any::<bool>(), any::<i32>());
    (scalars, notes, weighted(0.9, Just(())), weighted(0.95, Just(()))).prop_map(
        |((title, body, path, resolved, number), notes, uniform, object)| {
            if object.is_none() {
                return json!(number);
            }
            let notes: Vec<Value> = notes.iter().map(|note| json!({"body": note})).collect();
            let mut item = json!({
                "title": title, "path": path, "resolved": resolved, "user": {"login": path}, "n": number,
            });
            if uniform.is_some() {
                item["body"] = json!(body);
            } else {
                item["resolved"] = json!("of another type");
                item["notes"] = json!(notes);
            }
            item
        },
    )
}

/// Discussions, with a list of comments each.
fn thread() -> impl Strategy<Value = Value> {
    (words(5), vec(words(12), 0..7), any::<bool>()).prop_map(|(title, notes, resolved)| {
        let notes: Vec<Value> = notes.iter().map(|note| json!({"body": note})).collect();
        json!({"title": title, "resolved": resolved, "comments": notes})
    })
}

fn list(most: usize) -> impl Strategy<Value = Vec<Value>> {
    let numbered = |items: Vec<Value>| {
        let items = items.into_iter().enumerate().map(|(number, item)| match item {
            Value::Object(members) => {
                let id = std::iter::once(("id".to_owned(), json!(number)));
                Value::Object(id.chain(members).collect())
            }
            other => other,
        });
        items.collect()
    };
    prop_oneof![vec(item(), 1..most), vec(thread(), 1..most)].prop_map(numbered)
}

/// The budget of an answer: from 1 up.
fn budget() -> impl Strategy<Value = (Option<usize>, Option<usize>)> {
    prop_oneof![
        3 => (1_usize..6_000).prop_map(|bytes| (Some(bytes), None)),
        4 => (1_usize..1_500).prop_map(|tokens| (None, Some(tokens))),
        1 => (1_usize..120).prop_map(|tokens| (None, Some(tokens))),
        1 => (1_usize..400).prop_map(|bytes| (Some(bytes), None)),
        2 => (1_usize..6_000, 1_usize..1_500).prop_map(|(bytes, tokens)| (Some(bytes), Some(tokens))),
    ]
}

fn output() -> impl Strategy<Value = Value> {
    let some = |of: Vec<Value>| prop::option::weighted(0.7, select(of));
    let strategies = vec![
        json!("default"),
        json!("element_count"),
        json!("cascading"),
        json!({"name": "cascading", "newest": "first"}),
        json!("size_proportional"),
        json!("thread_level"),
        json!({"name": "thread_level", "comments": "notes"}),
        json!({"name": "head_tail", "boost": ["ERROR"]}),
        json!({"name": "default", "group": "path"}),
    ];
    let formats = vec![json!("json"), json!("table"), json!("toon"), json!("auto"), json!(["toon", "json"])];
    let algorithms = ["knapsack", "greedy", "fair", "head_tail"].map(Value::from).to_vec();
    let levels = vec![
        json!({"standard": ["id", "title", "body"], "minimal": ["id", "title"]}),
        json!({"minimal": ["id"]}),
        json!({"same": ["id", "title", "body", "path", "resolved", "user", "n", "comments", "notes"], "none": ["absent"]}),
    ];
    let rest = (any::<bool>(), select(vec!["always", "always", "never"]));
    (some(strategies), some(formats), prop::option::weighted(0.3, select(algorithms)), some(levels), rest).prop_map(
        |(strategy, format, algorithm, levels, (notice, structured))| {
            let mut output = json!({"notice": notice, "structured": structured});
            let fields = [("strategy", strategy), ("format", format), ("algorithm", algorithm), ("levels", levels)];
            for (name, value) in fields {
                if let Some(value) = value {
                    output[name] = value;
                }
            }
            output
        },
    )
}

/// Lists of up to `most` items.
pub(crate) fn cases(most: usize) -> impl Strategy<Value = Case> {
    (list(most), output(), any::<bool>(), any::<bool>(), budget(), weighted(0.8, Just(()))).prop_map(
        |(items, output, wrapped, enforced, (bytes, tokens), window)| Case {
            filter: json!({"root": if wrapped { "/items" } else { "" }, "retain": [""], "output": output}),
            enforcement: if enforced { Enforcement::Enforced } else { Enforcement::Advisory },
            items,
            wrapped,
            bytes,
            tokens,
            window: window.is_some(),
        },
    )
}
