//! `Enforced` is a security boundary: two outputs that differ only in what the filter removes give the caller
//! byte-identical answers, in text, structured content and `_meta`, and refusals alike.
//!
//! Documents are made in pairs from one tree, whose secret places hold a value of their own in each half, or
//! nothing. Filters are made so that they remove all secret places, in one of several ways, with other stages
//! around that. Of filters of which `compile` says that they tell the caller something, less is asked: that they
//! tell it by succeeding or not, and by nothing else.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tamis_engine::{
    Call, CompileOptions, Enforcement, Input, Program, Refused, ResponseType, Structured, ToolFilter, compile,
};

/// A document that is two.
#[derive(Clone)]
enum Tree {
    /// The same in both halves, as JSON.
    Leaf(&'static str),
    List(Vec<Tree>),
    Object(Vec<(&'static str, Tree)>),
    /// A value of its own in each half; `None` is absent, and in objects only.
    Secret(Option<String>, Option<String>),
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (left, right) = self.halves();
        write!(f, "{left} / {right}")
    }
}

impl Tree {
    fn write(&self, half: bool, out: &mut String) -> bool {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Secret(left, right) => match if half { left } else { right } {
                Some(text) => out.push_str(text),
                None => return false,
            },
            Self::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(half, out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                let mut first = true;
                for (key, value) in members {
                    let mut member = format!("{}\"{key}\": ", if first { "" } else { ", " });
                    if value.write(half, &mut member) {
                        out.push_str(&member);
                        first = false;
                    }
                }
                out.push('}');
            }
        }
        true
    }

    /// Whether each half has it.
    fn is_there(&self) -> (bool, bool) {
        match self {
            Self::Secret(left, right) => (left.is_some(), right.is_some()),
            Self::Leaf(_) | Self::List(_) | Self::Object(_) => (true, true),
        }
    }

    fn halves(&self) -> (String, String) {
        let (mut left, mut right) = (String::new(), String::new());
        self.write(true, &mut left);
        self.write(false, &mut right);
        (left, right)
    }
}

fn public() -> impl Strategy<Value = Tree> {
    prop::sample::select(vec![
        "1",
        "1.10",
        "\"a\"",
        "\"long enough to be cut\"",
        "\"\"",
        "true",
        "false",
        "null",
        "[]",
        "{}",
    ])
    .prop_map(Tree::Leaf)
}

fn secret_value() -> impl Strategy<Value = String> {
    let texts = [
        "null",
        "true",
        "false",
        "0",
        "1e400",
        "\"\"",
        "\"\\ud800\"",
        "[]",
        "{}",
        "[1]",
        "[[{\"n\":1}]]",
        "[{\"s\":1,\"name\":2}]",
        "{\"login\":1,\"n\":[2]}",
        "{\"s\":{\"s\":null}}",
    ];
    prop_oneof![
        4 => prop::sample::select(texts.to_vec()).prop_map(str::to_owned),
        1 => (0..60_usize).prop_map(|n| format!("\"{}\"", "x".repeat(n))),
    ]
}

fn secret() -> impl Strategy<Value = Tree> {
    (prop::option::of(secret_value()), prop::option::of(secret_value())).prop_map(|(a, b)| Tree::Secret(a, b))
}

/// What kind of differences the filter removes, beside the secret members.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Removes {
    nulls: bool,
    empties: bool,
    /// Items from here on.
    items: Option<usize>,
    /// Items that are not objects.
    others: bool,
    /// What an item is of which nothing is kept, unless it is a list.
    kinds: bool,
    /// The same of the member `u`, which is never kept whole.
    parts: bool,
    /// A list is made of members of the elements of a list (`tags[*].name`), and elements are never dropped: members
    /// of elements are not.
    each: bool,
    /// `replace` makes something of what is there: it is not dropped, wherever it works.
    replaced: bool,
}

impl Removes {
    /// The same without drops, if `no_drops`.
    fn unless(self, no_drops: bool) -> Self {
        if no_drops { Self { nulls: false, empties: false, ..self } } else { self }
    }
}

