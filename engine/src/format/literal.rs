//! Strings, numbers and keys as TOON writes them (TOON 4.4, sections 2 and 7).

use super::rows::Cells;
use super::scan::{at, copy, quote_or_escape, word};
use crate::json::decode_string_into;
use crate::stream::{mark32, name16, stop32};

/// What stands between values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Delimiter {
    /// `,`
    #[default]
    Comma,
    /// A tab.
    Tab,
    /// `|`
    Pipe,
}

impl Delimiter {
    /// Returns the character.
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }

    /// Returns what a header says of the delimiter, after the length.
    pub(super) fn in_header(self) -> &'static [u8] {
        match self {
            Self::Comma => b"",
            Self::Tab => b"\t",
            Self::Pipe => b"|",
        }
    }

    /// Returns whether a string with this byte is quoted; the bytes that JSON escapes are not asked for.
    fn is_mark(self, byte: u8) -> bool {
        matches!(byte, b':' | b'[' | b']' | b'{' | b'}') || byte == self.byte()
    }
}

/// Writes primitive values and keys.
#[derive(Debug)]
pub(super) struct Literals {
    delimiter: Delimiter,
    /// The characters of a string that is written with escapes in the document.
    characters: Vec<u8>,
}

impl Literals {
    pub(super) fn new(delimiter: Delimiter) -> Self {
        Self { delimiter, characters: Vec::new() }
    }

    /// Appends the primitive value at `pos` of `json`, and returns the position behind it.
    #[inline(always)]
    pub(super) fn value(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        let bytes = json.as_bytes();
        match at(bytes, pos) {
            b'"' => self.string(json, pos, out),
            b'-' => number(bytes, pos, out),
            _ => {
                let end = word(bytes, pos);
                copy(bytes, pos, end, out);
                end
            }
        }
    }

    #[inline(always)]
    fn string(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        let bytes = json.as_bytes();
        let delimiter = self.delimiter.byte();
        let (mut end, mut marks) = (pos + 1, 0);
        loop {
            let Some(chunk) = bytes.get(end..).and_then(<[u8]>::first_chunk::<32>) else {
                let stop = quote_or_escape(bytes, end);
                marks |= u32::from(bytes[end..stop].iter().any(|byte| self.delimiter.is_mark(*byte)));
                end = stop;
                break;
            };
            let stops = stop32(chunk);
            let before = stops.wrapping_sub(1) & !stops;
            marks |= mark32(chunk, delimiter) & before;
            if stops != 0 {
                end += stops.trailing_zeros() as usize;
                break;
            }
            end += 32;
        }
        if at(bytes, end) == b'\\' {
            return self.escaped(json, pos, out);
        }
        let quotes = usize::from(marks != 0 || !stands_alone(&bytes[pos + 1..end]));
        copy(bytes, pos + 1 - quotes, end + quotes, out);
        end + 1
    }

    #[inline(never)]
    fn escaped(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        let end = super::scan::string(json.as_bytes(), pos);
        self.characters.clear();
        decode_string_into(&json[pos..end], &mut self.characters);
        let quotes = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\') || self.delimiter.is_mark(*byte);
        if !self.characters.iter().any(quotes) && stands_alone(&self.characters) {
            out.extend_from_slice(&self.characters);
        } else {
            quoted(&self.characters, out);
        }
        end
    }

    /// Appends the string at `pos`, which is the whole document. A byte order mark at the beginning of a document is
    /// not part of it, so such a string is quoted.
    pub(super) fn document(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        self.value(json, pos, out);
        if out.starts_with(MARK) {
            let text = std::mem::take(out);
            quoted(&text, out);
        }
    }

    /// Appends the key at `pos`, and returns the position behind its closing quote.
    #[inline(always)]
    pub(super) fn key(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        let bytes = json.as_bytes();
        let mut end = pos + 1;
        while let Some(chunk) = bytes.get(end..).and_then(<[u8]>::first_chunk::<16>) {
            let names = name16(chunk).trailing_ones() as usize;
            end += names;
            if names < 16 {
                break;
            }
        }
        // Behind the last whole block of the document.
        while is_name_byte(at(bytes, end)) {
            end += 1;
        }
        if at(bytes, end) == b'"' && is_name(&bytes[pos + 1..end]) {
            copy(bytes, pos + 1, end, out);
            return end + 1;
        }
        self.other_key(json, pos, out)
    }

    #[inline(never)]
    fn other_key(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        let end = super::scan::string(json.as_bytes(), pos);
        let raw = &json[pos..end];
        if !raw.contains('\\') {
            out.extend_from_slice(raw.as_bytes());
            return end;
        }
        self.characters.clear();
        decode_string_into(raw, &mut self.characters);
        if self.characters.iter().all(|byte| is_name_byte(*byte)) && is_name(&self.characters) {
            out.extend_from_slice(&self.characters);
        } else {
            quoted(&self.characters, out);
        }
        end
    }
}

impl Cells for Literals {
    #[inline(always)]
    fn cell(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        self.value(json, pos, out)
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')
}

/// Returns whether a key of these bytes needs no quotes; each is a byte of a name.
fn is_name(key: &[u8]) -> bool {
    key.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
}

/// Returns whether a string without special characters is read as a string, and whole, where no quotes stand around it
/// (TOON 4.4, section 7.2).
#[inline(always)]
fn stands_alone(text: &[u8]) -> bool {
    match text {
        [] | [b' ' | b'-' | b'#', ..] | [.., b' '] => false,
        [b't' | b'f' | b'n', ..] => !matches!(text, b"true" | b"false" | b"null"),
        [b'0'..=b'9' | b'+', ..] => !looks_like_number(text),
        _ => true,
    }
}

/// `^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$`
#[inline(never)]
fn looks_like_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then(|| &text[count..])
    }
    fn rest(text: &[u8]) -> Option<&[u8]> {
        let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
        let mut rest = digits(unsigned)?;
        if let [b'.', fraction @ ..] = rest {
            rest = digits(fraction)?;
        }
        match rest {
            [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => digits(exponent),
            _ => Some(rest),
        }
    }
    rest(text).is_some_and(<[u8]>::is_empty)
}

/// Appends a number that begins with a sign. Negative zero is zero (TOON 4.4, section 2).
#[inline(never)]
fn number(bytes: &[u8], pos: usize, out: &mut Vec<u8>) -> usize {
    let end = word(bytes, pos);
    let number = &bytes[pos..end];
    let is_zero = number[1..].iter().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|b| matches!(b, b'0' | b'.'));
    out.extend_from_slice(if is_zero { &number[1..] } else { number });
    end
}

/// Appends `text` between quotes, with the escapes of TOON 4.4, section 7.1.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut from = 0;
    for (at, &byte) in text.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..0x20 => &[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]],
            _ => continue,
        };
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(escape);
        from = at + 1;
    }
    out.extend_from_slice(&text[from..]);
    out.push(b'"');
}
