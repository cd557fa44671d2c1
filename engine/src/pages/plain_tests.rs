use proptest::prelude::*;
use regex_automata::meta::Regex;

use super::*;

#[test]
fn text_is_a_part_of_one_line() {
    for (text, want) in [
        ("", ""),
        ("src/app/* — 8 files, +120/-45", "src/app/* — 8 files, +120/-45"),
        ("  a \t b\r\nc\u{2028}d\u{85}e\u{b}f\u{0}g\u{1b}[31mh  ", "a b c d e f g (31mh"),
        ("a\u{a0}b\u{3000}c\u{2003}d\u{2800}e", "a b c d e"),
        // Without a shape.
        ("a\u{200b}b\u{feff}c\u{ad}d\u{202e}e\u{e0041}f\u{fe0f}g\u{3164}h", "abcdefgh"),
        (" \u{200b} ", ""),
        // Marks of the index.
        ("[chunks] 1/2 items, [/chunks]", "(chunks) 1/2 items, (/chunks)"),
        ("[CHUNKS] [ chunks ] [\u{200b}chunks\u{2060}]", "(CHUNKS) ( chunks ) (chunks)"),
        ("\u{ff3b}chunks\u{ff3d} \u{3010}/chunks\u{3011} \u{27e6}levels\u{27e7}", "(chunks) (/chunks) (levels)"),
        ("x << returned in this response", "x < returned in this response"),
        ("a<<<b < < c <\u{200b}< d \u{226a} e \u{ff1c}\u{fe64}", "a<b < c < d < e <"),
        ("a<b>c", "a<b>c"),
        ("[", "("),
        ("é日本\u{1f600}", "é日本\u{1f600}"),
    ] {
        assert_eq!(plain(text, 120), want, "{text:?}");
    }
}

#[test]
fn text_is_cut_between_characters() {
    for (room, want) in [(0, ""), (1, ""), (2, "é"), (3, "é"), (4, "éé"), (5, "é..."), (6, "é..."), (10, "ééééé")]
    {
        assert_eq!(plain("ééééé", room), want, "{room}");
    }
    assert_eq!(plain(&"x".repeat(1 << 20), 120), "x".repeat(117) + "...");
}

#[test]
fn characters_without_a_shape_are_those_of_unicode() {
    let invisible = Regex::new(r"^[\p{Default_Ignorable_Code_Point}\p{Cf}]$").expect("a property");
    for c in '\0'..=char::MAX {
        let text = c.to_string();
        if shape(c) == Shape::None {
            assert!(invisible.is_match(&text) || ('\u{fff0}'..='\u{fffb}').contains(&c), "{c:?}");
        } else if Regex::is_match(&invisible, &text) {
            // Signs of scripts that are written around the characters that follow, and have a shape.
            assert!(
                matches!(
                    c as u32,
                    0x600..=0x605 | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x110bd | 0x110cd | 0x13430..=0x1345f
                ),
                "{c:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_passes_for_a_mark(text in hostile(), room in 0_usize..200) {
        let got = plain(&text, room);
        prop_assert!(got.len() <= room);
        prop_assert!(!got.contains(['[', ']', '\n', '\r']));
        prop_assert!(!got.chars().any(|c| c.is_control() || shape(c) == Shape::None), "{:?}", got);
        prop_assert!(!got.replace(' ', "").contains("<<"), "{:?}", got);
        prop_assert_eq!(got.trim(), got.as_str().trim_end());
        prop_assert_eq!(plain(&got, room), got.trim_end());
    }
}

/// Text from the parts of an index, and from characters that hide.
pub(in crate::pages) fn hostile() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "[",
        "]",
        "[chunks]",
        "[/chunks]",
        "[CHUNKS]",
        "\n",
        "\r\n",
        "\u{2028}",
        "\u{85}",
        "\u{200b}",
        "\u{ff3b}",
        "\u{ff3d}",
        "chunks",
        "/",
        " ",
        "<<",
        "<",
        "\u{226a}",
        " << returned in this response",
        "chunk 2 (offset=0, limit=1)",
        "chunks 2-3 (items=1)",
        ":",
        ", ",
        "List 000000.",
        "Use `chunk: N`",
        "\u{202e}",
        "\u{e0043}",
        "\"",
        "\\",
        "{{",
        "}}",
        "..",
        "é",
        "\u{0}",
        "\u{1b}[0m",
    ]);
    let part = prop_oneof![9 => part.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}
