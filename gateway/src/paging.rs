//! `_pagination`: what a caller needs for further pages. The engine adds it to the filtered output.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tamis_config::PaginationKind;
use tamis_engine::Enforcement;

use crate::mcp::encode;
use crate::upstream::PageReport;

/// Where further pages begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// There are none.
    End,
    /// At this cursor or offset.
    At(Cow<'a, str>),
    /// At a cursor that the gateway cannot seal at the moment. A caller is told, since silence would say that this was all.
    Unavailable,
}

/// The JSON of `_pagination`: `{"pages":2,"items":40,"total":100,"next":{"cursor":".."}}`, `next` being the arguments
/// that go on. Under `Enforced` the upstream's total stays away: no filter let it pass.
pub(crate) fn describe(report: &PageReport, kind: PaginationKind, next: &Next<'_>, enforcement: Enforcement) -> String {
    let mut out = format!("{{\"pages\":{}", report.pages);
    if let Some(items) = report.items {
        let _ = write!(out, ",\"items\":{items}");
    }
    if let (Some(total), Enforcement::Advisory) = (report.total, enforcement) {
        let _ = write!(out, ",\"total\":{total}");
    }
    match next {
        Next::End => {}
        Next::Unavailable => out.push_str(",\"next_unavailable\":\"there are further pages; call again later\""),
        Next::At(next) => {
            let _ = write!(out, ",\"next\":{{\"{}\":", kind.argument());
            match next.parse::<u64>() {
                Ok(offset) if kind == PaginationKind::Offset => {
                    let _ = write!(out, "{offset}");
                }
                _ => encode::string(&mut out, next),
            }
            out.push('}');
        }
    }
    out.push('}');
    out
}

/// The JSON Schema of what [`describe`] gives under `Enforced`.
pub(crate) fn schema(kind: PaginationKind) -> Value {
    let next = match kind {
        PaginationKind::Cursor => json!({"type": "string"}),
        PaginationKind::Offset => json!({"type": "integer", "minimum": 0}),
    };
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "properties": {
            "pages": count,
            "items": count,
            "next": {"type": "object", "properties": {kind.argument(): next}, "required": [kind.argument()]},
            "next_unavailable": {"type": "string"},
        },
        "required": ["pages"],
    })
}

/// The cursor of an argument, where it is text.
pub(crate) fn cursor(raw: &str) -> Option<String> {
    serde_json::from_str::<Value>(raw).ok().and_then(|value| value.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_named_as_its_argument() {
        let report = PageReport { pages: 2, items: Some(40), total: Some(100), next: None };
        let say = |kind, next: Option<&str>, enforcement| {
            describe(&report, kind, &next.map_or(Next::End, |next| Next::At(next.into())), enforcement)
        };
        assert_eq!(
            say(PaginationKind::Offset, Some("40"), Enforcement::Advisory),
            "{\"pages\":2,\"items\":40,\"total\":100,\"next\":{\"offset\":40}}"
        );
        assert_eq!(
            say(PaginationKind::Cursor, Some("a\"b"), Enforcement::Enforced),
            "{\"pages\":2,\"items\":40,\"next\":{\"cursor\":\"a\\\"b\"}}"
        );
        assert_eq!(say(PaginationKind::Cursor, None, Enforcement::Enforced), "{\"pages\":2,\"items\":40}");
        assert_eq!(
            describe(&report, PaginationKind::Cursor, &Next::Unavailable, Enforcement::Enforced),
            "{\"pages\":2,\"items\":40,\"next_unavailable\":\"there are further pages; call again later\"}"
        );
    }
}
