use http::HeaderValue;
use serde_json::json;

use super::*;
use crate::mcp::Incoming;
use crate::mcp::message::parse;

const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                    \"io.modelcontextprotocol/clientCapabilities\":{}}";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn check(pairs: &[(&str, &str)], method: &str, params: &str) -> Result<(), (i32, u16)> {
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{{params}}}}}");
    let Ok(Incoming::Request { method, params, .. }) = parse(&text) else { panic!("a request: {text}") };
    check_modern(&headers(pairs), &method, &params, true).map_err(|e| (e.code, e.status))
}

#[test]
fn modern_requests_are_held_to_their_metadata_and_headers() {
    let version = ("mcp-protocol-version", "2026-07-28");
    let named = format!("\"name\":\"lüst\",{META}");
    type Sent<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, Result<(), (i32, u16)>);
    let cases: &[Sent<'_>] = &[
        (&[version, ("mcp-method", "tools/list")], "tools/list", META, Ok(())),
        (&[version, ("mcp-method", "tools/list")], "tools/list", "", Err((-32602, 400))),
        (
            &[version, ("mcp-method", "tools/list")],
            "tools/list",
            "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}",
            Err((-32602, 400)),
        ),
        (&[("mcp-method", "tools/list")], "tools/list", META, Err((-32020, 400))),
        (&[("mcp-protocol-version", "2025-11-25")], "tools/list", META, Err((-32020, 400))),
        (&[version, version, ("mcp-method", "tools/list")], "tools/list", META, Err((-32020, 400))),
        (&[version], "tools/list", META, Err((-32020, 400))),
        (&[version, ("mcp-method", "tools/call")], "tools/list", META, Err((-32020, 400))),
        (&[version, ("mcp-method", "tools/call")], "tools/call", &named, Err((-32020, 400))),
        (&[version, ("mcp-method", "tools/call"), ("mcp-name", "list")], "tools/call", &named, Err((-32020, 400))),
        (&[version, ("mcp-method", "tools/call"), ("mcp-name", "=?base64?bMO8c3Q=?=")], "tools/call", &named, Ok(())),
        (
            &[version, ("mcp-method", "tools/call"), ("mcp-name", "=?base64?###?=")],
            "tools/call",
            &named,
            Err((-32020, 400)),
        ),
        (
            &[("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")],
            "tools/list",
            "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2031-01-01\",\
             \"io.modelcontextprotocol/clientCapabilities\":{}}",
            Err((-32022, 400)),
        ),
    ];
    for (pairs, method, params, expected) in cases {
        assert_eq!(check(pairs, method, params), *expected, "{pairs:?} {method} {params}");
    }
}

#[test]
fn annotated_arguments_are_compared_with_their_headers() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "nested": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        "plain": {"type": "string"},
    }});
    let rules = param_headers(&schema);
    assert_eq!(rules.len(), 2);
    let arguments = json!({"region": "eu", "nested": {"n": 3}, "plain": "x"});
    let of_era = |pairs: &[(&str, &str)], arguments: &serde_json::Value, era| {
        let text = arguments.to_string();
        let document = crate::mcp::arguments::document(&text).unwrap();
        check_params(&headers(pairs), &rules, document.root(), era).map_err(|e| e.code)
    };
    let code = |pairs: &[(&str, &str)], arguments: &_| of_era(pairs, arguments, Era::Modern);
    assert_eq!(code(&[("mcp-param-region", "eu"), ("mcp-param-n", "3")], &arguments), Ok(()));
    assert_eq!(code(&[("mcp-param-region", "=?base64?ZXU=?="), ("mcp-param-n", "3")], &arguments), Ok(()));
    assert_eq!(code(&[("mcp-param-region", "us"), ("mcp-param-n", "3")], &arguments), Err(-32020));
    assert_eq!(code(&[("mcp-param-region", "eu")], &arguments), Err(-32020));
    assert_eq!(code(&[], &json!({})), Ok(()));
    assert_eq!(code(&[("mcp-param-region", "eu")], &json!({"region": null})), Err(-32020));
    // The legacy era knows no such header; one that is sent must agree all the same.
    assert_eq!(of_era(&[], &arguments, Era::Legacy), Ok(()));
    assert_eq!(of_era(&[("mcp-param-region", "us")], &arguments, Era::Legacy), Err(-32020));
    assert_eq!(code(&[("mcp-param-region", "eu"), ("mcp-param-n", "3.0")], &arguments), Ok(()));
}

#[test]
fn headers_that_are_sent_agree_with_the_body_in_every_era() {
    let repeats = |pairs: &[(&str, &str)], method: &str, params: &str| {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{{params}}}}}");
        let Ok(Incoming::Request { method, params, .. }) = parse(&text) else { panic!("a request: {text}") };
        check_repeats(&headers(pairs), &method, &params).map_err(|e| (e.code, e.status))
    };
    let refused = Err((-32020, 400));
    let name = "\"name\":\"delete\"";
    for (pairs, method, params, expected) in [
        (&[][..], "tools/call", name, Ok(())),
        (&[("mcp-name", "delete"), ("mcp-method", "tools/call")], "tools/call", name, Ok(())),
        (&[("mcp-name", "=?base64?ZGVsZXRl?=")], "tools/call", name, Ok(())),
        (&[("mcp-name", "list")], "tools/call", name, refused),
        (&[("mcp-name", "DELETE")], "tools/call", name, refused),
        (&[("mcp-name", "list"), ("mcp-name", "delete")], "tools/call", name, refused),
        (&[("mcp-name", "delete")], "tools/call", "\"name\":1", refused),
        (&[("mcp-name", "delete")], "tools/list", name, refused),
        (&[("mcp-method", "tools/list")], "tools/call", name, refused),
        (&[("mcp-method", "tools/call"), ("mcp-method", "tools/list")], "tools/call", name, refused),
        (&[("mcp-method", "")], "tools/call", name, refused),
    ] {
        assert_eq!(repeats(pairs, method, params), expected, "{pairs:?} {method} {params}");
    }
}
