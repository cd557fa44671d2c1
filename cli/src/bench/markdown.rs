//! Writes what was measured as tables in Markdown.

use std::fmt::Write as _;

use super::Results;
use super::measure::{Fitted, Formats, Measured, Size};
use super::times::Times;
use crate::output::grouped;

/// Stands for what cannot be or is not known.
const NONE: &str = "-";

/// Returns everything as Markdown: a section for each table, the times last.
pub(super) fn render(results: &Results) -> String {
    let payloads = &results.payloads;
    let estimated = if results.exact { "" } else { ", which is an estimate" };
    let mut out = format!("Tokens are counted by {}{estimated}.\n", results.tokenizer);
    section(&mut out, "Baselines", &baselines(payloads));
    section(&mut out, "Formats", &formats(payloads));
    section(&mut out, "Levels", &levels(payloads));
    section(&mut out, "Budgets", &budgets(payloads));
    if let Some(times) = &results.times {
        let rows = times.payloads.iter().map(time).collect();
        let fitted = format!("fitted into {} tokens", grouped(times.budget));
        let header = ["payload", "JSON", "table", "TOON", "auto", &fitted, "counting alone"];
        section(&mut out, "Time and memory", &Table { header: header.map(str::to_owned).to_vec(), words: 1, rows });
        out += "\nMicroseconds for one answer, filtering included.";
        if !times.optimised {
            out += " This is a build without optimisation, whose times say little.";
        }
        if let Some(peak) = times.peak_memory {
            let _ = write!(
                out,
                " Largest resident memory of this process: {} bytes.",
                grouped(usize::try_from(peak).unwrap_or(usize::MAX))
            );
        }
        out.push('\n');
    }
    out
}

/// A table. The first columns are words, the others numbers.
struct Table {
    header: Vec<String>,
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(header: &[&str], words: usize, rows: Vec<Vec<String>>) -> Self {
        Self { header: header.iter().map(|&name| name.to_owned()).collect(), words, rows }
    }
}

