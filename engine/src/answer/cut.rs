//! Cuts text that does not fit.

/// Returns at most `room` bytes of `text`, cut between characters. A cut text ends in `...` if the dots and one
/// character fit.
pub(crate) fn cut_to(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    match room.checked_sub("...".len()).map(|room| text.floor_char_boundary(room)) {
        Some(kept) if kept > 0 => format!("{}...", &text[..kept]),
        _ => text[..text.floor_char_boundary(room)].to_owned(),
    }
}
