//! Compares the engine with crate `devboy-format-pipeline`, the original of seed 002, and with crate `toon-format`.
//!
//! All start from the same document: a list of the original's own values as compact JSON. `encode` writes all of it as
//! TOON, and `fit` fits it into 8,000 tokens by the original's estimate of 3.5 bytes a token, with an index. The original
//! starts from parsed values inside its own program, so here it parses the document first, as the engine does.

use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_engine::{
    Budget, Call, CompileOptions, FilterSpec, Filtered, Format, Input, OutputSpec, PageInputs, Program, StrategyFields,
    StrategySpec, ToolFilter, compile,
};
use toon_format::{EncodeOptions, Indent};

use crate::baseline::{self, Baseline};
use crate::{ROUNDS, middle, repeat, time};

/// The budget of `fit`, in tokens of 3.5 bytes.
const BUDGET: usize = 8_000;
/// The items of the long list.
const MANY: usize = 1_000;

/// A list of the original's values.
struct List {
    name: String,
    /// The name of the preset, and of the original's operations.
    kind: &'static str,
    items: Vec<Value>,
}

/// Prints a row for each kind of list of `examples/payloads/format`, and for a long one.
///
/// # Errors If a payload is not there, or the original does not build or fails.
pub(crate) fn run() -> Result<()> {
    let binaries = baseline::build("pipeline")?;
    println!(
        "pipeline: microseconds of processor time for one document; times of the others as multiples of the engine's"
    );
    println!(
        "  {:<22}{:>8}{:>10}{:>14}{:>10}{:>10}{:>10}{:>12}{:>12}{:>13}{:>13}{:>10}{:>10}",
        "",
        "JSON",
        "encode",
        "x toon-format",
        "x devboy",
        "fit",
        "x devboy",
        "peak",
        "its peak",
        "shown bytes",
        "its bytes",
        "items",
        "its items"
    );
    lists()?.iter().try_for_each(|list| row(list, &binaries))
}

fn row(list: &List, binaries: &Path) -> Result<()> {
    let document = serde_json::to_vec(&list.items)?;
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(&document)?;
    let mut original = Baseline::start(&binaries.join("system"), file.path())?;
    let program = program(list.kind)?;
    let options = EncodeOptions::new().with_indent(Indent::Spaces(1));
    let official = || {
        let value: Value = serde_json::from_slice(black_box(&document)).expect("JSON");
        toon_format::encode(&value, &options).expect("JSON")
    };
    let [encode, fit] = ["encode", "fit"].map(|operation| format!("{}-{operation}", list.kind));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(apply(&program, &document, false)))))))?,
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(official()))))))?,
            repeat(|n| Ok(original.time(&encode, n)? * f64::from(n)))?,
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(apply(&program, &document, true)))))))?,
            repeat(|n| Ok(original.time(&fit, n)? * f64::from(n)))?,
        ]);
    }
    let of = |i: usize| middle(rounds.iter().map(|round| round[i]).collect()) / 1e3;
    let times = |i: usize, base: usize| middle(rounds.iter().map(|round| round[i] / round[base]).collect());
    let used = allocation_counter::measure(|| drop(black_box(apply(&program, &document, true))));
    let (_, peak) = baseline::memory(&binaries.join("counted"), file.path(), &fit)?;
    let answer = apply(&program, &document, true);
    let shown = list.items.len() - answer.report.budget.as_ref().map_or(0, |budget| budget.items_dropped);
    let its = Command::new(binaries.join("output")).arg(file.path()).arg(&fit).output()?;
    ensure!(its.status.success(), "the original fails on {}", list.name);
    let its = String::from_utf8(its.stdout)?;
    println!(
        "  {:<22}{:>8}{:>10.0}{:>14.1}{:>10.1}{:>10.0}{:>10.1}{:>12}{:>12}{:>13}{:>13}{shown:>10}{:>10}",
        list.name,
        document.len(),
        of(0),
        times(1, 0),
        times(2, 0),
        of(3),
        times(4, 3),
        used.bytes_max,
        peak,
        answer.text.len() + answer.notice.as_ref().map_or(0, String::len),
        its.len(),
        its_items(&its).map_or("-".to_owned(), |items| items.to_string()),
    );
    Ok(())
}

/// Returns the engine's answer: in the best of its formats within the budget, or all of it as TOON.
fn apply(program: &Program, document: &[u8], is_limited: bool) -> Filtered {
    let formats = Format::choice(if is_limited { "auto" } else { "toon" });
    let budget = if is_limited { Budget::tokens(BUDGET) } else { Budget::default() };
    let call = Call { formats, budget, inputs: PageInputs::ALL, ..Call::default() };
    program.apply(Input::Json(black_box(document)), &call).expect("an Advisory filter gives an answer")
}

/// Returns a filter that only fits and writes.
fn program(preset: &str) -> Result<Program> {
    // The original's values have a field of their own for the path of a file.
    let fields = StrategyFields {
        name: "size_proportional".to_owned(),
        path: Some("file_path".to_owned()),
        ..StrategyFields::default()
    };
    let strategy = (preset == "diffs").then(|| StrategySpec::With(Box::new(fields)));
    let structured = Some("never".to_owned());
    let output = OutputSpec { preset: Some(preset.to_owned()), structured, strategy, ..OutputSpec::default() };
    let filter = FilterSpec { output: Some(Box::new(output)), ..FilterSpec::default() };
    let compiled = compile(&ToolFilter::Single(Box::new(filter)), &CompileOptions::default());
    compiled.program.with_context(|| format!("{:?}", compiled.findings))
}

