//! The members of a result's `_meta` that may pass.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tamis_engine::json;

use crate::mcp::message::Text;

/// Bytes of a `_meta` that passes. A larger one is left out: no budget of a filter counts it.
const MAX_META: usize = 64 << 10;
/// How deep a value may be nested that has line ends, which have to be removed.
const MAX_DEPTH: usize = 64;
/// Labels of prefixes that a server may not use: those of the protocol, and of the gateway.
const RESERVED: [&str; 3] = ["modelcontextprotocol", "mcp", "tamis"];

/// Returns the members of a `_meta` whose names are not reserved, as JSON without braces in one line; none if there are none, or
/// it is no object.
pub(super) fn members(meta: &RawValue) -> Option<Bytes> {
    if meta.get().len() > MAX_META || !meta.get().starts_with('{') {
        return None;
    }
    let Members(members) = serde_json::from_str(meta.get()).ok()?;
    let mut out = Vec::with_capacity(meta.get().len());
    for (name, value) in members.iter().filter(|(name, _)| !is_reserved(name)) {
        let before = out.len();
        if before > 0 {
            out.push(b',');
        }
        json::write_string(name, &mut out);
        out.push(b':');
        match memchr::memchr2(b'\n', b'\r', value.get().as_bytes()) {
            None => out.extend_from_slice(value.get().as_bytes()),
            Some(_) => match json::parse(value.get().as_bytes(), MAX_DEPTH) {
                Ok(node) => out.extend_from_slice(json::to_string(&node).as_bytes()),
                Err(_) => out.truncate(before),
            },
        }
    }
    (!out.is_empty()).then(|| out.into())
}

/// Whether a name belongs to the protocol or to the gateway: `io.modelcontextprotocol/..`, `tamis.dev/..`.
fn is_reserved(name: &str) -> bool {
    let prefix = name.split_once('/').map(|(prefix, _)| prefix);
    let mut labels = prefix.into_iter().flat_map(|prefix| prefix.split('.'));
    labels.any(|label| RESERVED.iter().any(|reserved| label.eq_ignore_ascii_case(reserved)))
}

/// The members of an object, in order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_pass_unless_their_names_are_reserved() {
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_META));
        for (meta, expected) in [
            (r#"{"a":1.10,"b":[ "\u00e9" ]}"#, Some(r#""a":1.10,"b":[ "\u00e9" ]"#)),
            ("{\"a\":{\r\n\"n\":\n1.10},\"b\":1}", Some(r#""a":{"n":1.10},"b":1"#)),
            (r#"{"tamis.dev/filter":1,"example.com/a":2}"#, Some(r#""example.com/a":2"#)),
            (r#"{"\u0074amis.dev/filter":1}"#, None),
            (r#"{"dev.tamis/x":1,"Tamis.DEV/x":1,"a.tamis.dev/x":1}"#, None),
            (r#"{"io.modelcontextprotocol/serverInfo":1,"com.mcp.tools/x":1,"mcp.dev/x":1}"#, None),
            (
                r#"{"tamis":1,"mcp":2,"notmcp.com/x":3,"x/mcp":4}"#,
                Some(r#""tamis":1,"mcp":2,"notmcp.com/x":3,"x/mcp":4"#),
            ),
            ("{}", None),
            ("[1]", None),
            ("null", None),
            (r#"{"a":"\ud800"}"#, Some(r#""a":"\ud800""#)),
            (&large, None),
        ] {
            let raw: &RawValue = serde_json::from_str(meta).unwrap();
            let members = members(raw);
            let members = members.as_deref().map(|members| std::str::from_utf8(members).unwrap());
            assert_eq!(members, expected, "{}", &meta[..meta.len().min(80)]);
        }
    }
}