/// A public member, or one that is dropped in both halves, or dropped in one and absent in the other.
fn field(removes: Removes) -> BoxedStrategy<Tree> {
    let mut gone = vec![None];
    if removes.nulls {
        gone.push(Some("null".to_owned()));
    }
    if removes.empties {
        gone.extend(["\"\"", "[]", "{}", "{\"q\":null}"].map(|text| Some(text.to_owned())));
    }
    let gone = prop::sample::select(gone);
    let gone = (gone.clone(), gone).prop_map(|(a, b)| Tree::Secret(a, b));
    if !removes.nulls {
        return prop_oneof![4 => public(), 1 => gone].boxed();
    }
    // The same once what is dropped has gone, and with it what it hides.
    let hidden = prop::sample::select(vec![
        "{\"y\":2}",
        "{\"y\":2,\"x\":null}",
        "{\"x\":1,\"y\":2,\"x\":null}",
        "{\"x\":{\"x\":3},\"\\u0078\":null,\"y\":2}",
        "{\"x\":null,\"x\":[1],\"x\":null,\"y\":2}",
    ])
    .prop_map(|text| Some(text.to_owned()));
    let hidden = (hidden.clone(), hidden).prop_map(|(a, b)| Tree::Secret(a, b));
    prop_oneof![4 => public(), 1 => gone, 1 => hidden].boxed()
}

/// What is no list and of which no path keeps anything.
fn nothing_kept() -> impl Strategy<Value = Tree> {
    let texts = ["1", "\"s\"", "\"\"", "null", "true", "{}", "{\"s\":1}", "{\"z\":{\"n\":[1]},\"z\":null}"];
    let one = prop::sample::select(texts.to_vec()).prop_map(|text| Some(text.to_owned()));
    (one.clone(), one).prop_map(|(a, b)| Tree::Secret(a, b))
}

/// Secret members around public ones.
fn object(members: Vec<(&'static str, BoxedStrategy<Tree>)>) -> BoxedStrategy<Tree> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(key, value)| {
            let shadow = || prop::option::weighted(0.8, secret_value());
            let shadowed = prop::option::weighted(0.15, (shadow(), shadow()));
            (prop::option::weighted(0.8, value), shadowed).prop_map(move |(value, shadowed)| {
                let mut out = Vec::new();
                if let Some(value) = value {
                    // Of duplicates the last counts; the place is that of the first, which is beside it.
                    if let Some((a, b)) = shadowed {
                        let (left, right) = value.is_there();
                        out.push((key, Tree::Secret(a.filter(|_| left), b.filter(|_| right))));
                    }
                    out.push((key, value));
                }
                out
            })
        })
        .collect();
    (members, secret(), secret(), any::<prop::sample::Index>())
        .prop_map(|(members, s, t, at)| {
            let mut members = members.concat();
            // Not between duplicates; that would do no harm, but keeps cases readable.
            let at = if members.is_empty() || at.index(2) == 0 { 0 } else { members.len() };
            members.insert(at, ("s", s));
            members.push(("z", t));
            Tree::Object(members)
        })
        .boxed()
}

/// The member `u`.
fn part(user: BoxedStrategy<Tree>, removes: Removes) -> BoxedStrategy<Tree> {
    if removes.parts {
        prop_oneof![5 => user, 1 => field(removes), 1 => nothing_kept()].boxed()
    } else {
        prop_oneof![5 => user, 1 => field(removes)].boxed()
    }
}

fn item(removes: Removes) -> BoxedStrategy<Tree> {
    let user = object(vec![("login", field(removes.unless(removes.replaced))), ("mail", field(removes))]);
    let tag = object(vec![("name", field(removes.unless(removes.each)))]);
    object(vec![
        ("n", field(removes.unless(removes.replaced))),
        ("t", field(removes)),
        ("u", part(user.boxed(), removes)),
        ("tags", prop_oneof![5 => prop::collection::vec(tag, 0..3).prop_map(Tree::List), 1 => field(removes)].boxed()),
    ])
}

