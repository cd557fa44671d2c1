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

/// Formats `118512` as `118 512`.
fn grouped(number: &Value) -> String {
    let digits = number.as_u64().expect("a count").to_string();
    let digits: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|part| std::str::from_utf8(part).expect("digits")).collect();
    digits.join(" ")
}

/// The rows of the two tables of `docs/figures.md`: sizes in bytes, and in tokens.
fn rows(document: &Value) -> [Vec<String>; 2] {
    let rows = document["rows"].as_array().expect("rows");
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let start = |row: &Value| format!("| `{}` | `{}` |", text(&row["tool"]), text(&row["exposition"]));
    let bytes = rows.iter().map(|row| {
        let sizes =
            ["upstreamBytes", "compactJsonBytes", "modelBytes"].map(|size| format!(" {} B |", grouped(&row[size])));
        let shares = ["savedOfUpstream", "savedOfCompactJson"]
            .map(|share| format!(" {:.1} % |", row[share].as_f64().expect("a share")));
        format!("{} {} |{}{}", start(row), text(&row["enforcement"]), sizes.concat(), shares.concat())
    });
    let tokens = rows.iter().map(|row| {
        let of = |key: &str| row[key].as_f64().expect("a count");
        let saved = (1.0 - of("modelTokens") / of("compactJsonTokens")) * 100.0;
        let auto = match &row["auto"] {
            Value::Null => "-".to_owned(),
            auto => format!("`{}`: {}", text(&auto["format"]), grouped(&auto["tokens"])),
        };
        let [compact, model] = ["compactJsonTokens", "modelTokens"].map(|key| grouped(&row[key]));
        format!("{} {compact} | {model} | {saved:.1} % | `{}` | {auto} |", start(row), text(&row["format"]))
    });
    [bytes.collect(), tokens.collect()]
}

/// The two tables lie between `<!-- Generated: .. -->` and `<!-- end -->`; with `TAMIS_UPDATE=1`, their rows are written.
#[test]
fn the_tables_of_the_documentation_are_the_demo_s() {
    let output = demo(&["--output", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/figures.md");
    let figures = std::fs::read_to_string(file).expect("a page");
    let (mut page, mut rows, mut within) = (String::new(), rows(&document).into_iter(), false);
    for line in figures.lines() {
        within &= line != "<!-- end -->";
        // The header of a table stays.
        if !within || !line.starts_with("| `") {
            page += &format!("{line}\n");
        }
        if within && line.starts_with("|---") {
            page += &rows.next().expect("two tables").iter().flat_map(|row| [row, "\n"]).collect::<String>();
        }
        within |= line.starts_with("<!-- Generated: ");
    }
    assert!(rows.next().is_none(), "docs/figures.md has two tables");
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(file, &page).expect("a page can be written");
    }
    let committed = std::fs::read_to_string(file).expect("a page");
    assert!(committed == page, "docs/figures.md is stale: run this test with TAMIS_UPDATE=1");
}

#[test]
fn people_get_a_table() {
    let output = demo(&[]);
    assert_eq!(output.status.code(), Some(0));
    let table = String::from_utf8(output.stdout).expect("text");
    let header = table.lines().next().expect("a header");
    for column in
        ["tool", "exposition", "from upstream", "as compact JSON", "to the model", "saved", "tokens", "with auto"]
    {
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
