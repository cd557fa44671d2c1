use serde_json::json;

use super::*;
use crate::upstream::http::tests::support::arguments;

fn parsed(cookies: serde_json::Value) -> Result<Cookies, InvalidService> {
    Cookies::parse("cookies", &serde_json::from_value(cookies).unwrap(), &|name| name != "z")
}

fn header(style: &str, args: &str) -> Result<Option<String>, String> {
    let cookies = json!({"s": {"argument": "a", "style": style}, "t": {"argument": "b", "style": style}});
    let cookies = parsed(cookies).unwrap();
    let (args, defaults) = (arguments(args), IndexMap::new());
    let value = cookies.render(&Values::new(&args, &defaults)).map_err(|error| error.to_string())?;
    Ok(value.map(|value| value.to_str().unwrap().to_owned()))
}

#[test]
fn values_stay_in_their_cookies() {
    let refused = "argument `a` holds a character that no cookie may hold: a space, quote, comma, semicolon or backslash, a \
                   control character, or one outside ASCII";
    let table = [
        ("form", r#"{"a": "x", "b": 2}"#, Ok(Some("s=x; t=2"))),
        ("form", r#"{"b": true}"#, Ok(Some("t=true"))),
        ("form", r#"{"a": null}"#, Ok(None)),
        ("form", "{}", Ok(None)),
        ("form", r#"{"a": ""}"#, Ok(Some("s="))),
        ("form", r#"{"a": ["x", "y,z"]}"#, Ok(Some("s=x,y%2Cz"))),
        ("form", r#"{"a": "x; t=evil\r\nHost: é"}"#, Ok(Some("s=x%3B%20t%3Devil%0D%0AHost%3A%20%C3%A9"))),
        ("cookie", r#"{"a": "x=1&y%41", "b": 1.10}"#, Ok(Some("s=x=1&y%41; t=1.10"))),
        ("cookie", r#"{"a": ["x", "y"]}"#, Ok(Some("s=x; s=y"))),
        ("cookie", r#"{"a": "x;t=evil"}"#, Err(refused)),
        ("cookie", r#"{"a": "x y"}"#, Err(refused)),
        ("cookie", r#"{"a": "x\r\nHost: y"}"#, Err(refused)),
        ("cookie", r#"{"a": "é"}"#, Err(refused)),
        ("form", r#"{"a": {}}"#, Err("argument `a` is an object, which cannot be written as text")),
    ];
    for (style, args, expected) in table {
        let expected = expected.map(|value| value.map(str::to_owned)).map_err(str::to_owned);
        assert_eq!(header(style, args), expected, "{style} {args}");
    }
    let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_HEADER));
    assert_eq!(header("form", &long).unwrap_err(), "argument `a` makes the request longer than 65536 bytes");
}

#[test]
fn what_no_cookie_can_be_is_refused() {
    for (cookies, message) in [
        (json!({"a;b": {"argument": "a"}}), "cookies.a;b: is not the name of a cookie"),
        (json!({"a=b": {"argument": "a"}}), "cookies.a=b: is not the name of a cookie"),
        (json!({"a": {"argument": "z"}}), "cookies.a: `{z}` is not an argument of the tool"),
    ] {
        assert_eq!(parsed(cookies).unwrap_err().to_string(), message);
    }
}
