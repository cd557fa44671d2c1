//! JSON strings as written: comparing them, and resolving their escapes.

use std::borrow::Cow;

/// Returns the text between the quotes of a valid JSON string.
fn inner(raw: &str) -> &str {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or("")
}

/// Returns whether the JSON string `raw` equals `plain` once its escapes are resolved.
pub(crate) fn equals_plain(raw: &str, plain: &str) -> bool {
    let inner = inner(raw);
    if inner.len() == plain.len() && inner.as_bytes() == plain.as_bytes() {
        // Equal bytes are equal text, unless `inner` has escapes: its text is then shorter.
        return memchr::memchr(b'\\', inner.as_bytes()).is_none();
    }
    // An escape is always longer than its character.
    inner.len() > plain.len() && inner.contains('\\') && *decode(raw) == *plain.as_bytes()
}

/// Returns whether two JSON strings are equal once their escapes are resolved.
pub(crate) fn equal(a: &str, b: &str) -> bool {
    a == b || ((a.contains('\\') || b.contains('\\')) && decode(a) == decode(b))
}

/// Returns the characters of a JSON string in WTF-8: UTF-8 that may hold lone surrogates, which JSON allows.
pub(crate) fn decode(raw: &str) -> Cow<'_, [u8]> {
    let inner = inner(raw);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner.as_bytes());
    }
    let mut out = Vec::with_capacity(inner.len());
    decode_into(raw, &mut out);
    Cow::Owned(out)
}

/// Appends the characters of a JSON string, as [`decode`] returns them.
pub(crate) fn decode_into(raw: &str, out: &mut Vec<u8>) {
    let mut rest = inner(raw);
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or("");
        let plain = match escape {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let high = take_hex(&mut rest);
                let mut code = high;
                if (0xd800..0xdc00).contains(&high) && rest.starts_with("\\u") {
                    let mut ahead = &rest[2..];
                    let low = take_hex(&mut ahead);
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        rest = ahead;
                    }
                }
                push_wtf8(out, code);
                continue;
            }
            other => other,
        };
        out.push(plain);
    }
    out.extend_from_slice(rest.as_bytes());
}

fn take_hex(rest: &mut &str) -> u32 {
    let (digits, tail) = rest.split_at_checked(4).unwrap_or((rest, ""));
    *rest = tail;
    u32::from_str_radix(digits, 16).unwrap_or(0xfffd)
}

fn push_wtf8(out: &mut Vec<u8>, code: u32) {
    if let Some(c) = char::from_u32(code) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        // A surrogate, in the three-byte pattern of UTF-8.
        let byte = |shift: u32, mask: u32| u8::try_from((code >> shift) & mask).unwrap_or(0);
        out.extend_from_slice(&[0xe0 | byte(12, 0x0f), 0x80 | byte(6, 0x3f), 0x80 | byte(0, 0x3f)]);
    }
}

/// Returns the characters of a JSON string; a lone surrogate becomes U+FFFD.
pub(crate) fn decode_lossy(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(inner(raw));
    }
    let bytes = decode(raw).into_owned();
    match String::from_utf8(bytes) {
        Ok(text) => Cow::Owned(text),
        Err(error) => {
            // Each surrogate is three bytes that are invalid in UTF-8; they become one replacement character.
            let bytes = error.into_bytes();
            let mut out = String::with_capacity(bytes.len());
            let mut rest = &bytes[..];
            while let Err(error) = std::str::from_utf8(rest) {
                let (good, bad) = rest.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(good).unwrap_or(""));
                out.push('\u{fffd}');
                rest = bad.get(3..).unwrap_or(&[]);
            }
            out.push_str(std::str::from_utf8(rest).unwrap_or(""));
            Cow::Owned(out)
        }
    }
}

/// Returns `plain` as a JSON string, with quotes. Only what must be escaped is escaped.
#[must_use]
pub fn encode(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len() + 2);
    out.push('"');
    let mut from = 0;
    for (at, byte) in plain.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&plain[from..at]);
        from = at + 1;
        if escape.is_empty() {
            use std::fmt::Write as _;
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&plain[from..]);
    out.push('"');
    out
}