/// Returns how many items an output of the original shows: as its hint says, or the header of the list.
fn its_items(output: &str) -> Option<usize> {
    let chunk = output.lines().find_map(|line| line.strip_prefix("Chunk 1/")?.split_once(": "));
    let shown = chunk.map(|(_, shown)| shown).or_else(|| output.lines().find_map(|line| line.strip_prefix("Showing ")));
    let Some(shown) = shown else { return header_items(output) };
    shown.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns the length of a list in TOON.
fn header_items(output: &str) -> Option<usize> {
    output.split_once('[')?.1.split_once(']')?.0.parse().ok()
}

fn lists() -> Result<Vec<List>> {
    let of = |name: &str, kind, item: fn(&Value) -> Value| {
        let path = format!("{}/../examples/payloads/format/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let items: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).with_context(|| path.clone())?)?;
        anyhow::Ok(List { name: name.to_owned(), kind, items: items.iter().map(item).collect() })
    };
    let mut lists = vec![
        of("list-issues", "issues", issue)?,
        of("list-merge-requests", "merge_requests", merge_request)?,
        of("list-diffs", "diffs", diff)?,
        of("list-comments", "comments", comment)?,
        of("list-discussions", "discussions", discussion)?,
    ];
    let mut many: Vec<Value> = lists[1].items.iter().cycle().take(MANY).cloned().collect();
    for (number, item) in many.iter_mut().enumerate() {
        item["key"] = json!(format!("gitlab!{number}"));
    }
    lists.push(List { name: "1,000 merge requests".to_owned(), kind: "merge_requests", items: many });
    Ok(lists)
}

fn user(user: &Value) -> Value {
    if user.is_null() {
        return Value::Null;
    }
    let login = if user["login"].is_null() { &user["username"] } else { &user["login"] };
    json!({"id": user["id"].to_string(), "username": login, "name": user["name"], "email": null, "avatar_url": user["avatar_url"]})
}

fn users(of: &Value) -> Vec<Value> {
    of.as_array().into_iter().flatten().map(user).collect()
}

fn issue(issue: &Value) -> Value {
    let labels: Vec<&Value> = issue["labels"].as_array().into_iter().flatten().map(|label| &label["name"]).collect();
    json!({
        "key": format!("gh#{}", issue["number"]), "title": issue["title"], "description": issue["body"],
        "state": issue["state"].as_str().unwrap_or("open"), "source": "github", "priority": null, "labels": labels,
        "author": user(&issue["user"]), "assignees": users(&issue["assignees"]), "url": issue["html_url"],
        "created_at": issue["created_at"], "updated_at": issue["updated_at"],
    })
}

fn merge_request(request: &Value) -> Value {
    json!({
        "key": format!("gitlab!{}", request["iid"]), "title": request["title"], "description": request["description"],
        "state": request["state"], "source": "gitlab", "source_branch": request["source_branch"],
        "target_branch": request["target_branch"], "author": user(&request["author"]), "assignees": [],
        "reviewers": users(&request["reviewers"]), "labels": request["labels"], "draft": request["draft"],
        "url": request["web_url"], "created_at": request["created_at"], "updated_at": request["updated_at"],
    })
}

fn diff(file: &Value) -> Value {
    json!({
        "file_path": file["filename"], "old_path": null, "new_file": file["status"] == "added", "deleted_file": false,
        "renamed_file": false, "diff": file["patch"], "additions": file["additions"], "deletions": file["deletions"],
    })
}

fn comment(comment: &Value) -> Value {
    json!({
        "id": comment["id"].to_string(), "body": comment["body"],
        "author": user(if comment["user"].is_null() { &comment["author"] } else { &comment["user"] }),
        "created_at": comment["created_at"], "updated_at": comment["updated_at"], "position": null,
    })
}

fn discussion(thread: &Value) -> Value {
    let notes = thread["notes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let position = notes.first().map_or(Value::Null, |note| {
        let place = &note["position"];
        json!({"file_path": place["new_path"], "line": place["new_line"], "line_type": "new", "commit_sha": place["head_sha"]})
    });
    let resolved = notes.first().is_some_and(|note| note["resolved"] == true);
    json!({
        "id": thread["id"], "resolved": resolved, "resolved_by": null,
        "comments": notes.iter().map(comment).collect::<Vec<_>>(), "position": position,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_the_original_are_counted() {
        for (output, items) in [
            ("[12]{a}:\n 1\n\nChunk 1/5: 7 most relevant issues (by priority). 30 total", Some(7)),
            ("[3]:\n\nShowing 3/9 issues. 6 items trimmed by budget.", Some(3)),
            ("[30]{a,b}:\n 1,2", Some(30)),
            ("text", None),
        ] {
            assert_eq!(its_items(output), items, "{output}");
        }
    }

    #[test]
    fn every_list_is_measured_as_the_original_has_it() -> Result<()> {
        let lists = lists()?;
        assert_eq!(lists.iter().map(|list| list.items.len()).collect::<Vec<_>>(), [25, 30, 30, 100, 30, MANY]);
        for list in lists {
            let document = serde_json::to_vec(&list.items)?;
            let program = program(list.kind)?;
            let fitted = apply(&program, &document, true);
            assert!(fitted.report.tokens.is_some_and(|tokens| tokens.counted.0 <= BUDGET), "{}", list.name);
            let whole = apply(&program, &document, false);
            assert_eq!(whole.report.format, Some(Format::Toon), "{}", list.name);
        }
        Ok(())
    }
}
