//! The files themselves: rules by promtool, dashboards by their shape, the reference by the registries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tamis_tests::prometheus::{program, rules};
use tamis_tests::root;

fn promtool(arguments: &[&str], files: &[PathBuf]) -> Result<String> {
    let output = Command::new(program("promtool")?).args(arguments).args(files).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "promtool {arguments:?}: {text}");
    Ok(text)
}

#[test]
fn rules_are_valid() -> Result<()> {
    let files = ["recording", "gateway", "operator"].map(rules);
    let said = promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &files)?;
    assert_eq!(said.matches("rules found").count(), 3, "{said}");
    Ok(())
}

#[test]
fn rules_do_what_their_tests_say() -> Result<()> {
    let folder = root().join("tests/prometheus");
    promtool(&["test", "rules"], &["recording.yaml", "alerts.yaml"].map(|name| folder.join(name))).map(drop)
}

/// The names of all alerts, as the files have them.
fn alerts() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in ["gateway", "operator"] {
        let text = fs::read_to_string(rules(file))?;
        names.extend(text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned));
    }
    Ok(names)
}

#[test]
fn every_alert_is_tested_and_has_its_runbook() -> Result<()> {
    let alerts = alerts()?;
    assert!(alerts.len() >= 15, "{alerts:?}");
    let runbooks = fs::read_to_string(root().join("docs/runbooks.md"))?;
    let headings: BTreeSet<String> =
        runbooks.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect();
    assert_eq!(headings, alerts, "docs/runbooks.md");
    let tests = fs::read_to_string(root().join("tests/prometheus/alerts.yaml"))?;
    let rules = ["gateway", "operator"].map(|file| fs::read_to_string(rules(file)).unwrap_or_default()).concat();
    for alert in alerts {
        assert!(tests.contains(&format!("- name: {alert} fires\n")), "{alert} is not seen to fire");
        assert!(tests.contains(&format!("- name: {alert} does not fire, ")), "{alert} is not seen not to fire");
        assert!(rules.contains(&format!("runbook: docs/runbooks.md#{}\n", alert.to_lowercase())), "{alert}");
    }
    Ok(())
}

/// The dashboards: file name and content.
fn dashboards() -> Result<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("charts/tamis/dashboards"))? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
        let board = serde_json::from_str(&fs::read_to_string(&path)?).with_context(|| name.clone())?;
        found.push((name, board));
    }
    Ok(found)
}

/// Units of Grafana that the dashboards use.
const UNITS: [&str; 9] = ["short", "bytes", "Bps", "percentunit", "cps", "reqps", "ops", "s", "none"];

#[test]
fn dashboards_have_the_shape_that_grafana_expects() -> Result<()> {
    let boards = dashboards()?;
    let uids: BTreeSet<&str> = boards.iter().filter_map(|(_, board)| board["uid"].as_str()).collect();
    assert_eq!(uids, ["tamis-gateway", "tamis-operator", "tamis-savings"].into_iter().collect());
    for (name, board) in &boards {
        let variables = board["templating"]["list"].as_array().context("variables")?;
        assert_eq!(variables[0]["type"], "datasource", "{name}");
        assert!(board["id"].is_null(), "{name}: an id belongs to one Grafana installation");
        let panels = board["panels"].as_array().context("panels")?;
        let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}: ids");
        let mut places = BTreeSet::new();
        for panel in panels {
            let title = panel["title"].as_str().context("a title")?;
            let at = |field: &str| panel["gridPos"][field].as_u64().with_context(|| format!("{title}: {field}"));
            let (x, y, w, h) = (at("x")?, at("y")?, at("w")?, at("h")?);
            assert!(x + w <= 24, "{name}: {title} is too wide");
            for place in (y..y + h).flat_map(|row| (x..x + w).map(move |column| (row, column))) {
                assert!(places.insert(place), "{name}: {title} covers another panel at {place:?}");
            }
            if panel["type"] == "row" {
                continue;
            }
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {title}");
            let units = panel["fieldConfig"]["defaults"]["unit"].as_str().into_iter();
            assert!(units.clone().all(|unit| UNITS.contains(&unit)), "{name}: {title}: {units:?}");
            let targets = panel["targets"].as_array().context("targets")?;
            let refs: BTreeSet<&str> = targets.iter().filter_map(|target| target["refId"].as_str()).collect();
            assert!(!targets.is_empty() && refs.len() == targets.len(), "{name}: {title}: {refs:?}");
        }
    }
    Ok(())
}

