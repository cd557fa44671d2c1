//! Explains what each stage of a filter does to one output, by running prefixes of the filter with the engine itself.
//!
//! A row is the difference between the filter up to a stage and the filter up to the stage before, so an explanation
//! cannot diverge from what a gateway does. The payload is pinned to where the whole filter finds it, since its
//! detection depends on `select` and `exclude`.

mod formats;

use std::collections::BTreeSet;

use serde::Serialize;
use tamis_engine::json::{Node, parse};
use tamis_engine::{
    Budget, Call, CompileOptions, Enforcement, FilterSpec, Filtered, Format, Input, Page, Refused, Report, ToolFilter,
    compile,
};

pub(super) use formats::{Candidate, requested as requested_formats};

/// The number of paths of a document that are compared; further ones are left out.
const MAX_PATHS: usize = 20_000;
/// The nesting that the engine accepts.
const MAX_DEPTH: usize = 128;

/// An explanation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trace {
    /// The size of the original output in bytes.
    pub(super) input_bytes: usize,
    /// The size as compact JSON; for text, the original size.
    pub(super) compact_bytes: usize,
    /// The number of items of the original payload.
    pub(super) items: Option<usize>,
    /// Notes about the whole filter: the branch that applies, why no stage ran.
    pub(super) notes: Vec<String>,
    /// The stages that the filter has, in order.
    pub(super) rows: Vec<Row>,
    /// Bytes of the text blocks, or `None` if a failed stage withholds them.
    pub(super) output_bytes: Option<usize>,
}

/// The effect of one stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Row {
    /// The field of the filter.
    pub(super) stage: &'static str,
    /// Bytes before the stage.
    #[serde(rename = "bytes_before")]
    pub(super) before: usize,
    /// Bytes after the stage, or `None` if it withholds the output.
    #[serde(rename = "bytes")]
    pub(super) after: Option<usize>,
    /// The number of items of the payload after the stage, if it is a list.
    pub(super) items: Option<usize>,
    /// Whether the stage failed.
    pub(super) failed: bool,
    /// What the stage removed, and further notes.
    pub(super) notes: Vec<String>,
    /// The formats to choose from, and what each would cost; JSON is always among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) candidates: Vec<Candidate>,
}

/// A stage that changes something under `Enforced` only: it removes everything outside the payload.
const ROOT: &str = "root";

/// The stage that writes the text, here without a budget.
const FORMAT: &str = "output.format";

/// The stages of a filter, in the order in which they change the text block: a summary is rendered before it is
/// fitted into the budget.
const STAGES: [Stage; 12] = [
    Stage { name: "retain", drop: |s| s.retain = None },
    Stage { name: "patches", drop: |s| s.patches = None },
    Stage { name: ROOT, drop: |s| s.root = None },
    Stage { name: "maxItems", drop: |s| s.max_items = None },
    Stage { name: "select", drop: |s| s.select = None },
    Stage { name: "exclude", drop: |s| s.exclude = None },
    Stage { name: "dropNulls", drop: |s| s.drop_nulls = false },
    Stage { name: "dropEmpty", drop: |s| s.drop_empty = false },
    Stage { name: "text", drop: |s| s.text = None },
    Stage { name: "compact", drop: |s| s.compact = None },
    Stage { name: FORMAT, drop: |s| s.output.get_or_insert_default().format = None },
    Stage { name: BUDGET, drop: |s| s.output.get_or_insert_default().budget = None },
];

/// The stage that fits the text into the budget, and chooses chunks and levels.
const BUDGET: &str = "output.budget";

/// A stage of a filter, and the filter without it.
struct Stage {
    name: &'static str,
    drop: fn(&mut FilterSpec),
}

/// Returns which of [`STAGES`] a filter has. A new field does not compile until it is listed here.
fn present(spec: &FilterSpec) -> [bool; STAGES.len()] {
    let FilterSpec {
        // These say when the filter applies, and that it has no stages.
        test: _,
        otherwise: _,
        passthrough: _,
        retain,
        patches,
        root,
        max_items,
        select,
        exclude,
        drop_nulls,
        drop_empty,
        text,
        output,
        compact,
    } = spec;
    [
        retain.is_some(),
        patches.is_some(),
        root.is_some(),
        max_items.is_some(),
        select.is_some(),
        exclude.is_some(),
        *drop_nulls,
        *drop_empty,
        text.is_some(),
        compact.is_some(),
        output.as_ref().is_some_and(|output| output.format.is_some()),
        output.as_ref().is_some_and(|output| output.budget.is_some()),
    ]
}

