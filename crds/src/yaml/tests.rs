//! What files may look like, and where their parts stand.

use proptest::prelude::*;

use super::*;

/// A tree as compact text: `key=value`, text in quotes.
fn show(node: &Node) -> String {
    match &node.value {
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
        Value::Map(entries) => {
            let entries: Vec<String> = entries.iter().map(|e| format!("{}={}", e.key, show(&e.value))).collect();
            format!("{{{}}}", entries.join(" "))
        }
        Value::Scalar(scalar) => match &scalar.resolved {
            Resolved::Null => "null".to_owned(),
            Resolved::Bool(value) => value.to_string(),
            Resolved::Number(number) => number.to_string(),
            Resolved::NotJson => format!("!{}", scalar.source),
            Resolved::Text => format!("{:?}", scalar.source),
        },
    }
}

fn read(file: &str, text: &str) -> Vec<String> {
    let documents = parse(&file.into(), text.as_bytes()).unwrap_or_else(|d| panic!("{text}: {d}"));
    documents.iter().map(show).collect()
}

#[test]
fn what_yaml_means() {
    let table: &[(&str, &str, &[&str])] = &[
        ("nothing", "", &[]),
        ("a comment", "# a\n", &[]),
        ("empty documents", "---\n---\n...\n", &[]),
        ("documents", "a: 1\n---\nb: 2\n...\n---\nc: 3\n", &["{a=1}", "{b=2}", "{c=3}"]),
        ("byte order mark and CRLF", "\u{feff}a: 1\r\nb:\r\n- c\r\n", &[r#"{a=1 b=["c"]}"#]),
        ("tabs before a comment", "a: 1\t# one\n", &["{a=1}"]),
        ("a block scalar", "a: |\n  one\n   two\n", &[r#"{a="one\n two\n"}"#]),
        ("a folded scalar", "a: >-\n  one\n  two\n", &[r#"{a="one two"}"#]),
        ("escapes", r#"a: "\u00e9\n\"""#, &[r#"{a="é\n\""}"#]),
        ("JSON is YAML", r#"{"a": [1, {"b": null}]}"#, &["{a=[1 {b=null}]}"]),
        ("anchors", "a: &x [1, 2]\nb: *x\n", &["{a=[1 2] b=[1 2]}"]),
        ("an anchor that is set twice", "a: &x 1\nb: *x\nc: &x 2\nd: *x\n", &["{a=1 b=1 c=2 d=2}"]),
        ("merge: what is there wins", "a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}\n", &["{a={k=1 l=2} b={k=3 l=2}}"]),
        (
            "merge: the first source wins",
            "a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}\n",
            &["{a={k=1} b={k=2 l=2} c={k=1 l=2}}"],
        ),
        ("a quoted << is a name", "\"<<\": 1\n", &["{<<=1}"]),
        (
            "tags of the core schema",
            "a: !!str 1.0\nb: !!float 1\nc: !!map {}\nd: !!seq []\n",
            &[r#"{a="1.0" b=1 c={} d=[]}"#],
        ),
        ("a key that looks like a number", "401: a\n1.0: b\n", &[r#"{401="a" 1.0="b"}"#]),
    ];
    for (what, text, expected) in table {
        assert_eq!(read("a.yaml", text), *expected, "{what}");
    }
}

#[test]
fn scalars_by_the_core_schema_and_by_kubectl() {
    // Source, what it is here, what kubectl reads where that is something else.
    let table: &[(&str, &str, Option<&str>)] = &[
        ("1.0", "1.0", None),
        ("12345678901234567890", "12345678901234567890", None),
        ("-1.50e+03", "-1.50e+03", None),
        ("+5", "5", None),
        (".5", "0.5", None),
        ("5.", "5.0", None),
        ("0x1F", "31", None),
        ("0o17", "15", None),
        ("0644", "644", Some("420")),
        ("-010", "-10", Some("-8")),
        ("089", "89", None),
        ("00", "0", None),
        ("1_000", "\"1_000\"", Some("1000")),
        ("_1", "\"_1\"", None),
        ("a_1", "\"a_1\"", None),
        (".nan", "!.nan", None),
        ("-.inf", "!-.inf", None),
        ("1e", "\"1e\"", None),
        ("1e++3", "\"1e++3\"", None),
        (".", "\".\"", None),
        ("-", "\"-\"", None),
        ("1.2.3", "\"1.2.3\"", None),
        ("2025-09-17", "\"2025-09-17\"", None),
        ("12:30", "\"12:30\"", None),
        ("no", "\"no\"", Some("false")),
        ("On", "\"On\"", Some("true")),
        ("y", "\"y\"", Some("true")),
        ("nO", "\"nO\"", None),
        ("True", "true", None),
        ("~", "null", None),
    ];
    for (source, here, kubectl) in table {
        let scalar = Scalar::plain(source);
        assert_eq!(scalar.kubectl_reads().as_deref(), *kubectl, "{source}");
        assert_eq!(show(&Node { position: Position::START, value: Value::Scalar(scalar) }), *here, "{source}");
        assert_eq!(Scalar::quoted(*source).kubectl_reads(), None, "{source} in quotes");
    }
}

#[test]
fn what_json_means() {
    let table: &[(&str, &[&str])] = &[
        (" \n", &[]),
        (r#"{"a":[1.10,-0,1e400],"b":{}}"#, &["{a=[1.10 -0 1e400] b={}}"]),
        (r#"["\ud83d\ude00","\\\"","no"]"#, &[r#"["😀" "\\\"" "no"]"#]),
        ("[true,false,null]", &["[true false null]"]),
    ];
    for (text, expected) in table {
        assert_eq!(read("a.JSON", text), *expected);
    }
    for text in
        ["[1", "{\"a\"}", "[1,]", "\"\\x\"", "[.5]", "[+1]", "[01]", "nul", "{} {}", "\"a\nb\"", "\"", "[1 2]", "{,}"]
    {
        assert!(parse(&"a.json".into(), text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn every_node_knows_its_place() {
    let yaml = "\u{feff}# ä\r\na: 1\r\nüb:\r\n  - {c: é, d: 2}\r\n";
    let json = "{\n  \"a\": 1,\n  \"ü\": [ {\"c\": \"é\", \"d\": 2} ]\n}";
    for (file, text, key, value) in [("a.yaml", yaml, (3, 1), (4, 15)), ("a.json", json, (3, 3), (3, 26))] {
        let document = parse(&file.into(), text.as_bytes()).unwrap().remove(0);
        let entry = &document.entries().unwrap()[1];
        assert_eq!((entry.position.line, entry.position.column), key, "{file}");
        let Value::List(items) = &entry.value.value else { panic!("a list") };
        let d = items[0].get("d").unwrap().position;
        assert_eq!((d.line, d.column), value, "{file}");
    }
}

#[test]
fn json_may_have_what_yaml_may_not() {
    let text = "{\n \"a\u{9f}\": \"\u{7f}\"}";
    for file in ["a.json", "a.yaml"] {
        assert_eq!(read(file, text), ["{a\u{9f}=\"\\u{7f}\"}"], "{file}");
    }
    // YAML refuses it, and JSON what is below a space.
    for (file, text, code) in [
        ("a.yaml", "{a: \"\u{9f}\"}", "9F"),
        ("a.yaml", "a: \"\u{9f}\"", "9F"),
        ("a.yaml", "{\"a\": \"\u{1}\u{9f}\"}", "01"),
        ("a.json", "{\"a\": \"\u{1}\u{9f}\"}", "01"),
    ] {
        let said = parse(&file.into(), text.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(&format!("error: control character U+00{code}; remove it")), "{file}: {said}");
    }
    let said = parse(&"a.yaml".into(), "{\"a\":\n \"\u{9f}\", }".as_bytes()).unwrap_err().to_string();
    assert!(said.starts_with("a.yaml:2:3: error: control character U+009F"), "{said}");
}

#[test]
fn keys_and_values_are_counted() {
    let (json, yaml) = (r#"{"a": [1, {"b": 2}]}"#, "a: [1, {b: 2}]\n");
    let file: Arc<str> = "a".into();
    let read = |limit| (json::parse(&file, json, limit).map(|_| ()), compose::parse(&file, yaml, limit).map(|_| ()));
    assert_eq!(read(7), (Ok(()), Ok(())));
    let remedy = "the file has more than 6 keys and values; split it, or remove the parts that are not needed";
    let (json, yaml) = read(6);
    assert_eq!(json.unwrap_err().to_string(), format!("a:1:17: error: {remedy}"));
    assert_eq!(yaml.unwrap_err().to_string(), format!("a:1:12: error: {remedy}"));
    // All documents of a file together.
    assert!(compose::parse(&file, "a\n---\nb\n", 1).is_err());

    let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
    assert!(parse(&"a.json".into(), list(MAX_NODES).as_bytes()).is_ok());
    let said = parse(&"a.json".into(), list(MAX_NODES + 1).as_bytes()).unwrap_err().to_string();
    assert!(said.contains("more than 2097152 keys and values"), "{said}");
}

#[test]
fn what_is_too_much_is_refused_quickly() {
    let deep = "[".repeat(2_000);
    let objects = "{\"a\":".repeat(2_000);
    let block: String = (0..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    for (file, text) in
        [("a.json", &deep), ("a.json", &objects), ("a.yaml", &deep), ("a.yaml", &objects), ("a.yaml", &block)]
    {
        let said = parse(&file.into(), text.as_bytes()).unwrap_err().to_string();
        assert!(said.contains("nested more than 100 deep"), "{file}: {said}");
    }
    let large = vec![b' '; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
    let said = parse(&"a.yaml".into(), &large).unwrap_err().to_string();
    assert_eq!(
        said,
        "a.yaml:1:1: error: the file has 16777217 bytes, more than the 16777216 that are read; split it into several files"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&"a.yaml".into(), &bytes);
        let _ = parse(&"a.json".into(), &bytes);
    }

    /// Characters that mean something, so that the grammar's corners are reached.
    #[test]
    fn arbitrary_syntax_never_panics(text in "[-a1 :,\\[\\]{}\"'|>&*!%#?@`~<\n\t\r.\\\\u\u{e9}\u{feff}]{0,120}") {
        let _ = parse(&"a.yaml".into(), text.as_bytes());
        let _ = parse(&"a.json".into(), text.as_bytes());
    }

    /// What serde_json writes is read as it is, in both syntaxes.
    #[test]
    fn json_is_read_exactly(texts in proptest::collection::vec("\\PC{0,12}", 0..6), numbers in proptest::collection::vec(any::<i64>(), 0..6)) {
        let json = serde_json::json!({ "texts": texts, "numbers": numbers }).to_string();
        prop_assert_eq!(read("a.json", &json), read("a.yaml", &json));
        let shown = read("a.json", &json).remove(0);
        for number in numbers {
            prop_assert!(shown.contains(&number.to_string()));
        }
    }
}
