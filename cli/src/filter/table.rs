//! Formats an explanation as a table for people.

use std::fmt::Write as _;

use super::explain::Trace;
use crate::output::grouped;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// Renders the table, with colours if requested.
pub(super) fn render(trace: &Trace, colours: bool) -> String {
    let paint = |style: &'static str| if colours { (style, PLAIN) } else { ("", "") };
    let base = trace.input_bytes;
    let mut rows = vec![Line::new("input", Some(trace.input_bytes), None, trace.items, Vec::new())];
    if trace.compact_bytes != trace.input_bytes {
        let saved = Some(percent(trace.input_bytes, trace.compact_bytes, base));
        rows.push(Line::new(
            "as compact JSON",
            Some(trace.compact_bytes),
            saved,
            trace.items,
            vec!["white space".into()],
        ));
    }
    for row in &trace.rows {
        let saved = row.after.map(|after| percent(row.before, after, base));
        let mut line = Line::new(row.stage, row.after, saved, row.items, row.notes.clone());
        line.failed = row.failed;
        rows.push(line);
    }
    let header = Line {
        stage: "STAGE".into(),
        bytes: "BYTES".into(),
        saved: "SAVED".into(),
        items: "ITEMS".into(),
        notes: vec!["WHAT WENT".into()],
        failed: false,
    };
    let width = |of: fn(&Line) -> &str| rows.iter().chain([&header]).map(|l| of(l).chars().count()).max().unwrap_or(0);
    let (stage, bytes, saved, items) =
        (width(|l| &l.stage), width(|l| &l.bytes), width(|l| &l.saved), width(|l| &l.items));
    let mut out = String::new();
    for (index, line) in std::iter::once(&header).chain(&rows).enumerate() {
        let (on, off) = if index == 0 {
            paint(BOLD)
        } else if line.failed {
            paint(RED)
        } else {
            ("", "")
        };
        let row = format!(
            "{:<stage$}  {:>bytes$}  {:>saved$}  {:>items$}  {}",
            line.stage,
            line.bytes,
            line.saved,
            line.items,
            line.notes.join("; ")
        );
        let _ = writeln!(out, "{on}{}{off}", row.trim_end());
    }
    for note in &trace.notes {
        let _ = writeln!(out, "{note}");
    }
    let (on, off) = paint(if trace.output_bytes.is_some() { GREEN } else { RED });
    let _ = match trace.output_bytes {
        Some(output) => writeln!(
            out,
            "{on}{} bytes in, {} out: {} less than the input, {} less than the same as compact JSON{off}",
            grouped(trace.input_bytes),
            grouped(output),
            percent(trace.input_bytes, output, trace.input_bytes),
            percent(trace.compact_bytes, output, trace.compact_bytes),
        ),
        None => writeln!(out, "{on}{} bytes in, nothing out: the filter is Enforced{off}", grouped(trace.input_bytes)),
    };
    out
}

struct Line {
    stage: String,
    bytes: String,
    saved: String,
    items: String,
    notes: Vec<String>,
    failed: bool,
}

impl Line {
    fn new(stage: &str, bytes: Option<usize>, saved: Option<String>, items: Option<usize>, notes: Vec<String>) -> Self {
        Self {
            stage: stage.into(),
            bytes: bytes.map_or_else(|| "-".into(), grouped),
            saved: saved.unwrap_or_default(),
            items: items.map(grouped).unwrap_or_default(),
            notes,
            failed: false,
        }
    }
}

/// Returns which percentage of `base` went between `before` and `after`; negative if it grew.
fn percent(before: usize, after: usize, base: usize) -> String {
    if base == 0 {
        return "0.0 %".into();
    }
    // Tenths of a percent, rounded, without a float.
    let difference = before.abs_diff(after);
    let tenths = (difference * 1000 + base / 2) / base;
    let sign = if after > before && tenths > 0 { "-" } else { "" };
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::super::explain::Row;
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        for (number, want) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), want);
        }
        for ((before, after, base), want) in [
            ((100, 10, 100), "90.0 %"),
            ((100, 100, 100), "0.0 %"),
            ((100, 110, 100), "-10.0 %"),
            ((3, 2, 3), "33.3 %"),
            ((0, 0, 0), "0.0 %"),
            ((1000, 999, 1000), "0.1 %"),
        ] {
            assert_eq!(percent(before, after, base), want);
        }
    }

    #[test]
    fn a_failed_stage_is_seen() {
        let row = Row { stage: "select", before: 90, failed: true, notes: vec!["failed: x".into()], ..Row::default() };
        let trace = Trace {
            input_bytes: 1000,
            compact_bytes: 900,
            items: Some(3),
            notes: vec!["branch [1] applies".into()],
            rows: vec![row],
            output_bytes: None,
        };
        assert_eq!(
            render(&trace, false),
            "\
STAGE            BYTES   SAVED  ITEMS  WHAT WENT
input            1,000              3
as compact JSON    900  10.0 %      3  white space
select               -                 failed: x
branch [1] applies
1,000 bytes in, nothing out: the filter is Enforced
"
        );
        assert!(render(&trace, true).contains("\x1b[31mselect"));
    }
}
