//! Fitting text: whole lines where one fits, else characters.

use memchr::memchr_iter;

use crate::BudgetReport;
use crate::text::left_out;

/// Cuts `text` to at most `limit` bytes. `None` where it already fits.
///
/// Keeps the first lines, and a last one that says how many more there are. Where not even the
/// first line fits beside that, the line is cut at a character, and ends in `...` if there is room.
#[must_use]
pub fn fit_text(text: &str, limit: usize) -> Option<(String, BudgetReport)> {
    if text.len() <= limit {
        return None;
    }
    let mut report = BudgetReport::new(limit, text.len());
    let body = text.strip_suffix('\n').unwrap_or(text);
    if body.len() <= limit {
        report.result_bytes = body.len();
        return Some((body.to_owned(), report));
    }
    // Where the lines end that could stay, and how many there are in all.
    let ends: Vec<usize> = memchr_iter(b'\n', body.as_bytes()).take_while(|&at| at < limit).collect();
    let total = 1 + memchr_iter(b'\n', body.as_bytes()).count();
    for (index, &end) in ends.iter().enumerate().rev() {
        let note = left_out(total - index - 1);
        if end + 1 + note.len() <= limit {
            let out = format!("{}\n{note}", &body[..end]);
            report.result_bytes = out.len();
            return Some((out, report));
        }
    }
    let first = &body[..ends.first().copied().unwrap_or_else(|| body.find('\n').unwrap_or(body.len()))];
    let note = if total > 1 { format!("\n{}", left_out(total - 1)) } else { String::new() };
    let out = match limit.checked_sub(note.len()) {
        Some(room) if room > 3 => cut_to(first, room) + &note,
        _ => cut_to(body, limit),
    };
    report.strings_truncated = 1;
    report.result_bytes = out.len();
    Some((out, report))
}

/// At most `room` bytes of `text`, cut between characters; ends in `...` where something was cut and
/// dots and a character have room.
pub(crate) fn cut_to(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let (room, dots) = if room > 3 { (room - 3, "...") } else { (room, "") };
    format!("{}{dots}", &text[..text.floor_char_boundary(room)])
}