/// Returns the index of the branch that applies, or `None` in the single form and if none applies.
pub(crate) fn branch(filter: &ToolFilter, options: &CompileOptions, input: Input<'_>) -> Option<usize> {
    let ToolFilter::Branches(branches) = filter else { return None };
    // Under Advisory, a branch on its own either applies or reports that none did.
    let options = CompileOptions { enforcement: Enforcement::Advisory, ..*options };
    branches.iter().position(|branch| {
        let alone =
            FilterSpec { test: branch.test.clone(), retain: Some(vec![String::new()]), ..FilterSpec::default() };
        branch.otherwise
            || run(&ToolFilter::Branches(vec![alone]), &options, input, &Call::default())
                .is_some_and(|outcome| outcome.is_ok_and(|filtered| filtered.report.skipped != Some("no_branch")))
    })
}

/// Explains the result `outcome`.
pub(super) fn explain(
    filter: &ToolFilter,
    options: &CompileOptions,
    input: Input<'_>,
    call: &Call<'_>,
    outcome: &Result<Filtered, Refused>,
) -> Trace {
    let report = report(outcome);
    let mut trace = Trace {
        input_bytes: report.original_bytes,
        compact_bytes: report.compact_bytes,
        items: None,
        notes: Vec::new(),
        rows: Vec::new(),
        output_bytes: outcome.as_ref().ok().map(|filtered| filtered.report.output_bytes),
    };
    if let Some(reason) = report.skipped {
        trace.notes.push(format!("no structural stage ran: {reason}"));
    }
    let spec = match filter {
        ToolFilter::Single(spec) => (**spec).clone(),
        ToolFilter::Branches(branches) => match branch(filter, options, input) {
            Some(index) => {
                trace.notes.push(format!("branch [{index}] applies"));
                FilterSpec { test: None, otherwise: false, ..branches[index].clone() }
            }
            None => {
                trace.notes.push("no branch applies".to_owned());
                return trace;
            }
        },
    };
    if spec.passthrough || call.raw {
        return trace;
    }
    let spec = pin(spec, options, input);
    trace.rows = rows(&spec, options, input, call, &mut trace.items);
    trace
}

fn rows(
    spec: &FilterSpec,
    options: &CompileOptions,
    input: Input<'_>,
    call: &Call<'_>,
    items: &mut Option<usize>,
) -> Vec<Row> {
    let root = spec.root.clone();
    let mut prefix = spec.clone();
    for stage in &STAGES {
        (stage.drop)(&mut prefix);
    }
    let nothing = Call::default();
    // The first run has nothing but the pinned root: its result is the document as compact JSON.
    let start = run(&ToolFilter::Single(Box::new(prefix.clone())), &unenforced(options), input, &nothing);
    let Some(Ok(start)) = start else { return Vec::new() };
    let mut before = Shape::of(&start.text, root.as_deref());
    let mut bytes = start.report.output_bytes;
    *items = before.items;
    let mut rows = Vec::new();
    let mut failed = None;
    for (index, (stage, present)) in STAGES.iter().zip(present(spec)).enumerate() {
        // What the call asks of this stage.
        let (asked, call) = match stage.name {
            FORMAT => (call.formats.is_some(), &Call { budget: Budget::default(), page: Page::All, ..*call }),
            BUDGET => (!call.budget.is_none() || call.page != Page::All, call),
            _ => (false, &nothing),
        };
        if !present && !asked || stage.name == ROOT && options.enforcement == Enforcement::Advisory {
            continue;
        }
        // The prefix up to this stage: the filter without the stages after it.
        prefix = spec.clone();
        STAGES[index + 1..].iter().for_each(|later| (later.drop)(&mut prefix));
        let filter = ToolFilter::Single(Box::new(prefix.clone()));
        let Some(outcome) = run(&filter, options, input, call) else { continue };
        let report = report(&outcome);
        let mut row = Row { stage: stage.name, before: bytes, ..Row::default() };
        if stage.name == FORMAT {
            // A summary and text have no format, and JSON needs no explanation.
            let Some(format) = report.format.filter(|_| spec.compact.is_none()) else { continue };
            let requested = formats::requested(&filter, call.formats);
            row.candidates = formats::candidates(&filter, &requested, options, input, call);
            row.notes = formats::notes(&row.candidates, &requested, format);
        }
        // The failure of an earlier stage is in that stage's row.
        let error = report.error.as_ref().map(|e| e.message.clone()).or_else(|| report.compact_error.clone());
        if error.is_some() && error != failed {
            row.failed = true;
            row.notes.extend(error.iter().map(|message| format!("failed: {message}")));
            failed = error;
        }
        if let Ok(filtered) = &outcome {
            let mut after = Shape::of(&filtered.text, root.as_deref());
            let is_document = report.format.is_none_or(|format| format == Format::Json);
            if !is_document {
                let dropped = report.budget.as_ref().map_or(0, |budget| budget.items_dropped);
                after = Shape { items: before.items.map(|items| items.saturating_sub(dropped)), ..before.clone() };
            }
            row.after = Some(filtered.report.output_bytes);
            row.items = after.items;
            let writes = [FORMAT, BUDGET].contains(&stage.name);
            if is_document && stage.name != "compact" && !(writes && spec.compact.is_some()) {
                row.notes.extend(gone(&before.paths, &after.paths));
            }
            // A budget may lead to another format than the one that is cheapest without it.
            if stage.name == BUDGET && rows.last().is_some_and(|row: &Row| row.stage == FORMAT) {
                row.notes.push(format!("as {}", report.format.unwrap_or(Format::Json).as_str()));
            }
            row.notes.extend(notes(stage.name, spec, report));
            bytes = filtered.report.output_bytes;
            before = after;
        }
        let withheld = row.after.is_none();
        let shown = row.items;
        rows.push(row);
        if stage.name == BUDGET && !withheld {
            rows.extend(details(spec, report, bytes, shown));
        }
        if withheld {
            break;
        }
    }
    rows
}

