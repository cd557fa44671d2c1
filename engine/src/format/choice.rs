//! Writes a document in one of several formats: the one with the fewest tokens.
//!
//! Where `json` is among them, it stays unless another format has at least a tenth fewer tokens: models know JSON best,
//! and an answer should not change its form for little.

use std::borrow::Cow;
use std::ops::Range;

use super::shape::Shape;
use super::toon::{self, Toon, Unrepresentable};
use super::{Format, ToonOptions, table};
use crate::Budget;
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
    /// The tokens from which on a text is of no use: a text that has more is no better than one that has far more.
    pub(crate) most: Tokens,
    /// The limit of the answer, if a text that exceeds it is of no use: any text within the limit is better, and of texts
    /// that exceed it the first is as good as another.
    pub(crate) limit: Option<Budget>,
}

/// A document as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written<'a> {
    pub(crate) format: Format,
    pub(crate) text: Cow<'a, str>,
    /// The tokens of the text, if there was a choice. Any number above the limit of the request if the text exceeds it.
    pub(crate) tokens: Option<Tokens>,
    /// Why the text is not TOON, if that would have been a choice and JSON was none.
    pub(crate) not_toon: Option<Unrepresentable>,
}

/// Writes `json` as requested. `payload` is the range of the payload in it. Returns `None` if the run is interrupted.
///
/// What cannot be written in a format is JSON: as `table` a payload that is none, as TOON half of a surrogate pair.
///
/// If `json` is among the formats and counting takes time, a format that cannot win is not counted, in documents of
/// more than [`SMALL`] bytes:
/// - Each token that a format saves is at least one byte that it saves. A format that saves fewer bytes than it must
///   save tokens is not counted. Spaces at the beginning of lines do not count as bytes, since those of a line are one
///   token. The size of `table` is known before it is written.
/// - TOON is not written if its shape has neither a table nor a list on one line: it then has a line for each value.
///
/// - If only a text within a limit is of use, a text that is far above the limit by its first bytes is not counted.
///
/// This is no theorem about vocabularies. A test compares the choice with that of counting everything, on random
/// documents with two of them. Where the choice differs, the text is JSON, as if no other format had been requested.
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
        // JSON in place of another format is counted once.
        if format != Format::Json || !(default || choice.best.as_ref().is_some_and(|best| best.format == format)) {
            choice.offer(format, text)?;
        }
    }
    let Best { format, text, tokens, exceeds: _ } = choice.best?;
    let not_toon = choice.not_toon.filter(|_| !default && format == Format::Json);
    Some(Written { format, text, tokens: Some(tokens), not_toon })
}

/// A document in a format, and where the elements of its payload are in it.
pub(crate) struct Elements {
    text: String,
    /// Where the elements begin, and where the last one ends.
    places: Vec<usize>,
}

impl Elements {
    /// Returns the elements in their order, each with what stands between it and the next one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        self.places.windows(2).map(|place| &self.text[place[0]..place[1]])
    }
}

/// Writes `json` in `format`. `payload` is the range of its payload, a list. Returns `None` if the document cannot be
/// written so, if the format is JSON, or if the run is interrupted. Where JSON is among the formats of `request`, a
/// document that TOON writes without a table or a list on one line is not written: see [`write()`].
pub(crate) fn elements(
    json: &str,
    payload: Range<usize>,
    format: Format,
    request: &Request<'_>,
    work: &Work<'_>,
) -> Option<Elements> {
    match format {
        Format::Json => None,
        Format::Table => {
            let table = table::encode_if(json, payload, request.fill, work, |_| true)?;
            Some(Elements { text: table.text, places: table.rows })
        }
        Format::Toon => {
            let worth = |shape: &Shape<'_>| !request.formats.contains(&Format::Json) || shape.has_rows();
            let toon = toon::encode_if(json, payload, request.fill, &request.toon, work, worth).ok()??;
            Some(Elements { text: toon.text, places: toon.elements })
        }
    }
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
    /// Whether it exceeds the limit of the request.
    exceeds: bool,
}

