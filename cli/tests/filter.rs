//! `tamis filter` as users run it: the binary, its exit code, and what it writes where.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const DOCUMENTS: &str = r##"apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: github}
spec:
  service: {name: github, version: "1"}
  filters:
    list-issues:
      select: {number: number, by: user.login}
    list-lines:
      compact: {item: "#{{.number}}", footer: "{{.Count}} of {{.Total}}"}
    get-log:
      text: {keep: ["^E"]}
    bad-root:
      root: /results
      maxItems: 1
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: partner}
spec:
  name: partner
  enforcement: Enforced
  service: {name: github, version: "1"}
  filters:
    list-issues:
      root: ""
      select: {number: number}
"##;

const ISSUES: &str = r#"[ {"number": 1, "user": {"login": "ada"}}, {"number": 2.50, "user": {"login": "bob"}} ]"#;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("filters.yaml", DOCUMENTS);
        folder.write("issues.json", ISSUES);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// Runs `tamis filter -f filters.yaml ARGS` in the folder, with `input` on standard input.
    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tamis"))
            .current_dir(self.0.path())
            .args(["filter", "-f", "filters.yaml"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tamis starts");
        // One that ends early reads nothing.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        child.wait_with_output().expect("tamis ends")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn the_output_is_what_a_model_gets_and_nothing_else() {
    let folder = Folder::new();
    for (args, input, want) in [
        (vec!["--tool", "list-issues", "issues.json"], "", r#"[{"number":1,"by":"ada"},{"number":2.50,"by":"bob"}]"#),
        (vec!["--tool", "list-issues"], ISSUES, r#"[{"number":1,"by":"ada"},{"number":2.50,"by":"bob"}]"#),
        (vec!["--tool", "list-issues", "-"], ISSUES, r#"[{"number":1,"by":"ada"},{"number":2.50,"by":"bob"}]"#),
        (vec!["--tool", "list-issues", "--set", "partner"], ISSUES, r#"[{"number":1},{"number":2.50}]"#),
        (
            vec!["--tool", "list-issues", "--structured"],
            ISSUES,
            r#"{"result":[{"number":1,"by":"ada"},{"number":2.50,"by":"bob"}]}"#,
        ),
        (vec!["--tool", "list-issues", "--raw"], ISSUES, ISSUES),
        (vec!["--tool", "list-issues", "--format", "json", "--explain"], "[]", "[]"),
        (vec!["--tool", "list-lines"], ISSUES, "#1\n#2.50\n2 of 2"),
        (
            vec!["--tool", "list-lines", "--structured"],
            ISSUES,
            r##"{"summary":"#1\n#2.50\n2 of 2","_compact":true,"_original_items":2}"##,
        ),
        (vec!["--tool", "get-log"], r#"{"raw": "E1\nI2\nE3"}"#, "E1\nE3"),
        (vec!["--tool", "get-log", "--structured"], r#"{"raw": "E1"}"#, ""),
    ] {
        let output = folder.run(&args, input);
        assert_eq!(text(&output.stdout), want, "{args:?}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn what_stands_beside_the_value_goes_to_standard_error() {
    let folder = Folder::new();
    let issues = format!("[{}]", vec![r#"{"number":1,"user":{"login":"ada"}}"#; 20].join(","));
    let output = folder.run(&["--tool", "list-issues", "--budget", "120"], &issues);
    assert_eq!(text(&output.stdout), r#"[{"number":1,"by":"ada"},{"number":1,"by":"ada"},{"number":1,"by":"ada"}]"#);
    assert_eq!(
        (text(&output.stderr).as_str(), output.status.code()),
        ("3 of 20 items shown, offset=3 for more\n", Some(0))
    );
    let output = folder.run(&["--tool", "list-issues", "--budget", "120", "--structured"], &issues);
    assert_eq!(
        text(&output.stdout),
        r#"{"result":[{"number":1,"by":"ada"},{"number":1,"by":"ada"},{"number":1,"by":"ada"}],"_truncated":{"shown":3,"total":20}}"#
    );
}

#[test]
fn chunks_of_a_list_hold_each_item_once_whatever_the_format() {
    let folder = Folder::new();
    let issue = |n: u32| format!(r#"{{"number":{n},"user":{{"login":"ada"}},"title":"x"}}"#);
    let issues = format!("[{}]", (1..=200).map(issue).collect::<Vec<_>>().join(","));
    for (format, tokenizer) in
        [("json", "o200k_base"), ("table", "cl100k_base"), ("toon", "estimate"), ("auto", "o200k_base")]
    {
        let mut seen = Vec::new();
        for chunk in 1.. {
            let chunk = chunk.to_string();
            let args =
                ["--tool", "list-issues", "--budget-tokens", "260", "--tokenizer", tokenizer, "--format", format];
            let output = folder.run(&[&args[..], &["--chunk", &chunk]].concat(), &issues);
            if output.status.code() == Some(2) {
                let said = text(&output.stderr);
                assert!(said.contains(&format!("`chunk` is {chunk}, but the list has")), "{said}");
                break;
            }
            assert!(text(&output.stderr).contains("[chunks]"), "{format} {chunk}: {}", text(&output.stderr));
            let shown = text(&output.stdout);
            let numbers = shown.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
            // TOON has the number of rows in its first line.
            let rows = usize::from(format == "toon" || shown.contains("]{"));
            seen.extend(numbers.skip(rows));
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=200).collect::<Vec<_>>(), "{format}");
    }
}

#[test]
fn a_failed_stage_is_3_and_under_enforced_nothing_is_written() {
    let folder = Folder::new();
    let advisory = folder.run(&["--tool", "bad-root"], "{\"a\": 1}");
    assert_eq!((text(&advisory.stdout).as_str(), advisory.status.code()), (r#"{"a":1}"#, Some(3)));
    let said = text(&advisory.stderr);
    assert!(
        said.contains("filters.yaml:14:7: warning: spec.filters.bad-root.root: `/results` does not resolve"),
        "{said}"
    );

    let enforced = folder.run(&["--tool", "list-issues", "--set", "partner", "--explain"], r#"{"secret": 1}"#);
    assert_eq!((text(&enforced.stdout).as_str(), enforced.status.code()), ("", Some(3)));
    let said = text(&enforced.stderr);
    assert!(said.contains("error: spec.filters.list-issues.select: no path of `select` resolves"), "{said}");
    assert!(said.contains("nothing out: the filter is Enforced"), "{said}");
    assert!(!said.contains('\x1b'), "colours belong on a terminal");
}

#[test]
fn usage_and_invalid_filters_are_2_and_say_what_to_do() {
    let folder = Folder::new();
    folder.write("typo.yaml", &DOCUMENTS.replace("maxItems", "maxItem"));
    folder.write("template.yaml", &DOCUMENTS.replace("{{.number}}", "{{.number"));
    for (args, wants) in [
        (vec!["--tool", "list-isues"], vec!["no filter names the tool `list-isues`", "did you mean `list-issues`?"]),
        (vec!["--tool", "list-issues", "--set", "partners"], vec!["did you mean `partner`?"]),
        (vec!["--tool", "list-issues", "--set", "partner", "--raw"], vec!["--raw is refused: the filter is Enforced"]),
        (vec!["--tool", "list-issues", "--chunk", "2"], vec!["`chunk` is 2, but the list has one chunk"]),
        (vec!["--tool", "list-issues", "--chunk", "1", "--offset", "3"], vec!["--chunk", "--offset"]),
        (vec!["--tool", "list-issues", "--budget-tokens", "0"], vec!["--budget-tokens"]),
        (vec!["--tool", "list-issues", "--format", "xml"], vec!["--format", "toon"]),
        (vec!["--tool", "list-issues", "--tokenizer", "claude"], vec!["unknown tokenizer `claude`", "o200k_base"]),
        (vec!["--tool", "list-issues", "--factor", "0"], vec!["--factor", "is not between 0.01 and 100"]),
        (vec!["--tool", "list-issues", "--budget", "0"], vec!["--budget"]),
        (vec!["--tool", "list-issues", "--budget", "-1"], vec!["expected a number of bytes from 1"]),
        (vec!["--tool", "list-issues", "--budget-tokens", "-1"], vec!["expected a number of tokens from 1"]),
        (vec!["--tool", "list-issues", "nowhere.json"], vec!["cannot read nowhere.json"]),
        (vec!["--tool", "list-issues", "-f", "nowhere.yaml"], vec!["nowhere.yaml", "no such file or folder"]),
        (vec!["--tool", "list-issues", "-f", "typo.yaml"], vec!["typo.yaml:15:7: error:", "maxItem", "did you mean"]),
        (vec![], vec!["--tool"]),
    ] {
        let output = folder.run(&args, "[]");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for want in wants {
            assert!(said.contains(want), "{args:?} says:\n{said}");
        }
    }
    folder.write("filters.yaml", &DOCUMENTS.replace("{{.number}}", "{{.number"));
    let broken = folder.run(&["--tool", "list-lines"], "[]");
    let said = text(&broken.stderr);
    assert_eq!(broken.status.code(), Some(2), "{said}");
    assert!(said.contains("filters.yaml:10:"), "{said}");
    assert!(said.contains("spec.filters.list-lines.compact.item: at column 2: an action is not closed"), "{said}");
}

#[test]
fn the_report_goes_where_it_is_asked_to() {
    let folder = Folder::new();
    let output = folder.run(&["--tool", "list-issues", "--report", "report.json"], ISSUES);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path("report.json")).expect("written")).expect("JSON");
    assert_eq!(report["filter_applied"], true);
    assert_eq!(report["filter_original_bytes"], ISSUES.len());
    let output = folder.run(&["--tool", "list-issues", "--report", "-"], ISSUES);
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON alone");
    assert_eq!(report["filter_result_bytes"], output.stdout.len());
}

#[test]
fn an_explanation_goes_to_standard_error() {
    let folder = Folder::new();
    let output = folder.run(&["--tool", "list-issues", "--explain"], ISSUES);
    let said = text(&output.stderr);
    assert!(said.starts_with("STAGE"), "{said}");
    assert!(said.contains("select") && said.contains("/*/user"), "{said}");
    assert!(said.contains(&format!("{} bytes in, {} out", ISSUES.len(), output.stdout.len())), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let many = format!("[{}]", vec![r#"{"number": 1, "user": {"login": "ada"}}"#; 50_000].join(","));
    folder.write("many.json", &many);
    let mut child = Command::new(env!("CARGO_BIN_EXE_tamis"))
        .current_dir(folder.0.path())
        .args(["filter", "-f", "filters.yaml", "--tool", "list-issues", "many.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tamis starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("tamis ends");
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
}