/// Returns rows for how a budget was met: which items have which level, and into how many chunks the list is divided.
fn details(spec: &FilterSpec, report: &Report, bytes: usize, shown: Option<usize>) -> impl Iterator<Item = Row> {
    let declared = spec.output.as_ref().is_some_and(|output| output.levels.is_some());
    let row =
        move |stage, notes| Row { stage, before: bytes, after: Some(bytes), items: shown, notes, ..Row::default() };
    let count = |items: usize, what: &str| format!("{items} item{} {what}", if items == 1 { "" } else { "s" });
    let levels = (!report.levels.is_empty() || declared && shown.is_some()).then(|| {
        let fewer: usize = report.levels.iter().map(|(_, items)| items).sum();
        let full = shown.and_then(|shown| shown.checked_sub(fewer)).filter(|full| *full > 0);
        let full = full.map(|full| count(full, "in full"));
        let levels = report.levels.iter().map(|(level, items)| count(*items, &format!("as {level}")));
        row("output.levels", full.into_iter().chain(levels).collect())
    });
    let chunks = report.chunks.map(|chunks| {
        let list = report.list.as_ref().map(|list| format!("list {list}"));
        row("output.chunks", std::iter::once(format!("{chunks} chunks")).chain(list).collect())
    });
    levels.into_iter().chain(chunks)
}

/// Returns the report's notes about a stage.
fn notes(stage: &str, spec: &FilterSpec, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    // Paths that resolve nowhere in an earlier stage are in that stage's row.
    let excluded = |path: &&String| spec.exclude.as_ref().is_some_and(|exclude| exclude.contains(path));
    match stage {
        "exclude" => {
            let missed: Vec<_> = report.unresolved.iter().filter(excluded).map(String::as_str).collect();
            if !missed.is_empty() {
                notes.push(format!("match nothing: {}", missed.join(", ")));
            }
        }
        "retain" | "patches" if !report.unresolved.is_empty() => {
            notes.push(format!("resolve nowhere: {}", report.unresolved.join(", ")));
        }
        "select" if !report.partial_miss.is_empty() => {
            notes.push(format!("no item has: {}", report.partial_miss.join(", ")));
        }
        BUDGET => {
            if let Some(tokens) = &report.tokens {
                let estimate = if tokens.exact { "" } else { ", an estimate" };
                notes.push(format!("{} tokens ({}{estimate})", tokens.counted, tokens.tokenizer));
            }
            if let Some(budget) = &report.budget {
                for (count, one, many) in [
                    (budget.items_dropped, "item left out", "items left out"),
                    (budget.strings_truncated, "string cut", "strings cut"),
                    (budget.members_dropped, "member left out", "members left out"),
                ] {
                    match count {
                        0 => {}
                        1 => notes.push(format!("1 {one}")),
                        count => notes.push(format!("{count} {many}")),
                    }
                }
                if budget.exceeded {
                    notes.push(format!("nothing smaller is valid: {} are exceeded", limits(budget.limit)));
                }
            }
        }
        _ => {}
    }
    notes
}

/// Returns the limits of a budget, with their units.
fn limits(limit: Budget) -> String {
    let Budget { bytes, tokens } = limit;
    let bytes = bytes.map(|bytes| format!("{bytes} bytes"));
    let tokens = tokens.map(|tokens| format!("{tokens} tokens"));
    bytes.into_iter().chain(tokens).collect::<Vec<_>>().join(" and ")
}

