use proptest::prelude::*;

use super::Piece::{Literal, Placeholder};
use super::*;

#[test]
fn splits_texts_into_literals_and_placeholders() {
    for (text, expected) in [
        ("", vec![]),
        ("x", vec![Literal("x")]),
        ("{a}", vec![Placeholder("a")]),
        ("{a}{b}", vec![Placeholder("a"), Placeholder("b")]),
        ("/repos/{owner}/{repo}", vec![Literal("/repos/"), Placeholder("owner"), Literal("/"), Placeholder("repo")]),
        // A name is more than an identifier: whether an argument has it is decided elsewhere.
        (
            "{a.b}{c[d]}{é}{a:b,c}",
            vec![Placeholder("a.b"), Placeholder("c[d]"), Placeholder("é"), Placeholder("a:b,c")],
        ),
        ("é{a}ß", vec![Literal("é"), Placeholder("a"), Literal("ß")]),
        // The innermost braces count.
        ("{{a}}", vec![Literal("{"), Placeholder("a"), Literal("}")]),
        ("{a{b}c}", vec![Literal("{a"), Placeholder("b"), Literal("c}")]),
        // No name, and braces without a partner.
        ("{}", vec![Literal("{}")]),
        ("{}{a}", vec![Literal("{}"), Placeholder("a")]),
        ("}{a}{", vec![Literal("}"), Placeholder("a"), Literal("{")]),
        ("{a", vec![Literal("{a")]),
        ("a}", vec![Literal("a}")]),
        // White space, control characters and quotes, which JSON and GraphQL have after a brace.
        ("{ a}{a }{a\tb}{\u{a0}a}", vec![Literal("{ a}{a }{a\tb}{\u{a0}a}")]),
        ("{\u{0}}{a\u{7f}}{a\u{85}}", vec![Literal("{\u{0}}{a\u{7f}}{a\u{85}}")]),
        (r#"{"k": "{a}"}"#, vec![Literal(r#"{"k": ""#), Placeholder("a"), Literal(r#""}"#)]),
        ("{'k': '{a}'}", vec![Literal("{'k': '"), Placeholder("a"), Literal("'}")]),
        ("query { viewer { id } }", vec![Literal("query { viewer { id } }")]),
        ("{viewer{id}}", vec![Literal("{viewer"), Placeholder("id"), Literal("}")]),
    ] {
        assert_eq!(pieces(text).collect::<Vec<_>>(), expected, "{text:?}");
    }
}

#[test]
fn takes_linear_time_for_braces_that_are_never_closed() {
    // A parser that looks for the closing brace of each would read 32 TiB.
    let text = "{".repeat(8 << 20);
    assert_eq!(pieces(&text).collect::<Vec<_>>(), [Literal(&text)]);
}

/// Returns the name of the placeholder that a text begins with: the grammar, one character after the other.
fn leading_name(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_name_char = |c: char| !c.is_whitespace() && !c.is_control() && !"{\"'".contains(c);
    (!name.is_empty() && name.chars().all(is_name_char)).then_some(name)
}

proptest! {
    #[test]
    fn pieces_are_the_whole_text_and_literals_contain_no_placeholder(
        text in prop_oneof![r#"[{}a." '\n\u{e9}]{0,24}"#, ".{0,24}"],
    ) {
        let mut whole = String::new();
        let mut last_is_literal = false;
        for piece in pieces(&text) {
            match piece {
                Literal(literal) => {
                    prop_assert!(!literal.is_empty() && !last_is_literal, "{text:?}");
                    for (at, _) in literal.char_indices() {
                        prop_assert_eq!(leading_name(&literal[at..]), None, "{:?}", text);
                    }
                    whole.push_str(literal);
                }
                Placeholder(name) => {
                    let placeholder = format!("{{{name}}}");
                    prop_assert_eq!(leading_name(&placeholder), Some(name), "{:?}", text);
                    whole.push_str(&placeholder);
                }
            }
            last_is_literal = matches!(piece, Literal(_));
        }
        prop_assert_eq!(whole, text);
    }
}
