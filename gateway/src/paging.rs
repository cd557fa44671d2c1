//! `_pagination`: what a caller needs to go on, attached after the filter.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;
use tamis_config::PaginationKind;
use tamis_engine::{Enforcement, Structured};

use crate::mcp::encode;
use crate::upstream::PageReport;

/// The argument that moves on.
pub(crate) fn argument(kind: PaginationKind) -> &'static str {
    match kind {
        PaginationKind::Cursor => "cursor",
        PaginationKind::Offset => "offset",
    }
}

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
            let _ = write!(out, ",\"next\":{{\"{}\":", argument(kind));
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

/// Bytes that [`attach`] adds to a text block, at most.
pub(crate) fn cost(pagination: &str) -> usize {
    pagination.len() + r#"{"items":,"_pagination":}"#.len()
}

/// Adds `_pagination` to an output: to an object as a member, beside a list that becomes `items`, below a text.
pub(crate) fn attach(text: &mut String, structured: &mut Structured, pagination: &str) {
    match structured {
        Structured::Text => *text = with_member(text, pagination),
        Structured::Json(json) => {
            *json = with_member(json, pagination);
            below(text, pagination);
        }
        Structured::None => below(text, pagination),
    }
}

fn below(text: &mut String, pagination: &str) {
    text.push_str("\n_pagination: ");
    text.push_str(pagination);
}

/// `json` is compact JSON.
fn with_member(json: &str, pagination: &str) -> String {
    match json.strip_suffix('}') {
        // An object of the upstream may have a member of that name: ours holds, so that no name comes twice.
        Some(_) if json.contains("\"_pagination\"") => replaced(json, pagination),
        Some("{") => format!("{{\"_pagination\":{pagination}}}"),
        Some(open) => format!("{open},\"_pagination\":{pagination}}}"),
        None => format!("{{\"items\":{json},\"_pagination\":{pagination}}}"),
    }
}

/// Puts ours in the place of the object's own member.
fn replaced(json: &str, pagination: &str) -> String {
    use serde_json::value::RawValue;
    let members = serde_json::from_str::<indexmap::IndexMap<String, &RawValue>>(json);
    let mut out = String::with_capacity(json.len() + pagination.len() + 20);
    out.push('{');
    for (name, value) in members.iter().flatten().filter(|(name, _)| *name != "_pagination") {
        encode::string(&mut out, name);
        out.push(':');
        out.push_str(value.get());
        out.push(',');
    }
    out.push_str("\"_pagination\":");
    out.push_str(pagination);
    out.push('}');
    out
}

/// The cursor of an argument, where it is text.
pub(crate) fn cursor(raw: &str) -> Option<String> {
    serde_json::from_str::<Value>(raw).ok().and_then(|value| value.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(json: &str) -> String {
        let mut text = json.to_owned();
        attach(&mut text, &mut Structured::Text, "{\"pages\":1}");
        text
    }

    #[test]
    fn objects_get_a_member_and_lists_become_items() {
        assert_eq!(attached("{}"), "{\"_pagination\":{\"pages\":1}}");
        assert_eq!(attached("{\"a\":1.10}"), "{\"a\":1.10,\"_pagination\":{\"pages\":1}}");
        assert_eq!(attached("[1,{}]"), "{\"items\":[1,{}],\"_pagination\":{\"pages\":1}}");
        assert_eq!(attached("{\"_pagination\":7,\"a\":1.10}"), "{\"a\":1.10,\"_pagination\":{\"pages\":1}}");
        assert_eq!(
            attached("{\"a\":\"\\\"_pagination\\\"\",\"b\":{\"_pagination\":1}}"),
            "{\"a\":\"\\\"_pagination\\\"\",\"b\":{\"_pagination\":1},\"_pagination\":{\"pages\":1}}"
        );
    }

    #[test]
    fn a_summary_says_it_below_and_in_its_object() {
        let mut text = "3 issues".to_owned();
        let mut structured = Structured::Json("{\"summary\":\"3 issues\"}".to_owned());
        attach(&mut text, &mut structured, "{\"pages\":1}");
        assert_eq!(text, "3 issues\n_pagination: {\"pages\":1}");
        let Structured::Json(json) = structured else { panic!("an object") };
        assert_eq!(json, "{\"summary\":\"3 issues\",\"_pagination\":{\"pages\":1}}");
    }

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