/// Returns the filter with `root` set to the place of its payload, if the payload is detected.
fn pin(spec: FilterSpec, options: &CompileOptions, input: Input<'_>) -> FilterSpec {
    let Input::Json(bytes) = input else { return spec };
    if spec.root.is_some() || options.enforcement == Enforcement::Enforced {
        return spec;
    }
    let Ok(document) = parse(bytes, MAX_DEPTH) else { return spec };
    let whole = run(&ToolFilter::Single(Box::new(spec.clone())), options, input, &Call::default());
    let Some(Ok(whole)) = whole else { return spec };
    let lists = document.as_object().unwrap_or_default().iter();
    let lists = lists
        .filter(|member| member.value.as_array().is_some())
        .map(|member| format!("/{}", member.key.decoded().replace('~', "~0").replace('/', "~1")));
    for root in lists.chain([String::new()]) {
        let pinned = FilterSpec { root: Some(root), ..spec.clone() };
        let same = run(&ToolFilter::Single(Box::new(pinned.clone())), options, input, &Call::default())
            .is_some_and(|outcome| outcome.is_ok_and(|f| f.text == whole.text && f.report.error == whole.report.error));
        if same {
            return pinned;
        }
    }
    spec
}

fn unenforced(options: &CompileOptions) -> CompileOptions {
    CompileOptions { enforcement: Enforcement::Advisory, ..*options }
}

/// Compiles and runs a filter. Returns `None` if the shortened filter does not compile.
fn run(
    filter: &ToolFilter,
    options: &CompileOptions,
    input: Input<'_>,
    call: &Call<'_>,
) -> Option<Result<Filtered, Refused>> {
    compile(filter, options).program.map(|program| program.apply(input, call))
}

fn report(outcome: &Result<Filtered, Refused>) -> &Report {
    match outcome {
        Ok(filtered) => &filtered.report,
        Err(refused) => &refused.report,
    }
}

/// The content of a document: its paths, with `*` for every element, and the length of its payload.
#[derive(Debug, Clone, Default)]
struct Shape {
    paths: Vec<String>,
    items: Option<usize>,
}

impl Shape {
    fn of(text: &str, root: Option<&str>) -> Self {
        let Ok(document) = parse(text.as_bytes(), MAX_DEPTH) else { return Self::default() };
        let mut seen = BTreeSet::new();
        let mut paths = Vec::new();
        collect(&document, &mut String::new(), &mut seen, &mut paths);
        let payload = root.unwrap_or("").split('/').skip(1).try_fold(&document, |node, segment| match node {
            Node::Array(elements) => elements.get(segment.parse::<usize>().ok()?),
            node => node.get(&segment.replace("~1", "/").replace("~0", "~")),
        });
        Self { paths, items: payload.and_then(Node::as_array).map(<[_]>::len) }
    }
}

fn collect(node: &Node<'_>, path: &mut String, seen: &mut BTreeSet<String>, paths: &mut Vec<String>) {
    let mut visit = |segment: &str, child: &Node<'_>, path: &mut String| {
        let length = path.len();
        path.push('/');
        path.push_str(segment);
        if !seen.contains(path.as_str()) && seen.len() < MAX_PATHS {
            seen.insert(path.clone());
            paths.push(path.clone());
        }
        collect(child, path, seen, paths);
        path.truncate(length);
    };
    match node {
        Node::Array(elements) => elements.iter().for_each(|element| visit("*", element, path)),
        Node::Object(members) => members.iter().for_each(|member| {
            let key = member.key.decoded();
            visit(&key.replace('~', "~0").replace('/', "~1"), &member.value, path);
        }),
        Node::Scalar(_) | Node::String(_) => {}
    }
}

/// Lists the paths that are gone in one note, without those below a listed path.
fn gone(before: &[String], after: &[String]) -> Option<String> {
    const SHOWN: usize = 8;
    let after: BTreeSet<&str> = after.iter().map(String::as_str).collect();
    let gone: BTreeSet<&str> = before.iter().map(String::as_str).filter(|path| !after.contains(path)).collect();
    let mut top: Vec<&str> = before
        .iter()
        .map(String::as_str)
        .filter(|path| gone.contains(path) && path.rsplit_once('/').is_none_or(|(parent, _)| !gone.contains(parent)))
        .collect();
    let more = top.len().saturating_sub(SHOWN);
    top.truncate(SHOWN);
    let list = top.join(" ");
    match (top.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(list),
        (false, more) => Some(format!("{list} and {more} more")),
    }
}

#[cfg(test)]
mod tests;
