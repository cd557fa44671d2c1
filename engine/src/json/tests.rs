use super::{JsonText, Node, ParseErrorKind, compact_len, dedupe, parse, to_string};
use crate::work::Work;

fn read(text: &str) -> Node<'_> {
    parse(text.as_bytes(), 128).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn what_the_rfc_allows_is_kept_byte_for_byte() {
    let texts = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-0.0",
        "1.10",
        "1e400",
        "-1E-400",
        "1e+2",
        "0.0e0",
        "12345678901234567890123456789012345678901234567890",
        "\"\"",
        "\"\\u0061\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\u0000\"",
        "\"\u{7f}\u{2028}é😀\"",
        "[]",
        "{}",
        "[[],{}]",
        "{\"\":1,\"\\u0061\":2,\"a\":3,\"a\":4}",
    ];
    for text in texts {
        let node = read(text);
        assert_eq!(to_string(&node), text);
        assert_eq!(compact_len(&node), text.len());
    }
}

#[test]
fn only_insignificant_white_space_goes() {
    let node = read(" \t\r\n{ \"a b\" :\n[ 1 ,\t\" x \" ] , \"c\" : { } }\r\n ");
    assert_eq!(to_string(&node), "{\"a b\":[1,\" x \"],\"c\":{}}");
}

#[test]
fn mistakes_are_rejected_with_their_offset() {
    use ParseErrorKind::{
        ControlCharacter, Escape, Number, TooDeep, TrailingData, UnexpectedCharacter, UnexpectedEnd, Utf8,
    };
    let cases: &[(&[u8], ParseErrorKind, usize)] = &[
        (b"", UnexpectedEnd, 0),
        (b"  ", UnexpectedEnd, 2),
        (b"\xef\xbb\xbf{}", UnexpectedCharacter, 0),
        (b"\"\xff\"", Utf8, 1),
        (b"\"\xc0\x80\"", Utf8, 1),
        (b"\"\xed\xa0\x80\"", Utf8, 1),
        (b"{\"a\":\"\xe2\x82\"}", Utf8, 6),
        (b"[1,]", UnexpectedCharacter, 3),
        (b"[1", UnexpectedEnd, 2),
        (b"[1 2]", UnexpectedCharacter, 3),
        (b"{\"a\" 1}", UnexpectedCharacter, 5),
        (b"{\"a\":1,}", UnexpectedCharacter, 7),
        (b"{a:1}", UnexpectedCharacter, 1),
        (b"{'a':1}", UnexpectedCharacter, 1),
        (b"01", Number, 1),
        (b"-", UnexpectedEnd, 1),
        (b"-a", Number, 1),
        (b"1.", UnexpectedEnd, 2),
        (b"1.e1", Number, 2),
        (b"1e", UnexpectedEnd, 2),
        (b"[1e+]", Number, 4),
        (b".5", UnexpectedCharacter, 0),
        (b"+1", UnexpectedCharacter, 0),
        (b"NaN", UnexpectedCharacter, 0),
        (b"nul", UnexpectedEnd, 3),
        (b"nule", UnexpectedCharacter, 3),
        (b"True", UnexpectedCharacter, 0),
        (b"\"abc", UnexpectedEnd, 4),
        (b"\"a\nb\"", ControlCharacter, 2),
        (b"\"\x00\"", ControlCharacter, 1),
        (b"\"\\x\"", Escape, 2),
        (b"\"\\u12g4\"", Escape, 5),
        (b"\"\\u12", UnexpectedEnd, 5),
        (b"1 2", TrailingData, 2),
        (b"{}}", TrailingData, 2),
        (b"[] // c", TrailingData, 3),
        (b"[1,\x0c2]", UnexpectedCharacter, 3),
        (b"[[[[", TooDeep, 3),
    ];
    for (input, kind, offset) in cases {
        let error = parse(input, 3).expect_err(&String::from_utf8_lossy(input));
        assert_eq!((error.kind, error.offset), (*kind, *offset), "{}", String::from_utf8_lossy(input));
    }
}

#[test]
fn nesting_is_allowed_up_to_the_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(parse(nested(128).as_bytes(), 128).map(|node| node.depth()), Ok(128));
    assert_eq!(parse(nested(129).as_bytes(), 128).map_err(|e| e.kind).err(), Some(ParseErrorKind::TooDeep));
    assert!(parse(b"1", 0).is_ok());
    assert!(parse(b"[]", 0).is_err());
    // A limit beyond what recursion can bear is lowered.
    let deep = parse(nested(200_000).as_bytes(), usize::MAX).map_err(|e| e.kind).err();
    assert_eq!(deep, Some(ParseErrorKind::TooDeep));
}

#[test]
fn an_error_never_quotes_the_input() {
    let error = parse(b"{\"password\": secret}", 128).unwrap_err();
    assert_eq!(error.to_string(), "unexpected character at byte 13");
    assert!(!format!("{error:?} {:?}", read("{\"password\":\"secret\"}")).contains("secret"));
}

