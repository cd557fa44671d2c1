//! Text from data that becomes a part of a line of the index, and must not pass for anything else.

use crate::answer::cut_to;

/// Returns `text` as a part of one line of at most `room` bytes, cut between characters.
///
/// - Line ends, control characters and blank characters are spaces; several spaces are one, and none stands at an end.
/// - Characters without a shape of their own (zero-width and invisible ones, marks of direction, selectors of variants)
///   go: they would hide a mark from a reader that looks for it.
/// - Square brackets, and characters that look like them, are parentheses: so nothing in a line looks like `[chunks]`
///   or `[/chunks]`, however it is spelled.
/// - Of several `<` one is left: nothing looks like the mark of the chunk that is returned.
pub(super) fn plain(text: &str, room: usize) -> String {
    let mut out = String::new();
    // The last character that is not a space, and whether spaces follow it.
    let (mut last, mut spaced) = (' ', false);
    for c in text.chars() {
        let c = match shape(c) {
            Shape::None => continue,
            Shape::Blank => {
                spaced = true;
                continue;
            }
            Shape::As(c) => c,
        };
        if c == '<' && last == '<' {
            spaced = false;
            continue;
        }
        if std::mem::take(&mut spaced) && !out.is_empty() {
            out.push(' ');
        }
        out.push(c);
        last = c;
        // The text is too long, whatever follows.
        if out.len() > room {
            break;
        }
    }
    cut_to(&out, room)
}

/// How a character looks in a line.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// Like nothing.
    None,
    /// Like a space.
    Blank,
    /// Like this character.
    As(char),
}

fn shape(c: char) -> Shape {
    match c {
        '!'..='Z' | '\\' | '^'..='~' => Shape::As(c),
        '[' => Shape::As('('),
        ']' => Shape::As(')'),
        // Unicode's property Default_Ignorable_Code_Point, and the marks of annotations.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Shape::None,
        // The empty pattern of Braille.
        '\u{2800}' => Shape::Blank,
        c if c.is_control() || c.is_whitespace() => Shape::Blank,
        // Brackets: with a quill, white, lenticular, tortoise shell, half, with a bar or tick; full width, small,
        // vertical; floor and ceiling, pieces of tall ones.
        '\u{2045}' | '\u{2308}' | '\u{230a}' | '\u{23a1}'..='\u{23a3}' | '\u{2772}' | '\u{27e6}' | '\u{27ec}' => {
            Shape::As('(')
        }
        '\u{298b}' | '\u{298d}' | '\u{298f}' | '\u{2997}' | '\u{2e22}' | '\u{2e24}' | '\u{2e55}' | '\u{2e57}' => {
            Shape::As('(')
        }
        '\u{3010}' | '\u{3014}' | '\u{3016}' | '\u{3018}' | '\u{301a}' | '\u{fe47}' | '\u{fe5d}' | '\u{ff3b}' => {
            Shape::As('(')
        }
        '\u{2046}' | '\u{2309}' | '\u{230b}' | '\u{23a4}'..='\u{23a6}' | '\u{2773}' | '\u{27e7}' | '\u{27ed}' => {
            Shape::As(')')
        }
        '\u{298c}' | '\u{298e}' | '\u{2990}' | '\u{2998}' | '\u{2e23}' | '\u{2e25}' | '\u{2e56}' | '\u{2e58}' => {
            Shape::As(')')
        }
        '\u{3011}' | '\u{3015}' | '\u{3017}' | '\u{3019}' | '\u{301b}' | '\u{fe48}' | '\u{fe5e}' | '\u{ff3d}' => {
            Shape::As(')')
        }
        // Less-than signs: double, triple, small, full width.
        '\u{226a}' | '\u{22d8}' | '\u{fe64}' | '\u{ff1c}' => Shape::As('<'),
        c => Shape::As(c),
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
pub(super) mod tests;
