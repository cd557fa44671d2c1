use proptest::prelude::*;
use tamis_crds::parse_document;

use super::Tree;

/// Reads a tool's input schema through the loader, as `serve` does.
fn through_the_loader(yaml: &str) -> String {
    let parsed = parse_document("test.yaml", yaml.as_bytes());
    assert!(parsed.diagnostics.is_empty(), "{:?}\n{yaml}", parsed.diagnostics);
    let manifest = &parsed.resources.manifests[0].spec;
    manifest.mcp.as_ref().expect("is there").tools.as_ref().expect("are pinned")["t"].input_schema.as_str().to_owned()
}

fn document(schema: &Tree) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  mcp:\n    \
         url: https://example.com/mcp\n    tools:\n      t:\n        inputSchema:\n{}",
        schema.to_yaml(10)
    )
}

#[test]
fn digits_order_and_text_survive() {
    let json = r#"{"type":"object","z":1.10,"a":12345678901234567890123,"list":[{"x":[]},{},[[1],["y"]],"on",null,true],"text":"a\nb: c #d","yes":"no","":"  x ","e":1.5e+10,"u":"\u0085\u2028é😀\u007f\t","block":"one\n\n  two\nthree","trail":"one\n"}"#;
    let tree = Tree::parse(json).expect("is JSON");
    let read = through_the_loader(&document(&tree));
    assert_eq!(Tree::parse(&read), Ok(tree.clone()), "{read}");
    assert_eq!(Tree::parse(&tree.to_json()), Ok(tree));
    assert!(read.contains("1.10") && read.contains("12345678901234567890123"), "{read}");
}

#[test]
fn hidden_characters_are_escapes() {
    // `ignore` in tag characters, an order of text that changes, and nothing between two letters.
    let tags: String = "ignore".chars().filter_map(|c| char::from_u32(0xe0000 + u32::from(c))).collect();
    let hidden = ["\u{202e}", "\u{200b}", "\u{2066}", "\u{fe0f}", "\u{ad}", &tags].concat();
    for text in [format!("Reads{hidden} a file"), format!("Reads\na {hidden}file")] {
        let tree =
            Tree::parse(&serde_json::json!({"type": "object", "description": text}).to_string()).expect("is JSON");
        let written = document(&tree);
        assert!(!written.contains(|c: char| hidden.contains(c)), "{written}");
        assert!(written.contains("\\u202e") && written.contains("\\U000e0069"), "{written}");
        assert_eq!(Tree::parse(&through_the_loader(&written)), Ok(tree), "{written}");
    }
}

#[test]
fn what_is_not_a_definition_is_an_error() {
    for (json, message) in [
        (r#"{"a":1,"a":2}"#, "member `a` occurs twice"),
        (r#"{"a":"\ud800"}"#, "hex escape"),
        ("[1,", "EOF"),
        ("", "EOF"),
    ] {
        let error = Tree::parse(json).expect_err(json);
        assert!(error.contains(message), "{json}: {error}");
    }
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(Tree::parse(&deep(64)).is_ok());
    assert!(Tree::parse(&deep(65)).expect_err("is too deep").contains("64 levels"));
}

fn trees() -> impl Strategy<Value = Tree> {
    let text = prop_oneof!["[ -~\n\t]{0,12}", any::<String>().prop_map(|text| text.chars().take(12).collect())];
    let word = prop::sample::select(vec![
        "y",
        "No",
        "null",
        "~",
        "1",
        "0x1",
        "- a",
        "a: b",
        "a #",
        "? x",
        "!t",
        "&a",
        "*a",
        "---",
        "=",
        "<<",
        "1_000",
        "12:30:45",
        "2001-01-01",
        ".5",
        ".",
    ]);
    let leaf = prop_oneof![
        text.clone().prop_map(Tree::Text),
        word.prop_map(Tree::text),
        prop::sample::select(vec!["0", "-1", "1.0", "1e5", "-0.10E-7", "true", "null"])
            .prop_map(|t| Tree::Literal(t.to_owned())),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
            prop::collection::btree_map(text.clone(), inner, 0..4).prop_map(|map| Tree::Map(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_as_the_same(tree in trees()) {
        let schema = Tree::map([("type", Tree::text("object")), ("x", tree)]);
        let read = through_the_loader(&document(&schema));
        prop_assert_eq!(Tree::parse(&read), Ok(schema.clone()), "{}", document(&schema));
        prop_assert_eq!(Tree::parse(&schema.to_json()), Ok(schema));
    }
}
