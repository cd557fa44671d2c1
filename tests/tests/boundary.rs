//! `Enforced` through the whole gateway: two upstream answers that differ only in what a filter removes give the caller
//! the same bytes, and what was removed is nowhere in the logs or metrics.

use anyhow::Result;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{Answer, Era, Gateway, Rpc, Upstream};

/// Members that the filters let pass, and ones that they remove.
const KEPT: &[&str] = &["id", "name", "open"];
const REMOVED: &[&str] = &["token", "email", "body", "audit"];

/// Each lets `KEPT` pass in its own way.
const FILTERS: &[(&str, &str)] = &[
    ("selected", "{root: '', select: {id: id, name: name, open: open}}"),
    ("retained", "{retain: [/*/id, /*/name, /*/open]}"),
    ("mapped", "{retain: [/id, /name, /open], root: '', dropNulls: true}"),
    ("excluded", "{root: '', exclude: [token, email, body, audit]}"),
    ("shortened", "{root: '', select: {id: id, name: name}, maxItems: 2, dropEmpty: true}"),
    (
        "summed",
        "{root: '', select: {id: id, name: name}, compact: {header: '{{.Total}} of them', item: '{{.id}} {{.name}}'}}",
    ),
    ("branched", "[{test: {path: /0/id, value: 1}, retain: [/*/id]}, {otherwise: true, retain: [/*/name]}]"),
];

fn manifest(upstream: &Upstream) -> String {
    let actions: Vec<String> = FILTERS
        .iter()
        .map(|(name, _)| format!("      {name}: {{method: GET, path: /document, response: {{type: array}}}}\n"))
        .collect();
    let filters: Vec<String> = FILTERS.iter().map(|(name, filter)| format!("    {name}: {filter}\n")).collect();
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  http:\n    baseUrl: {}\n    actions:\n{}\
         ---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: f}}\nspec:\n  service: {{name: s, version: '1'}}\n  enforcement: \
         Enforced\n  filters:\n{}---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: e}}\nspec: {{service: {{name: s, version: \
         '1'}}}}\n",
        upstream.url,
        actions.concat(),
        filters.concat(),
    )
}

/// A value that filters keep.
fn kept() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..4_i64).prop_map(Value::from),
        "[a-c ]{0,3}".prop_map(Value::from),
        Just(Value::Null),
        Just(json!({"deep": [1, {"deeper": ""}]})),
    ]
}

/// A value that they remove, of any shape.
fn removed() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "REMOVED[a-z\"\\\\{}\\[\\],:]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((select(&["id", "name", "REMOVED"][..]), inner), 0..3)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// The removed data of one element: some of the members, with any value, at any position.
fn additions() -> impl Strategy<Value = Vec<(usize, &'static str, Value)>> {
    subsequence(REMOVED, 0..=REMOVED.len())
        .prop_flat_map(|names| names.into_iter().map(|name| (0..4_usize, Just(name), removed())).collect::<Vec<_>>())
}

/// Two lists that differ only in removed data.
fn pair() -> impl Strategy<Value = (Value, Value)> {
    let element = subsequence(KEPT, 0..=KEPT.len())
        .prop_flat_map(|names| names.into_iter().map(|name| (Just(name), kept())).collect::<Vec<_>>());
    prop::collection::vec((element, additions(), additions()), 0..4).prop_map(|elements| {
        let side = |added: fn(&Element) -> &Added| elements.iter().map(|e| with(&e.0, added(e))).collect();
        (side(|element| &element.1), side(|element| &element.2))
    })
}

type Added = Vec<(usize, &'static str, Value)>;
type Element = (Vec<(&'static str, Value)>, Added, Added);

fn with(kept: &[(&'static str, Value)], added: &Added) -> Value {
    let mut members = kept.to_vec();
    for (at, name, value) in added {
        members.insert((*at).min(members.len()), (name, value.clone()));
    }
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// All that a caller sees, but the clock.
fn visible(answer: &Answer) -> (u16, Vec<String>, &str) {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "date");
    (answer.status, headers.map(|(name, value)| format!("{name}: {value:?}")).collect(), &answer.text)
}

#[tokio::test]
async fn answers_reveal_no_removed_data() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::new()?;
    folder.write("all.yaml", &manifest(&upstream))?;
    let gateway = Gateway::start(folder.path()).await?;
    let eras = [Era::Legacy, Era::Modern].map(|era| Rpc::new(&gateway.endpoint("e"), era));
    let eras = eras.into_iter().collect::<Result<Vec<_>>>()?;

    let mut runner = TestRunner::deterministic();
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..60 {
        let (one, other) = pair().new_tree(&mut runner).map_err(anyhow::Error::msg)?.current();
        for (tool, filter) in FILTERS {
            for rpc in &eras {
                upstream.set_document(200, &one.to_string());
                let first = rpc.call(tool, &json!({})).await?;
                upstream.set_document(200, &other.to_string());
                let second = rpc.call(tool, &json!({})).await?;
                assert_eq!(visible(&first), visible(&second), "{filter}\n{one}\n{other}");
                assert!(!first.text.contains("REMOVED"), "{filter}\n{one}\n{}", first.text);
                if first.text_block().is_ok() { answered += 1 } else { refused += 1 }
            }
        }
    }
    // Only the status of an upstream error is revealed.
    for rpc in &eras {
        upstream.set_document(500, "REMOVED one");
        let first = rpc.call("selected", &json!({})).await?;
        upstream.set_document(500, &json!({"error": "REMOVED two"}).to_string());
        assert_eq!(visible(&first), visible(&rpc.call("selected", &json!({})).await?));
    }
    println!("{answered} answers and {refused} refusals told nothing");
    assert!(answered > refused, "{answered} answers, {refused} refusals: the filters hardly ever apply");
    assert!(!gateway.log().contains("REMOVED"), "{}", gateway.log());
    assert!(!gateway.admin("/metrics").await?.contains("REMOVED"));
    assert!(!gateway.config().await?.to_string().contains("REMOVED"));
    Ok(())
}
