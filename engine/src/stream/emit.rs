//! Writes values that are kept: verbatim, without insignificant whitespace.

use super::scan::{self, Scan, Tally};

/// Appends `span`, a valid JSON value, without its whitespace.
pub(super) fn compact(span: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    let mut pos = 0;
    while pos < span.len() {
        match span[pos] {
            // The span is valid, so scanning a string in it cannot fail.
            b'"' => pos = scan::string(span, pos + 1).unwrap_or(span.len()),
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.extend_from_slice(&span[from..pos]);
                pos = scan::blank_run(span, pos);
                from = pos;
            }
            _ => pos += 1,
        }
    }
    out.extend_from_slice(&span[from..]);
}

/// Validates and skips the value at `pos`, and appends it.
pub(super) fn copy(bytes: &[u8], pos: usize, room: usize, tally: &mut Tally<'_>, out: &mut Vec<u8>) -> Scan {
    let before = tally.blanks;
    let end = scan::value(bytes, pos, room, tally)?;
    if tally.blanks == before {
        out.extend_from_slice(&bytes[pos..end]);
    } else {
        compact(&bytes[pos..end], out);
    }
    Ok(end)
}
