use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::upstream::http::tests::support::arguments;

fn content(kind: &str) -> Content {
    let template = serde_json::from_value(json!({"argument": "a", "type": kind, "mediaType": "x/y"})).unwrap();
    Content::parse("content", &template, &|name| name == "a").unwrap()
}

fn body(kind: &str, args: &str) -> Result<Option<Vec<u8>>, String> {
    let (args, defaults) = (arguments(args), IndexMap::new());
    content(kind).body(&Values::new(&args, &defaults)).map_err(|error| error.to_string())
}

#[test]
fn bodies_of_one_argument() {
    let table = [
        ("text", r#"{"a": "é\n\"x\""}"#, Ok(Some("é\n\"x\"".as_bytes().to_vec()))),
        ("text", r#"{"a": 1.10}"#, Ok(Some(b"1.10".to_vec()))),
        ("text", r#"{"a": ""}"#, Ok(Some(Vec::new()))),
        ("text", r#"{"a": null}"#, Ok(None)),
        ("text", "{}", Ok(None)),
        ("text", r#"{"a": ["x", "y"]}"#, Err("argument `a` is a list, and the body is one value")),
        ("text", r#"{"a": []}"#, Err("argument `a` is a list, and the body is one value")),
        ("text", r#"{"a": {}}"#, Err("argument `a` is an object, which cannot be written as text")),
        ("json", r#"{"a": {"x": [1.10]}}"#, Ok(Some(br#"{"x": [1.10]}"#.to_vec()))),
        ("bytes", r#"{"a": "AP8K"}"#, Ok(Some(vec![0, 255, 10]))),
        ("bytes", r#"{"a": "AP8="}"#, Ok(Some(vec![0, 255]))),
        ("bytes", r#"{"a": "AP8"}"#, Ok(Some(vec![0, 255]))),
        ("bytes", r#"{"a": "A P8"}"#, Err("argument `a` is not Base64, in which bytes are written")),
        ("bytes", r#"{"a": "-_8"}"#, Err("argument `a` is not Base64, in which bytes are written")),
    ];
    for (kind, args, expected) in table {
        assert_eq!(body(kind, args), expected.map_err(str::to_owned), "{kind} {args}");
    }
}

fn parts(args: &str) -> Result<(String, String), String> {
    let templates = json!({
        "a\"\r\n": {"argument": "a", "type": "text"},
        "file": {"argument": "b", "type": "bytes", "mediaType": "image/png"},
        "meta": {"argument": "c", "type": "json", "mediaType": "application/json"},
    });
    let templates = serde_json::from_value(templates).unwrap();
    let parts = Parts::parse("parts", &templates, &|_| true).unwrap().unwrap();
    let (args, defaults) = (arguments(args), IndexMap::new());
    let (media_type, body) = parts.write(&Values::new(&args, &defaults)).map_err(|error| error.to_string())?;
    let boundary = media_type.to_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
    Ok((String::from_utf8_lossy(&body).replace(&boundary, "B"), boundary))
}

#[test]
fn parts_are_written_by_field() {
    let (text, _) = parts(r#"{"a": ["x", 2], "b": "AAE=", "c": {"k": 1.10}}"#).unwrap();
    assert_eq!(
        text,
        "--B\r\nContent-Disposition: form-data; name=\"a%22%0D%0A\"\r\n\r\nx\r\n\
         --B\r\nContent-Disposition: form-data; name=\"a%22%0D%0A\"\r\n\r\n2\r\n\
         --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\nContent-Type: image/png\r\n\r\n\0\u{1}\r\n\
         --B\r\nContent-Disposition: form-data; name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"k\": 1.10}\r\n\
         --B--\r\n"
    );
    assert_eq!(parts("{}").unwrap().0, "--B--\r\n");
}

#[test]
fn the_number_of_parts_is_bounded() {
    let list = |count: usize| format!(r#"{{"a": [{}1]}}"#, "1,".repeat(count - 1));
    assert!(parts(&list(MAX_PARTS)).is_ok());
    assert_eq!(parts(&list(MAX_PARTS + 1)).unwrap_err(), "argument `a` makes more than 1000 parts");
    let large = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_TEXT));
    assert_eq!(parts(&large).unwrap_err(), "argument `a` makes the request longer than 8388608 bytes");
}

#[test]
fn what_no_request_can_have_is_refused() {
    for (template, message) in [
        (json!({"argument": "z", "type": "text"}), "content: `{z}` is not an argument of the tool"),
        (json!({"argument": "a", "type": "text", "mediaType": "x\r\ny: z"}), "content.mediaType: is not a media type"),
    ] {
        let template = serde_json::from_value(template).unwrap();
        let refused = Content::parse("content", &template, &|name| name == "a").unwrap_err();
        assert_eq!(refused.to_string(), message);
    }
}

proptest! {
    /// Whatever the values are, no other part comes into being: an independent reading finds the same values again.
    #[test]
    fn a_value_stays_in_its_part(values in prop::collection::vec("(--|\r\n|part-|[a-f0-9]|\\PC){0,40}", 0..6)) {
        let args = json!({"a": values}).to_string();
        let (args, defaults) = (arguments(&args), IndexMap::new());
        let templates = serde_json::from_value(json!({"a": {"argument": "a", "type": "text"}})).unwrap();
        let parts = Parts::parse("parts", &templates, &|_| true).unwrap().unwrap();
        let (media_type, body) = parts.write(&Values::new(&args, &defaults)).unwrap();
        let boundary = media_type.to_str().unwrap().split_once("boundary=").unwrap().1.to_owned();
        let body = format!("\r\n{}", String::from_utf8(body).unwrap());
        let delimiter = format!("\r\n--{boundary}");
        let pieces: Vec<&str> = body.split(&delimiter).collect();
        prop_assert_eq!(pieces.len(), values.len() + 2);
        for (piece, value) in pieces[1..].iter().zip(&values) {
            prop_assert_eq!(piece.split_once("\r\n\r\n").unwrap().1, value);
        }
        prop_assert_eq!(pieces[values.len() + 1], "--\r\n");
    }
}