impl<'a> Choice<'a, '_> {
    /// Returns the document in `format`, or as JSON. Returns `None` if the run is interrupted.
    fn text(&mut self, format: Format) -> Option<(Format, Cow<'a, str>)> {
        let Request { toon, fill, .. } = self.request;
        let payload = self.payload.clone();
        let text = match format {
            Format::Json => None,
            Format::Table => {
                let table = table::encode_if(self.json, payload, *fill, self.work, |saved| self.can_win(saved));
                table.map(|table| table.text)
            }
            Format::Toon => {
                let worth = |shape: &Shape<'_>| self.least_saved().is_none() || shape.has_rows();
                match toon::encode_if(self.json, payload, *fill, toon, self.work, worth) {
                    Ok(toon) => {
                        let saved =
                            |toon: &Toon| self.json.len() as isize - (toon.text.len() - toon.indentation) as isize;
                        toon.filter(|toon| self.can_win(saved(toon))).map(|toon| toon.text)
                    }
                    Err(why) => {
                        self.not_toon = Some(why);
                        None
                    }
                }
            }
        };
        let written = text.map_or((Format::Json, Cow::Borrowed(self.json)), |text| (format, Cow::Owned(text)));
        (!self.work.is_interrupted()).then_some(written)
    }

    /// Returns the fewest bytes that a format must save to be counted, if there is such a bound.
    fn least_saved(&self) -> Option<usize> {
        let best = self.best.as_ref().filter(|_| self.request.formats.contains(&Format::Json))?;
        let bounded = self.json.len() > SMALL && self.counter.tokenizer.is_exact();
        // Where JSON is of no use, another format is as soon as it is within the limit.
        bounded.then(|| if best.exceeds { 1 } else { self.counter.factor.within(best.tokens).div_ceil(10) })
    }

    /// Returns whether a format is counted that saves so many bytes.
    fn can_win(&self, saved: isize) -> bool {
        self.least_saved().is_none_or(|least| saved >= 0 && saved.unsigned_abs() >= least)
    }

    /// Keeps the text if it is better than the best so far. Returns `None` if the run is interrupted.
    fn offer(&mut self, format: Format, text: Cow<'a, str>) -> Option<()> {
        let most = match &self.best {
            None => self.request.most,
            Some(best) if best.exceeds => self.request.most,
            // JSON gives way to a tenth fewer, and another format to one fewer.
            Some(Best { format: Format::Json, tokens, .. }) if self.request.formats.contains(&Format::Json) => {
                Tokens(nine_tenths(tokens.0))
            }
            Some(best) => match best.tokens.0.checked_sub(1) {
                Some(fewer) => Tokens(fewer),
                None => return Some(()),
            },
        };
        let beyond = self.is_beyond(&text)?;
        let tokens = match beyond {
            true => Tokens(usize::MAX),
            false => self.counter.count_within(&text, most, self.work)?,
        };
        if !beyond && tokens <= most || self.best.is_none() {
            let exceeds = beyond || self.request.limit.is_some() && tokens > self.request.most;
            self.best = Some(Best { format, text, tokens, exceeds });
        }
        Some(())
    }

    /// Returns whether a text exceeds the limit by what is known before it is counted. Returns `None` if the run is
    /// interrupted.
    fn is_beyond(&self, text: &str) -> Option<bool> {
        let Some(limit) = self.request.limit else { return Some(false) };
        if limit.bytes.is_some_and(|bytes| text.len() > bytes.0) {
            return Some(true);
        }
        limit.tokens.map_or(Some(false), |tokens| self.counter.is_far_above(text, tokens, self.work))
    }
}

/// Bytes of a document in which every format is written and counted.
const SMALL: usize = 2000;

/// Returns the most tokens that are at least a tenth fewer than `tokens`.
fn nine_tenths(tokens: usize) -> usize {
    tokens - tokens.div_ceil(10)
}
