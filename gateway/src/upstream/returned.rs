//! Finds the credential of a call in what the upstream answers.
//!
//! A manifest chooses the request's path and the place of the credential in it, and some paths return what they are
//! sent. The owner's `tamis.dev/allowed-use` is the boundary; this search is the second one: an answer that contains
//! the credential it was called with is withheld.
//!
//! The answer is searched as it arrives, before any filter, in three readings: as it is, with JSON escapes decoded, and
//! with these decoded twice (JSON inside a JSON string). Each reading is also searched with percent-encoding decoded.
//! In every reading the credential is looked for as it is and in base64, at all three alignments and in both alphabets.
//! The work is linear in the answer, and the memory does not grow with it.
//!
//! Not found: a credential shorter than eight bytes, parts of one, and one that is compressed, encrypted, hashed,
//! reversed, in hexadecimal, in HTML entities, in base64 with line breaks, or escaped three times.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use memchr::memmem::Finder;

/// A credential below this many bytes would be found in innocent answers.
const SHORTEST: usize = 8;
/// Bytes that are decoded at once.
const PIECE: usize = 16 << 10;
/// JSON inside a JSON string is decoded as well.
const READINGS: usize = 3;

/// What to look for, made once for each call. Its `Debug` shows nothing.
pub(super) struct Needles {
    finders: Vec<Finder<'static>>,
    longest: usize,
}

impl std::fmt::Debug for Needles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Needles(..)")
    }
}

impl Needles {
    /// Looks for each of these texts that is long enough. None where none is.
    pub(super) fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<Self> {
        let mut needles = Vec::new();
        for text in texts.into_iter().filter(|text| text.len() >= SHORTEST) {
            needles.push(text.as_bytes().to_vec());
            if text.contains(' ') {
                // A form's spelling of a space (`application/x-www-form-urlencoded`).
                needles.push(text.replace(' ', "+").into_bytes());
            }
            for alphabet in [&STANDARD, &URL_SAFE] {
                needles.extend((0..3).map(|before| base64(text.as_bytes(), before, alphabet)));
            }
        }
        needles.sort_unstable();
        needles.dedup();
        let longest = needles.iter().map(Vec::len).max()?;
        let finders = needles.iter().map(|needle| Finder::new(needle).into_owned()).collect();
        Some(Self { finders, longest })
    }

    fn are_in(&self, text: &[u8]) -> bool {
        self.finders.iter().any(|finder| finder.find(text).is_some())
    }
}

/// The characters that `text` has in base64 after `before` bytes of anything, whatever follows.
fn base64(text: &[u8], before: usize, alphabet: &base64::alphabet::Alphabet) -> Vec<u8> {
    let mut padded = vec![0; before];
    padded.extend_from_slice(text);
    let encoded = GeneralPurpose::new(alphabet, NO_PAD).encode(&padded).into_bytes();
    // Six bits a character: those that other bytes are part of are not known.
    encoded[(before * 8).div_ceil(6)..padded.len() * 8 / 6].to_vec()
}

/// A search that is fed an answer piece by piece.
#[derive(Debug)]
pub(super) struct Search<'n> {
    needles: &'n Needles,
    readings: [Reading; READINGS],
    found: bool,
}

/// One way to read the answer.
#[derive(Debug, Default)]
struct Reading {
    as_it_is: Window,
    percent: PercentDecoder,
    decoded: Window,
    json: JsonDecoder,
}

impl<'n> Search<'n> {
    pub(super) fn new(needles: &'n Needles) -> Self {
        Self { needles, readings: Default::default(), found: false }
    }

    /// Takes the next piece of the answer. Whether the credential has been found so far.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.chunks(PIECE) {
            self.found = self.found || self.search(piece);
        }
        self.found
    }

    fn search(&mut self, piece: &[u8]) -> bool {
        let (mut text, mut differs) = (Cow::Borrowed(piece), true);
        for (index, reading) in self.readings.iter_mut().enumerate() {
            if reading.search(self.needles, &text, differs) {
                return true;
            }
            if index + 1 < READINGS {
                let decoded = match reading.json.decode(&text) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(decoded) => Some(decoded),
                };
                differs = decoded.is_some();
                text = decoded.map_or(text, Cow::Owned);
            }
        }
        false
    }

    /// The whole answer at once.
    pub(super) fn is_in(needles: &'n Needles, bytes: &[u8]) -> bool {
        Self::new(needles).feed(bytes)
    }
}

