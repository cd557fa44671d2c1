// Helpers take `json!({..})` as it is written.
#![allow(clippy::needless_pass_by_value)]

use proptest::prelude::*;
use serde_json::{Value, json};
use tamis_config::Call;
use url::Position;

use super::*;
use crate::upstream::http::tests::support::{arguments, document, schema};

fn plan(http: Value) -> Result<RequestPlan, InvalidService> {
    let tool = json!({"inputSchema": schema(&["a", "b", "c"]), "call": {"http": http}});
    let document = document("https://api.example:8443/v1/", None, tool);
    let base = "https://api.example:8443/v1/".parse().unwrap();
    let origin = Arc::new(Origin::of(&base).unwrap());
    let tool = &document.tools["call"];
    let Call::Http(call) = &tool.call else { panic!("an HTTP call") };
    RequestPlan::new("http", (&base, &origin), (tool, &**call), None)
}

fn render(http: Value, args: &str) -> Result<Rendered<'static>, UpstreamError> {
    Box::leak(Box::new(plan(http).unwrap())).render(&arguments(args), None, None)
}

/// Path and query, or what is said about the argument.
fn target(http: Value, args: &str) -> String {
    match render(http, args) {
        Ok(rendered) => {
            let url = rendered.target.url().unwrap();
            assert_eq!(url.origin().ascii_serialization(), "https://api.example:8443");
            let target = rendered.target.path_and_query().to_string();
            assert_eq!(url[Position::BeforePath..], target, "a parser reads it as it is written");
            target
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn paths() {
    let dots = "argument `a` makes a path segment `.` or `..`";
    let steps = "argument `a` holds a slash or backslash, which would add a path segment";
    let controls = "argument `a` holds a control character, which a path cannot have";
    let table = [
        ("/x/{a}", r#"{"a": "one"}"#, "/v1/x/one"),
        ("x/{a}", r#"{"a": "one"}"#, "/v1/x/one"),
        ("/x/{a}/", r#"{"a": "one"}"#, "/v1/x/one/"),
        ("/", "{}", "/v1"),
        ("", "{}", "/v1"),
        ("/{a}.json", r#"{"a": 12345678901234567890}"#, "/v1/12345678901234567890.json"),
        ("/{a}:{b}", r#"{"a": 1.10, "b": true}"#, "/v1/1.10:true"),
        ("/ü b/{a}", r#"{"a": "é ß"}"#, "/v1/%C3%BC%20b/%C3%A9%20%C3%9F"),
        ("/a%2Fb/{a}", r#"{"a": "~-._"}"#, "/v1/a%2Fb/~-._"),
        ("/x/{a}", r#"{"a": "group/project"}"#, steps),
        ("/x/{a}", r#"{"a": "y\\z"}"#, steps),
        ("/x/{a}", r#"{"a": "%2f%2e%2e?q=1#f;p"}"#, "/v1/x/%252f%252e%252e%3Fq%3D1%23f%3Bp"),
        ("/x/{a}", r#"{"a": "@evil.example"}"#, "/v1/x/%40evil.example"),
        ("/x/{a}", r#"{"a": ["p", "q"]}"#, "/v1/x/p%2Cq"),
        ("/x/{a}", r#"{"a": "..."}"#, "/v1/x/..."),
        ("/x/{a}", r#"{"a": "."}"#, dots),
        ("/x/{a}", r#"{"a": ".."}"#, dots),
        ("/x/{a}.", r#"{"a": "."}"#, dots),
        ("/x/{b}{a}", r#"{"a": ".", "b": "."}"#, dots),
        ("/x/%2e{a}", r#"{"a": "."}"#, dots),
        ("/x/{a}%2E", r#"{"a": "."}"#, dots),
        ("/x/%2e{a}", r#"{"a": ".."}"#, "/v1/x/%2e.."),
        ("/x/{a}", r#"{"a": "../admin"}"#, steps),
        ("/x/{a}", r#"{"a": "y/.."}"#, steps),
        ("/x/{a}", r#"{"a": "y\\..\\z"}"#, steps),
        ("/x/{a}", r#"{"a": "y/./z"}"#, steps),
        ("/x/{a}", r#"{"a": "y\u0000"}"#, controls),
        ("/x/{a}", r#"{"a": "y\r\nHost: z"}"#, controls),
        ("/x/{a}", r#"{"a": ""}"#, "argument `a` is empty: the path needs it"),
        ("/x/{a}", r#"{"a": null}"#, "argument `a` is missing: the path needs it"),
        ("/x/{a}", "{}", "argument `a` is missing: the path needs it"),
        ("/x/{a}", r#"{"a": {}}"#, "argument `a` is an object, which cannot be written as text"),
    ];
    for (path, args, expected) in table {
        assert_eq!(target(json!({"path": path}), args), expected, "{path} {args}");
    }
}

#[test]
fn path_parameters_are_templates() {
    let http = json!({"path": "/x/{where}", "request": {"pathParams": {"where": "{a}/{b}"}}});
    assert_eq!(target(http.clone(), r#"{"a": "p", "b": "q"}"#), "/v1/x/p%2Fq");
    assert_eq!(target(http, r#"{"a": "p"}"#), "argument `b` is missing: the path needs it");
}

#[test]
fn queries() {
    let table = [
        ("{a}", r#"{"a": "x"}"#, "?q=x"),
        ("{a}", r#"{"a": "x&y=z#f +%41"}"#, "?q=x%26y%3Dz%23f%20%2B%2541"),
        ("{a}", r#"{"a": ""}"#, "?q="),
        ("{a}", r#"{"a": "a\nb"}"#, "?q=a%0Ab"),
        ("{a}", r#"{"a": 1e400}"#, "?q=1e400"),
        ("{a}", r#"{"a": -0.10}"#, "?q=-0.10"),
        ("{a}", r#"{"a": false}"#, "?q=false"),
        ("{a}", r#"{"a": null}"#, ""),
        ("{a}", "{}", ""),
        ("{a}", r#"{"a": []}"#, ""),
        ("{a}", r#"{"a": ["x", 2, true]}"#, "?q=x&q=2&q=true"),
        ("is:{a} by:{b}", r#"{"a": "x y"}"#, "?q=is%3Ax%20y%20by%3A"),
        ("is:{a}", r#"{"a": ["x", "y"]}"#, "?q=is%3Ax%2Cy"),
        ("fixed", "{}", "?q=fixed"),
        ("{\"json\": 1}", "{}", "?q=%7B%22json%22%3A%201%7D"),
    ];
    for (template, args, expected) in table {
        let http = json!({"path": "/p", "request": {"query": {"q": template}}});
        assert_eq!(target(http, args), format!("/v1/p{expected}"), "{template} {args}");
    }
    for (args, expected) in [
        (r#"{"a": {"x": 1}}"#, "argument `a` is an object, which cannot be written as text"),
        (r#"{"a": [{}]}"#, "argument `a` is an object, which cannot be written as text"),
        (r#"{"a": [null]}"#, "argument `a` holds null, which cannot be written as text"),
    ] {
        assert_eq!(target(json!({"path": "/p", "request": {"query": {"q": "{a}"}}}), args), expected);
    }
}

#[test]
fn lists_have_a_style() {
    let http = json!({
        "path": "/p?fixed=1%202&d={b}",
        "defaults": {"b": ["x"]},
        "request": {"query": {"q[]": "{a}", "r": "{b}"}, "styles": {"q[]": "comma"}},
    });
    assert_eq!(target(http.clone(), r#"{"a": ["x", "y&z"]}"#), "/v1/p?fixed=1%202&d=x&q%5B%5D=x,y%26z&r=x");
    assert_eq!(target(http.clone(), r#"{"a": ["x"], "b": "over"}"#), "/v1/p?fixed=1%202&d=over&q%5B%5D=x&r=over");
    assert_eq!(target(http, r#"{"a": [], "b": null}"#), "/v1/p?fixed=1%202");
}

#[test]
fn styles_of_openapi() {
    let table = [
        ("space", r#"{"a": ["x|y", "&"]}"#, "?q%5B%5D=x%7Cy%20%26"),
        ("pipe", r#"{"a": ["x y", 2]}"#, "?q%5B%5D=x%20y%7C2"),
        ("pipe", r#"{"a": "x|y"}"#, "?q%5B%5D=x%7Cy"),
        ("pipe", r#"{"a": "x"}"#, "?q%5B%5D=x"),
        ("pipe", r#"{"a": []}"#, ""),
        (
            "deep",
            r#"{"a": {"k": 1.10, "l": ["x", "y"], "m": null, "]=&evil": "z"}}"#,
            "?q%5B%5D%5Bk%5D=1.10&q%5B%5D%5Bl%5D=x&q%5B%5D%5Bl%5D=y&q%5B%5D%5B%5D%3D%26evil%5D=z",
        ),
        ("deep", r#"{"a": {}}"#, ""),
        (
            "nested",
            r#"{"a": {"k": 1.10, "l": ["x", {"m": true}], "n": null, "]=&evil": {"o": "&"}}}"#,
            "?q%5B%5D%5Bk%5D=1.10&q%5B%5D%5Bl%5D%5B0%5D=x&q%5B%5D%5Bl%5D%5B1%5D%5Bm%5D=true\
             &q%5B%5D%5B%5D%3D%26evil%5D%5Bo%5D=%26",
        ),
        ("nested", r#"{"a": ["x", 2]}"#, "?q%5B%5D%5B0%5D=x&q%5B%5D%5B1%5D=2"),
        ("nested", r#"{"a": "x"}"#, "?q%5B%5D=x"),
        ("nested", r#"{"a": [[], {}]}"#, ""),
        ("json", r#"{"a": {"x": [1.0, "&"]}}"#, "?q%5B%5D=%7B%22x%22%3A%20%5B1.0%2C%20%22%26%22%5D%7D"),
        ("json", r#"{"a": null}"#, ""),
    ];
    let http = |style: &str| json!({"path": "/p", "request": {"query": {"q[]": "{a}"}, "styles": {"q[]": style}}});
    for (style, args, expected) in table {
        assert_eq!(target(http(style), args), format!("/v1/p{expected}"), "{style} {args}");
    }
    for (style, args, expected) in [
        ("space", r#"{"a": ["x y", 2]}"#, "argument `a` has an element with a space, which would be two elements"),
        ("pipe", r#"{"a": ["x", "y|"]}"#, "argument `a` has an element with `|`, which would be two elements"),
    ] {
        assert_eq!(target(http(style), args), expected);
    }
    for (args, expected) in [
        (r#"{"a": 1}"#, "argument `a` is not an object, which the parameter needs"),
        (r#"{"a": {"k": {}}}"#, "argument `a` is an object, which cannot be written as text"),
    ] {
        assert_eq!(target(http("deep"), args), expected);
    }
    let deep = |levels: usize| format!("{{\"a\": {}1{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(target(http("nested"), &deep(16)).ends_with("%5B0%5D=1"));
    let refused = "argument `a` has more than 16 levels of lists and objects";
    assert_eq!(target(http("nested"), &deep(17)), refused);
    assert_eq!(target(http("nested"), &deep(100)), refused);
    // A long key is written once for each value below it.
    let long = format!("{{\"a\": {{\"{}\": [{}1]}}}}", "k".repeat(1000), "1,".repeat(1000));
    assert_eq!(target(http("nested"), &long), "argument `a` makes the request longer than 60000 bytes");
}

#[test]
fn separators_in_a_path() {
    let table = [
        (
            ",",
            "{a}",
            r#"{"a": ["x", "y/"]}"#,
            "argument `a` holds a slash or backslash, which would add a path segment",
        ),
        (",", "{a}", r#"{"a": ["x,y", 2]}"#, "/v1/p/x%2Cy,2"),
        (",", "{a}", r#"{"a": []}"#, "argument `a` is empty: the path needs it"),
        (".", ".{a}", r#"{"a": ["x", "y"]}"#, "/v1/p/.x.y"),
        (".", ".{a}", r#"{"a": "."}"#, "argument `a` makes a path segment `.` or `..`"),
        (".", "{a}", r#"{"a": ["", ""]}"#, "argument `a` makes a path segment `.` or `..`"),
        (";c=", ";c={a}", r#"{"a": ["x;d=", "y"]}"#, "/v1/p/;c=x%3Bd%3D;c=y"),
    ];
    for (separator, place, args, expected) in table {
        let http = json!({"path": format!("/p/{place}"), "request": {"separators": {"a": separator}}});
        assert_eq!(target(http, args), expected, "{separator} {args}");
    }
    for bad in ["/", "\\", "?", "#", "%2f", "\n", "&"] {
        let http = json!({"path": "/{a}", "request": {"separators": {"a": bad}}});
        let error = plan(http).unwrap_err().to_string();
        assert!(error.starts_with("http.request.separators.a: must consist of"), "{bad}: {error}");
    }
}

#[test]
fn objects_are_lists_of_their_members() {
    let object = r#"{"a": {"R": 100, "G&": "a b", "none": null}}"#;
    let request = |style: &str, separator: &str| json!({"objects": {"a": style}, "separators": {"a": separator}});
    let path = |path: &str, style: &str, separator: &str, args: &str| {
        target(json!({"path": path, "request": request(style, separator)}), args)
    };
    assert_eq!(path("/x/{a}", "elements", ",", object), "/v1/x/R,100,G%26,a%20b");
    assert_eq!(path("/x/{a}", "pairs", ",", object), "/v1/x/R=100,G%26=a%20b");
    assert_eq!(path("/x/.{a}", "pairs", ".", object), "/v1/x/.R=100.G%26=a%20b");
    assert_eq!(path("/x/;c={a}", "elements", ",", object), "/v1/x/;c=R,100,G%26,a%20b");
    let steps = "argument `a` holds a slash or backslash, which would add a path segment";
    assert_eq!(path("/x/{a}", "pairs", ",", r#"{"a": {"../k": 1}}"#), steps);
    assert_eq!(path("/x/{a}", "pairs", ",", r#"{"a": {"k": "/.."}}"#), steps);
    assert_eq!(path("/x/{a}", "pairs", ",", r#"{"a": {}}"#), "argument `a` is empty: the path needs it");
    assert_eq!(
        path("/x/{a}", "pairs", ",", r#"{"a": [1]}"#),
        "argument `a` is not an object, which the parameter needs"
    );
    let nested = "argument `a` is an object, which cannot be written as text";
    assert_eq!(path("/x/{a}", "pairs", ",", r#"{"a": {"k": {}}}"#), nested);

    let query = |style: &str| {
        let query = json!({"query": {"q": "{a}"}, "styles": {"q": style}, "objects": {"a": "elements"}});
        target(json!({"path": "/p", "request": query}), object)
    };
    assert_eq!(query("comma"), "/v1/p?q=R,100,G%26,a%20b");
    assert_eq!(query("space"), "argument `a` has an element with a space, which would be two elements");
    assert_eq!(query("pipe"), "/v1/p?q=R%7C100%7CG%26%7Ca%20b");

    let header = |style: &str, args: &str| {
        let http = json!({"request": {"headers": {"X-A": "{a}"}, "objects": {"a": style}}});
        match render(http, args) {
            Ok(rendered) => rendered.headers["x-a"].to_str().unwrap().to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(header("elements", object), "R,100,G&,a b");
    assert_eq!(header("pairs", object), "R=100,G&=a b");
    let control = "argument `a` holds a control character, which a header cannot have";
    assert_eq!(header("pairs", r#"{"a": {"k\r\nHost: x": 1}}"#), control);
    let error = plan(json!({"request": {"objects": {"z": "pairs"}}})).unwrap_err().to_string();
    assert_eq!(error, "http.request.objects: `{z}` is not an argument of the tool");
}

#[test]
fn forms() {
    let http = json!({"method": "POST", "request": {"form": {"x y": "{a}", "b": "{b}", "fixed": "1&2"}}});
    let sent = |args: &str| {
        let rendered = render(http.clone(), args).unwrap();
        assert_eq!(rendered.headers["content-type"], "application/x-www-form-urlencoded");
        String::from_utf8(rendered.body.unwrap().to_vec()).unwrap()
    };
    assert_eq!(sent(r#"{"a": "q&b=1\n+é", "b": [1.10, "z"]}"#), "x%20y=q%26b%3D1%0A%2B%C3%A9&b=1.10&b=z&fixed=1%262");
    assert_eq!(sent("{}"), "fixed=1%262");
    let none = json!({"method": "POST", "request": {"form": {"b": "{b}"}}});
    assert_eq!(render(none, "{}").unwrap().body.unwrap(), "");
    let nested =
        json!({"method": "POST", "request": {"form": {"a": "{a}", "b": "{b}"}, "formStyles": {"a": "nested"}}});
    let body = render(nested, r#"{"a": [{"price": "p_1", "tax": [2]}], "b": 1}"#).unwrap().body.unwrap();
    assert_eq!(body, "a%5B0%5D%5Bprice%5D=p_1&a%5B0%5D%5Btax%5D%5B0%5D=2&b=1");
    let both = json!({"method": "POST", "request": {"form": {"b": "{b}"}, "body": {}}});
    let error = plan(both).unwrap_err().to_string();
    assert_eq!(error, "http.request.form: cannot be combined with another body, nor with authentication of type body");
}

#[test]
fn other_bodies() {
    let http = json!({"method": "POST", "request": {"parts": {"f": {"argument": "a", "type": "text"}}}});
    let rendered = render(http, r#"{"a": "x"}"#).unwrap();
    let media_type = rendered.headers["content-type"].to_str().unwrap();
    let boundary = media_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let expected = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nx\r\n--{boundary}--\r\n");
    assert_eq!(rendered.body.unwrap(), expected);
    let content = json!({"argument": "a", "type": "bytes", "mediaType": "image/png"});
    let http = json!({"method": "PUT", "request": {"content": content, "cookies": {"s": {"argument": "b"}}}});
    let rendered = render(http.clone(), r#"{"a": "AAE=", "b": "k"}"#).unwrap();
    assert_eq!(rendered.headers["content-type"], "image/png");
    assert_eq!(rendered.headers["cookie"], "s=k");
    assert_eq!(rendered.body.unwrap(), &b"\0\x01"[..]);
    let rendered = render(http, "{}").unwrap();
    assert!(rendered.body.is_none() && !rendered.headers.contains_key("cookie"));
    let both = json!({"parts": {"f": {"argument": "a", "type": "text"}}, "content": {"argument": "a", "type": "text"}});
    let error = plan(json!({"request": both})).unwrap_err().to_string();
    assert_eq!(error, "http.request.parts: cannot be combined with another body, nor with authentication of type body");
    let cookies = json!({"headers": {"cookie": "x=1"}, "cookies": {"s": {"argument": "a"}}});
    let error = plan(json!({"request": cookies})).unwrap_err().to_string();
    assert_eq!(error, "http.request.cookies: are not possible next to a header `Cookie`");
}

#[test]
fn what_templates_make_is_bounded() {
    let many = "{a}".repeat(200);
    let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(100 << 10));
    let list = format!(r#"{{"a": [{}1]}}"#, "1,".repeat(50_000));
    let name = "q".repeat(100);
    for (http, args, expected) in [
        (json!({"path": "/", "request": {"body": {"t": many, "u": [many]}}}), &long, "longer than 8388608 bytes"),
        (json!({"path": "/", "request": {"body": vec!["{a}"; 200]}}), &long, "longer than 8388608 bytes"),
        (json!({"path": "/", "request": {"headers": {"X-A": many}}}), &long, "longer than"),
        (json!({"path": "/", "request": {"headers": {"X-A": "{a}"}}}), &long, "longer than 65536 bytes"),
        (json!({"path": "/", "request": {"query": {"q": many}}}), &long, "longer than"),
        (json!({"path": "/", "request": {"query": {name: "{a}"}}}), &list, "longer than 60000 bytes"),
        (json!({"path": "/{a}"}), &long, "longer than 60000 bytes"),
        (json!({"path": "/{a}", "request": {"separators": {"a": ";matrix="}}}), &list, "longer than 60000 bytes"),
        (json!({"request": {"query": {"q": "{a}"}, "styles": {"q": "json"}}}), &list, "longer than 60000 bytes"),
        (json!({"request": {"query": {"q": "{a}"}, "styles": {"q": "pipe"}}}), &list, "longer than 60000 bytes"),
        (json!({"request": {"form": {"f": many}}}), &long, "longer than 8388608 bytes"),
    ] {
        let mut refused = None;
        let measured = allocation_counter::measure(|| refused = render(http, args).err());
        let refused = refused.expect("too long").to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(measured.bytes_max < 64 << 20, "{} bytes", measured.bytes_max);
    }
}

#[test]
fn headers() {
    let http =
        json!({"path": "/", "request": {"headers": {"X-A": "v={a}", "X-B": "{b}", "Accept": "text/csv", "X-F": "f"}}});
    let sent = |args: &str| {
        let headers = render(http.clone(), args).map_err(|e| e.to_string())?.headers;
        let text = |name: &str| headers.get(name).map(|v| String::from_utf8(v.as_bytes().to_vec()).unwrap());
        assert_eq!((text("accept").as_deref(), text("x-f").as_deref()), (Some("text/csv"), Some("f")));
        Ok::<_, String>((text("x-a"), text("x-b")))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(sent(r#"{"a": 1.10, "b": "x"}"#), Ok((some("v=1.10"), some("x"))));
    assert_eq!(sent("{}"), Ok((some("v="), None)));
    assert_eq!(sent(r#"{"a": "é\tß", "b": ["x", "y"]}"#), Ok((some("v=é\tß"), some("x,y"))));
    for bad in [r"\r\nX-Admin: 1", r"\n", r"\r", r"\u0000", r"\u007f", r"\u0085"] {
        let error = sent(&format!(r#"{{"b": "x{bad}"}}"#)).unwrap_err();
        assert_eq!(error, "argument `b` holds a control character, which a header cannot have", "{bad}");
    }
}

#[test]
fn content_types() {
    let content_type = |http: Value| {
        let rendered = render(http, r#"{"a": 1}"#).unwrap();
        (rendered.headers.get("content-type").map(|v| v.to_str().unwrap().to_owned()), rendered.body)
    };
    assert_eq!(content_type(json!({"method": "POST"})), (None, None));
    assert_eq!(
        content_type(json!({"method": "POST", "request": {"body": {"x": "{a}"}}})),
        (Some("application/json".to_owned()), Some(r#"{"x":1}"#.into()))
    );
    let own = json!({"method": "PATCH", "request": {"body": [], "headers": {"Content-Type": "application/merge-patch+json"}}});
    assert_eq!(content_type(own), (Some("application/merge-patch+json".to_owned()), Some("[]".into())));
}

#[test]
fn what_no_request_can_be_made_of() {
    for (http, error) in [
        (json!({"path": "/{x}"}), "http.path: `{x}` is neither in `request.pathParams` nor an argument of the tool"),
        (json!({"path": "/a/../b"}), "http.path: has a segment `.` or `..`"),
        (json!({"path": "/a/.%2E/b"}), "http.path: has a segment `.` or `..`"),
        (
            json!({"path": "/{p}", "request": {"pathParams": {"p": "{x}"}}}),
            "http.request.pathParams.p: `{x}` is not an argument of the tool",
        ),
        (json!({"request": {"query": {"q": "{x}"}}}), "http.request.query.q: `{x}` is not an argument of the tool"),
        (json!({"request": {"headers": {"X": "{x}"}}}), "http.request.headers.X: `{x}` is not an argument of the tool"),
        (json!({"request": {"headers": {"X Y": "x"}}}), "http.request.headers.X Y: `X Y` is not a header name"),
        (json!({"request": {"headers": {"Host": "x"}}}), "http.request.headers.Host: `Host` is set by the gateway"),
        (
            json!({"request": {"headers": {"X": "a\r\nb: c"}}}),
            "http.request.headers.X: holds a control character, which a header cannot have",
        ),
        (json!({"method": "CONNECT"}), "http.method: cannot be `CONNECT`"),
        (json!({"method": "GE T"}), "http.method: cannot be `GE T`"),
        (json!({"method": ""}), "http.method: cannot be ``"),
    ] {
        assert_eq!(plan(http.clone()).unwrap_err().to_string(), error, "{http}");
    }
}

/// Strings that are more likely than random ones to find a way out.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<char>().prop_map(String::from),
        2 => prop::sample::select(vec![
            "/", "\\", "..", ".", "%2f", "%2e", "%", "?", "&", "=", "#", "@", ":", "//", "\r\n", "\n", "\0", "\t", ";",
            ",", "{a}", "{b}", "\"", "'", "http://evil.example/", "[", "]", " ", "+",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn any_argument() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => hostile().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => prop::collection::vec(hostile(), 0..3).prop_map(Value::from),
        1 => Just(Value::Null),
        2 => prop::collection::hash_map(hostile(), hostile(), 0..3).prop_map(|members| json!(members)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_argument_stays_in_its_place(a in any_argument(), b in any_argument(), c in any_argument()) {
        let http = json!({
            "method": "POST",
            "path": "/s/{a}/t-{b}.{c}/u",
            "request": {
                "query": {"one": "{b}", "two": "x{c}", "list": "{a}"},
                "headers": {"X-C": "y{c}z"},
                "body": {"a": "{a}", "text": "-{b}-", "deep": [{"c": "{c}"}], "last": true},
            },
        });
        let args = json!({"a": a, "b": b, "c": c}).to_string();
        // The styles of OpenAPI's parameters: the same path, and no other parameter.
        let styled = json!({
            "method": "POST",
            "path": "/s/{a}/;m={b}/.{c}",
            "request": {
                "query": {"deep": "{a}", "json": "{b}", "pipe": "{c}", "space": "{c}"},
                "styles": {"deep": "deep", "json": "json", "pipe": "pipe", "space": "space"},
                "separators": {"a": ",", "b": ";m=", "c": "."},
                "form": {"one": "{b}", "two": "-{c}-"},
            },
        });
        for path in ["/s/{a}/;m={b}/.{c}", "/s/x/y/z"] {
            let mut styled = styled.clone();
            styled["path"] = path.into();
            match render(styled, &args) {
                Err(UpstreamError::Argument { argument, .. }) => {
                    prop_assert!(matches!(&*argument, "a" | "b" | "c"));
                }
                Err(other) => prop_assert!(false, "{other}"),
                Ok(rendered) => {
                    let url = rendered.target.url().unwrap();
                    prop_assert_eq!(&url[Position::BeforePath..], rendered.target.path_and_query().as_str());
                    prop_assert_eq!(url.origin().ascii_serialization(), "https://api.example:8443");
                    let segments: Vec<_> = url.path_segments().unwrap().collect();
                    prop_assert_eq!((segments.len(), segments[0], segments[1]), (5, "v1", "s"));
                    for (key, _) in url.query_pairs() {
                        let deep = key.starts_with("deep[") && key.ends_with(']');
                        prop_assert!(deep || matches!(&*key, "json" | "pipe" | "space"), "{}", key);
                    }
                    for (key, _) in url::form_urlencoded::parse(&rendered.body.unwrap()) {
                        prop_assert!(matches!(&*key, "one" | "two"), "{}", key);
                    }
                }
            }
        }
        match render(http, &args) {
            Err(UpstreamError::Argument { argument, .. }) => prop_assert!(matches!(&*argument, "a" | "b" | "c")),
            Err(other) => prop_assert!(false, "{other}"),
            Ok(rendered) => {
                let url = rendered.target.url().unwrap();
                prop_assert_eq!(&url[Position::BeforePath..], rendered.target.path_and_query().as_str());
                prop_assert_eq!(url.origin().ascii_serialization(), "https://api.example:8443");
                prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!(segments.len(), 5);
                prop_assert_eq!((segments[0], segments[1], segments[4]), ("v1", "s", "u"));
                prop_assert!(url.path().is_ascii() && !url.path().contains('\\'));
                // Parsed once more, as a proxy would, it is the same.
                let again: Url = url.as_str().parse().unwrap();
                prop_assert_eq!(&again, &url);
                let mut keys: Vec<_> = url.query_pairs().map(|(key, _)| key.into_owned()).collect();
                keys.dedup();
                prop_assert!(keys.iter().all(|k| matches!(&**k, "one" | "two" | "list")), "{:?}", keys);
                for value in rendered.headers.values() {
                    prop_assert!(!value.as_bytes().iter().any(|b| matches!(b, b'\r' | b'\n' | b'\0')));
                }
                // Three of the manifest, one of which is also the default, and four of every request.
                prop_assert_eq!(rendered.headers.keys().count(), 7);
                let body: Value = serde_json::from_slice(&rendered.body.unwrap()).unwrap();
                let members: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
                prop_assert_eq!(members, ["a", "text", "deep", "last"]);
                prop_assert_eq!((&body["a"], &body["deep"][0]["c"]), (&a, &c));
            }
        }
    }
}

#[test]
fn a_query_is_constant_and_arguments_are_its_variables() {
    let query = "query call($a:String,$b:[Int!]){call(a:$a,b:$b){a}}";
    let http = json!({
        "method": "POST", "path": "", "graphql": {"query": query, "field": "call"},
        "request": {"body": {"variables": {"a": "{a}", "b": "{b}"}}},
    });
    let table = [
        ("{}", r#"{"variables":{}}"#),
        (r#"{"a": null}"#, r#"{"variables":{"a":null}}"#),
        (r#"{"a": "\"}) { other } #", "b": [1.0, 2e5]}"#, r#"{"variables":{"a":"\"}) { other } #","b":[1.0, 2e5]}}"#),
        (r#"{"a": "{b}{a}", "b": "{a}"}"#, r#"{"variables":{"a":"{b}{a}","b":"{a}"}}"#),
        (r#"{"a": "\u0022,\"query\":\"x"}"#, r#"{"variables":{"a":"\u0022,\"query\":\"x"}}"#),
    ];
    let quoted = serde_json::Value::from(query).to_string();
    for (args, variables) in table {
        let body = render(http.clone(), args).unwrap().body.unwrap();
        assert_eq!(body, format!("{{\"query\":{quoted},{}", &variables[1..]), "{args}");
    }
    let parsed = plan(http.clone()).unwrap();
    let rendered = parsed.render(&arguments(r#"{"a": "x"}"#), None, Some("\"{ other }\"")).unwrap();
    assert_eq!(rendered.target.path_and_query().to_string(), "/v1/", "an endpoint may end with a slash");
    assert_eq!(rendered.body.unwrap(), r#"{"query":"{ other }","variables":{"a":"x"}}"#);
    // Without an object the query would have no place.
    for body in [json!(null), json!({}), json!([1]), json!("{a}"), json!({"variables": "{a}"})] {
        let mut broken = http.clone();
        broken["request"]["body"] = body.clone();
        assert!(plan(broken).is_err(), "{body}");
    }
}
