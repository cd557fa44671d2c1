//! Writes text as a JSON string, and measures the result, 32 bytes at a time.

use crate::stream::stop32;

/// The bytes that are examined together.
const STEP: usize = 32;
/// The bytes that are escaped into a buffer before they are appended to the output.
const BLOCK: usize = 2048;
/// Text below this size is not worth a block.
const SHORT: usize = 256;
/// How far one step may write beyond [`BLOCK`]: every byte as `\u00XX`, and a copy longer than the bytes that count.
const SLACK: usize = STEP * 6 + STEP;

/// How a byte is escaped: the letter after the backslash, `u` if it has no letter of its own, 0 if it is not escaped.
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        letters[control] = b'u';
        control += 1;
    }
    letters[0x08] = b'b';
    letters[b'\t' as usize] = b't';
    letters[b'\n' as usize] = b'n';
    letters[0x0c] = b'f';
    letters[b'\r' as usize] = b'r';
    letters[b'"' as usize] = b'"';
    letters[b'\\' as usize] = b'\\';
    letters
};

/// Appends `text` as a JSON string, with its quotes: exactly the bytes that `serde_json` writes.
///
/// A JSON document in a JSON string has a quote every few bytes. The text between two quotes is therefore copied as
/// `STEP` bytes, whatever its length; the next copy overwrites what was too much. No copy waits for the one before.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let at = if bytes.len() < SHORT { 0 } else { blocks(bytes, out) };
    rest(&bytes[at..], out);
    out.push(b'"');
}

/// Returns the number of bytes that [`write_string`] appends for `text`.
#[must_use]
pub fn encoded_len(text: &str) -> usize {
    let (chunks, last) = text.as_bytes().as_chunks::<STEP>();
    let mut added = 2;
    for chunk in chunks {
        let mut stops = stop32(chunk);
        while stops != 0 {
            added += growth(chunk[stops.trailing_zeros() as usize]);
            stops &= stops - 1;
        }
    }
    text.len() + added + last.iter().map(|&byte| growth(byte)).sum::<usize>()
}

/// Returns the bytes that escaping adds to `byte`.
#[inline(always)]
fn growth(byte: u8) -> usize {
    match LETTERS[usize::from(byte)] {
        0 => 0,
        b'u' => 5,
        _ => 1,
    }
}

/// Escapes all but the last bytes, and returns how many bytes of `bytes` it escaped.
fn blocks(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let mut block = [0; BLOCK + SLACK];
    let (mut at, mut filled) = (0, 0);
    // Copies read up to one step beyond the bytes that are examined.
    while let Some(window) = bytes.get(at..).and_then(<[u8]>::first_chunk::<{ 2 * STEP }>) {
        let Some(chunk) = window.first_chunk::<STEP>() else { break };
        let mut stops = stop32(chunk);
        let mut from = 0;
        while stops != 0 {
            let stop = stops.trailing_zeros() as usize;
            stops &= stops - 1;
            block[filled..filled + STEP].copy_from_slice(&window[from..from + STEP]);
            filled += stop - from;
            filled += escaped(chunk[stop], &mut block[filled..]);
            from = stop + 1;
        }
        block[filled..filled + STEP].copy_from_slice(&window[from..from + STEP]);
        filled += STEP - from;
        at += STEP;
        if filled > BLOCK {
            out.extend_from_slice(&block[..filled]);
            filled = 0;
        }
    }
    out.extend_from_slice(&block[..filled]);
    at
}

/// Writes the escape of `byte` to the beginning of `to`, and returns its length.
#[inline(always)]
fn escaped(byte: u8, to: &mut [u8]) -> usize {
    let letter = LETTERS[usize::from(byte)];
    to[..2].copy_from_slice(&[b'\\', letter]);
    if letter != b'u' {
        return 2;
    }
    const HEX: &[u8; 16] = b"0123456789abcdef";
    to[2..6].copy_from_slice(&[b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    6
}

/// Escapes a few bytes, by runs that need no escape.
fn rest(bytes: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    let mut stop = |at: usize| {
        out.extend_from_slice(&bytes[from..at]);
        let mut escape = [0; 6];
        let length = escaped(bytes[at], &mut escape);
        out.extend_from_slice(&escape[..length]);
        from = at + 1;
    };
    let (chunks, last) = bytes.as_chunks::<STEP>();
    for (i, chunk) in chunks.iter().enumerate() {
        let mut stops = stop32(chunk);
        while stops != 0 {
            stop(i * STEP + stops.trailing_zeros() as usize);
            stops &= stops - 1;
        }
    }
    for (i, &byte) in last.iter().enumerate() {
        if LETTERS[usize::from(byte)] != 0 {
            stop(chunks.len() * STEP + i);
        }
    }
    out.extend_from_slice(&bytes[from..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = b"before".to_vec();
        write_string(text, &mut out);
        assert_eq!(out.len() - "before".len(), encoded_len(text));
        String::from_utf8(out).unwrap().split_off("before".len())
    }

    #[test]
    fn escapes_every_special_byte_at_every_offset() {
        for special in (0..0x20).chain([b'"', b'\\', 0x7f]) {
            for before in 0..70 {
                for after in [0, 1, 31, 32, 40] {
                    let text = format!("{}{}{}", "x".repeat(before), char::from(special), "é".repeat(after));
                    assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    #[test]
    fn escapes_text_that_grows_as_much_as_possible() {
        for length in [63, 64, 65, SHORT - 1, SHORT, BLOCK / 6, BLOCK, 3 * BLOCK + 17] {
            for unit in ["\u{1}", "\"", "a\u{1f}", "\u{1f600}\\"] {
                let text = unit.repeat(length);
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn is_what_serde_json_writes(
            parts in proptest::collection::vec((any::<char>(), "[a-z]{0,40}", "[\"\\\\\n\u{1}-\u{1f}é]{0,8}"), 0..200)
        ) {
            let text: String = parts.into_iter().map(|(c, plain, special)| format!("{plain}{c}{special}")).collect();
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
