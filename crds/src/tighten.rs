//! Delays loosening changes: the tighter one of the served and the next version.
//!
//! Documents that change together (a namespace that is deleted, a checkout, a folder that is copied) are seen one after the
//! other. The caller decides how long to wait. `access`, `limits` and removed tools never wait.

use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{ExpositionDocument, ExpositionTool};
use tamis_engine::Enforcement;

/// Returns `next` with the enforcement and the filters of `previous` where those protect more. Returns the same `Arc` if
/// nothing in `next` is looser.
///
/// Lowered enforcement is looser, and so is a tool that loses its filter, and a filter of a deleted set (`is_gone`, by the
/// `namespace/name` of its resource) that gives way to another one. Everything else is current: service, credentials,
/// `access`, `limits`, the list of tools, prompts and resources. So are `tokens` and `inputs`: they decide how much of an answer is shown and
/// in which form. `_output_mode`, which shows a whole output, works under `Advisory` only, where filters protect nothing.
#[must_use]
pub fn tighten(
    previous: &ExpositionDocument,
    next: &Arc<ExpositionDocument>,
    is_gone: &dyn Fn(&str) -> bool,
) -> Arc<ExpositionDocument> {
    if next.enforcement > previous.enforcement {
        // A stricter version is served at once, and older filters may not be valid under it.
        return Arc::clone(next);
    }
    let sinks = next.enforcement < previous.enforcement;
    let looser = |tool: &ExpositionTool, now: &ExpositionTool| {
        let replaced = || tool.filter != now.filter && tool.filter_set.as_deref().is_some_and(is_gone);
        tool.filter.is_some() && (now.filter.is_none() || replaced())
    };
    let mut kept = ExpositionDocument::clone(next);
    kept.enforcement = previous.enforcement;
    kept.tools.retain(|name, now| match previous.tools.get(name) {
        Some(tool) => {
            // A filter was checked under its own enforcement.
            if sinks || looser(tool, now) {
                // A query of another version of the service may not fit this one.
                let query = tool.query.clone().filter(|_| previous.service == next.service);
                *now = ExpositionTool { query, ..tool.clone() };
            }
            true
        }
        // A tool that was not published has no filter to lose.
        None => !sinks,
    });
    if kept.follow.is_some() {
        for (name, tool) in previous.tools.iter().filter(|(_, tool)| tool.filter.is_some()) {
            kept.tools.entry(name.clone()).or_insert_with(|| tool.clone());
        }
        // What a server lists is never published under `Enforced`.
        if sinks {
            (kept.follow, kept.tools) = (None, IndexMap::new());
        }
    }
    if kept.enforcement == Enforcement::Enforced {
        kept.content.enforce();
    }
    let kept = kept.at_lowest_version();
    if kept == **next { Arc::clone(next) } else { Arc::new(kept) }
}

/// Returns whether any tool is published without a filter. `passthrough` is a filter.
#[must_use]
pub fn is_bare(document: &ExpositionDocument) -> bool {
    document.follow.is_some() || document.tools.values().any(|tool| tool.filter.is_none())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tamis_config::{
        Access, Audit, CallLimits, Digest, ExpositionId, FIRST_VERSION, NamePatterns, PublishedContent, TokenSettings,
    };
    use tamis_engine::Enforcement::{Advisory, Enforced};

    use super::*;

    /// Tools as `name=set:retain`; `name` alone is bare.
    fn document(enforcement: Enforcement, service: &str, tools: &str) -> Arc<ExpositionDocument> {
        let tool = |text: &str| {
            let (name, filter) = text.split_once('=').map_or((text, None), |(name, filter)| (name, Some(filter)));
            let filter = filter.and_then(|filter| filter.split_once(':'));
            let tool = ExpositionTool {
                filter: filter.map(|(_, path)| {
                    serde_json::from_value(serde_json::json!({ "retain": [path] })).expect("is a filter")
                }),
                filter_set: filter.map(|(set, _)| set.into()),
                query: None,
            };
            (name.to_owned(), tool)
        };
        Arc::new(ExpositionDocument {
            format_version: FIRST_VERSION,
            id: ExpositionId { namespace: "n".into(), name: "e".into() },
            service: Digest::of(service.as_bytes()),
            enforcement,
            tools: tools.split_whitespace().map(tool).collect(),
            credentials: BTreeMap::new(),
            access: Some(Access::Anonymous),
            limits: CallLimits::default(),
            audit: Audit::Digest,
            tokens: TokenSettings::default(),
            inputs: None,
            list_ttl_ms: 0,
            follow: None,
            content: PublishedContent::default(),
        })
    }

    #[test]
    fn what_loosens_is_held() {
        // The served version, the next version, and the result; the set `gone` is deleted.
        let table = [
            ("a filter is lost", (Advisory, "a=x:/1"), (Advisory, "a"), (Advisory, "a=x:/1")),
            ("a filter is edited", (Advisory, "a=x:/1"), (Advisory, "a=x:/2"), (Advisory, "a=x:/2")),
            ("a set is gone", (Advisory, "a=gone:/1"), (Advisory, "a=x:/2"), (Advisory, "a=gone:/1")),
            ("a set is gone, its filter stays", (Advisory, "a=gone:/1"), (Advisory, "a=x:/1"), (Advisory, "a=x:/1")),
            ("it was bare", (Advisory, "a"), (Advisory, "a"), (Advisory, "a")),
            ("a filter comes", (Advisory, "a"), (Advisory, "a=x:/1"), (Advisory, "a=x:/1")),
            ("a tool comes", (Advisory, "a=x:/1"), (Advisory, "a=x:/1 b"), (Advisory, "a=x:/1 b")),
            ("a tool goes", (Advisory, "a=x:/1 b=x:/1"), (Advisory, "a"), (Advisory, "a=x:/1")),
            ("enforcement is lowered", (Enforced, "a=x:/1"), (Advisory, "a=x:/2 b=x:/1"), (Enforced, "a=x:/1")),
            ("enforcement is raised", (Advisory, "a=gone:/1"), (Enforced, "a=x:/2"), (Enforced, "a=x:/2")),
        ];
        for (what, (was, before), (is, after), (enforcement, tools)) in table {
            let (previous, next) = (document(was, "old", before), document(is, "new", after));
            let kept = tighten(&previous, &next, &|set| set == "gone");
            assert_eq!(kept, document(enforcement, "new", tools), "{what}");
            assert_eq!(Arc::ptr_eq(&kept, &next), *kept == *next, "{what}");
        }
    }

    #[test]
    fn nothing_unfiltered_is_published_while_enforcement_is_held() {
        let previous = document(Enforced, "s", "a=x:/1");
        let mut next = ExpositionDocument::clone(&document(Advisory, "s", "a=x:/1"));
        let prompts = vec!["p".to_owned()];
        next.content = PublishedContent {
            prompts: prompts.clone(),
            templates: vec!["t:/{x}".to_owned()],
            server_resources: Some(NamePatterns::default()),
            ..PublishedContent::default()
        };
        let kept = tighten(&previous, &Arc::new(next), &|_| false);
        assert_eq!(kept.content, PublishedContent { prompts, ..PublishedContent::default() });
    }

    #[test]
    fn a_tool_without_filter_is_bare() {
        for (tools, expected) in [("", false), ("a=x:/1", false), ("a=x:/1 b", true)] {
            assert_eq!(is_bare(&document(Advisory, "s", tools)), expected, "{tools}");
        }
    }
}
