//! The condition `Upstream` and `status.upstream`. An outage of a server does not make an exposition unready: see
//! `docs/decisions/0059-watched-servers.md`.

use tamis_config::acks::{FollowedTools, UpstreamReport, UpstreamState};
use tamis_config::{Condition, Reason};
use tamis_crds::resources::UpstreamStatus;

use super::condition::{Draft, Seen, Truth};
use super::{StatusInput, count};
use crate::verdict::{Exposed, UpstreamAddress};

/// Returns the address for the status.
pub(super) fn status(address: &UpstreamAddress) -> UpstreamStatus {
    let UpstreamAddress { url, plan, is_watched: _ } = address;
    UpstreamStatus { url: url.clone(), plan: plan.clone() }
}

/// Decides `Upstream`. Only an exposition whose upstream is watched has it.
pub(super) fn condition(input: &StatusInput<'_>) -> Option<Draft> {
    let exposed = input.verdict.exposed.as_ref()?;
    exposed.upstream.as_ref().filter(|upstream| upstream.is_watched)?;
    let unknown = || Draft::new(Truth::Unknown, Reason::Unknown, "No gateway has asked the MCP server yet");
    Some(match input.upstream {
        // The operator has just started, or the gateways have.
        None => Seen::find(input.previous, Condition::Upstream).and_then(Seen::again).unwrap_or_else(unknown),
        Some(report) => match report.state {
            UpstreamState::Unknown => unknown(),
            UpstreamState::Reachable => {
                let pinned = || "The MCP server lists its tools as they are pinned".to_owned();
                let message = report.followed.as_ref().map_or_else(pinned, published);
                Draft::new(Truth::True, Reason::Reachable, message)
            }
            UpstreamState::ToolsChanged => Draft::new(Truth::False, Reason::ToolsChanged, changed(report)),
            UpstreamState::Unreachable => {
                let problem = &report.problem;
                let message = format!(
                    "The MCP server cannot be reached: {problem}. Its tools stay listed, and calls are tried nevertheless"
                );
                Draft::new(Truth::False, Reason::Unreachable, message)
            }
        },
    })
}

/// Returns how many tools an exposition publishes, and how many of them unfiltered, if that is for a server to say: what gateways
/// have reported, or else what the status has. `None` for pinned tools.
pub(super) fn followed(input: &StatusInput<'_>, exposed: &Exposed) -> Option<(Option<u32>, Option<u32>)> {
    if !exposed.follows {
        return None;
    }
    let reported = input.upstream.and_then(|report| report.followed.as_ref());
    let shown = |field: &str| u32::try_from(input.previous?.get(field)?.as_u64()?).ok();
    Some(match reported {
        Some(followed) => (Some(count(followed.tools)), Some(count(followed.unfiltered))),
        None => (shown("tools"), shown("unfiltered")),
    })
}

/// Says which tools of a server's list are published.
fn published(followed: &FollowedTools) -> String {
    let FollowedTools { tools, unfiltered, left_out, unmatched } = followed;
    let parts = [
        Some(format!("The MCP server is followed: {tools} of its tools are published, {unfiltered} unfiltered")),
        (*left_out > 0).then(|| format!("{left_out} are left out, and the gateways' logs say why")),
        (!unmatched.is_empty()).then(|| format!("no listed tool is called {}", unmatched.join(", "))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Names the tools that are withheld, with the remedy.
fn changed(report: &UpstreamReport) -> String {
    let UpstreamReport { gone, changed, withheld, .. } = report;
    let named = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
    let rest = withheld.saturating_sub(gone.len() + changed.len());
    let rest = (rest > 0).then(|| format!("and {rest} more"));
    let parts = [named("gone", gone), named("changed", changed), rest];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("Tools are withheld. {}. Review them with `tamis import mcp --update`", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acks::Programmed;
    use crate::object::Kind;
    use crate::verdict::Verdict;

    fn decided(
        is_watched: bool,
        report: Option<&UpstreamReport>,
        previous: Option<&serde_json::Value>,
    ) -> Option<Draft> {
        let address = UpstreamAddress { url: "https://a.example".to_owned(), plan: None, is_watched };
        let exposed = Exposed { upstream: Some(address), ..Exposed::default() };
        let verdict = Verdict { exposed: Some(exposed), ..Verdict::default() };
        condition(&StatusInput {
            kind: Kind::Exposition,
            generation: 1,
            previous,
            verdict: &verdict,
            programmed: &Programmed::Loaded,
            saved: None,
            upstream: report,
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
        })
    }

    #[test]
    fn the_condition_says_what_gateways_have_seen() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let report = |state| UpstreamReport { state, ..UpstreamReport::default() };
        let changed = UpstreamReport {
            gone: names(&["a", "b"]),
            changed: names(&["c"]),
            withheld: 5,
            ..report(UpstreamState::ToolsChanged)
        };
        let down =
            UpstreamReport { problem: "it does not answer in time".to_owned(), ..report(UpstreamState::Unreachable) };
        for (report, truth, reason, message) in [
            (None, Truth::Unknown, Reason::Unknown, "No gateway has asked the MCP server yet"),
            (
                Some(report(UpstreamState::Unknown)),
                Truth::Unknown,
                Reason::Unknown,
                "No gateway has asked the MCP server yet",
            ),
            (
                Some(report(UpstreamState::Reachable)),
                Truth::True,
                Reason::Reachable,
                "The MCP server lists its tools as they are pinned",
            ),
            (
                Some(changed),
                Truth::False,
                Reason::ToolsChanged,
                "Tools are withheld. gone: a, b; changed: c; and 2 more. Review them with `tamis import mcp --update`",
            ),
            (
                Some(down),
                Truth::False,
                Reason::Unreachable,
                "The MCP server cannot be reached: it does not answer in time. Its tools stay listed, and calls are tried nevertheless",
            ),
        ] {
            assert_eq!(decided(true, report.as_ref(), None), Some(Draft::new(truth, reason, message)));
            assert_eq!(decided(false, report.as_ref(), None), None, "an HTTP API has no such condition");
        }
    }

    #[test]
    fn a_followed_server_is_counted() {
        let followed = FollowedTools { tools: 12, unfiltered: 3, left_out: 1, unmatched: vec!["a".to_owned()] };
        let report =
            UpstreamReport { followed: Some(followed), state: UpstreamState::Reachable, ..UpstreamReport::default() };
        let message = "The MCP server is followed: 12 of its tools are published, 3 unfiltered; 1 are left out, and the \
                       gateways' logs say why; no listed tool is called a";
        assert_eq!(decided(true, Some(&report), None), Some(Draft::new(Truth::True, Reason::Reachable, message)));
    }

    #[test]
    fn what_was_known_stays_while_no_gateway_reports() {
        let previous =
            json!({"conditions": [{"type": "Upstream", "status": "False", "reason": "Unreachable", "message": "m"}]});
        assert_eq!(decided(true, None, Some(&previous)), Some(Draft::new(Truth::False, Reason::Unreachable, "m")));
    }
}