fn items(removes: Removes) -> BoxedStrategy<Tree> {
    let scalar = prop::sample::select(vec!["1", "\"s\"", "null", "true", "[]", "[{\"n\":1}]"]).prop_map(str::to_owned);
    let other = (scalar.clone(), scalar).prop_map(|(a, b)| Tree::Secret(Some(a), Some(b)));
    let element = match removes {
        Removes { others: true, .. } => prop_oneof![5 => item(removes), 1 => other].boxed(),
        Removes { kinds: true, .. } => prop_oneof![5 => item(removes), 1 => nothing_kept()].boxed(),
        _ => item(removes),
    };
    let beyond = (secret_value(), secret_value()).prop_map(|(a, b)| Tree::Secret(Some(a), Some(b)));
    (prop::collection::vec(element, 0..4), prop::collection::vec(beyond, 0..3))
        .prop_map(move |(mut items, beyond)| {
            if let Some(max) = removes.items.filter(|max| items.len() >= *max) {
                items.truncate(max);
                items.extend(beyond);
            }
            Tree::List(items)
        })
        .boxed()
}

/// The document: an object around a list. `inner` is what is removed within the payload, which is `/items` or all.
fn document(outer: Removes, inner: Removes) -> BoxedStrategy<Tree> {
    let user = object(vec![("login", field(outer.unless(outer.replaced))), ("mail", field(outer))]);
    object(vec![
        ("kind", prop::sample::select(vec!["1", "2", "\"a\"", "null"]).prop_map(Tree::Leaf).boxed()),
        ("id", field(outer.unless(outer.replaced))),
        ("u", part(user.boxed(), outer)),
        ("items", prop_oneof![8 => items(inner), 1 => public()].boxed()),
        ("total", field(outer)),
    ])
}

/// How the secrets go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Retain,
    Select,
    RetainAndSelect,
    Exclude,
    Patches,
}

/// A filter and what it removes: outside of the payload, and in it.
#[derive(Debug, Clone)]
struct Filter {
    filter: Value,
    outer: Removes,
    inner: Removes,
    /// The document is the list, and declared to be one.
    bare: bool,
    response_type: Option<ResponseType>,
}

fn filter() -> impl Strategy<Value = Filter> {
    let way = prop::sample::select(vec![Way::Retain, Way::Select, Way::RetainAndSelect, Way::Exclude, Way::Patches]);
    (
        (way, any::<bool>(), prop::option::of(1..3_usize), any::<bool>(), prop::bool::weighted(0.2)),
        prop::sample::subsequence(
            vec![
                "/id",
                "/u/login",
                "/u/mail",
                "/items/n",
                "/items/*/t",
                "/items/u/login",
                "/items/u/*",
                "/items/tags/name",
                "/items/0/n",
                "/items/1/u/login",
                "/total",
            ],
            1..6,
        ),
        prop::sample::subsequence(
            vec!["n", "t", "u.login", "tags[*].name", "tags[0].name", "u", "tags", "tags[*]"],
            1..4,
        ),
        prop::sample::subsequence(
            vec!["id", "u.login", "items[*].n", "items[*].u.login", "total", "u", "items[1].t"],
            1..4,
        ),
        (prop::sample::subsequence(vec!["n", "u", "/u/mail", "/tags/0", "/u/login"], 0..3), operations()),
        (prop::bool::weighted(0.2), prop::option::weighted(0.2, 5..80_usize), prop::bool::weighted(0.2), any::<bool>()),
    )
        .prop_map(
            |(
                (way, list, max, nulls, empties),
                retain,
                in_item,
                in_document,
                (exclude, operations),
                (compact, budget, declared, branches),
            )| {
                build(
                    way,
                    list,
                    max,
                    (nulls, empties),
                    retain,
                    if list { in_item } else { in_document },
                    exclude,
                    operations,
                    compact,
                    budget,
                    declared,
                )
                .in_branches(branches)
            },
        )
}

