//! `tamis bench` as users run it: the binary, its exit code, and what it writes where.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const FILTERS: &str = r#"apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: github}
spec:
  service: {name: github, version: "1"}
  filters:
    list-issues:
      select: {number: number, title: title, by: user.login, url: html_url, milestone: milestone}
      dropNulls: true
      output: {preset: issues, format: toon, budget: {bytes: 10}}
    list-either:
      - test: {path: /kind, value: a}
        select: {a: a}
      - otherwise: true
        root: /items
        select: {b: b}
    bad-root:
      root: /results
      maxItems: 1
"#;

const PARTNER: &str = r#"apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: partner}
spec:
  name: partner
  enforcement: Enforced
  service: {name: github, version: "1"}
  filters:
    bad-root: {root: /results, maxItems: 1}
"#;

struct Folder(TempDir);

impl Folder {
    /// A folder with filters, and with issues of which some have a milestone.
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("filters.yaml", FILTERS);
        folder.write("partner.yaml", PARTNER);
        let issue = |n: usize| {
            let milestone = if n.is_multiple_of(3) { format!("\"v{n}\"") } else { "null".to_owned() };
            format!(
                "  {{\"number\": {n}, \"title\": \"Number {n} of the issues, with some words\", \"user\": {{\"login\": \"ada\"}},\
                 \n   \"html_url\": \"https://example.com/issues/{n}\", \"milestone\": {milestone}}}"
            )
        };
        let issues: Vec<String> = (1..=40).map(issue).collect();
        folder.write("list-issues.json", &format!("[\n{}\n]\n", issues.join(",\n")));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("a file");
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut tamis = Command::new(env!("CARGO_BIN_EXE_tamis"));
        tamis.current_dir(self.0.path()).arg("bench").args(args).env_remove("RUST_LOG").output().expect("tamis runs")
    }

    /// The one payload of the results.
    fn payload(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--rounds", "0", "--output", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let mut results: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert!(results["times"].is_null());
        results["payloads"][0].take()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn tokens_of(number: &Value) -> u64 {
    number.as_u64().unwrap_or_else(|| panic!("{number} is no count"))
}

#[test]
fn a_list_is_measured_by_format_level_and_budget() {
    let folder = Folder::new();
    let measured = folder.payload(&["-f", "filters.yaml", "--budget-tokens", "100000,500", "list-issues.json"]);
    assert_eq!(
        (&measured["tool"], &measured["items"], &measured["kind"]),
        (&"list-issues".into(), &40.into(), &"json".into())
    );
    // Both baselines: the file as it was saved, and the same as compact JSON.
    let saved = fs::metadata(folder.0.path().join("list-issues.json")).expect("a file").len();
    assert_eq!(measured["saved"]["bytes"], saved);
    assert!(tokens_of(&measured["compact"]["bytes"]) < saved);
    assert!(tokens_of(&measured["filtered"]["tokens"]) < tokens_of(&measured["compact"]["tokens"]));

    // Without the filter, the milestones are null and each issue has an object: no table. With it, each format is one.
    let formats = measured["formats"].as_array().expect("two rows");
    assert_eq!(formats.iter().map(|row| row["filtered"].as_bool()).collect::<Vec<_>>(), [Some(false), Some(true)]);
    let filtered = &formats[1];
    let (json, table, toon) =
        (tokens_of(&filtered["json"]), tokens_of(&filtered["table"]), tokens_of(&filtered["toon"]));
    assert_eq!(json, tokens_of(&measured["filtered"]["tokens"]));
    assert!(table < json && toon < json, "{filtered}");
    assert_eq!(tokens_of(&filtered["auto"]), table.min(toon));

    let levels = measured["levels"].as_array().expect("rows");
    assert_eq!(levels.iter().map(|row| &row["level"]).collect::<Vec<_>>(), ["full", "standard", "minimal"]);
    let of_level: Vec<u64> = levels.iter().map(|row| tokens_of(&row["json"])).collect();
    assert!(of_level[0] == json && of_level.is_sorted_by(|a, b| a > b), "{of_level:?}");

    let budgets = measured["budgets"].as_array().expect("rows");
    assert_eq!(budgets.len(), 6, "two budgets in three formats: {budgets:#?}");
    for row in budgets {
        let (budget, shown) = (tokens_of(&row["budget"]), tokens_of(&row["shown"]));
        assert!(tokens_of(&row["tokens"]) <= budget, "{row}");
        let forms = row["forms"].as_array().expect("counts").iter().map(|form| tokens_of(&form[1])).sum::<u64>();
        assert_eq!(forms, shown, "{row}");
        let (value, bound, whole) = (tokens_of(&row["value"]), tokens_of(&row["bound"]), tokens_of(&row["whole"]));
        assert!(value <= bound && bound <= whole && (26_000_000..26_000_040).contains(&whole), "{row}");
        match budget {
            500 => assert!(value * 2 > bound && value < whole && tokens_of(&row["chunks"]) > 1, "{row}"),
            _ => assert!(value == whole && shown == 40 && row["chunks"] == 1, "{row}"),
        }
    }
    assert_eq!(
        budgets.iter().filter(|row| row["auto"] == true).count(),
        2,
        "one format of each budget is that of auto"
    );
}

#[test]
fn an_answer_in_the_table_is_that_of_filter() {
    let folder = Folder::new();
    let measured = folder.payload(&["-f", "filters.yaml", "--budget-tokens", "700", "list-issues.json"]);
    folder.write("plain.yaml", &FILTERS.replace(", format: toon, budget: {bytes: 10}", ""));
    for row in measured["budgets"].as_array().expect("rows") {
        let format = row["format"].as_str().expect("a name");
        let args = ["-f", "plain.yaml", "--tool", "list-issues", "--budget-tokens", "700", "--report", "report.json"];
        let mut tamis = Command::new(env!("CARGO_BIN_EXE_tamis"));
        let output =
            tamis.current_dir(folder.0.path()).arg("filter").args(args).args(["--format", format, "list-issues.json"]);
        assert!(output.output().expect("tamis runs").status.success());
        let report = fs::read(folder.0.path().join("report.json")).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        assert_eq!((&report["tokens"], &report["chunks"]), (&row["tokens"], &row["chunks"]), "{format}");
        let dropped = report["budget_items_dropped"].as_u64().unwrap_or_default();
        assert_eq!(40 - dropped, tokens_of(&row["shown"]), "{format}");
        let (value, whole) = (tokens_of(&row["value"]), tokens_of(&row["whole"]));
        assert!(0 < value && value <= whole, "{format}: {value} of {whole}");
    }
}

#[test]
fn no_filter_is_needed() {
    let folder = Folder::new();
    let measured = folder.payload(&["list-issues.json"]);
    assert_eq!((&measured["tool"], &measured["formats"][0]["filtered"]), (&Value::Null, &false.into()));
    assert_eq!(measured["levels"], Value::Array(Vec::new()));
    let measured = folder.payload(&["--preset", "issues", "list-issues.json"]);
    assert_eq!(measured["levels"].as_array().map(Vec::len), Some(3));
    folder.write("one.json", r#"{"number": 1, "title": "One"}"#);
    let measured = folder.payload(&["--preset", "issues", "one.json"]);
    assert_eq!((&measured["items"], &measured["budgets"][0]["shown"]), (&Value::Null, &Value::Null));
}

#[test]
fn text_is_measured_by_lines() {
    let folder = Folder::new();
    let log: String = (0..600).map(|n| format!("line {n} of a log\n")).collect();
    folder.write("job.log", &log);
    let measured = folder.payload(&["--preset", "logs", "--budget-tokens", "400,100000", "job.log"]);
    assert_eq!((&measured["kind"], &measured["items"]), (&"text".into(), &600.into()));
    assert_eq!(measured["saved"], measured["compact"]);
    let [few, all] = &measured["budgets"].as_array().expect("rows")[..] else { panic!("{measured}") };
    assert!(
        tokens_of(&few["tokens"]) <= 400 && tokens_of(&few["shown"]) < 100 && tokens_of(&few["chunks"]) > 5,
        "{few}"
    );
    assert_eq!((&all["shown"], &all["chunks"]), (&600.into(), &1.into()));
}

#[test]
fn the_branch_that_applies_is_measured() {
    let folder = Folder::new();
    folder.write("list-either.json", r#"{"kind": "b", "items": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}"#);
    let measured = folder.payload(&["-f", "filters.yaml", "list-either.json"]);
    assert_eq!(
        (&measured["items"], &measured["filtered"]["bytes"]),
        (&2.into(), &r#"{"kind":"b","items":[{"b":2},{"b":4}]}"#.len().into())
    );
}

#[test]
fn a_factor_multiplies_every_count() {
    let folder = Folder::new();
    let (one, two) = (folder.payload(&["list-issues.json"]), folder.payload(&["--factor", "2", "list-issues.json"]));
    for size in ["saved", "compact", "filtered"] {
        assert_eq!(tokens_of(&one[size]["tokens"]) * 2, tokens_of(&two[size]["tokens"]));
    }
    let output = folder.run(&["--factor", "2", "--rounds", "0", "list-issues.json"]);
    assert!(text(&output.stdout).starts_with("Tokens are counted by o200k_base, which is an estimate.\n"));
}

#[test]
fn times_are_a_section_of_their_own() {
    let folder = Folder::new();
    let run = |rounds| text(&folder.run(&["-f", "filters.yaml", "--rounds", rounds, "list-issues.json"]).stdout);
    let (without, with) = (run("0"), run("1"));
    let (tables, times) = with.split_once("\n## Time and memory\n").expect("a section");
    assert_eq!(tables, without);
    assert!(times.contains("| list-issues.json | "), "{times}");
    assert_eq!(times.contains("Largest resident memory"), cfg!(target_os = "linux"), "{times}");
    for heading in ["## Baselines", "## Formats", "## Levels", "## Budgets"] {
        assert!(without.contains(heading), "{without}");
    }
}

#[test]
fn mistakes_name_the_file_and_the_remedy() {
    let folder = Folder::new();
    folder.write("empty.json", " \n");
    fs::write(folder.0.path().join("latin.json"), b"[\"\xe9\"]").expect("a file");
    let budgets = (1..=17).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    for (args, parts) in [
        (&["absent.json"][..], &["absent.json", "cannot read"][..]),
        (&["empty.json"], &["empty.json", "is empty", "save the answer"]),
        (&["latin.json"], &["latin.json", "is not UTF-8", "iconv"]),
        (&["-f", "filters.yaml", "empty.json"], &["empty.json"]),
        (
            &["-f", "filters.yaml", "--tool", "list-issue", "list-issues.json"],
            &["list-issues.json", "`list-issue`", "list-issues"],
        ),
        (&["-f", "filters.yaml", "filters.yaml"], &["filters.yaml", "`filters`", "--tool"]),
        (&["--budget-tokens", "0", "list-issues.json"], &["--budget-tokens", "expected a number of tokens from 1"]),
        (
            &["--budget-tokens", "700,-1", "list-issues.json"],
            &["invalid value '-1' for '--budget-tokens <N>': expected a number of tokens from 1"],
        ),
        (&["--budget-tokens", &budgets, "list-issues.json"], &["--budget-tokens", "at most 16"]),
        (&["--factor", "0", "list-issues.json"], &["--factor", "0.01"]),
        (&["--preset", "issue", "list-issues.json"], &["--preset", "issues"]),
        (&["--preset", "issues", "-f", "filters.yaml", "list-issues.json"], &["--preset", "--file"]),
        (&[], &["PAYLOAD"]),
    ] {
        let output = folder.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty() && parts.iter().all(|part| said.contains(part)), "{args:?}: {said}");
    }
}

#[test]
fn a_payload_has_a_largest_size() {
    let folder = Folder::new();
    folder.write("more.json", &format!("\"{}\"", "x".repeat((16 << 20) - 1)));
    let output = folder.run(&["more.json"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("more.json has more than 16777216 bytes") && said.contains("save a part"), "{said}");
}

#[test]
fn a_failed_stage_is_reported() {
    let folder = Folder::new();
    folder.write("bad-root.json", r#"{"items": [1, 2]}"#);
    for (file, rows) in [("filters.yaml", 1), ("partner.yaml", 0)] {
        let output = folder.run(&["-f", file, "--rounds", "0", "--output", "json", "bad-root.json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("bad-root.json: root: `/results` does not resolve") && said.contains("--explain"),
            "{said}"
        );
        let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(results["payloads"].as_array().map(Vec::len), Some(rows));
    }
}
