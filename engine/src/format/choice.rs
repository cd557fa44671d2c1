//! Writes a document in one of several formats: the one with the fewest tokens.
//!
//! Where `json` is among them, it stays unless another format has at least a tenth fewer tokens: models know JSON best, and
//! an answer should not change its form for little.

use std::borrow::Cow;
use std::ops::Range;

use super::toon::{self, Unrepresentable};
use super::{Format, ToonOptions, table};
use crate::tokens::{TokenCounter, Tokens};
use crate::work::Work;

/// How a document may be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The formats to choose from; of equal ones the earlier is chosen.
    pub(crate) formats: &'a [Format],
    pub(crate) toon: ToonOptions,
    /// Whether `null` in a row stands for an absent member: the filter has removed the members that are `null`.
    pub(crate) fill: bool,
}

/// A document as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written<'a> {
    pub(crate) format: Format,
    pub(crate) text: Cow<'a, str>,
    /// The tokens of the text, if there was a choice.
    pub(crate) tokens: Option<Tokens>,
    /// Why the text is not TOON, if that would have been a choice and JSON was none.
    pub(crate) not_toon: Option<Unrepresentable>,
}

/// Writes `json` as requested. `payload` is the range of the payload in it. Returns `None` if the run is interrupted.
///
/// What cannot be written in a format is JSON: as `table` a payload that is none, as TOON half of a surrogate pair.
///
/// Where `json` is among the formats, a text that is longer than JSON without its indentation is not counted: its tokens
/// would have to be longer by a tenth than those of JSON, while formats differ in punctuation, whose tokens are short. If
/// they were after all, the answer would be JSON, which then has at most as many tokens as if nothing else were requested.
pub(crate) fn write<'a>(
    json: &'a str,
    payload: Range<usize>,
    request: &Request<'_>,
    counter: TokenCounter<'_>,
    work: &Work<'_>,
) -> Option<Written<'a>> {
    let mut choice = Choice { json, payload, request, counter, work, best: None, not_toon: None };
    if let [format] = *request.formats {
        let (format, text) = choice.text(format)?;
        return Some(Written { format, text, tokens: None, not_toon: choice.not_toon });
    }
    let default = request.formats.contains(&Format::Json);
    if default {
        choice.offer(Format::Json, Cow::Borrowed(json))?;
    }
    for format in request.formats.iter().filter(|format| !default || **format != Format::Json) {
        let (format, text) = choice.text(*format)?;
        let counts = if default {
            format != Format::Json && without_indentation(&text) < json.len() + SLACK
        } else {
            choice.best.as_ref().is_none_or(|best| best.format != format)
        };
        if counts {
            choice.offer(format, text)?;
        }
    }
    let Best { format, text, tokens } = choice.best?;
    let not_toon = choice.not_toon.filter(|_| !default && format == Format::Json);
    Some(Written { format, text, tokens: Some(tokens), not_toon })
}

struct Choice<'a, 'r> {
    json: &'a str,
    payload: Range<usize>,
    request: &'r Request<'r>,
    counter: TokenCounter<'r>,
    work: &'r Work<'r>,
    best: Option<Best<'a>>,
    not_toon: Option<Unrepresentable>,
}

struct Best<'a> {
    format: Format,
    text: Cow<'a, str>,
    tokens: Tokens,
}

impl<'a> Choice<'a, '_> {
    /// Returns the document in `format`, or as JSON. Returns `None` if the run is interrupted.
    fn text(&mut self, format: Format) -> Option<(Format, Cow<'a, str>)> {
        let Request { toon, fill, formats: _ } = self.request;
        let payload = self.payload.clone();
        let text = match format {
            Format::Json => None,
            Format::Table => table::encode(self.json, payload, *fill, self.work),
            Format::Toon => {
                let filled = if *fill { payload } else { 0..0 };
                toon::encode(self.json, filled, toon, self.work).map_err(|why| self.not_toon = Some(why)).ok()
            }
        };
        let written = text.map_or((Format::Json, Cow::Borrowed(self.json)), |text| (format, Cow::Owned(text)));
        (!self.work.is_interrupted()).then_some(written)
    }

    /// Keeps the text if it is better than the best so far. Returns `None` if the run is interrupted.
    fn offer(&mut self, format: Format, text: Cow<'a, str>) -> Option<()> {
        let most = match &self.best {
            None => Tokens(usize::MAX),
            // The first of equal formats is kept; and of JSON, nine tenths are.
            Some(Best { format: Format::Json, tokens, .. }) if self.request.formats.contains(&Format::Json) => {
                Tokens(nine_tenths(tokens.0))
            }
            Some(best) => match best.tokens.0.checked_sub(1) {
                Some(fewer) => Tokens(fewer),
                None => return Some(()),
            },
        };
        let tokens = self.counter.count(&text, most, &mut |bytes| self.work.spend_unbounded(bytes))?;
        if tokens <= most {
            self.best = Some(Best { format, text, tokens });
        }
        Some(())
    }
}

/// Bytes by which a text may be longer than JSON and is still counted: headers, in short documents.
const SLACK: usize = 256;

/// Returns the bytes of a text without those at the beginning of its lines, which are one token together.
fn without_indentation(text: &str) -> usize {
    let mut len = text.len();
    for newline in memchr::memchr_iter(b'\n', text.as_bytes()) {
        len -= text.as_bytes()[newline + 1..].iter().take_while(|byte| **byte == b' ').count();
    }
    len
}

/// Returns the most tokens that are at least a tenth fewer than `tokens`.
fn nine_tenths(tokens: usize) -> usize {
    tokens - tokens.div_ceil(10)
}