/// A metric, as `/metrics` shows it.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    /// Names of labels, with all of their values.
    labels: BTreeMap<String, BTreeSet<String>>,
    buckets: Vec<String>,
}

/// Reads the text format of metrics whose label values hold neither quotes nor commas.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut found: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            name.clone_into(&mut current);
            help.clone_into(&mut found.entry(current.clone()).or_default().help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            kind.clone_into(&mut found.entry(name.to_owned()).or_default().kind);
        } else if let Some(family) = found.get_mut(&current) {
            let labels =
                line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
            for (name, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
                let value = value.trim_matches('"').to_owned();
                if name == "le" {
                    if !family.buckets.contains(&value) {
                        family.buckets.push(value);
                    }
                } else {
                    family.labels.entry(name.to_owned()).or_default().insert(value);
                }
            }
        }
    }
    found
}

fn unit(name: &str) -> &'static str {
    let name = name.trim_end_matches("_total");
    if name.ends_with("_bytes") {
        "bytes"
    } else if name.ends_with("_seconds") {
        "seconds"
    } else {
        ""
    }
}

/// Labels with open values: names, versions and statuses.
const OPEN: [&str; 4] = ["namespace", "exposition", "tool", "version"];

fn reference(text: &str) -> String {
    let mut out = String::new();
    for (name, family) in families(text) {
        let Family { kind, help, labels, buckets } = family;
        let unit = unit(&name);
        out += &format!("\n### {name}\n\n{help}\n\n- Type: {kind}{}{unit}\n", if unit.is_empty() { "" } else { ", " });
        for (label, values) in labels {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            if OPEN.contains(&label.as_str()) {
                out += &format!("- Label `{label}`\n");
            } else {
                let more = if label == "code" { ", and HTTP statuses" } else { "" };
                out += &format!("- Label `{label}`: {}{more}\n", values.join(", "));
            }
        }
        if !buckets.is_empty() {
            out += &format!("- Buckets: {}\n", buckets.join(", "));
        }
    }
    out
}

/// Compares the generated part of `docs/metrics.md` with the registries. `TAMIS_UPDATE=1` regenerates it.
#[test]
fn the_reference_matches_the_registries() -> Result<()> {
    let path = root().join("docs/metrics.md");
    let page = fs::read_to_string(&path)?;
    let marker = "<!-- Generated: TAMIS_UPDATE=1 cargo test -p tamis-tests --test observability reference -->\n";
    let (hand, generated) = page.split_once(marker).context("the page has no generated part")?;
    let wanted = format!(
        "\n## Metrics of gateways\n{}\n## Metrics of the operator\n{}",
        reference(&tamis_gateway::every_metric()),
        reference(&tamis_operator::metrics::Metrics::everything())
    );
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        fs::write(&path, format!("{hand}{marker}{wanted}"))?;
        return Ok(());
    }
    ensure!(generated == wanted, "docs/metrics.md is not what the registries say: run with TAMIS_UPDATE=1");
    Ok(())
}

/// Metrics that every process has are described in the same words, although gateway and operator share no code for
/// them.
#[test]
fn gateway_and_operator_describe_common_metrics_alike() {
    let (gateway, operator) = (tamis_gateway::every_metric(), tamis_operator::metrics::Metrics::everything());
    let (gateway, operator) = (families(&gateway), families(&operator));
    let mut both = BTreeSet::new();
    for (name, of_gateway) in gateway {
        if let Some(of_operator) = operator.get(&name) {
            let said = |family: &Family| (family.kind.clone(), family.help.clone(), family.labels.clone());
            assert_eq!(said(&of_gateway), said(of_operator), "{name}");
            both.insert(name);
        }
    }
    let expected = ["process_start_time_seconds", "tamis_build_info", "tamis_ready"].map(str::to_owned);
    assert_eq!(both, expected.into());
}

#[test]
fn metrics_follow_the_naming_rules_of_prometheus() -> Result<()> {
    for text in [tamis_gateway::every_metric(), tamis_operator::metrics::Metrics::everything()] {
        for (name, family) in families(&text) {
            assert!(name.starts_with("tamis_") || name == "process_start_time_seconds", "{name}");
            assert_eq!(name.ends_with("_total"), family.kind == "counter", "{name} is a {}", family.kind);
            assert!(family.help.ends_with('.') && family.help.len() > 8, "{name}: {}", family.help);
            assert!(family.kind != "histogram" || name.ends_with("_seconds"), "{name}");
        }
    }
    Ok(())
}
