//! The JSON forms of well-known types, and of numbers.

use std::io::Write as _;

use jiff::SignedDuration;
use jiff::civil::DateTime;

use super::json::text;
use super::records::{Data, Malformed, Records};

/// The seconds of a duration, of either sign.
const MAX_SECONDS: i64 = 315_576_000_000;

/// Writes a timestamp: RFC 3339 in UTC, with 0, 3, 6 or 9 digits of a second.
pub(super) fn timestamp(out: &mut Vec<u8>, (seconds, nanos): (i64, i32)) -> Result<(), Malformed> {
    // The years 1 to 9999.
    let is_valid = (-62_135_596_800..=253_402_300_799).contains(&seconds) && (0..1_000_000_000).contains(&nanos);
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let time = epoch.checked_add(SignedDuration::from_secs(seconds)).ok().filter(|_| is_valid);
    let _ = write!(out, "\"{}", time.ok_or("has a timestamp out of range")?);
    fraction(out, nanos);
    out.extend_from_slice(b"Z\"");
    Ok(())
}

/// Writes a duration: seconds with 0, 3, 6 or 9 digits behind the point.
pub(super) fn duration(out: &mut Vec<u8>, (seconds, nanos): (i64, i32)) -> Result<(), Malformed> {
    let is_valid = (-MAX_SECONDS..=MAX_SECONDS).contains(&seconds)
        && (-999_999_999..=999_999_999).contains(&nanos)
        && (seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0));
    if !is_valid {
        return Err("has a duration out of range");
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let _ = write!(out, "\"{sign}{}", seconds.unsigned_abs());
    fraction(out, nanos.abs());
    out.extend_from_slice(b"s\"");
    Ok(())
}

fn fraction(out: &mut Vec<u8>, nanos: i32) {
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos % 1_000_000 == 0 => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => write!(out, ".{:06}", nanos / 1_000),
        _ => write!(out, ".{nanos:09}"),
    };
}

/// Writes a field mask: its paths in lower camel case, separated by commas.
pub(super) fn field_mask(out: &mut Vec<u8>, parts: &[&[u8]]) -> Result<(), Malformed> {
    let mut paths = String::new();
    for part in parts {
        let mut reader = Records(part);
        while let Some((number, data)) = reader.next()? {
            let (1, Data::Bytes(path)) = (number, data) else { continue };
            if !paths.is_empty() {
                paths.push(',');
            }
            let mut is_upper = false;
            for c in text(path)?.chars() {
                match c {
                    '_' => is_upper = true,
                    c if std::mem::take(&mut is_upper) => paths.push(c.to_ascii_uppercase()),
                    c => paths.push(c),
                }
            }
        }
    }
    serde_json::to_writer(out, &paths).map_err(|_| "has a field mask that cannot be written")
}

/// Writes a number. What is none is a string.
pub(super) fn double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        let _ = serde_json::to_writer(out, &value);
    } else {
        out.extend_from_slice(not_finite(value).as_bytes());
    }
}

/// Writes a number with the digits that single precision needs.
pub(super) fn float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        let _ = serde_json::to_writer(out, &value);
    } else {
        out.extend_from_slice(not_finite(value.into()).as_bytes());
    }
}

fn not_finite(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        _ => "\"NaN\"",
    }
}