#[test]
fn escaped_keys_are_found() {
    let node = read(r#"{"\u0061\u006c\u006c":1,"\ud83d\ude00":2,"a\/b":3,"\"":4,"\ud800":5,"\\u0061":6}"#);
    for (name, value) in [("all", "1"), ("😀", "2"), ("a/b", "3"), ("\"", "4"), ("\\u0061", "6")] {
        assert_eq!(node.get(name).map(to_string).as_deref(), Some(value), "{name}");
    }
    assert!(node.get("\u{fffd}").is_none(), "a lone surrogate is no replacement character");
    assert!(node.get("a").is_none());
}

#[test]
fn the_last_of_duplicate_keys_stays_at_the_first_place() {
    let cases = [
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"a":1,"b":2,"\u0061":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"\ud800":1,"\uD800":2,"\udc00":3}"#, r#"{"\ud800":2,"\udc00":3}"#),
        (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
    ];
    for (text, expected) in cases {
        let Node::Object(mut members) = read(text) else { panic!("no object") };
        dedupe(&mut members, &Work::unlimited());
        assert_eq!(to_string(&Node::Object(members)), expected);
    }
    // Many members take another way.
    let many: String = (0..100).map(|i| format!(",\"k{}\":{i}", i % 50)).collect();
    let text = format!("{{{}}}", &many[1..]);
    let Node::Object(mut members) = read(&text) else { panic!("no object") };
    dedupe(&mut members, &Work::unlimited());
    assert_eq!(members.len(), 50);
    assert_eq!(to_string(&members[0].value), "50");
}

#[test]
fn strings_are_decoded() {
    let cases = [
        (r#""plain""#, "plain"),
        (r#""\u00e9\n\"\\\/""#, "é\n\"\\/"),
        (r#""\ud83d\ude00!""#, "😀!"),
        (r#""a\ud800b""#, "a\u{fffd}b"),
        (r#""\udc00\ud800""#, "\u{fffd}\u{fffd}"),
        (r#""\ud800\ud83d\ude00""#, "\u{fffd}😀"),
        (r#""\ud800\u0041""#, "\u{fffd}A"),
    ];
    for (raw, text) in cases {
        assert_eq!(read(raw).as_str().as_deref(), Some(text), "{raw}");
    }
}

#[test]
fn encoding_gives_json_that_reads_back() {
    let text: String = (0..0x80).filter_map(char::from_u32).chain("é😀\u{2028}".chars()).collect();
    let raw = super::encode(&text);
    assert_eq!(read(&raw).as_str().as_deref(), Some(text.as_str()));
    assert_eq!(super::encode("a\"\\\n\u{1}"), r#""a\"\\\n\u0001""#);
}

#[test]
fn values_are_equal_by_value() {
    let equal = [
        ("1", "1.0"),
        ("1", "10e-1"),
        ("-0", "0"),
        ("0e999999999999999999999999999999999999999999", "0.0"),
        ("100", "1E2"),
        ("0.001", "1e-3"),
        ("1e400", "10e399"),
        ("9007199254740993", "9007199254740993.0"),
        ("1e1000000000000000000000000000000000000000", "10e999999999999999999999999999999999999999"),
        ("1e-1000000000000000000000000000000000000000", "0.1e-999999999999999999999999999999999999999"),
        ("\"\\u0061\"", "\"a\""),
        ("\"\\ud83d\\ude00\"", "\"😀\""),
        ("{\"a\":1,\"b\":[2]}", "{\"b\":[2.0],\"\\u0061\":1e0}"),
        ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
    ];
    for (a, b) in equal {
        assert!(read(a).equals(&read(b)) && read(b).equals(&read(a)), "{a} {b}");
    }
    let different = [
        ("9007199254740993", "9007199254740992"),
        ("1", "-1"),
        ("1", "true"),
        ("1", "\"1\""),
        ("null", "false"),
        ("0", "null"),
        ("[1,2]", "[2,1]"),
        ("[1]", "[1,1]"),
        ("{\"a\":1}", "{\"a\":1,\"b\":1}"),
        ("{}", "[]"),
        ("1e400", "1e401"),
        ("1e1000000000000000000000000000000000000000", "1e-1000000000000000000000000000000000000000"),
        ("12", "1.2"),
        ("\"\\ud800\"", "\"\\ufffd\""),
    ];
    for (a, b) in different {
        assert!(!read(a).equals(&read(b)) && !read(b).equals(&read(a)), "{a} {b}");
    }
}

#[test]
fn constants_stay_as_they_are_written_through_serde() {
    let text = r#" { "b" : 1.10, "a" : "\ud800", "n" : 1e400 } "#;
    let compact = r#"{"b":1.10,"a":"\ud800","n":1e400}"#;
    assert_eq!(JsonText::parse(text).unwrap().as_str(), compact);
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Document {
        value: JsonText,
    }
    let document: Document = serde_json::from_str(&format!("{{\"value\":{text}}}")).unwrap();
    assert_eq!(document.value.as_str(), compact);
    assert_eq!(serde_json::to_string(&document).unwrap(), format!("{{\"value\":{compact}}}"));
    for broken in ["", "{", "01", "\"\u{1}\"", "1 2", "\u{feff}1"] {
        assert!(JsonText::parse(broken).is_err(), "{broken}");
    }
    assert!(JsonText::parse("[".repeat(129) + &"]".repeat(129)).is_err());
}

#[test]
fn a_huge_string_is_one_leaf() {
    let text = format!("\"{}\"", "é\\n".repeat(1 << 20));
    let node = read(&text);
    assert_eq!(compact_len(&node), text.len());
    assert_eq!(node.as_str().map(|s| s.chars().count()), Some(2 << 20));
}
