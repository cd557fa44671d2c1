//! Random filters, and what they remove.

use proptest::prelude::*;
use serde_json::{Value, json};
use tamis_engine::ResponseType;

use super::trees::{Removes, Tree, document, items};

/// How the filter removes the secrets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    Retain,
    Select,
    RetainAndSelect,
    Exclude,
    /// The same by patterns.
    Globs,
    Patches,
}

/// A filter and what it removes: outside of the payload, and in it.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub(super) filter: Value,
    pub(super) outer: Removes,
    pub(super) inner: Removes,
    /// The document is the list, and declared to be one.
    pub(super) bare: bool,
    pub(super) response_type: Option<ResponseType>,
}

pub(super) fn filter() -> impl Strategy<Value = Filter> {
    let ways = [Way::Retain, Way::Select, Way::RetainAndSelect, Way::Exclude, Way::Globs, Way::Patches];
    let way = prop::sample::select(ways.to_vec());
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
        (prop::bool::weighted(0.2), prop::option::weighted(0.5, output()), prop::bool::weighted(0.2), any::<bool>()),
    )
        .prop_map(
            |(
                (way, list, max, nulls, empties),
                retain,
                in_item,
                in_document,
                (exclude, operations),
                (compact, output, declared, branches),
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
                    output,
                    declared,
                )
                .in_branches(branches)
            },
        )
}

/// How an answer is fitted and written. Some strategies, levels and summaries read what the filter removes: `s` and `z`.
fn output() -> impl Strategy<Value = Value> {
    let limits = prop_oneof![
        (5..400_usize).prop_map(|bytes| json!({"bytes": bytes})),
        (3..120_usize).prop_map(|tokens| json!({"tokens": tokens})),
        (5..400_usize, 3..120_usize).prop_map(|(bytes, tokens)| json!({"bytes": bytes, "tokens": tokens})),
    ];
    let strategies = vec![
        json!("element_count"),
        json!("cascading"),
        json!({"name": "default", "group": "s"}),
        json!({"name": "default", "group": "n"}),
        json!({"name": "thread_level", "resolved": "s", "comments": "tags"}),
        json!({"name": "thread_level", "resolved": "/u/z", "comments": "/z"}),
        json!({"name": "size_proportional", "path": "t", "weights": {"*e*": 0.1}}),
        json!({"name": "size_proportional", "path": "/u/s"}),
        json!({"name": "head_tail", "boost": ["s", "1"]}),
    ];
    let levels = vec![json!({"m": ["n", "s"]}), json!({"s": ["/u/*", "/tags"], "m": ["z"]}), json!({"m": ["/**/s"]})];
    let summaries = vec!["{{counts .s}}{{counts .n}}", "{{sum .z}} {{range .n}} {{paths .u.s}}", "{{len .}}"];
    let some = |of: Vec<Value>| prop::option::of(prop::sample::select(of));
    let formats = some(vec![json!("json"), json!("table"), json!("toon"), json!("auto")]);
    let algorithms = some(vec![json!("knapsack"), json!("greedy"), json!("fair"), json!("head_tail")]);
    let summaries = prop::option::of(prop::sample::select(summaries));
    (prop::option::weighted(0.8, limits), formats, some(strategies), algorithms, some(levels), summaries).prop_map(
        |(budget, format, strategy, algorithm, levels, summary)| {
            let mut output = json!({});
            let fields = [("budget", budget), ("format", format), ("strategy", strategy), ("algorithm", algorithm)];
            for (name, value) in fields.into_iter().chain([("levels", levels)]) {
                if let Some(value) = value {
                    output[name] = value;
                }
            }
            if let Some(summary) = summary {
                output["chunks"] = json!({"summary": summary});
            }
            output
        },
    )
}

#[expect(clippy::too_many_arguments, reason = "the parts of one filter")]
pub(super) fn build(
    way: Way,
    list: bool,
    max: Option<usize>,
    (nulls, empties): (bool, bool),
    mut retain: Vec<&str>,
    select: Vec<&str>,
    exclude: Vec<&str>,
    operations: Vec<Value>,
    compact: bool,
    output: Option<Value>,
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
    if way == Way::Globs {
        drops.extend(["/**/s", "/**/z*"]);
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
    if let Some(output) = output {
        filter["output"] = output;
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
    let (others, kinds) = (selects && list, retains);
    let inner = Removes { items: max.filter(|_| list && !indexed), others, kinds, ..removes };
    // Items and their users are members of elements too, where the document is selected from.
    let inner = if list { inner } else { inner.unless(each) };
    // Outside a list that is the payload, nothing is dropped that `retain` keeps.
    let outer = if list { none } else { removes };
    Filter { filter, outer, inner, bare, response_type }
}

impl Filter {
    /// As one of the branches of a list, which read what both halves have.
    pub(super) fn in_branches(mut self, branches: bool) -> Self {
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

    pub(super) fn document(&self) -> BoxedStrategy<Tree> {
        if self.bare { items(self.inner) } else { document(self.outer, self.inner) }
    }
}

pub(super) fn operations() -> impl Strategy<Value = Vec<Value>> {
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