impl Reading {
    /// `differs`: from the reading before, which has been searched.
    fn search(&mut self, needles: &Needles, piece: &[u8], differs: bool) -> bool {
        self.as_it_is.search(needles, piece, differs) || {
            let decoded = self.percent.decode(piece);
            self.decoded.search(needles, &decoded, matches!(decoded, Cow::Owned(_)))
        }
    }
}

/// The end of what has been searched, so that a needle across two pieces is found.
#[derive(Debug, Default)]
struct Window {
    tail: Vec<u8>,
    /// Whether the tail differs from that of a reading that is searched anyway.
    differs: bool,
}

impl Window {
    fn search(&mut self, needles: &Needles, piece: &[u8], differs: bool) -> bool {
        let overlap = needles.longest - 1;
        let needed = differs || self.differs;
        self.differs = differs || (self.differs && piece.len() < overlap);
        // Across the border: the tail, and as much of the piece as a needle that begins in the tail may take.
        let mut border = std::mem::take(&mut self.tail);
        let kept = border.len();
        border.extend_from_slice(&piece[..piece.len().min(overlap)]);
        let found = needed && ((kept > 0 && needles.are_in(&border)) || needles.are_in(piece));
        if piece.len() >= overlap {
            border.clear();
            border.extend_from_slice(&piece[piece.len() - overlap..]);
        } else {
            border.drain(..border.len().saturating_sub(overlap));
        }
        self.tail = border;
        found
    }
}

/// Decodes `%41`, across pieces.
#[derive(Debug, Default)]
struct PercentDecoder {
    /// A `%` and at most one digit, at the end of the last piece.
    begun: Vec<u8>,
}

impl PercentDecoder {
    /// Borrowed where there is nothing to decode.
    fn decode<'p>(&mut self, piece: &'p [u8]) -> Cow<'p, [u8]> {
        if self.begun.is_empty() && memchr::memchr(b'%', piece).is_none() {
            return Cow::Borrowed(piece);
        }
        let mut text = std::mem::take(&mut self.begun);
        text.extend_from_slice(piece);
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some(at) = memchr::memchr(b'%', rest) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let [_, high, low, ..] = rest else {
                self.begun = rest.to_vec();
                return Cow::Owned(out);
            };
            if let (Some(high), Some(low)) = (hex(*high), hex(*low)) {
                out.push(high << 4 | low);
                rest = &rest[3..];
            } else {
                out.push(b'%');
                rest = &rest[1..];
            }
        }
        out.extend_from_slice(rest);
        Cow::Owned(out)
    }
}

/// Decodes the escapes of JSON strings, across pieces. Quotes are not looked for: an escape outside a string is not
/// JSON.
#[derive(Debug, Default)]
struct JsonDecoder {
    /// The beginning of an escape, at the end of the last piece.
    begun: Vec<u8>,
}

impl JsonDecoder {
    /// Borrowed where there is nothing to decode.
    fn decode<'p>(&mut self, piece: &'p [u8]) -> Cow<'p, [u8]> {
        if self.begun.is_empty() && memchr::memchr(b'\\', piece).is_none() {
            return Cow::Borrowed(piece);
        }
        let mut text = std::mem::take(&mut self.begun);
        text.extend_from_slice(piece);
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some(at) = memchr::memchr(b'\\', rest) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let Some(length) = escape(rest, &mut out) else {
                self.begun = rest.to_vec();
                return Cow::Owned(out);
            };
            rest = &rest[length..];
        }
        out.extend_from_slice(rest);
        Cow::Owned(out)
    }
}

/// Decodes the escape that `text` begins with. Its length; none where `text` ends within it.
fn escape(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let simple = match text.get(1)? {
        b'u' => return unicode(text, out),
        b'b' => b'\x08',
        b'f' => b'\x0c',
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => *other,
    };
    out.push(simple);
    Some(2)
}

/// `\u0041`, or a pair of surrogates.
fn unicode(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let unit = |text: &[u8]| -> Option<Option<u32>> {
        let digits = text.get(2..6)?;
        Some(digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | u32::from(hex(*digit)?))))
    };
    let Some(first) = unit(text)? else {
        // Not an escape: as it is.
        out.push(b'\\');
        return Some(1);
    };
    let mut length = 6;
    let mut scalar = first;
    if (0xd800..0xdc00).contains(&first) {
        match text.get(6..) {
            Some([] | [b'\\']) | None => return None,
            Some([b'\\', b'u', ..]) => {
                if let Some(second) = unit(&text[6..])?.filter(|second| (0xdc00..0xe000).contains(second)) {
                    scalar = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                    length = 12;
                }
            }
            Some(_) => {}
        }
    }
    let decoded = char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
    Some(length)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
#[path = "tests/returned.rs"]
mod tests;
