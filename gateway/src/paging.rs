//! `_pagination`: how a caller gets further pages. The engine adds it to the filtered output.

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
    /// There are no further pages.
    End,
    /// At this cursor or offset.
    At(Cow<'a, str>),
    /// At a cursor that the gateway cannot seal at the moment. The caller has to know, since the list would otherwise
    /// look complete.
    Unavailable,
}

/// Returns the JSON of `_pagination`: `{"pages":2,"items":40,"total":100,"next":{"cursor":".."}}`. `next` has the
/// argument for the next page. Under `Enforced` it omits the upstream's total, which no filter allowed.
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

/// Returns the JSON Schema of the JSON that [`describe`] writes under `Enforced`.
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

/// Returns the cursor in an argument, if it is a string.
pub(crate) fn cursor(raw: &str) -> Option<String> {
    serde_json::from_str::<Value>(raw).ok().and_then(|value| value.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_named_by_its_argument() {
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
