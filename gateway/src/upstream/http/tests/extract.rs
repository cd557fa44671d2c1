use super::*;

fn found(body: &'static str, path: &str) -> Result<Option<String>, String> {
    extract(&Bytes::from_static(body.as_bytes()), path)
        .map(|found| found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

#[test]
fn paths() {
    let table = [
        (r#"{"a": {"b": [1, {"c": 1.10}]}}"#, "a.b.1.c", Some("1.10")),
        (r#" {"a" : 12345678901234567890 } "#, "a", Some("12345678901234567890")),
        (r#"{"a": {"b" : [ 1 , 2 ] } }"#, "a.b", Some("[ 1 , 2 ]")),
        (r#"{"a": 1, "a": 2}"#, "a", Some("2")),
        (r#"{"\u0061": "\ud800"}"#, "a", Some(r#""\ud800""#)),
        (r#"{"\ud800": 1, "a": 1e400}"#, "a", Some("1e400")),
        (r#"{"a": null}"#, "a", Some("null")),
        (r#"{"a": null}"#, "a.b", None),
        (r#"{"a": 1}"#, "b", None),
        ("[1, 2]", "2", None),
        ("[1, 2]", "x", None),
        ("[1, 2]", "1", Some("2")),
        ("7", "a", None),
        (r#"{"a": 1}"#, "", Some(r#"{"a": 1}"#)),
    ];
    for (body, path, expected) in table {
        assert_eq!(found(body, path).unwrap().as_deref(), expected, "{body} {path}");
    }
}

#[test]
fn what_is_not_json_says_where() {
    for body in ["<html>", r#"{"a": 1"#, r#"{"a": 1} x"#, r#"{"b": tru, "a": 1}"#, "", "[1,]"] {
        let error = found(body, "a").unwrap_err();
        assert!(error.starts_with("is not valid JSON (line 1, column"), "{body}: {error}");
    }
}

#[test]
fn nothing_is_copied() {
    let body = Bytes::from_static(br#"{"a": [1, 2, 3]}"#);
    let part = extract(&body, "a").unwrap().unwrap();
    assert_eq!(part.as_ptr(), body[6..].as_ptr());
}

#[test]
fn deep_documents_are_no_trouble() {
    let deep = format!(r#"{{"a": {}{}, "b": 1}}"#, "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(extract(&Bytes::from(deep), "b").unwrap().unwrap(), "1");
}

#[test]
fn lists_are_counted() {
    for (body, expected) in [
        ("[]", Some(("", 0))),
        (" [ ] ", Some(("", 0))),
        ("[1]", Some(("1", 1))),
        (r#"[ {"a": [1, 2]} , "]" ]"#, Some((r#"{"a": [1, 2]} , "]""#, 2))),
        ("{}", None),
        ("[1", None),
        ("[1,]", None),
        ("null", None),
    ] {
        let list = list(&Bytes::from_static(body.as_bytes()));
        let list = list.as_ref().map(|(text, count)| (std::str::from_utf8(text).unwrap(), *count));
        assert_eq!(list, expected, "{body}");
    }
}

#[test]
fn the_list_of_an_object() {
    for (body, expected) in [
        (r#"{"other": [1], "items": [2]}"#, Some(("items", "[2]"))),
        (r#"{"data": [1], "result": [2]}"#, Some(("result", "[2]"))),
        (r#"{"items": {}, "data": [1]}"#, Some(("data", "[1]"))),
        (r#"{"n": 1, "first": [1], "second": [2]}"#, Some(("first", "[1]"))),
        (r#"{"items": [1], "items": 2, "data": [3], "data": [4]}"#, Some(("data", "[4]"))),
        (r#"{"items": [1], "items": 2}"#, Some(("items", "[1]"))),
        (r#"{"n": 1}"#, None),
    ] {
        let object = Object::read(body.as_bytes(), &LISTS).unwrap().unwrap();
        assert_eq!(object.find_list(), expected, "{body}");
    }
}

#[test]
fn scalars_of_an_object() {
    let body = r#"{"s": "a\nb", "n": 1.10, "t": true, "z": null, "e": "", "o": {"c": "x"}}"#;
    let object = Object::read(body.as_bytes(), &["s", "n", "t", "z", "e", "o", "q"]).unwrap().unwrap();
    for (path, expected) in [
        ("s", Some("a\nb")),
        ("n", Some("1.10")),
        ("t", None),
        ("z", None),
        ("e", None),
        ("o", None),
        ("o.c", Some("x")),
        ("o.d", None),
        ("q", None),
    ] {
        assert_eq!(object.scalar(path).as_deref(), expected, "{path}");
    }
}

#[test]
fn finding_takes_no_memory_for_what_is_not_looked_for() {
    let members = (0..200_000).map(|i| format!(r#""k{i}":1"#)).collect::<Vec<_>>().join(",");
    let elements = vec!["1"; 500_000].join(",");
    for (body, path) in [(format!(r#"{{{members},"a":2}}"#), "a"), (format!("[{elements},2]"), "500000")] {
        let body = Bytes::from(body);
        let mut found = None;
        let measured = allocation_counter::measure(|| found = extract(&body, path).unwrap());
        assert_eq!(found.unwrap(), "2", "{path}");
        assert!(measured.bytes_max < 4 << 10, "{path}: {} bytes", measured.bytes_max);
    }
}
