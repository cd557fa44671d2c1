//! The tables of `docs/catalog.md`.

use std::fmt::Write as _;
use std::sync::Arc;

use tamis_engine::Tokenizer;
use tamis_engine::json::{parse, to_string};
use tamis_tokens::{TokenizerName, tokenizer};

use super::upstream::{Call, root};

/// What an answer costs before and after a filter, in bytes and tokens.
#[derive(Debug)]
pub(crate) struct Row {
    entry: String,
    set: String,
    tool: String,
    /// The bytes that the API sends.
    wire: usize,
    /// The same as compact JSON.
    compact: [usize; 2],
    /// What the model reads.
    model: [usize; 2],
}

impl Row {
    pub(crate) fn new(entry: &str, set: &str, call: &Call, shown: &str) -> Self {
        let answer = call.answer(entry);
        let compact = to_string(&parse(answer.as_bytes(), 128).expect("is JSON"));
        let tokens = counter();
        let size = |text: &str| [text.len(), tokens.count(text, usize::MAX, &mut |_| true).expect("is counted")];
        let (entry, set, tool) = (entry.to_owned(), format!("{entry}-{set}"), call.tool.clone());
        Self { entry, set, tool, wire: answer.len(), compact: size(&compact), model: size(shown) }
    }

    fn line(&self) -> String {
        let [bytes, tokens] = [0, 1].map(|at| {
            let (before, after) = (self.compact[at], self.model[at]);
            format!("{} | {} | {}", grouped(before), grouped(after), saved(before, after))
        });
        format!("| `{}` | `{}` | {bytes} | {tokens} |\n", self.tool, self.set)
    }
}

fn counter() -> Arc<dyn Tokenizer> {
    tokenizer(TokenizerName::O200kBase)
}

/// Formats `118512` as `118 512`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|part| std::str::from_utf8(part).expect("digits")).collect();
    parts.join(" ")
}

#[expect(clippy::cast_precision_loss, reason = "sizes of payloads")]
fn saved(before: usize, after: usize) -> String {
    format!("{:.1} %", (1.0 - after as f64 / before as f64) * 100.0)
}

/// Fixtures of seed 000, the entry and tool of the catalogue, and the figures of kimbap: sizes, of pretty-printed, and compact to compact
/// as in `docs/figures.md`.
const CLAIMS: [(&str, &str, &str, &str, &str, &str); 4] = [
    ("github.list-repos (20 repos)", "github", "list-repos", "124 KB to 6.9 KB", "94 %", "94.0 %"),
    ("github.get-issue (15 issues)", "github", "list-issues", "50 KB to 5.7 KB", "88 %", "86.9 %"),
    ("notion.query-database (10 pages)", "notion", "query-database", "21 KB to 2.4 KB", "89 %", "80.3 %"),
    ("slack.get-channel-history (20 messages)", "slack", "get-channel-history", "18 KB to 3.1 KB", "83 %", "74.4 %"),
];

fn claims(rows: &[Row]) -> String {
    let mut table = "| fixture | kimbap, as published | of pretty-printed | of compact JSON | Tamis | of the wire (pretty-printed) | of compact JSON |\n|---|---|---:|---:|---|---:|---:|\n".to_owned();
    for (fixture, entry, tool, sizes, claim, compact) in CLAIMS {
        let set = format!("{entry}-internal");
        let row = rows.iter().find(|row| row.set == set && row.tool == tool).expect("is called");
        let model = row.model[0];
        let _ = writeln!(
            table,
            "| {fixture} | {sizes} | {claim} | {compact} | `{tool}`: {} B to {} B | {} | {} |",
            grouped(row.wire),
            grouped(model),
            saved(row.wire, model),
            saved(row.compact[0], model),
        );
    }
    table
}

fn sizes(rows: &[Row]) -> String {
    let head = "| tool | set | compact JSON, B | to the model, B | saved | tokens | to the model | saved |\n|---|---|---:|---:|---:|---:|---:|---:|\n";
    let mut text = String::new();
    let mut before = "";
    for row in rows {
        if row.entry != before {
            let _ = write!(text, "{}### {}\n\n{head}", if before.is_empty() { "" } else { "\n" }, title(&row.entry));
            before = &row.entry;
        }
        text += &row.line();
    }
    text
}

fn title(entry: &str) -> String {
    let names = [("github", "GitHub"), ("linear", "Linear"), ("notion", "Notion"), ("slack", "Slack")];
    names.iter().find(|(name, _)| *name == entry).expect("is known").1.to_owned()
}

/// Compares the page with the rows; `TAMIS_UPDATE=1` writes them.
pub(crate) fn compare(rows: &[Row]) {
    let file = root().join("docs/catalog.md");
    let page = std::fs::read_to_string(&file).expect("a page");
    let mut new = page.clone();
    for (name, table) in [("sizes", sizes(rows)), ("claims", claims(rows))] {
        let start = format!("<!-- Generated: {name}, run TAMIS_UPDATE=1 cargo test -p tamis --test catalog -->\n");
        let (before, rest) = new.split_once(&start).unwrap_or_else(|| panic!("docs/catalog.md has no {start}"));
        let (_, after) = rest.split_once("<!-- end -->").expect("has an end");
        new = format!("{before}{start}\n{table}\n<!-- end -->{after}");
    }
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(&file, &new).expect("a page can be written");
    }
    let committed = std::fs::read_to_string(&file).expect("a page");
    assert!(committed == new, "docs/catalog.md is stale: run this test with TAMIS_UPDATE=1");
}
