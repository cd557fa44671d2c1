//! What gateways have seen of an MCP server. Pure.

use tamis_config::acks::{FollowedTools, NAMED_TOOLS, UpstreamReport};

use crate::status::message;

/// The longest name of a tool that is shown, in characters. A gateway publishes no longer ones.
const MAX_NAME: usize = 128;

/// Returns the worse of two reports; of equally bad ones, the one that withholds more tools, or else the first.
pub(super) fn worse<'a>(one: &'a UpstreamReport, other: &'a UpstreamReport) -> &'a UpstreamReport {
    if (other.state, other.withheld) > (one.state, one.withheld) { other } else { one }
}

/// Cuts what a gateway says to what a status shows.
pub(super) fn bounded(report: &UpstreamReport) -> UpstreamReport {
    let UpstreamReport { state, problem, gone, changed, withheld, followed } = report;
    let names = |names: &[String]| {
        let shown = |name: &String| name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        names.iter().take(NAMED_TOOLS).map(shown).collect()
    };
    UpstreamReport {
        state: *state,
        problem: message::part(problem),
        gone: names(gone),
        changed: names(changed),
        withheld: *withheld,
        followed: followed
            .as_ref()
            .map(|followed| FollowedTools { unmatched: names(&followed.unmatched), ..followed.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use tamis_config::acks::UpstreamState::{self, Reachable, ToolsChanged, Unknown, Unreachable};

    use super::*;

    fn report(state: UpstreamState, withheld: usize) -> UpstreamReport {
        UpstreamReport { state, withheld, ..UpstreamReport::default() }
    }

    #[test]
    fn of_several_gateways_the_worst_counts() {
        let order = [(Unknown, 0), (Reachable, 0), (ToolsChanged, 1), (ToolsChanged, 2), (Unreachable, 0)];
        for (at, (state, withheld)) in order.into_iter().enumerate() {
            for (other, withholds) in order.into_iter().take(at) {
                let (bad, good) = (report(state, withheld), report(other, withholds));
                assert_eq!((worse(&bad, &good), worse(&good, &bad)), (&bad, &bad), "{state:?} {other:?}");
            }
        }
        let (one, other) =
            (report(Unreachable, 0), UpstreamReport { problem: "b".to_owned(), ..report(Unreachable, 0) });
        assert_eq!(worse(&one, &other), &one);
    }

    #[test]
    fn what_a_gateway_says_is_cut() {
        let long = UpstreamReport {
            problem: "x".repeat(100_000),
            gone: vec!["n\n".repeat(1_000); 1_000],
            changed: vec![String::new(); 1_000],
            ..report(ToolsChanged, 1_000_000)
        };
        let cut = bounded(&long);
        assert!(cut.problem.len() < 1_100 && cut.gone.len() == NAMED_TOOLS && cut.changed.len() == NAMED_TOOLS);
        assert!(cut.gone.iter().all(|name| *name == "n".repeat(MAX_NAME)), "{:?}", cut.gone);
        assert_eq!(bounded(&cut), cut);
    }
}