/// Appends a table with its heading, if it has rows.
fn section(out: &mut String, heading: &str, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {heading}\n");
    let _ = writeln!(out, "| {} |", table.header.join(" | "));
    let rule = (0..table.header.len()).map(|column| if column < table.words { "---|" } else { "---:|" });
    let _ = writeln!(out, "|{}", rule.collect::<String>());
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

fn baselines(payloads: &[Measured]) -> Table {
    let header = ["payload", "items", "as saved", "as compact JSON", "filtered", "of the wire", "of compact JSON"];
    let size = |size: Size| format!("{} ({} B)", grouped(size.tokens), grouped(size.bytes));
    let row = |measured: &Measured| {
        let Measured { payload, items, saved, compact, filtered, .. } = measured;
        vec![
            payload.clone(),
            number(*items),
            size(*saved),
            size(*compact),
            size(*filtered),
            saving(saved.tokens, filtered.tokens),
            saving(compact.tokens, filtered.tokens),
        ]
    };
    Table::new(&header, 1, payloads.iter().map(row).collect())
}

fn formats(payloads: &[Measured]) -> Table {
    let rows = payloads.iter().flat_map(|measured| {
        measured.formats.iter().map(|formats| {
            let document = if formats.filtered { "filtered" } else { "as saved" };
            [vec![measured.payload.clone(), document.to_owned()], of_formats(formats, formats.json)].concat()
        })
    });
    Table::new(&["payload", "document", "JSON", "table", "TOON", "auto"], 2, rows.collect())
}

fn levels(payloads: &[Measured]) -> Table {
    let rows = payloads.iter().flat_map(|measured| {
        let full = measured.levels.first().map_or(0, |level| level.formats.json);
        let items = measured.items.unwrap_or(1).max(1);
        measured.levels.iter().map(move |level| {
            let json = level.formats.json;
            let start = vec![measured.payload.clone(), level.level.clone(), grouped(json.div_ceil(items))];
            [start, of_formats(&level.formats, full)].concat()
        })
    });
    Table::new(&["payload", "level", "JSON, an item", "JSON", "table", "TOON", "auto"], 2, rows.collect())
}

/// Returns the tokens in each format, with the difference to `base`.
fn of_formats(formats: &Formats, base: usize) -> Vec<String> {
    let Formats { filtered: _, json, table, toon, auto, chosen } = formats;
    let against = |tokens: usize| match tokens == base {
        true => grouped(tokens),
        false => format!("{} ({})", grouped(tokens), change(base, tokens)),
    };
    let maybe = |tokens: Option<usize>| tokens.map_or(NONE.to_owned(), against);
    vec![against(*json), maybe(*table), maybe(*toon), format!("{chosen}: {}", against(*auto))]
}

fn budgets(payloads: &[Measured]) -> Table {
    let header = [
        "payload",
        "budget",
        "format",
        "shown",
        "tokens",
        "used",
        "value shown",
        "possible",
        "of the possible",
        "chunks",
    ];
    let rows = payloads.iter().flat_map(|measured| measured.budgets.iter().map(|fitted| budget(measured, fitted)));
    Table::new(&header, 4, rows.collect())
}

fn budget(measured: &Measured, fitted: &Fitted) -> Vec<String> {
    let Fitted { budget, format, auto, shown, forms, tokens, value, bound, whole, chunks, cut } = fitted;
    let counts: Vec<String> = forms.iter().map(|(form, count)| format!("{} {form}", grouped(*count))).collect();
    let what = match (shown, measured.items) {
        (Some(shown), Some(items)) => format!("{} of {}", grouped(*shown), grouped(items)),
        _ => "the document".to_owned(),
    };
    let what = if counts.is_empty() { what } else { format!("{what}: {}", counts.join(", ")) };
    let of_whole = |value: &Option<u64>| match (value, whole) {
        (Some(value), Some(whole)) => share(*value, *whole),
        _ => NONE.to_owned(),
    };
    let of_possible = value.zip(*bound).map_or(NONE.to_owned(), |(value, bound)| share(value, bound));
    vec![
        measured.payload.clone(),
        grouped(*budget),
        format!("{format}{}", if *auto { ", by auto" } else { "" }),
        format!("{what}{}", if *cut { ", cut" } else { "" }),
        grouped(*tokens),
        share(*tokens as u64, *budget as u64),
        of_whole(value),
        of_whole(bound),
        of_possible,
        grouped(*chunks),
    ]
}

fn time(times: &Times) -> Vec<String> {
    let Times { payload, json, table, toon, auto, fitted, counted } = times;
    let micros = |micros: f64| format!("{micros:.0}");
    std::iter::once(payload.clone()).chain([*json, *table, *toon, *auto, *fitted, *counted].map(micros)).collect()
}

fn number(number: Option<usize>) -> String {
    number.map_or(NONE.to_owned(), grouped)
}

/// Returns how much less `after` is, in percent of `before`.
fn saving(before: usize, after: usize) -> String {
    let less = tenths(before.abs_diff(after) as u64, before as u64);
    format!("{}{} %", if after > before && less != "0.0" { "-" } else { "" }, less)
}

/// Returns the difference of `after` to `before`, in whole percent.
fn change(before: usize, after: usize) -> String {
    let difference = (before.abs_diff(after) * 100 + before / 2).checked_div(before).unwrap_or_default();
    format!("{}{difference} %", if after < before { "-" } else { "+" })
}

fn share(part: u64, whole: u64) -> String {
    format!("{} %", tenths(part, whole))
}

/// Returns a share in percent, rounded to a tenth, without a float.
fn tenths(part: u64, whole: u64) -> String {
    let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2).checked_div(u128::from(whole)).unwrap_or_default();
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), shown);
        }
        for (before, after, less, more) in [
            (100, 10, "90.0 %", "-90 %"),
            (3979, 2801, "29.6 %", "-30 %"),
            (100, 110, "-10.0 %", "+10 %"),
            (0, 0, "0.0 %", "+0 %"),
        ] {
            assert_eq!((saving(before, after).as_str(), change(before, after).as_str()), (less, more));
        }
        assert_eq!((share(2, 3), share(0, 0)), ("66.7 %".to_owned(), "0.0 %".to_owned()));
    }

    #[test]
    fn a_table_without_rows_has_no_section() {
        let mut out = String::new();
        section(&mut out, "Empty", &Table::new(&["a"], 1, Vec::new()));
        assert_eq!(out, "");
        section(&mut out, "One", &Table::new(&["a", "b"], 1, vec![vec!["x|y".to_owned(), "1".to_owned()]]));
        assert_eq!(out, "\n## One\n\n| a | b |\n|---|---:|\n| x\\|y | 1 |\n");
    }
}