#[expect(clippy::too_many_arguments, reason = "the parts of one filter")]
fn build(
    way: Way,
    list: bool,
    max: Option<usize>,
    (nulls, empties): (bool, bool),
    mut retain: Vec<&str>,
    select: Vec<&str>,
    exclude: Vec<&str>,
    operations: Vec<Value>,
    compact: bool,
    budget: Option<usize>,
    declared: bool,
) -> Filter {
    let mut filter = json!({"root": if list { "/items" } else { "" }});
    let mut each = false;
    let (selects, retains) =
        (matches!(way, Way::Select | Way::RetainAndSelect), matches!(way, Way::Retain | Way::RetainAndSelect));
    if retains {
        // `*` would keep secret members.
        retain.retain(|path| *path != "/items/u/*");
        if retain.is_empty() {
            retain.push("/id");
        }
        filter["retain"] = json!(retain);
    }
    if selects {
        // Whole objects hold secret members, unless `retain` has taken those out.
        let plain = |source: &&str| way == Way::RetainAndSelect || !["u", "tags", "tags[*]"].contains(source);
        let mut sources: Vec<_> = select.into_iter().filter(plain).collect();
        if sources.is_empty() {
            sources.push(if list { "n" } else { "id" });
        }
        each = sources.iter().any(|source| source.contains("[*]."));
        filter["select"] = sources
            .iter()
            .map(|source| (source.replace(['.', '*', '[', ']'], ""), json!(source)))
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    let mut drops: Vec<&str> = exclude;
    if way == Way::Exclude {
        drops.extend(["s", "z", "/u/s", "/u/z"]);
        drops.extend(if list {
            vec!["/tags/s", "/tags/z"]
        } else {
            vec!["/items/s", "/items/z", "/items/u/s", "/items/u/z", "/items/tags/s", "/items/tags/z"]
        });
    }
    let mut patches = operations;
    if way == Way::Patches {
        filter["retain"] = json!(["/id", "/u"]);
        filter["root"] = json!("");
        patches.extend(["/u/s", "/u/z"].map(|path| json!({"op": "remove", "path": path})));
    }
    let list = list && way != Way::Patches;
    if !drops.is_empty() {
        filter["exclude"] = json!(drops);
    }
    if !patches.is_empty() {
        filter["patches"] = json!(patches);
    }
    if let Some(max) = max.filter(|_| list) {
        filter["maxItems"] = json!(max);
    }
    filter["dropNulls"] = json!(nulls);
    filter["dropEmpty"] = json!(empties);
    if let Some(bytes) = budget {
        filter["output"] = json!({"budget": {"bytes": bytes}});
    }
    if compact && list {
        filter["compact"] = json!({"header": "{{.Total}}", "item": "{{.n}} {{.t}} {{.s}}{{.u.s}}{{len .u}}{{range .tags}}{{.name}},{{.s}}{{end}}{{if .z}}z{{end}}", "footer": "{{.Remaining}}"});
    }
    // Where the payload is declared, and not named.
    let bare = declared && list && filter["patches"].is_null() && !retains;
    let response_type = match (declared, list) {
        (true, true) if bare => Some(ResponseType::Array),
        (true, false) => Some(ResponseType::Object),
        _ => None,
    };
    if response_type.is_some() {
        filter.as_object_mut().unwrap().remove("root");
    }
    let replaced = filter["patches"].as_array().is_some_and(|all| all.iter().any(|patch| patch["op"] == "replace"));
    // What works on a user tells by succeeding what that is, and moves or copies of it what may be kept elsewhere.
    let parts = (retains || way == Way::Select) && filter["patches"].is_null();
    let none =
        Removes { nulls: false, empties: false, items: None, others: false, kinds: false, parts, each, replaced };
    let removes = Removes { nulls: nulls || empties, empties, ..none };
    // An index counts what `retain` has left: what it names beyond the limit may be within it then.
    let indexed =
        filter["retain"].as_array().is_some_and(|all| all.iter().any(|path| path.to_string().contains("/1/")));
    let (others, kinds) = (selects && list, retains && !selects);
    let inner = Removes { items: max.filter(|_| list && !indexed), others, kinds, ..removes };
    // Items and their users are members of elements too, where the document is selected from.
    let inner = if list { inner } else { inner.unless(each) };
    // Beside a list that is the payload, nothing is dropped that `retain` keeps.
    let outer = if list { none } else { removes };
    Filter { filter, outer, inner, bare, response_type }
}

impl Filter {
    /// As one of the branches of a list, which read what both halves have.
    fn in_branches(mut self, branches: bool) -> Self {
        if branches && !self.bare {
            let mut filter = self.filter.clone();
            filter["test"] = json!({"path": "/kind", "value": 1.0});
            let two = json!({"test": {"path": "/kind", "value": "a"}, "retain": ["/kind", "/id"]});
            let two = if self.outer.nulls || self.outer.empties {
                json!({"test": two["test"], "retain": ["/kind"]})
            } else {
                two
            };
            self.filter["otherwise"] = json!(true);
            self.filter = json!([filter, two, self.filter]);
        }
        self
    }

    fn document(&self) -> BoxedStrategy<Tree> {
        if self.bare { items(self.inner) } else { document(self.outer, self.inner) }
    }
}

fn operations() -> impl Strategy<Value = Vec<Value>> {
    let operations = vec![
        json!({"op": "add", "path": "/x", "value": {"y": [1]}}),
        json!({"op": "add", "path": "/u/x", "value": null}),
        json!({"op": "replace", "path": "/id", "value": "r"}),
        json!({"op": "replace", "path": "/u/login", "value": "r"}),
        json!({"op": "remove", "path": "/u/mail"}),
        json!({"op": "remove", "path": "/u/mail/deeper"}),
        json!({"op": "remove", "path": "/u"}),
        json!({"op": "copy", "from": "/id", "path": "/u/id"}),
        json!({"op": "move", "from": "/u/login", "path": "/by"}),
        json!({"op": "remove", "path": "/items/0/u/login"}),
        json!({"op": "replace", "path": "/items/0/n", "value": 0}),
        json!({"op": "test", "path": "/id", "value": 1}),
        json!({"op": "replace", "path": "/id", "value": null}),
        json!({"op": "add", "path": "/u/x", "value": {"y": []}}),
        json!({"op": "add", "path": "/items/0", "value": {"n": 9, "tags": [{"name": "t"}]}}),
        json!({"op": "add", "path": "/items/-", "value": {"n": 9}}),
        json!({"op": "remove", "path": "/items/2/n"}),
    ];
    prop_oneof![2 => Just(Vec::new()), 1 => prop::sample::subsequence(operations, 1..4)]
}

/// What the caller gets: text, structured content, meta; or the one text of a refusal.
fn answer(program: &Program, input: Input<'_>, call: &Call) -> Result<(String, Structured, String), &'static str> {
    let reference = program.apply_reference(input, call);
    let fast = program.apply(input, call);
    assert_eq!(fast.is_ok(), reference.is_ok());
    if let (Ok(fast), Ok(reference)) = (&fast, &reference) {
        assert_eq!((&fast.text, &fast.structured), (&reference.text, &reference.structured));
    }
    match reference {
        Ok(filtered) => Ok((filtered.text, filtered.structured, filtered.report.meta(Enforcement::Enforced))),
        Err(_) => Err(Refused::message(true)),
    }
}

/// The program of a filter, and whether `compile` says that it tells the caller something.
fn enforced(filter: &Value, response_type: Option<ResponseType>) -> Option<(Program, bool)> {
    let filter: ToolFilter = serde_json::from_value(filter.clone()).unwrap();
    let options = CompileOptions { enforcement: Enforcement::Enforced, response_type, ..CompileOptions::default() };
    let compiled = compile(&filter, &options);
    let tells = compiled.findings.iter().any(|finding| finding.message.contains("tells the caller"));
    compiled.program.map(|program| (program, tells))
}

/// As many cases as `PROPTEST_CASES` says, or `cases`.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

#[test]
fn what_is_removed_changes_nothing_that_the_caller_sees() {
    let (compared, answered, told) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let cases = filter().prop_flat_map(|filter| {
        let document = filter.document();
        (Just((filter.filter, filter.response_type)), document, prop::option::weighted(0.2, 5..80_usize))
    });
    TestRunner::new(config(4000))
        .run(&cases, |((filter, response_type), document, budget)| {
            let Some((program, tells)) = enforced(&filter, response_type) else { return Ok(()) };
            let (left, right) = document.halves();
            let call = Call { raw: false, budget };
            let one = answer(&program, Input::Json(left.as_bytes()), &call);
            let two = answer(&program, Input::Json(right.as_bytes()), &call);
            if tells {
                told.set(told.get() + usize::from(one.is_ok() != two.is_ok()));
                if one.is_ok() != two.is_ok() {
                    return Ok(());
                }
            } else {
                compared.set(compared.get() + 1);
                answered.set(answered.get() + usize::from(one.is_ok()));
            }
            prop_assert_eq!(one, two, "{}\n{}\n{}", filter, left, right);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    // The property must not hold because nothing is ever answered, nor the warnings be about nothing.
    let (compared, answered, told) = (compared.get(), answered.get(), told.get());
    assert!(compared > 1000 && answered > 500 && told > 0, "{answered} of {compared}, {told} told");
}

/// A line of each half.
type Pair = (Option<String>, Option<String>);

#[test]
fn lines_that_are_removed_change_nothing_that_the_caller_sees() {
    // Lines that are there in one half only, or another: their number is removed with them.
    let line = prop_oneof![
        2 => Just((Some("E shown".to_owned()), Some("E shown".to_owned()))),
        1 => Just((Some("E \u{1b}[1mbold".to_owned()), Some("E \u{1b}[1mbold".to_owned()))),
        3 => (prop::option::weighted(0.8, hidden()), prop::option::weighted(0.8, hidden())),
    ];
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0..3));
    let cases = (prop::collection::vec(line, 0..6), options, any::<bool>(), prop::option::of(1..30_usize));
    TestRunner::new(config(1000))
        .run(&cases, |(lines, (strip, ansi, dedup, max), closed, budget)| {
            let mut filter =
                json!({"text": {"dedup": dedup, "maxLines": max, "stripAnsi": ansi, "onEmpty": "nothing"}});
            if strip {
                // All that does not begin so, said the other way round.
                filter["text"]["strip"] = json!(["^[^E]", "^$"]);
            } else {
                filter["text"]["keep"] = json!(["^E"]);
            }
            let (program, _) = enforced(&filter, None).unwrap();
            let half = |pick: fn(&Pair) -> &Option<String>| {
                let lines = lines.iter().filter_map(|line| pick(line).as_deref()).collect::<Vec<_>>();
                // Whether the last line is ended is not removed with it.
                lines.join("\n") + if closed { "\n" } else { "\nE last" }
            };
            let (left, right) = (half(|line| &line.0), half(|line| &line.1));
            let call = Call { raw: false, budget };
            // Of what is not declared text, an empty body is `{}`.
            let undeclared = !left.is_empty() && !right.is_empty();
            for declared in [false, true].into_iter().filter(|declared| *declared || undeclared) {
                let input = |text| if declared { Input::Text(text) } else { Input::Json(text) };
                let one = answer(&program, input(left.as_bytes()), &call);
                prop_assert!(one.is_ok());
                let two = answer(&program, input(right.as_bytes()), &call);
                prop_assert_eq!(one, two, "{} {:?}\n{:?}", filter, left, right);
            }
            // Text in a JSON object; what stands beside it goes.
            let raw = |text: &str, stderr: &str| {
                json!({"_exit_code": stderr.len(), "stderr": stderr, "raw": text}).to_string()
            };
            let (left, right) = (raw(&left, "secret"), raw(&right, ""));
            let one = answer(&program, Input::Json(left.as_bytes()), &call);
            prop_assert_eq!(
                one,
                answer(&program, Input::Json(right.as_bytes()), &call),
                "{} {:?}\n{:?}",
                filter,
                left,
                right
            );
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Lines that `keep` does not match; some make the output JSON by accident.
fn hidden() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["", "1", "true", "null", "\"E\"", "[\"E\"]", "{\"a\":\"E\"}", "\u{1b}[1mx", "é"])
            .prop_map(str::to_owned),
        "[a-z ]{0,12}",
    ]
}
