use proptest::prelude::*;

use super::*;
use crate::json;
use crate::{CompactSpec, Finding};

const DATA: &str = r#"{
    "number": 7, "title": "Fix \"it\"\u00e9\n", "state": "open", "price": 1.10, "big": 12345678901234567890,
    "tiny": 1e-7, "zero": 0.0, "minus": -2.5, "yes": true, "no": false, "none": null, "empty": "", "lone": "a\ud800b",
    "user": {"login": "ada", "id": 1, "plan": null, "tags": ["x", "y"]},
    "labels": [{"name": "bug"}, {"name": "p1"}], "nothing": [], "void": {}, "two": [[1, 2], [3]],
    "a-b": "dashed", "twice": 1, "twice": 2
}"#;

fn render(source: &str) -> Result<String, String> {
    let template = Template::parse(source).map_err(|e| e.to_string())?;
    let dot = json::parse(DATA.as_bytes(), 16).expect("valid data");
    let mut out = String::new();
    template.render(&dot, &mut out, &mut Meter::default()).map_err(|e| e.to_string())?;
    Ok(out)
}

fn check(cases: &[(&str, &str)]) {
    for (source, want) in cases {
        assert_eq!(render(source).as_deref(), Ok(*want), "{source}");
    }
}

#[test]
fn values_print_as_they_are() {
    check(&[
        ("", ""),
        ("plain }} text { {", "plain }} text { {"),
        ("#{{.number}} {{.state}}", "#7 open"),
        ("{{.price}} {{.big}} {{.tiny}} {{.zero}} {{.minus}}", "1.10 12345678901234567890 1e-7 0.0 -2.5"),
        ("{{.title}}", "Fix \"it\"\u{e9}\n"),
        ("{{.lone}}", "a\u{fffd}b"),
        ("[{{.none}}|{{.missing}}|{{.missing.deeper.still}}|{{.none.x}}|{{.title.x}}|{{.number.x}}]", "[|||||]"),
        ("{{.yes}} {{.no}}", "true false"),
        ("{{.user.login}} {{.user.plan}}.", "ada ."),
        ("{{.user}}", r#"{"login":"ada","id":1,"plan":null,"tags":["x","y"]}"#),
        ("{{.two}} {{.nothing}} {{.void}}", "[[1,2],[3]] [] {}"),
        ("{{.twice}}", "2"),
        ("{{$.number}} {{(.user).login}} {{(index .labels 1).name}}", "7 ada p1"),
        (
            r#"{{index . "a-b"}} {{index .two 0 1}} {{index .labels 9}}{{index .labels -1}}{{index .user "no"}}"#,
            "dashed 2 ",
        ),
        (r#"{{"a\tb\"\\\u00e9\x41"}}{{`raw\n`}}{{1.50}}{{true}}{{nil}}"#, "a\tb\"\\\u{e9}Araw\\n1.50true"),
    ]);
}

#[test]
fn control_structures() {
    check(&[
        ("{{if .yes}}a{{else}}b{{end}}{{if .no}}a{{else}}b{{end}}{{if .missing}}c{{end}}", "ab"),
        (
            "{{if .zero}}t{{else}}f{{end}}{{if .empty}}t{{else}}f{{end}}{{if .nothing}}t{{else}}f{{end}}{{if .void}}t{{else}}f{{end}}",
            "ffff",
        ),
        ("{{if .minus}}t{{end}}{{if .labels}}t{{end}}{{if .user}}t{{end}}{{if .tiny}}t{{end}}", "tttt"),
        (r#"{{if eq .state "closed"}}1{{else if eq .state "open"}}2{{else}}3{{end}}"#, "2"),
        ("{{if .no}}1{{else if .no}}2{{else if .no}}3{{else}}4{{end}}", "4"),
        ("{{with .user}}{{.login}} {{$.number}}{{end}}{{with .none}}x{{else}}none{{end}}", "ada 7none"),
        ("{{with $u := .user}}{{$u.id}}{{.id}}{{end}}", "11"),
        ("{{with .none}}a{{else with .user}}{{.login}}{{end}}", "ada"),
        ("{{range .labels}}[{{.name}}]{{end}}", "[bug][p1]"),
        ("{{range $i, $l := .labels}}{{if $i}}, {{end}}{{$i}}={{$l.name}}{{.name}}{{end}}", "0=bugbug, 1=p1p1"),
        ("{{range $l := .labels}}{{$l.name}}{{end}}", "bugp1"),
        (
            "{{range .nothing}}x{{else}}empty{{end}}{{range .missing}}x{{else}}none{{end}}{{range .number}}x{{else}}no{{end}}",
            "emptynoneno",
        ),
        ("{{range $k, $v := .user}}{{$k}}:{{$v}};{{end}}", r#"login:ada;id:1;plan:;tags:["x","y"];"#),
        ("{{range .two}}{{range .}}{{.}}{{if eq . 1}}{{continue}}{{end}}!{{end}}{{break}}{{end}}", "12!"),
        ("{{$n := 0}}{{range .labels}}{{$n = .name}}{{end}}{{$n}}", "p1"),
        ("{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}", "21"),
        ("{{if $x := .state}}{{$x}}{{end}}", "open"),
    ]);
}

#[test]
fn trimming_and_comments() {
    check(&[
        ("a {{- .number -}} b", "a7b"),
        ("a \n\t{{- /* gone */ -}}\r\n b", "ab"),
        ("a {{/* it's {{ here */}} b", "a  b"),
        ("{{ -3 }}{{-3}}", "-3-3"),
        ("a {{- 3}}", "a3"),
        ("{{.number}}\n{{- .number}}", "77"),
        ("{{\n.number\n}}", "7"),
    ]);
}

#[test]
fn functions() {
    check(&[
        (
            "{{and .yes .state}} {{and .yes .no .state}} {{or .no .empty .state}} {{or .no .empty}}.",
            "open false open .",
        ),
        ("{{not .no}} {{not .state}} {{and .yes}} {{or .missing}}.", "true false true ."),
        (
            "{{eq .number 7}} {{eq .number 7.0}} {{eq .price 1.1}} {{eq .big 12345678901234567891}}",
            "true true true false",
        ),
        (
            r#"{{eq .state "open"}} {{eq .state 1 "x" "open"}} {{ne .state "open"}} {{eq .number "7"}}"#,
            "true true false false",
        ),
        ("{{eq .missing nil}} {{eq .none .missing}} {{eq .user .user}} {{eq .yes true}}", "true true false true"),
        (
            "{{lt 1 2}} {{le 2 2.0}} {{gt .big 1e19}} {{ge .minus 0}} {{lt \"a\" \"b\"}} {{lt .tiny 0.001}}",
            "true true true false true true",
        ),
        ("{{lt .missing 1}}{{gt .missing 1}}{{ge .missing nil}}{{lt .state 1}}", "falsefalsefalsefalse"),
        (
            "{{len .labels}} {{len .user}} {{len .state}} {{len .missing}} {{len .number}} {{len \"\u{e9}\"}}",
            "2 4 4 0 0 2",
        ),
        (
            "{{print .number .number}} {{print .state .number}} {{print}}{{println .number .state}}",
            "7 7 open7 7 open\n",
        ),
        (
            "{{.labels | len}} {{.number | eq 7}} {{.state | printf \"%s-%s\" \"x\"}} {{.number | print | len}}",
            "2 true x-open 1",
        ),
        ("{{if and (eq .state \"open\") (gt .number 5)}}yes{{end}}", "yes"),
    ]);
}

#[test]
fn printf_formats_by_digits() {
    check(&[
        ("{{printf \"%d %s %v\" .number .number .number}}", "7 7 7"),
        ("{{printf \"%s|%d|%v\" .price .big .tiny}}", "1.10|12345678901234567890|1e-7"),
        ("{{printf \"%f %.1f %.0f %.3f\" .price .price .price .price}}", "1.10 1.1 1 1.100"),
        ("{{printf \"%.2f %.2f %.2f %.1f %.1f\" 2.675 2.665 1e3 0.25 0.35}}", "2.68 2.66 1000.00 0.2 0.4"),
        ("{{printf \"%.2f %.1f %.0f %.0f %.0f %.2f\" -2.499 9.96 9.5 0.5 1.5 1e-9}}", "-2.50 10.0 10 0 2 0.00"),
        ("{{printf \"%.2f %.0f\" .big 0.99}}", "12345678901234567890.00 1"),
        ("{{printf \"%.2f\" 1e400000}}", "1e400000"),
        (
            "{{printf \"%6.2f|%-8s|%8s|%05d|%+d|% d\" .price .state .state .number .number .number}}",
            "  1.10|open    |    open|00007|+7| 7",
        ),
        ("{{printf \"%-5d|%06.1f|%+.1f\" .number .minus .price}}", "7    |-002.5|+1.1"),
        ("{{printf \"%.2s|%5.1s|%s\" .state \"\u{e9}x\" .missing}}", "op|    \u{e9}|"),
        ("{{printf \"%q %q\" .title .number}}", "\"Fix \\\"it\\\"\u{e9}\\n\" \"7\""),
        ("{{printf \"%x %X %x %#x\" \"hi\" 255 -255 255}}", "6869 FF -ff 0xff"),
        ("{{printf \"%t %v %s\" .yes .user.tags .none}}%", "true [\"x\",\"y\"] %"),
        ("{{printf \"100%%\"}}", "100%"),
        ("{{printf \"%d %d\" .state .missing}}", "open "),
    ]);
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    for (source, offset, message) in [
        ("ab{{.x", 2, "an action is not closed"),
        ("{{/* x }}", 0, "a comment is not closed"),
        ("{{/* x */ .y}}", 0, "a comment is not alone in its action"),
        ("{{.x}", 4, "unexpected `}`"),
        ("{{}}", 0, "a value is missing"),
        ("{{if .x}}a", 0, "{{if}} has no end"),
        ("{{range .x}}a{{else}}b", 13 + 2, "{{else}} has no end"),
        ("a{{end}}", 1, "an {{end}} ends nothing"),
        ("a{{else}}", 3, "an {{else}} belongs to nothing"),
        ("{{if .x}}{{else}}{{else}}{{end}}", 19, "an {{else}} belongs to nothing"),
        ("{{if}}x{{end}}", 0, "a value is missing"),
        ("{{foo .x}}", 2, "the function foo is not known"),
        ("{{title}}", 2, "the function title is not known"),
        ("{{.x .y}}", 5, "`.y` has no place here"),
        ("{{.x | .y}}", 7, "a pipe leads to a value that takes no arguments"),
        ("{{.x |}}", 5, "a value is missing"),
        ("{{(.x}}", 2, "a parenthesis is not closed"),
        ("{{.x)}}", 4, "`)` has no place here"),
        ("{{$y}}", 2, "$y is not declared here"),
        ("{{$y = 1}}", 2, "$y is not declared here"),
        ("{{if $y := 1}}{{end}}{{$y}}", 23, "$y is not declared here"),
        ("{{len}}", 2, "len has 0 arguments"),
        ("{{lt 1}}", 2, "lt has 1 arguments"),
        ("{{eq .x len}}", 8, "the function len is an argument"),
        ("{{printf .x}}", 2, "the format of printf is not a string"),
        ("{{printf \"%d\"}}", 2, "printf has 1 verbs and 0 values"),
        ("{{printf \"%y\" 1}}", 2, "printf: `%y` is not known here"),
        ("{{printf \"%*d\" 1}}", 2, "printf: a width of * is not known here"),
        ("{{printf \"%5000d\" 1}}", 2, "printf: a width or precision is over 1000"),
        ("{{printf \"%\" 1}}", 2, "printf: the format ends within a verb"),
        ("{{break}}", 0, "{{break}} is not in a range"),
        ("{{template \"x\"}}", 0, "{{template}} is not known here"),
        ("{{\"x}}", 2, "a string is not closed"),
        ("{{`x}}", 2, "a raw string is not closed"),
        ("{{\"\\z\"}}", 2, "a string has an unknown escape"),
        ("{{'x'}}", 2, "a character in single quotes"),
        ("{{0x1f}}", 2, "`0x1f` is not a number"),
        ("{{.x-y}}", 4, "`-y` is not a number"),
        ("{{.a ..b}}", 5, "`.` has no place here"),
    ] {
        let error = Template::parse(source).expect_err(source);
        assert_eq!((error.offset, error.message.as_str()), (offset, message), "{source}");
        assert!(!error.remedy.is_empty(), "{source}");
    }
}

#[test]
fn nesting_size_and_work_are_bounded() {
    let deep = format!("{}{}", "{{if .x}}".repeat(MAX_NESTING + 1), "{{end}}".repeat(MAX_NESTING + 1));
    assert!(Template::parse(&deep).is_err());
    let parens = format!("{{{{{}.x{}}}}}", "(".repeat(70), ")".repeat(70));
    assert!(Template::parse(&parens).is_err());
    assert!(Template::parse(&format!("{{{{.x{}}}}}", " | print".repeat(70))).is_err());
    assert!(Template::parse(&"x".repeat(MAX_SOURCE_BYTES + 1)).is_err());

    let list = format!("[{}]", vec!["1"; 1000].join(","));
    let list = json::parse(list.as_bytes(), 4).expect("valid");
    let mut out = String::new();
    let cubed = Template::parse("{{range $}}{{range $}}{{range $}}{{end}}{{end}}{{end}}").expect("parses");
    assert_eq!(cubed.render(&list, &mut out, &mut Meter::new(1_000_000, 100)), Err(RenderError::TooManySteps));
    let long = Template::parse("{{range $}}{{range $}}x{{end}}{{end}}").expect("parses");
    let limit = RenderError::TooLong { limit: 100 };
    assert_eq!(long.render(&list, &mut out, &mut Meter::new(1_000_000, 100)), Err(limit));
    let doubling = Template::parse("{{$s := \"0123456789\"}}{{range $}}{{$s = print $s $s}}{{end}}").expect("parses");
    assert!(doubling.render(&list, &mut out, &mut Meter::default()).is_err());
}

fn compact(header: Option<&str>, item: &str, footer: Option<&str>) -> CompactProgram {
    let spec = CompactSpec { header: header.map(Into::into), item: Some(item.into()), footer: footer.map(Into::into) };
    CompactProgram::compile(&spec).expect("valid templates")
}

fn seed() -> CompactProgram {
    compact(
        Some("Issues ({{.Total}} total):"),
        "  #{{.number}} {{.title}} [{{.state}}]",
        Some("Showing {{.Count}} of {{.Total}}"),
    )
}

const ISSUES: &str =
    r#"[{"number":1,"title":"Fix crash","state":"open"},{"number":2,"title":"Add test","state":"closed"}]"#;

fn items(text: &str) -> Vec<json::Node<'_>> {
    match json::parse(text.as_bytes(), 16).expect("valid") {
        json::Node::Array(items) => items,
        _ => Vec::new(),
    }
}

/// The summary of a whole list.
fn summary(program: &CompactProgram, list: &str, total: usize) -> String {
    let (list, mut meter) = (items(list), Meter::default());
    let lines = program.lines(&list, &mut meter).expect("renders");
    let all = (lines.len() > 0).then(|| lines.text());
    program.around(all, Counts::of(total, lines.len()), &mut meter).expect("renders")
}

#[test]
fn the_seed_documents_summary() {
    let text = summary(&seed(), ISSUES, 2);
    assert_eq!(text, "Issues (2 total):\n  #1 Fix crash [open]\n  #2 Add test [closed]\nShowing 2 of 2");
    assert_eq!(
        structured(&text, 2, ""),
        r##"{"summary":"Issues (2 total):\n  #1 Fix crash [open]\n  #2 Add test [closed]\nShowing 2 of 2","_compact":true,"_original_items":2}"##
    );
}

#[test]
fn counts_are_those_of_the_whole_list() {
    let program = compact(None, "{{.}}", Some("{{if .Remaining}}{{.Remaining}} of {{.Total}} more{{end}}"));
    assert_eq!(summary(&program, "[1,\"a\",[2]]", 100), "1\na\n[2]\n97 of 100 more");
    assert_eq!(summary(&program, "[1,2]", 2), "1\n2");
    assert_eq!(summary(&program, "[]", 0), "");
    assert_eq!(summary(&seed(), "[]", 0), "Issues (0 total):\nShowing 0 of 0");
}

#[test]
fn the_lines_of_items_are_found_by_their_numbers() {
    let list = items(r#"["a\nb","",7]"#);
    let lines = compact(None, "{{.}}", None).lines(&list, &mut Meter::default()).expect("renders");
    assert_eq!((0..lines.len()).map(|item| lines.line(item)).collect::<Vec<_>>(), ["a\nb", "", "7"]);
    assert_eq!((lines.text(), lines.place(1), lines.silent), ("a\nb\n\n7", 4..4, false));
}

#[test]
fn mistakes_in_a_summary_name_the_field() {
    let fields = |header: &str, item: Option<&str>, footer: &str| -> Vec<String> {
        let spec = CompactSpec { header: Some(header.into()), item: item.map(Into::into), footer: Some(footer.into()) };
        let findings = CompactProgram::compile(&spec).map(drop).err().unwrap_or_default();
        findings.iter().map(Finding::to_string).collect()
    };
    let found = fields("{{.title}}", None, "a\n{{.Count");
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].starts_with("compact.header: at column 3: .title is not known here, use .Total"), "{found:#?}");
    assert!(found[1].starts_with("compact.item: is required where compact is present"), "{found:#?}");
    assert!(found[2].starts_with("compact.footer: at line 2, column 1: an action is not closed"), "{found:#?}");
    assert_eq!(fields("{{with .Total}}{{.x}}{{end}}", Some("{{.x}}\n"), "{{$.Remaining}}"), Vec::<String>::new());
    assert_eq!(fields("", Some("{{.x}}"), "{{$.total}}").len(), 1);
}

fn any_template() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{",
        "}}",
        "{{-",
        " -}}",
        " ",
        ".number",
        ".user",
        ".labels",
        ".",
        "$",
        "$x",
        ":=",
        "=",
        "|",
        "(",
        ")",
        ",",
        "if",
        "else",
        "end",
        "range",
        "with",
        "break",
        "continue",
        "and",
        "or",
        "not",
        "eq",
        "lt",
        "len",
        "index",
        "print",
        "printf",
        "\"%5.2f\"",
        "\"%s\"",
        "`a`",
        "1",
        "-2.5e3",
        "true",
        "nil",
        "/*",
        "*/",
        "text",
        "\n",
        "\"",
        "{{if .yes}}",
        "{{range .labels}}",
        "{{end}}",
        "{{.name}}",
        "{{else}}",
        "\u{e9}",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_template_panics(source in any_template()) {
        if let Err(error) = Template::parse(&source) {
            prop_assert!(error.offset <= source.len());
        } else {
            let _ = render(&source);
        }
    }

    #[test]
    fn text_without_braces_is_itself(source in "[^{]{0,40}") {
        prop_assert_eq!(render(&source), Ok(source));
    }

    #[test]
    fn rounding_agrees_with_integer_arithmetic(value in -1_000_000_i64..1_000_000, scale in 0_usize..6, places in 0_usize..7) {
        let mut digits = format!("{:0width$}", value.abs(), width = scale + 1);
        if scale > 0 {
            digits.insert(digits.len() - scale, '.');
        }
        let text = format!("{}{digits}", if value < 0 { "-" } else { "" });
        let got = decimal::Decimal::parse(&text).fixed(places).expect("short");
        // In units of 10^-places, half to even.
        let want = if places >= scale {
            value.abs() * 10_i64.pow(u32::try_from(places - scale).expect("small"))
        } else {
            let unit = 10_i64.pow(u32::try_from(scale - places).expect("small"));
            let (whole, rest) = (value.abs() / unit, value.abs() % unit);
            whole + i64::from(rest * 2 > unit || (rest * 2 == unit && whole % 2 == 1))
        };
        let plain: String = got.chars().filter(char::is_ascii_digit).collect();
        prop_assert_eq!(plain.parse::<i64>().expect("digits"), want, "{} to {}: {}", text, places, got);
        prop_assert_eq!(got.split_once('.').map_or(0, |(_, f)| f.len()), places);
    }
}
