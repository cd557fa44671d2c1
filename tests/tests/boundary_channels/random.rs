//! Random filters with pairs of documents through every channel: the generator of the engine's own non-interference test,
//! with a whole gateway in place of the engine.

#[path = "../../../engine/tests/non_interference/filters.rs"]
mod filters;
#[path = "../../../engine/tests/non_interference/trees.rs"]
mod trees;

use anyhow::{Context as _, Result};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tamis_engine::{CompileOptions, Enforcement, ResponseType, ToolFilter, compile};
use tamis_tests::Upstream;
use tamis_tests::documents::Folder;

use super::{Half, manifest, same_records};
use filters::Filter;

/// How many filters are tried; `TAMIS_RANDOM_FILTERS` asks for more.
const FILTERS: usize = 64;
/// Tools of one service. More filters are tried in further gateways.
const TOOLS: usize = 64;
/// Pairs of documents for each filter.
const PAIRS: usize = 3;

/// Whether two documents that differ in what the filter removes must not be told apart. `compile` warns about filters that
/// tell by succeeding or not; the engine's own test compares those.
fn reveals_nothing(filter: &Filter) -> Result<bool> {
    let spec: ToolFilter = serde_json::from_value(filter.filter.clone())?;
    let options = CompileOptions {
        enforcement: Enforcement::Enforced,
        response_type: filter.response_type,
        ..CompileOptions::default()
    };
    let compiled = compile(&spec, &options);
    let tells = compiled.findings.iter().any(|finding| finding.message.contains("tells the caller"));
    Ok(compiled.program.is_some() && !tells)
}

/// The next random filters.
fn draw(runner: &mut TestRunner, count: usize) -> Result<Vec<Filter>> {
    let mut drawn = Vec::new();
    while drawn.len() < count {
        let filter = filters::filter().new_tree(runner).map_err(anyhow::Error::msg)?.current();
        if reveals_nothing(&filter)? {
            drawn.push(filter);
        }
    }
    Ok(drawn)
}

fn tool(index: usize) -> String {
    format!("tool-{index}")
}

/// The actions and the filters, indented for their places in the documents. JSON is YAML too.
fn yaml(filters: &[Filter]) -> (String, String) {
    let action = |(index, filter): (usize, &Filter)| {
        let mut action = json!({"method": "GET", "path": "/document"});
        if let Some(response_type) = filter.response_type {
            action["response"] = json!({"type": name_of(response_type)});
        }
        format!("      {}: {action}\n", tool(index))
    };
    let filter = |(index, filter): (usize, &Filter)| format!("    {}: {}\n", tool(index), filter.filter);
    (filters.iter().enumerate().map(action).collect(), filters.iter().enumerate().map(filter).collect())
}

fn name_of(response_type: ResponseType) -> &'static str {
    match response_type {
        ResponseType::Object => "object",
        ResponseType::Array => "array",
        ResponseType::Text => "text",
    }
}

/// Calls every tool with pairs of documents, through two gateways; gives how many answers of each channel were compared,
/// and how many held data.
async fn batch(runner: &mut TestRunner, filters: &[Filter]) -> Result<(usize, usize)> {
    let upstream = Upstream::start().await?;
    let (folder, logs) = (Folder::new()?, Folder::new()?);
    let (actions, of_tools) = yaml(filters);
    folder.write("all.yaml", &manifest(&upstream, &actions, &of_tools))?;
    let mut halves = [
        Half::start(folder.path(), logs.path(), "left").await?,
        Half::start(folder.path(), logs.path(), "right").await?,
    ];
    let (mut compared, mut answered) = (0, 0);
    for (index, filter) in filters.iter().enumerate() {
        for _ in 0..PAIRS {
            let document = filter.document().new_tree(runner).map_err(anyhow::Error::msg)?.current();
            let (one, other) = document.halves();
            let mut answers = Vec::new();
            for (half, document) in halves.iter_mut().zip([&one, &other]) {
                upstream.set_document(200, document);
                answers.push(half.call(&tool(index)).await?);
            }
            assert_eq!(answers[0], answers[1], "{}\n{one}\n{other}", filter.filter);
            compared += 1;
            answered += usize::from(answers[0].iter().all(|answer| !answer.contains("withheld")));
        }
    }
    same_records(halves).await?;
    Ok((compared, answered))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_random_filter_reveals_what_it_removes() -> Result<()> {
    let asked = match std::env::var("TAMIS_RANDOM_FILTERS") {
        Ok(number) => number.parse().context("TAMIS_RANDOM_FILTERS: expected a number of filters")?,
        Err(_) => FILTERS,
    };
    let mut runner = TestRunner::deterministic();
    let drawn = draw(&mut runner, asked)?;
    let (mut compared, mut answered) = (0, 0);
    for filters in drawn.chunks(TOOLS) {
        let (more, of_them) = batch(&mut runner, filters).await?;
        compared += more;
        answered += of_them;
    }
    println!(
        "{asked} filters, {compared} pairs of documents through each of four channels, {answered} of them answered"
    );
    assert!(answered * 2 > compared, "{answered} of {compared}");
    Ok(())
}

/// Every way to remove something, and every stage, is among the filters that are drawn.
#[test]
fn random_filters_cover_every_stage() -> Result<()> {
    let drawn = draw(&mut TestRunner::deterministic(), FILTERS)?;
    let text: Vec<Value> = drawn.into_iter().map(|filter| filter.filter).collect();
    let text = json!(text).to_string();
    for stage in ["retain", "select", "exclude", "patches", "maxItems", "budget", "compact", "otherwise", "/**/s"] {
        assert!(text.contains(stage), "{stage}");
    }
    Ok(())
}
