//! The results of the calls, as a table for people and as JSON for programs.

use std::fmt::Write as _;

use serde::Serialize;

/// One call through one exposition. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// The tool's name.
    pub(super) tool: String,
    /// The exposition's name.
    pub(super) exposition: String,
    /// `Advisory` or `Enforced`.
    pub(super) enforcement: String,
    /// The size of the upstream's answer.
    pub(super) upstream_bytes: usize,
    /// The size of the same document as compact JSON.
    pub(super) compact_json_bytes: usize,
    /// The size of the model's text block.
    pub(super) model_bytes: usize,
    /// The tokens of the upstream's document as compact JSON, by o200k_base.
    pub(super) compact_json_tokens: usize,
    /// The tokens of the model's text block.
    pub(super) model_tokens: usize,
    /// The format of the model's text block: `json`, `table`, `toon` or `text`.
    pub(super) format: String,
    /// The format that `auto` chooses for the same answer, and its tokens; `None` for text.
    pub(super) auto: Option<Auto>,
    /// Percentage saved, relative to the upstream's answer.
    pub(super) saved_of_upstream: f64,
    /// Percentage saved, relative to compact JSON.
    pub(super) saved_of_compact_json: f64,
    /// Microseconds in the filter: the mean of five calls, from the gateway's own metric.
    pub(super) filter_micros: f64,
}

/// An answer in the format with the fewest tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Auto {
    /// `json`, `table` or `toon`.
    pub(super) format: &'static str,
    pub(super) tokens: usize,
}

/// Returns the percentage saved, to a tenth.
pub(super) fn saved(before: usize, after: usize) -> f64 {
    if before == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes of payloads are far below 2^52")]
    let share = 1.0 - after as f64 / before as f64;
    (share * 1000.0).round() / 10.0
}

/// Returns the length of a JSON document without insignificant whitespace. The result is meaningless for other input.
pub(super) fn compact_len(json: &str) -> usize {
    let (mut len, mut in_string, mut escaped) = (0, false, false);
    for byte in json.bytes() {
        if in_string {
            len += 1;
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
        } else if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            len += 1;
            in_string = byte == b'"';
        }
    }
    len
}

const HEADER: [&str; 12] = [
    "tool",
    "exposition",
    "enforcement",
    "from upstream",
    "as compact JSON",
    "to the model",
    "saved",
    "of compact",
    "tokens",
    "format",
    "with auto",
    "in the filter",
];

/// Returns an aligned table: words to the left, numbers to the right.
pub(super) fn render(rows: &[Row]) -> String {
    let mut cells: Vec<[String; 12]> = vec![HEADER.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.tool.clone(),
            row.exposition.clone(),
            row.enforcement.clone(),
            format!("{} B", grouped(row.upstream_bytes)),
            format!("{} B", grouped(row.compact_json_bytes)),
            format!("{} B", grouped(row.model_bytes)),
            format!("{:.1} %", row.saved_of_upstream),
            format!("{:.1} %", row.saved_of_compact_json),
            grouped(row.model_tokens),
            row.format.clone(),
            row.auto
                .as_ref()
                .map_or_else(|| "-".to_owned(), |auto| format!("{} {}", auto.format, grouped(auto.tokens))),
            format!("{:.0} us", row.filter_micros),
        ]
    }));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 12] = std::array::from_fn(width);
    let mut table = String::new();
    for (number, row) in cells.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let _ =
                if column < 3 { write!(table, "{gap}{cell:<width$}") } else { write!(table, "{gap}{cell:>width$}") };
        }
        table.push('\n');
        if number == 0 {
            let _ = writeln!(table, "{}", "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)));
        }
    }
    table
}

/// Formats `118512` as `118 512`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_within_strings_counts() {
        for (json, expected) in [
            ("", ""),
            (" { \"a b\" : [ 1 , 2 ] }\n", r#"{"a b":[1,2]}"#),
            (r#"{"a": "\" x \\", "b": " "}"#, r#"{"a":"\" x \\","b":" "}"#),
            ("[\"\u{e9} \", null]", "[\"\u{e9} \",null]"),
        ] {
            assert_eq!(compact_len(json), expected.len(), "{json}");
        }
    }

    #[test]
    fn shares_are_of_what_was_before() {
        for (before, after, expected) in [(1000, 60, 94.0), (0, 0, 0.0), (100, 150, -50.0), (3, 1, 66.7)] {
            assert!((saved(before, after) - expected).abs() < 1e-9, "{before} -> {after}");
        }
    }

    #[test]
    fn columns_are_aligned() {
        let row = |tool: &str, bytes| Row {
            tool: tool.into(),
            exposition: "e".into(),
            enforcement: "Advisory".into(),
            upstream_bytes: bytes,
            compact_json_bytes: bytes,
            model_bytes: 7,
            compact_json_tokens: bytes / 3,
            model_tokens: 4321,
            format: "json".into(),
            auto: (bytes > 100).then_some(Auto { format: "table", tokens: 1234 }),
            saved_of_upstream: saved(bytes, 7),
            saved_of_compact_json: saved(bytes, 7),
            filter_micros: 3.2,
        };
        let table = render(&[row("a", 1_234_567), row("longer", 12)]);
        let lengths: Vec<_> = table.lines().map(str::len).collect();
        assert!(lengths.iter().all(|l| *l == lengths[0]), "{table}");
        assert!(table.contains("1 234 567 B"), "{table}");
        assert!(table.contains("41.7 %"), "{table}");
        assert!(table.contains("4 321") && table.contains("table 1 234"), "{table}");
    }
}
