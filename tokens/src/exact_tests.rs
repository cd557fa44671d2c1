//! Splitting a text into parts. `tests/counts.rs` compares whole counts with other libraries.

use proptest::prelude::*;

use super::{PART, is_boundary, part};

/// Characters of every class in the patterns, and those that the patterns name.
fn text(length: usize) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => prop::sample::select(b"aZsltT059 \t\n\r\x0b'\",:{}[]/\\-_.#|\x00".as_slice()).prop_map(char::from),
        2 => prop::sample::select("éÉǅʰßſ的かー한\u{301}\u{5b0}²Ⅷ٣½\u{85}\u{a0}\u{2003}\u{2028}\u{3000}。、«€😀👩\u{200d}".chars().collect::<Vec<_>>()),
        1 => any::<char>(),
    ];
    prop::collection::vec(character, 0..length).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 4, ..ProptestConfig::default() })]

    /// What `is_boundary` says of any text, by a library whose code has no parts.
    #[test]
    fn no_token_crosses_a_boundary(text in text(24)) {
        for tokenizer in [bpe_openai::o200k_base(), bpe_openai::cl100k_base()] {
            let whole = tokenizer.encode(text.as_str());
            for at in (1..text.len()).filter(|at| text.is_char_boundary(*at) && is_boundary(&text, *at)) {
                let (before, after) = text.split_at(at);
                let parts = [tokenizer.encode(before), tokenizer.encode(after)].concat();
                prop_assert_eq!(&whole, &parts, "{:?} {:?}", before, after);
            }
        }
    }
}

#[test]
fn json_and_toon_have_boundaries() {
    for (text, boundaries) in [
        (r#"{"name":"value","n":12,"b":true}"#, 6),
        ("items[2]{id,name}:\n 1,a b\n 2,c\n", 9),
        ("日本 語", 1),
        ("it's", 0),
        ("a\u{301}\u{301}, é,", 1),
        ("  \n\n  ", 0),
        ("1²", 0),
    ] {
        let found: Vec<_> = (1..text.len()).filter(|at| text.is_char_boundary(*at) && is_boundary(text, *at)).collect();
        assert_eq!(found.len(), boundaries, "{text} {found:?}");
    }
}

#[test]
fn a_part_ends_at_the_last_boundary() {
    let text = format!("{}, {}", "a".repeat(PART - 100), "é".repeat(PART));
    assert_eq!(part(&text), Some(PART - 99));
    assert_eq!(part(&text[PART - 99..]), None);
    assert_eq!(part("short"), Some(5));
    assert_eq!(part(""), Some(0));
}
