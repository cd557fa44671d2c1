use proptest::prelude::*;

use super::patterns::{MAX_PATTERN_BYTES, MAX_PATTERNS};
use super::*;

fn program(spec: &TextSpec) -> TextProgram {
    TextProgram::compile(spec, &mut PatternBudget::default()).expect("a valid spec")
}

fn list(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|&p| p.into()).collect()
}

#[test]
fn ansi_sequences_go_and_text_stays() {
    for (input, want) in [
        ("plain", "plain"),
        ("", ""),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;196mbold\x1b[m!", "bold!"),
        ("\x1b[2K\x1b[1Gstep", "step"),
        ("\x1b[?25lhidden\x1b[?25h", "hidden"),
        ("\x1b[38:2::255:0:0mcolon\x1b[0 q", "colon"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("\x1b]0;caf\u{e9} \u{a9}\x07x", "x"),
        ("\x1bP1$r0m\x1b\\x\x1b_apc\x1b\\y\x1b^pm\x1b\\z\x1bXsos\x1b\\", "xyz"),
        ("\x1b(Bascii\x1b)0", "ascii"),
        ("\x1b7saved\x1b8\x1bc\x1b=", "saved"),
        ("\x1b#8x\x1b %Gy", "xy"),
        ("\u{9b}31mC1\u{9b}0m \u{9d}title\u{9c}ok\u{84}", "C1 ok"),
        ("next\u{85}line \u{c2} \u{a9} \u{e9}", "next\u{85}line \u{c2} \u{a9} \u{e9}"),
        // Cut off at the end, at every place.
        ("a\x1b", "a"),
        ("a\x1b[", "a"),
        ("a\x1b[31", "a"),
        ("a\x1b[31 ", "a"),
        ("a\x1b]0;tit", "a"),
        ("a\x1b]0;tit\x1b", "a"),
        ("a\x1b(", "a"),
        ("a\u{9b}1", "a"),
        // Bytes that do not belong to the sequence stay.
        ("\x1b\x1b[31mx", "x"),
        ("\x1b[31\nx", "\nx"),
        ("\x1b[\u{e9}", "\u{e9}"),
        ("\x1b\u{e9}", "\u{e9}"),
        ("\x1b\nx", "\nx"),
        ("\x1b]a\x1b[31mred", "red"),
    ] {
        assert_eq!(strip_ansi(input), want, "{input:?}");
    }
}

#[test]
fn lines_are_cleaned_in_the_order_of_the_stages() {
    let spec = TextSpec::default;
    let cases: Vec<(&str, TextSpec, &str, &str)> = vec![
        ("nothing asked", spec(), "a\nb\n", "a\nb\n"),
        ("line ends", spec(), "a\r\nb\rc\n\r\r\nd", "a\nb\nc\n\n\nd"),
        ("keep", TextSpec { keep: list(&["^E", "^W"]), ..spec() }, "E1\nI2\nW3\n", "E1\nW3\n"),
        ("strip", TextSpec { strip: list(&["^E"]), ..spec() }, "E1\nI2\nW3", "I2\nW3"),
        (
            "strip wins over keep",
            TextSpec { strip: list(&["noise"]), keep: list(&["^E"]), ..spec() },
            "E noise\nE 1\nI 2",
            "E 1",
        ),
        (
            "a sequence goes before expressions see the line",
            TextSpec { strip_ansi: true, keep: list(&["^E"]), ..spec() },
            "\x1b[31mE1\x1b[0m\n\x1b[0mI",
            "E1",
        ),
        ("sequence within a line end", TextSpec { strip_ansi: true, ..spec() }, "a\r\x1b[K\nb", "a\nb"),
        ("dedup", TextSpec { dedup: true, ..spec() }, "a\na\na\nb\na\n", "a (x3)\nb\na\n"),
        ("dedup of blank lines", TextSpec { dedup: true, ..spec() }, "a\n\n\n\nb", "a\n\nb"),
        (
            "lines are adjacent once others are gone",
            TextSpec { dedup: true, strip: list(&["^$"]), ..spec() },
            "a\n\na",
            "a (x2)",
        ),
        ("maxLines", TextSpec { max_lines: Some(2), ..spec() }, "a\nb\nc\nd\n", "a\nb\n... 2 more lines\n"),
        ("maxLines, one over", TextSpec { max_lines: Some(2), ..spec() }, "a\nb\nc", "a\nb\n... 1 more line"),
        ("maxLines, just enough", TextSpec { max_lines: Some(2), ..spec() }, "a\nb\n", "a\nb\n"),
        ("maxLines 0 is no limit", TextSpec { max_lines: Some(0), ..spec() }, "a\nb", "a\nb"),
        (
            "maxLines counts what dedup left",
            TextSpec { max_lines: Some(1), dedup: true, ..spec() },
            "a\na\nb\nb\nc",
            "a (x2)\n... 3 more lines",
        ),
        (
            "onEmpty",
            TextSpec { keep: list(&["^E"]), on_empty: Some("no errors".into()), ..spec() },
            "I1\nI2\n",
            "no errors",
        ),
        ("onEmpty, blank", TextSpec { on_empty: Some("ok".into()), ..spec() }, " \n\t\n", "ok"),
        ("onEmpty, empty", TextSpec { on_empty: Some("ok".into()), ..spec() }, "", "ok"),
        ("nothing left", TextSpec { keep: list(&["^E"]), ..spec() }, "I1\n", ""),
        ("empty", TextSpec { dedup: true, max_lines: Some(1), ..spec() }, "", ""),
        ("only a line end", spec(), "\n", "\n"),
        ("an expression sees one line", TextSpec { keep: list(&["(?s)a.b"]), ..spec() }, "a\nb\na-b", "a-b"),
    ];
    for (name, spec, input, want) in cases {
        assert_eq!(program(&spec).apply(input, true), want, "{name}");
    }
}

#[test]
fn mistakes_name_field_and_remedy() {
    let spec = TextSpec {
        strip: list(&["ok", "(", ""]),
        keep: list(&["(?=x)", r"(a)\1", "(?:a{1000}){1000}"]),
        max_lines: Some(-1),
        ..TextSpec::default()
    };
    let findings = TextProgram::compile(&spec, &mut PatternBudget::default()).expect_err("mistakes");
    let fields: Vec<&str> = findings.iter().map(|f| f.field.as_str()).collect();
    assert_eq!(
        fields,
        ["text.strip[1]", "text.strip[2]", "text.keep[0]", "text.keep[1]", "text.keep[2]", "text.maxLines"]
    );
    assert_eq!(findings[0].message, "is not a regular expression: unclosed group");
    assert!(findings.iter().all(|f| !f.remedy.is_empty() && !f.message.contains('\n')), "{findings:#?}");
}

#[test]
fn lists_of_expressions_are_bounded() {
    let many = TextSpec { keep: vec!["a".into(); MAX_PATTERNS + 1], ..TextSpec::default() };
    assert_eq!(TextProgram::compile(&many, &mut PatternBudget::default()).expect_err("too many")[0].field, "text.keep");
    let long = TextSpec { strip: vec!["a".repeat(MAX_PATTERN_BYTES + 1)], ..TextSpec::default() };
    assert_eq!(
        TextProgram::compile(&long, &mut PatternBudget::default()).expect_err("too long")[0].field,
        "text.strip[0]"
    );
    let heavy = TextSpec { keep: vec![r"\w{60}".into(); 12], ..TextSpec::default() };
    assert_eq!(
        TextProgram::compile(&heavy, &mut PatternBudget::default()).expect_err("too heavy")[0].field,
        "text.keep[0]"
    );
}

#[test]
fn hostile_sequences_take_linear_time() {
    // Quadratic behaviour would take minutes.
    for piece in ["\x1b", "\x1b]", "\x1b[", "\u{c2}\x1b]\u{a9}", "\x1bP\u{9b}", "\r\x1b[\r"] {
        let text = piece.repeat(1 << 17);
        let spec = TextSpec { strip_ansi: true, dedup: true, ..TextSpec::default() };
        assert!(!program(&spec).apply(&text, true).contains('\x1b'));
    }
}

fn noisy() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\x1b".to_string()),
        Just("\x1b[".to_string()),
        Just("\x1b]".to_string()),
        Just("\u{9b}".to_string()),
        Just("\r".to_string()),
        Just("\n".to_string()),
        Just("a\n".to_string()),
        Just("31m".to_string()),
        Just("\x07".to_string()),
        ".{0,3}",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn ansi_removal_is_idempotent_and_leaves_no_escape(text in noisy()) {
        let once = strip_ansi(&text).into_owned();
        prop_assert!(!once.contains('\x1b'));
        prop_assert_eq!(strip_ansi(&once), once.as_str());
        if !text.contains('\x1b') && !text.chars().any(|c| ('\u{80}'..='\u{9f}').contains(&c)) {
            prop_assert_eq!(&once, &text);
        }
    }

    #[test]
    fn cleaning_without_counts_is_idempotent(text in noisy(), ansi: bool) {
        let program = program(&TextSpec { strip_ansi: ansi, strip: list(&["31"]), keep: list(&["^.?a", "m"]), ..TextSpec::default() });
        let once = program.apply(&text, true);
        prop_assert_eq!(program.apply(&once, true), once.as_str());
        prop_assert!(!once.contains('\r'));
    }

    #[test]
    fn max_lines_keeps_the_head_and_counts_the_rest(text in noisy(), max in 1..5i64) {
        let all = program(&TextSpec::default()).apply(&text, true);
        let cut = program(&TextSpec { max_lines: Some(max), ..TextSpec::default() }).apply(&text, true);
        let body = all.strip_suffix('\n').unwrap_or(&all);
        let lines: Vec<&str> = body.split('\n').collect();
        let max = usize::try_from(max).expect("small");
        if lines.len() <= max {
            prop_assert_eq!(cut, all);
        } else {
            let head = lines[..max].join("\n");
            let want = format!("{head}\n{}", left_out(lines.len() - max));
            prop_assert_eq!(cut.strip_suffix('\n').unwrap_or(&cut), want);
        }
    }
}

#[test]
fn what_max_lines_leaves_out_is_counted_as_it_came() {
    let spec = TextSpec { dedup: true, max_lines: Some(1), ..TextSpec::default() };
    for left_out in ["b\nb", "b\nc", "\n", "b\n"] {
        let text = format!("a\na\n{left_out}\n");
        assert_eq!(program(&spec).apply(&text, true), "a (x2)\n... 2 more lines\n", "{left_out:?}");
    }
}

#[test]
fn a_note_is_not_longer_than_the_line_it_stands_for() {
    let spec = TextSpec { max_lines: Some(1), ..TextSpec::default() };
    let long = "a line that is longer than the note";
    for (text, shown, hidden) in [
        ("a\nb\n", "a\nb\n", "a\n... 1 more line\n"),
        ("a\nb", "a\nb", "a\n... 1 more line"),
        ("a\nb\nc", "a\n... 2 more lines", "a\n... 2 more lines"),
        (&format!("a\n{long}"), "a\n... 1 more line", "a\n... 1 more line"),
    ] {
        assert_eq!(program(&spec).apply(text, false), shown);
        // Neither the lines left out nor their length show.
        assert_eq!(program(&spec).apply(text, true), hidden);
    }
}
