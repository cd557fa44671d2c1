//! Sanitizes foreign text for messages.

/// Maximum number of bytes of foreign text in a message.
const MAX_BYTES: usize = 1024;

/// Returns `text` on one line of at most 1 KiB, without characters that move the cursor, end a line or change the direction of
/// writing: names and versions reach conditions, Events, logs and terminals of people who did not write them.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_BYTES));
    for c in text.chars().map(|c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }) {
        if out.len() + c.len_utf8() > MAX_BYTES - '…'.len_utf8() {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// Returns whether a character is invisible: controls, and characters that change the look of others.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_or_ends_a_line_is_replaced() {
        let table = [
            ("github 1.0", "github 1.0"),
            ("a\u{1b}[2Jb", "a\u{fffd}[2Jb"),
            ("a\r\nb\tc\u{85}d", "a\u{fffd}\u{fffd}b\u{fffd}c\u{fffd}d"),
            ("a\u{2028}b\u{202e}c\u{2066}d\u{feff}", "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}"),
            ("Büro 日本", "Büro 日本"),
        ];
        for (text, expected) in table {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn it_ends_at_a_kibibyte() {
        assert_eq!(plain(&"a".repeat(1021)), "a".repeat(1021));
        for c in ["a", "é", "日", "\u{1b}"] {
            let cut = plain(&c.repeat(2000));
            assert!(cut.len() <= MAX_BYTES && cut.ends_with('…'), "{}", cut.len());
        }
    }
}
