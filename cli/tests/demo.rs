//! `tamis demo`, through the real binary.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamis"))
        .args(["demo", "--once", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(arguments)
        .env_remove("RUST_LOG")
        .output()
        .expect("runs")
}

/// The saving of each tool and exposition in percent: of what came over the wire, of the same as compact JSON.
fn savings(document: &Value) -> BTreeMap<(String, String), (f64, f64)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or_default();
    let rows = document["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            let saved = (number(row, "savedOfUpstream"), number(row, "savedOfCompactJson"));
            ((text(row, "tool"), text(row, "exposition")), saved)
        })
        .collect()
}

#[test]
fn every_service_is_called_twice_and_saves() {
    let output = demo(&["--output", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else");
    let savings = savings(&document);
    let tools = |audience: &str| savings.keys().filter(|(_, exposition)| exposition.ends_with(audience)).count();
    assert_eq!((tools("-internal"), tools("-partner")), (5, 5));
    for (call, (of_wire, of_compact)) in &savings {
        assert!(of_wire > of_compact && *of_compact > 50.0 && *of_wire < 100.0, "{call:?}: {of_wire} {of_compact}");
    }
    for ((tool, exposition), (_, partner)) in savings.iter().filter(|((_, e), _)| e.ends_with("-partner")) {
        let (_, internal) = savings[&(tool.clone(), exposition.replace("-partner", "-internal"))];
        assert!(*partner > internal, "{tool}: a partner sees less than we do");
    }
}

#[test]
fn the_table_of_the_documentation_is_the_demo_s() {
    let output = demo(&["--output", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let figures = include_str!("../../docs/figures.md");
    for ((tool, exposition), (of_wire, of_compact)) in savings(&document) {
        let row = figures.lines().find(|line| line.contains(&format!("| `{tool}` | `{exposition}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/figures.md has no row for {tool} of {exposition}"));
        for share in [of_wire, of_compact] {
            assert!(row.contains(&format!("{share:.1} %")), "{tool} of {exposition} is {share:.1} % now: {row}");
        }
    }
}

#[test]
fn people_get_a_table() {
    let output = demo(&[]);
    assert_eq!(output.status.code(), Some(0));
    let table = String::from_utf8(output.stdout).expect("text");
    let header = table.lines().next().expect("a header");
    for column in ["tool", "exposition", "from upstream", "as compact JSON", "to the model", "saved", "in the filter"] {
        assert!(header.contains(column), "{header}");
    }
    assert_eq!(table.lines().filter(|line| line.contains("Enforced")).count(), 5, "{table}");
    // The tests are of the same profile as the program.
    assert_eq!(table.contains("without optimisation"), cfg!(debug_assertions), "{table}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_address_that_was_asked_for_is_not_replaced() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = taken.local_addr().expect("an address").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_tamis"))
        .args(["demo", "--once", "--listen", &address, "--admin", "127.0.0.1:0"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains(&address) && message.contains("--listen"), "{message}");
}
