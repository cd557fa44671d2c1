//! What a gateway says of an MCP server to its operator and at `/config`. Pure.

use std::collections::BTreeMap;

use tamis_config::acks::{NAMED_TOOLS, UpstreamReport, UpstreamState};

use super::Reach;
use crate::upstream::Withheld;

/// Reports on a server, and on the published tools that are withheld.
pub(crate) fn report(reach: Reach, withheld: Option<&BTreeMap<String, Withheld>>) -> UpstreamReport {
    let withheld = || withheld.into_iter().flatten();
    let named = |reason: &str| {
        let of_it = withheld().filter(|(_, why)| why.reason() == reason).map(|(name, _)| name.clone());
        of_it.take(NAMED_TOOLS).collect::<Vec<_>>()
    };
    let (state, problem) = match reach {
        Reach::Unreachable(problem) => (UpstreamState::Unreachable, problem.to_string()),
        // A call may have asked before the background has.
        Reach::Unknown | Reach::Reachable if withheld().next().is_some() => {
            (UpstreamState::ToolsChanged, String::new())
        }
        Reach::Unknown => (UpstreamState::Unknown, String::new()),
        Reach::Reachable => (UpstreamState::Reachable, String::new()),
    };
    UpstreamReport {
        state,
        problem,
        gone: named("missing"),
        changed: named("changed"),
        withheld: withheld().count(),
        followed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Problem;
    use super::*;

    #[test]
    fn an_outage_is_worse_than_a_change_and_names_are_bounded() {
        let withheld = |missing: usize, repeated: usize| -> BTreeMap<String, Withheld> {
            let missing = (0..missing).map(|n| (format!("gone-{n:02}"), Withheld::Missing));
            missing.chain((0..repeated).map(|n| (format!("other-{n:02}"), Withheld::Repeated))).collect()
        };
        let refused = Reach::Unreachable(Problem::Status(503));
        for (reach, missing, repeated, state, problem) in [
            (Reach::Unknown, 0, 0, UpstreamState::Unknown, ""),
            (Reach::Reachable, 0, 0, UpstreamState::Reachable, ""),
            (Reach::Reachable, 1, 0, UpstreamState::ToolsChanged, ""),
            (Reach::Unknown, 0, 2, UpstreamState::ToolsChanged, ""),
            (Reach::Reachable, 30, 30, UpstreamState::ToolsChanged, ""),
            (refused, 1, 1, UpstreamState::Unreachable, "it answers with status 503"),
        ] {
            let report = report(reach, Some(&withheld(missing, repeated)));
            assert_eq!((report.state, &*report.problem), (state, problem), "{reach:?} {missing} {repeated}");
            assert_eq!(report.withheld, missing + repeated);
            let expected = (missing.min(NAMED_TOOLS), repeated.min(NAMED_TOOLS));
            assert_eq!((report.gone.len(), report.changed.len()), expected);
        }
    }

    #[test]
    fn problems_are_said_in_words_of_the_gateway() {
        for (problem, text) in [
            (Problem::Rpc(-32_603), "it answers with the JSON-RPC error -32603"),
            (Problem::Failed("connect"), "no connection can be made"),
            (Problem::Failed("timeout"), "it does not answer in time"),
            (Problem::Failed("credential"), "the credential is missing"),
        ] {
            assert_eq!(problem.to_string(), text);
        }
    }
}
