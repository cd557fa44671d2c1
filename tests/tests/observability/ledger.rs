//! Calls that a test makes, and what they came to as their caller sees it: what metrics have to say.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::{Answer, Era, Gateway, Rpc, Upstream};

/// What was counted by hand.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) saved: u64,
    /// Estimated at a token for 3.5 bytes, since no exposition here has a budget in tokens.
    pub(crate) saved_tokens: u64,
}

/// Returns the estimate of the tokens of so many bytes.
fn estimate(bytes: u64) -> u64 {
    (bytes * 2).div_ceil(7)
}

/// Makes calls and keeps count of them.
pub(crate) struct Ledger<'a> {
    gateway: &'a Gateway,
    /// A connection to each exposition that was called.
    connections: BTreeMap<String, Rpc>,
    /// How many bytes the upstream sends for each tool that is called.
    inputs: BTreeMap<&'static str, u64>,
    /// By exposition and tool.
    pub(crate) counts: BTreeMap<(String, String), Counts>,
    /// By exposition and HTTP status: requests that were turned away.
    pub(crate) rejected: BTreeMap<(String, u16), u64>,
}

/// Tools whose answers are always the same, and where their upstream has them.
const TOOLS: [(&str, &str); 3] =
    [("list-issues", "/repos/o/r/issues?state=all"), ("get-issue", "/repos/o/r/issues/3"), ("get-log", "/log")];

fn arguments(tool: &str) -> Value {
    match tool {
        "list-issues" => json!({"owner": "o", "repo": "r"}),
        "get-issue" => json!({"owner": "o", "repo": "r", "number": 3}),
        "status" => json!({"code": 500}),
        _ => json!({}),
    }
}

impl<'a> Ledger<'a> {
    pub(crate) async fn open(gateway: &'a Gateway, upstream: &Upstream) -> Result<Self> {
        let mut inputs = BTreeMap::new();
        for (tool, path) in TOOLS {
            let body = reqwest::get(format!("{}{path}", upstream.url)).await?.bytes().await?;
            inputs.insert(tool, body.len() as u64);
        }
        let (counts, rejected) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { gateway, connections: BTreeMap::new(), inputs, counts, rejected })
    }

    /// Calls a tool and writes down what came of it.
    pub(crate) async fn call(&mut self, exposition: &str, tool: &str) -> Result<Answer> {
        if !self.connections.contains_key(exposition) {
            let rpc = Rpc::new(&self.gateway.endpoint(exposition), Era::Modern)?;
            self.connections.insert(exposition.to_owned(), rpc);
        }
        let rpc = &self.connections[exposition];
        let answer = rpc.call(tool, &arguments(tool)).await?;
        if answer.status != 200 {
            *self.rejected.entry((exposition.to_owned(), answer.status)).or_default() += 1;
            return Ok(answer);
        }
        let counts = self.counts.entry((exposition.to_owned(), tool.to_owned())).or_default();
        counts.calls += 1;
        if let Ok(text) = answer.text_block() {
            let input = *self.inputs.get(tool).with_context(|| format!("{tool} is not one whose answers are known"))?;
            let output = text.len() as u64;
            counts.input += input;
            counts.output += output;
            counts.saved += input.saturating_sub(output);
            counts.saved_tokens += estimate(input).saturating_sub(estimate(output));
        }
        Ok(answer)
    }

    /// Of all tools of an exposition.
    pub(crate) fn of(&self, exposition: &str) -> Counts {
        let mine = self.counts.iter().filter(|((name, _), _)| name == exposition);
        mine.fold(Counts::default(), |sum, (_, counts)| Counts {
            calls: sum.calls + counts.calls,
            input: sum.input + counts.input,
            output: sum.output + counts.output,
            saved: sum.saved + counts.saved,
            saved_tokens: sum.saved_tokens + counts.saved_tokens,
        })
    }
}
