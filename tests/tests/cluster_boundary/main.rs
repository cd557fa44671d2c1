//! `Enforced` through a gateway of a cluster, whose operator made its configuration: of two upstream answers that differ only in
//! what the filters remove, callers get the same bytes; the gateway's log, its audit records and its metrics, and the status and
//! Events that the operator writes, say the same but for numbers.

#[path = "../boundary_channels/pairs.rs"]
mod pairs;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use pairs::{TOOLS, masked, pairs, series, shown, yaml};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::json;
use tamis_tests::Era;
use tamis_tests::cluster::{TestEnv, eventually};

/// Two expositions of one set on one gateway: one gets the left documents, the other the right ones.
const HALVES: [&str; 2] = ["left", "right"];

fn documents(env: &TestEnv) -> String {
    let (actions, filters) = yaml();
    let mut text = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s, namespace: team-a}}\nspec:\n  version: '1'\n  http:\n    \
         baseUrl: {}\n    actions:\n{actions}---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: f, namespace: team-a}}\n\
         spec:\n  service: {{name: s, version: '1'}}\n  enforcement: Enforced\n  filters:\n{filters}",
        env.upstream.url,
    );
    for name in HALVES {
        let spec = json!({"service": {"name": "s", "version": "1"}});
        text += "---\n";
        text += &TestEnv::exposition(name, &spec);
        text += "\n";
    }
    text
}

/// Returns the lines of a text that name one half, without its name and without numbers.
fn said_of(half: &str, text: &str) -> Vec<String> {
    let name = format!("\"{half}\"");
    let lines = text.lines().filter(|line| line.contains(&name));
    let mut lines: Vec<String> = lines.map(|line| masked(&line.replace(&name, "HALF"))).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_data_shows_in_no_channel_of_a_cluster() -> Result<()> {
    let env = TestEnv::start().await?;
    env.cluster.apply(&documents(&env)).await?;
    for half in HALVES {
        env.ready("exposition", half).await?;
    }
    let eras = [Era::Legacy, Era::Modern];
    let mut runner = TestRunner::deterministic();
    let (mut compared, mut answered) = (0, 0);
    for _ in 0..10 {
        for (tool, kind, _, filter) in TOOLS {
            let (one, other) = pairs(tool, *kind).new_tree(&mut runner).map_err(anyhow::Error::msg)?.current();
            for era in eras {
                let mut answers = Vec::new();
                for (half, document) in HALVES.iter().zip([&one, &other]) {
                    env.upstream.set_document(200, document);
                    let answer = env.gateway.rpc("team-a", half, era)?.call(tool, &json!({})).await?;
                    answers.push(shown(&answer));
                }
                ensure!(answers[0] == answers[1], "{tool} {filter}\n{one}\n{other}\n{answers:#?}");
                ensure!(!answers[0].contains("REMOVED"), "{tool} {answers:?}");
                compared += 1;
                answered += usize::from(!answers[0].contains("withheld"));
            }
        }
    }
    println!("{compared} pairs of answers compared, {answered} of them hold data");
    assert!(answered * 2 > compared, "{answered} of {compared}");

    let metrics = env.gateway.admin.get("/metrics").await?;
    let of_half = |half: &str| -> BTreeSet<String> {
        let name = format!("exposition=\"{half}\"");
        series(&metrics).filter(|line| line.contains(&name)).map(|line| line.replace(&name, "HALF")).collect()
    };
    let [left, right] = HALVES.map(of_half);
    assert!(!left.is_empty());
    assert_eq!(left, right, "the series of metrics");

    // Audit records are written a few milliseconds after the answers.
    let [left, right] = eventually("a record of each call", Duration::from_secs(30), async || {
        let log = env.gateway.process.log();
        let calls = |half: &str| {
            log.lines().filter(|line| line.contains("tool call") && line.contains(&format!("\"{half}\""))).count()
        };
        Ok((HALVES.map(calls) == [compared; 2]).then(|| HALVES.map(|half| said_of(half, &log))))
    })
    .await?;
    assert!(left.iter().any(|line| line.contains("tool call")), "there are audit records: {left:?}");
    assert_eq!(left, right, "the lines of the log");

    // The operator hears of sums only, and says them rounded; what it says arrives a while after the calls.
    let said = eventually("what the operator says of both", Duration::from_secs(60), async || {
        let mut said = Vec::new();
        for half in HALVES {
            let status = env.object("exposition", half).await?["status"].clone();
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let conditions =
                conditions.map(|c| masked(&format!("{} {} {} {}", c["type"], c["status"], c["reason"], c["message"])));
            said.push((conditions.collect::<Vec<_>>(), status["tools"].clone(), status["filters"].clone()));
        }
        let events = env.cluster.kubectl(&["get", "events", "-n", "team-a", "-o", "yaml"], None).await?;
        ensure!(!events.contains("REMOVED"), "{events}");
        Ok((said[0] == said[1]).then_some(said))
    });
    let said = said.await?;
    let log = env.gateway.process.log();
    ensure!(!format!("{said:?} {log} {metrics}").contains("REMOVED"), "{said:?}");
    Ok(())
}
