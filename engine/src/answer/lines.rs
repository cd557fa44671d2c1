//! Fits text into a budget: by whole lines if one fits, else by characters.

use memchr::memchr_iter;

use crate::text::left_out;

/// Text that was cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fitted {
    /// The text that is left.
    pub(crate) text: String,
    /// Whether a line was cut, which the text itself does not always show.
    pub(crate) shortened: bool,
}

/// Cuts `text` to at most `room` bytes. Returns `None` if it fits already.
///
/// The first lines stay, followed by a line with the number of lines left out. If not even the first line fits with
/// that, the first line is cut between characters, and ends in `...` if there is room.
pub(crate) fn fit_text(text: &str, room: usize) -> Option<Fitted> {
    if text.len() <= room {
        return None;
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    if body.len() <= room {
        return Some(Fitted { text: body.to_owned(), shortened: false });
    }
    // The ends of the lines that could stay, and the number of all lines.
    let ends: Vec<usize> = memchr_iter(b'\n', body.as_bytes()).take_while(|&at| at < room).collect();
    let total = 1 + memchr_iter(b'\n', body.as_bytes()).count();
    for (index, &end) in ends.iter().enumerate().rev() {
        let note = left_out(total - index - 1);
        if end + 1 + note.len() <= room {
            return Some(Fitted { text: format!("{}\n{note}", &body[..end]), shortened: false });
        }
    }
    let first = &body[..ends.first().copied().unwrap_or_else(|| body.find('\n').unwrap_or(body.len()))];
    let note = if total > 1 { format!("\n{}", left_out(total - 1)) } else { String::new() };
    let text = match room.checked_sub(note.len()) {
        Some(room) if room > 3 => cut_to(first, room) + &note,
        _ => cut_to(body, room),
    };
    Some(Fitted { text, shortened: true })
}

/// Returns at most `room` bytes of `text`, cut between characters. A cut text ends in `...` if the dots and one
/// character fit.
pub(crate) fn cut_to(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let (room, dots) = if room > 3 { (room - 3, "...") } else { (room, "") };
    format!("{}{dots}", &text[..text.floor_char_boundary(room)])
}
